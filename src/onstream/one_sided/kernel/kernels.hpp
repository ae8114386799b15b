// The kernels of one-sided ops: the bodies of step.hpp, ready to launch on any device.
#pragma once

#include "onstream/device.hpp"

namespace onstream::one_sided {

const Kernel& few_steps_kernel();
const Kernel& many_steps_kernel();
const Kernel& one_wait_kernel();
const Kernel& one_write_kernel();
const Kernel& barrier_kernel();
const Kernel& walk_kernel();
const Kernel& wait_many_kernel();

#ifdef ONSTREAM_WITH_CUDA
// Addresses of the __global__ functions, in the order above; kernels.cu.
struct OneSidedKernelAddresses {
  const void* few_steps;
  const void* many_steps;
  const void* one_wait;
  const void* one_write;
  const void* barrier;
  const void* walk;
  const void* wait_many;
};
OneSidedKernelAddresses cuda_addresses();
#endif

}  // namespace onstream::one_sided
