#include "onstream/plan/kernel/kernels.hpp"

#include "onstream/plan/kernel/body.hpp"
#include "onstream/plan/kernel/brief.hpp"

namespace onstream::plan {

const Kernel& kernel() {
  static const Kernel kernel{"plan", host_entry<Body>, ONSTREAM_CUDA_ADDRESS(cuda_kernel())};
  return kernel;
}
const Kernel& brief_kernel() {
  static const Kernel kernel{"plan_brief", host_entry<Brief>, ONSTREAM_CUDA_ADDRESS(cuda_brief_kernel())};
  return kernel;
}

}  // namespace onstream::plan
