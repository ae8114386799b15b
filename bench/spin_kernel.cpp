#include "spin_kernel.hpp"

namespace onstream::bench {

#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(address) address
#else
#define ONSTREAM_CUDA_ADDRESS(address) nullptr
#endif

const Kernel& spin_kernel() {
  static const Kernel kernel{"spin", host_entry<Spin>, ONSTREAM_CUDA_ADDRESS(cuda_spin())};
  return kernel;
}

const Kernel& play_kernel() {
  static const Kernel kernel{"play", host_entry<Play>, ONSTREAM_CUDA_ADDRESS(cuda_play())};
  return kernel;
}

}  // namespace onstream::bench
