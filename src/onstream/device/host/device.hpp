// The host device: kernels run on the CPU, memory is shared between processes, streams are threads. Nothing here needs
// a GPU or a library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "onstream/device/device.hpp"

namespace onstream::host {

class Stream;

std::shared_ptr<Device> open();

std::string device_name();     // "AMD EPYC (2 cores)"
std::uint64_t memory_bytes();  // of the machine

// The stream behind a handle of a host device, to use what only host streams have (try_run_inline). The null handle is
// the default stream of `device`, which must be a host device.
Stream& stream_of(const Device& device, onstream::Stream stream);

}  // namespace onstream::host
