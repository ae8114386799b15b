// The bodies of kernels.hpp, ready to launch on any device.
#pragma once

#include "onstream/device.hpp"

namespace onstream::tsunami {

// The kernel whose argument is a Body. Defined for the bodies of kernels.hpp.
template <class Body>
const Kernel& kernel_of();

#ifdef ONSTREAM_WITH_CUDA
// Address of the __global__ function that runs a Body; kernels.cu.
template <class Body>
const void* cuda_address_of();
#endif

}  // namespace onstream::tsunami
