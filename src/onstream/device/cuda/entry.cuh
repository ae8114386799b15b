// The GPU launcher of a body: cuda_entry<Body> is the __global__ function whose address a Kernel holds.
#pragma once

#include "onstream/device/cuda/group.cuh"
#include "onstream/device/kernel.hpp"

namespace onstream {

// Launched with programmatic stream serialisation: the kernel may be placed while its predecessor still runs, which
// hides a launch (0.3 us measured in a captured ping-pong), and waits before it touches anything (CUDA Programming
// Guide, "Programmatic Dependent Launch and Synchronization").
template <class Body>
__global__ void __launch_bounds__(kMaxThreads) cuda_entry(const __grid_constant__ Body body) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // all earlier work of the stream is done and visible
  asm volatile("griddepcontrol.launch_dependents;" ::
                   : "memory");  // the next kernel may take its place and wait likewise
#endif
  body(CudaGroup());
}

}  // namespace onstream
