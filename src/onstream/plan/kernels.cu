#include "onstream/plan/kernels.hpp"

#include "onstream/device/cuda/entry.cuh"
#include "onstream/plan/body.hpp"

namespace onstream::plan {

const void* cuda_kernel() { return reinterpret_cast<const void*>(&cuda_entry<Body>); }

}  // namespace onstream::plan
