// Communication started and awaited by the program's own kernels: libmp's mp/device.cuh, over onstream.
//
// Call these from one thread. The wait is bounded: 2^32 clocks of the multiprocessor, about two seconds. Sends whose
// doorbell nobody rings fail the world at its deadline (parameter timeout_s).
#pragma once

#include <mp.h>

#include "mp/descriptors.h"

#if defined(__CUDACC__)

namespace gdsync {
namespace device {

constexpr int ERROR_TIMEOUT = 11;

__device__ inline bool holds(wait_cond_t condition, uint32_t word, uint32_t value) {
  switch (condition) {
    case WAIT_GEQ: return static_cast<int32_t>(word - value) >= 0;
    case WAIT_EQ: return word == value;
    case WAIT_AND: return (word & value) != 0;
    default: return ~(word | value) != 0;
  }
}

__device__ inline void release(isem32_t& word) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word.ptr), "r"(word.value) : "memory");
}
__device__ inline void release(isem64_t& word) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word.ptr), "l"(word.value) : "memory");
}

// 0, or ERROR_TIMEOUT.
__device__ inline int wait(isem32_t& word, wait_cond_t condition) {
  const long long start = clock64();
  for (;;) {
    uint32_t now;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(word.ptr) : "memory");
    if (holds(condition, now, word.value)) return 0;
    if (clock64() - start > (1LL << 32)) return ERROR_TIMEOUT;
  }
}
__device__ inline int wait_geq(isem32_t& word) { return wait(word, WAIT_GEQ); }

}  // namespace device
}  // namespace gdsync

namespace mp {
namespace device {
namespace mlx5 {

using namespace gdsync::device;

// Starts the prepared send. It includes this thread's earlier stores, and those of other threads that
// __threadfence_system() and a barrier order before it.
__device__ inline void send(mp::mlx5::send_desc_t& descriptor) {
  release(descriptor.dbrec);
  __threadfence_system();
  release(descriptor.db);
}

// Waits for the request: 0, or ERROR_TIMEOUT.
__device__ inline int wait(mp::mlx5::wait_desc_t& descriptor) {
  return gdsync::device::wait(descriptor.sema, descriptor.sema_cond);
}

// Tells the host that the request's completion was seen.
__device__ inline void signal(mp::mlx5::wait_desc_t& descriptor) { release(descriptor.flag); }

}  // namespace mlx5
}  // namespace device
}  // namespace mp

#endif
