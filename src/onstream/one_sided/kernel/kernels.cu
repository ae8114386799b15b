#include "onstream/one_sided/kernel/kernels.hpp"

#include "onstream/device/cuda/entry.cuh"
#include "onstream/one_sided/kernel/bodies.hpp"
#include "onstream/one_sided/kernel/step.hpp"

namespace onstream::one_sided {

OneSidedKernelAddresses cuda_addresses() {
  return {
      reinterpret_cast<const void*>(&cuda_entry<FewSteps>),    reinterpret_cast<const void*>(&cuda_entry<ManySteps>),
      reinterpret_cast<const void*>(&cuda_entry<OneWait>),     reinterpret_cast<const void*>(&cuda_entry<OneWrite>),
      reinterpret_cast<const void*>(&cuda_entry<TeamBarrier>), reinterpret_cast<const void*>(&cuda_entry<Walk>),
      reinterpret_cast<const void*>(&cuda_entry<WaitMany>)};
}

}  // namespace onstream::one_sided
