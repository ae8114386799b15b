// The kernels of a plan: the bodies of body.hpp and brief.hpp, ready to launch on any device.
#pragma once

#include "onstream/device.hpp"

namespace onstream::plan {

const Kernel& kernel();        // takes a PlanView
const Kernel& brief_kernel();  // takes a Brief

#ifdef ONSTREAM_WITH_CUDA
// Addresses of the __global__ functions; kernels.cu.
const void* cuda_kernel();
const void* cuda_brief_kernel();
#endif

}  // namespace onstream::plan
