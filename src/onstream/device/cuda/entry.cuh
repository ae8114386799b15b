// The GPU launcher of a body: cuda_entry<Body> is the __global__ function whose address a Kernel holds.
#pragma once

#include "onstream/device/cuda/group.cuh"

namespace onstream {

template <class Body>
__global__ void cuda_entry(const __grid_constant__ Body body) {
  body(CudaGroup());
}

}  // namespace onstream
