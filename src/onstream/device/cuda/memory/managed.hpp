// Hints about managed memory of CUDA, for addresses that are known to be managed; the GPU is current.
#pragma once

#include <cstddef>

#include "onstream/device.hpp"
#include "onstream/device/cuda/gpu.hpp"

namespace onstream::cuda {

void advise_managed(const Gpu& gpu, void* address, std::size_t bytes, Advice advice);
// On a GPU that CPU and kernels cannot use managed memory with at the same time there is nothing to prefetch: all of it
// moves at every launch.
void prefetch_managed(const Gpu& gpu, void* address, std::size_t bytes, DeviceKind where, cudaStream_t stream);

}  // namespace onstream::cuda
