#include "one_sided_kernels.hpp"

namespace onstream::bench {

const Kernel& put_wait_kernel() {
  static const Kernel kernel{"put_wait", host_entry<PutWait>, ONSTREAM_CUDA_ADDRESS(one_sided_addresses().put_wait)};
  return kernel;
}
const Kernel& line_wait_kernel() {
  static const Kernel kernel{"line_wait", host_entry<LineWait>, ONSTREAM_CUDA_ADDRESS(one_sided_addresses().line_wait)};
  return kernel;
}
const Kernel& block_put_signal_kernel() {
  static const Kernel kernel{"block_put_signal", host_entry<BlockPutSignal>,
                             ONSTREAM_CUDA_ADDRESS(one_sided_addresses().block_put_signal)};
  return kernel;
}
const Kernel& grid_put_signal_kernel() {
  static const Kernel kernel{"grid_put_signal", host_entry<GridPutSignal>,
                             ONSTREAM_CUDA_ADDRESS(one_sided_addresses().grid_put_signal)};
  return kernel;
}

}  // namespace onstream::bench
