// The kernel of a plan: the body of body.hpp, ready to launch on any device.
#pragma once

#include "onstream/device/kernel.hpp"

namespace onstream::plan {

const Kernel& kernel();

#ifdef ONSTREAM_WITH_CUDA
const void* cuda_kernel();  // address of the __global__ function; kernels.cu
#endif

}  // namespace onstream::plan
