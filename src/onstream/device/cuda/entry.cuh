// The GPU launcher of a body: cuda_entry<Body> is the __global__ function whose address a Kernel holds.
#pragma once

#include "onstream/device/cuda/group.cuh"
#include "onstream/device/kernel.hpp"

namespace onstream {

template <class Body>
__global__ void __launch_bounds__(kMaxThreads) cuda_entry(const __grid_constant__ Body body) {
  body(CudaGroup());
}

}  // namespace onstream
