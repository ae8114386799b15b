#include "spin_kernel.hpp"

namespace onstream::bench {

const Kernel& spin_kernel() {
  static const Kernel kernel{"spin", host_entry<Spin>, ONSTREAM_CUDA_ADDRESS(cuda_spin())};
  return kernel;
}

const Kernel& play_kernel() {
  static const Kernel kernel{"play", host_entry<Play>, ONSTREAM_CUDA_ADDRESS(cuda_play())};
  return kernel;
}

}  // namespace onstream::bench
