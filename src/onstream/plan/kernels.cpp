#include "onstream/plan/kernels.hpp"

#include "onstream/plan/body.hpp"

namespace onstream::plan {

const Kernel& kernel() {
#ifdef ONSTREAM_WITH_CUDA
  static const Kernel kernel{"plan", host_entry<Body>, cuda_kernel()};
#else
  static const Kernel kernel{"plan", host_entry<Body>, nullptr};
#endif
  return kernel;
}

}  // namespace onstream::plan
