// Looking at a user's buffer before anything is done with it: whose memory it is, and whether it is whole.
#pragma once

#include <cstddef>

#include "onstream/device.hpp"

namespace onstream {

// Throws invalid_argument for memory of another device, for bytes beyond the allocation, and for plain host memory that
// is not mapped: freed, or never a buffer. That costs a call of the system. `info` is the device's information about
// `begin`.
void check_buffer(const Device& device, const MemoryInfo& info, const void* begin, std::size_t bytes);

// The device's information about [begin, begin + bytes), checked.
MemoryInfo look_at_buffer(const Device& device, const void* begin, std::size_t bytes);

}  // namespace onstream
