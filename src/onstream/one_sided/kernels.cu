#include "onstream/one_sided/kernels.hpp"

#include "onstream/device/cuda/entry.cuh"
#include "onstream/one_sided/step.hpp"

namespace onstream::one_sided {

CudaAddresses cuda_addresses() {
  return {reinterpret_cast<const void*>(&cuda_entry<FewSteps>), reinterpret_cast<const void*>(&cuda_entry<ManySteps>)};
}

}  // namespace onstream::one_sided
