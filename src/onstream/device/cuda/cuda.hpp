// The cuda back end as the list of devices sees it. No CUDA header here, so that devices.cpp is plain C++; the
// functions exist in a build with CUDA (ONSTREAM_WITH_CUDA) only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/device.hpp"

namespace onstream {

// Opens the GPU of that ordinal. Throws unsupported for an ordinal that does not exist, with the number there are.
std::shared_ptr<Device> open_cuda(int ordinal);

// One row a GPU, in ordinal order; empty without a driver or without GPUs. Never throws.
std::vector<DeviceRow> list_cuda();

// The GPU that this thread's CUDA calls use, also if the program made it current; 0 where none is current; nothing
// without GPUs.
std::optional<int> current_cuda();

// How small copies work on GPUs. Loads gdrcopy's library, if there is one, and no CUDA.
SmallCopies cuda_small_copies();

// Why list_cuda() is empty: "no driver: ...", "no GPU". Empty when it is not.
std::string why_no_cuda();

}  // namespace onstream
