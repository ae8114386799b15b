#include "one_sided_kernels.hpp"

namespace onstream::bench {

#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(name) one_sided_addresses().name
#else
#define ONSTREAM_CUDA_ADDRESS(name) nullptr
#endif

const Kernel& put_wait_kernel() {
  static const Kernel kernel{"put_wait", host_entry<PutWait>, ONSTREAM_CUDA_ADDRESS(put_wait)};
  return kernel;
}
const Kernel& line_wait_kernel() {
  static const Kernel kernel{"line_wait", host_entry<LineWait>, ONSTREAM_CUDA_ADDRESS(line_wait)};
  return kernel;
}
const Kernel& block_put_signal_kernel() {
  static const Kernel kernel{"block_put_signal", host_entry<BlockPutSignal>, ONSTREAM_CUDA_ADDRESS(block_put_signal)};
  return kernel;
}
const Kernel& grid_put_signal_kernel() {
  static const Kernel kernel{"grid_put_signal", host_entry<GridPutSignal>, ONSTREAM_CUDA_ADDRESS(grid_put_signal)};
  return kernel;
}

}  // namespace onstream::bench
