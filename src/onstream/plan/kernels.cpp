#include "onstream/plan/kernels.hpp"

#include "onstream/plan/body.hpp"
#include "onstream/plan/brief.hpp"

namespace onstream::plan {

#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(address) address
#else
#define ONSTREAM_CUDA_ADDRESS(address) nullptr
#endif

const Kernel& kernel() {
  static const Kernel kernel{"plan", host_entry<Body>, ONSTREAM_CUDA_ADDRESS(cuda_kernel())};
  return kernel;
}
const Kernel& brief_kernel() {
  static const Kernel kernel{"plan_brief", host_entry<Brief>, ONSTREAM_CUDA_ADDRESS(cuda_brief_kernel())};
  return kernel;
}

}  // namespace onstream::plan
