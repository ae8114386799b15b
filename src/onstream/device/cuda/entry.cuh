// The GPU launcher of a body: cuda_entry<Body> is the __global__ function whose address a Kernel holds.
#pragma once

#include "onstream/device.hpp"
#include "onstream/device/cuda/group.cuh"

namespace onstream {

// A kernel's arguments come from memory by cache lines as they are used, and each line costs a tenth of a small
// message's time: all are asked for before the wait for earlier work. The instruction that uses them does nothing.
template <class Body>
__device__ __forceinline__ void fetch_arguments(const Body& body) {
  constexpr int kLineBytes = 64;
  const auto* words = reinterpret_cast<const std::uint32_t*>(&body);
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Body)); i += kLineBytes) all |= words[i / static_cast<int>(sizeof(all))];
  asm volatile("{ .reg .pred never; setp.eq.u32 never, %0, 0xffffffff; @never nanosleep.u32 0; }" ::"r"(all));
}

// How many blocks of a collective's or a team's kernel the compiler has to fit on an SM. Left to itself it may fit two,
// and then spills every value beyond 64 registers to memory, on a way that is nanoseconds long (docs/decisions/0015).
// 0: it is left to itself.
template <class Body>
constexpr int kLeastBlocks = requires { Body::kBegins; } ? 1 : 0;

// Launched with programmatic stream serialisation: the kernel may be placed while its predecessor still runs, which
// hides a launch (0.3 us measured in a captured ping-pong), and waits before it touches memory that others may change
// (CUDA Programming Guide, "Programmatic Dependent Launch and Synchronization").
//
// A body with a member prepare(group) reads there, before that wait, memory that no kernel changes, and gets it back as
// its second argument. A body with a member kBegins waits itself: a collective's (collective/protocol/session.hpp),
// which before its wait reads and stores only words that its stream's kernels hand on to each other.
template <class Body>
__global__ void __launch_bounds__(kMaxThreads, kLeastBlocks<Body>) cuda_entry(const __grid_constant__ Body body) {
  const CudaGroup group;
#if __CUDA_ARCH__ >= 900
  fetch_arguments(body);
#endif
  if constexpr (requires { Body::kBegins; }) {
    body(group);
  } else if constexpr (requires { body.prepare(group); }) {
    const auto prepared = body.prepare(group);
    group.wait_dependency();
    group.launch_dependents();
    body(group, prepared);
  } else {
    group.wait_dependency();
    group.launch_dependents();
    body(group);
  }
}

}  // namespace onstream
