#include "spin_kernel.hpp"

namespace onstream::bench {

const Kernel& spin_kernel() {
#ifdef ONSTREAM_WITH_CUDA
  static const Kernel kernel{"spin", host_entry<Spin>, cuda_spin()};
#else
  static const Kernel kernel{"spin", host_entry<Spin>, nullptr};
#endif
  return kernel;
}

}  // namespace onstream::bench
