#include "onstream/one_sided/kernel/kernels.hpp"

#include "onstream/one_sided/kernel/bodies.hpp"
#include "onstream/one_sided/kernel/step.hpp"

namespace onstream::one_sided {

const Kernel& few_steps_kernel() {
  static const Kernel kernel{"one_sided_few", host_entry<FewSteps>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().few_steps)};
  return kernel;
}
const Kernel& many_steps_kernel() {
  static const Kernel kernel{"one_sided_many", host_entry<ManySteps>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().many_steps)};
  return kernel;
}
const Kernel& one_wait_kernel() {
  static const Kernel kernel{"one_sided_wait", host_entry<OneWait>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().one_wait)};
  return kernel;
}
const Kernel& one_write_kernel() {
  static const Kernel kernel{"one_sided_write", host_entry<OneWrite>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().one_write)};
  return kernel;
}
const Kernel& barrier_kernel() {
  static const Kernel kernel{"one_sided_barrier", host_entry<TeamBarrier>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().barrier)};
  return kernel;
}
const Kernel& walk_kernel() {
  static const Kernel kernel{"one_sided_walk", host_entry<Walk>, ONSTREAM_CUDA_ADDRESS(cuda_addresses().walk)};
  return kernel;
}
const Kernel& wait_many_kernel() {
  static const Kernel kernel{"one_sided_wait_many", host_entry<WaitMany>,
                             ONSTREAM_CUDA_ADDRESS(cuda_addresses().wait_many)};
  return kernel;
}

}  // namespace onstream::one_sided
