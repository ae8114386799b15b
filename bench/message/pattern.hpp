// The data of a bench's messages, made so that wrong data show: every 8-byte word tells its place and its sender.
//
// The buffers may be of any kind of memory. All three block until the stream has done their work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "onstream/device.hpp"

namespace onstream::bench {

void write_pattern(Device& device, std::byte* buffer, std::size_t bytes, std::uint64_t seed, Stream stream);
void write_zeros(Device& device, std::byte* buffer, std::size_t bytes, Stream stream);
// Empty if the buffer holds the pattern of the seed, else the first byte that differs, in words.
std::string find_difference(Device& device, const std::byte* buffer, std::size_t bytes, std::uint64_t seed,
                            Stream stream);

}  // namespace onstream::bench
