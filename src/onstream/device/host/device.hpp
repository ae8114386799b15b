// The host device: kernels run on the CPU, memory is shared between processes, streams are threads. Nothing here needs
// a GPU or a library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "onstream/device.hpp"

namespace onstream::host {

std::shared_ptr<Device> open();

SmallCopies small_copies();
std::string device_name();     // "AMD EPYC (2 cores)"
std::uint64_t memory_bytes();  // of the machine

}  // namespace onstream::host
