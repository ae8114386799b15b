#include "onstream/plan/kernel/kernels.hpp"

#include "onstream/device/cuda/entry.cuh"
#include "onstream/plan/kernel/body.hpp"
#include "onstream/plan/kernel/brief.hpp"

namespace onstream::plan {

const void* cuda_kernel() { return reinterpret_cast<const void*>(&cuda_entry<Body>); }
const void* cuda_brief_kernel() { return reinterpret_cast<const void*>(&cuda_entry<Brief>); }

}  // namespace onstream::plan
