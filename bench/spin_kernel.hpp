// The kernel of ping-kernel-pong: computes for a given time, then passes a count on.
#pragma once

#include <cstdint>

#include "onstream/device/group.hpp"
#include "onstream/device/kernel.hpp"

namespace onstream::bench {

struct Spin {
  std::uint64_t duration_ns = 0;
  const std::uint64_t* in = nullptr;  // where a message came
  std::uint64_t* out = nullptr;       // where the next one goes from: the count of `in` and one more

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    const std::uint64_t start = group.now_ns();
    while (group.now_ns() - start < duration_ns) {
    }
    if (group.block() == 0 && group.rank() == 0) group.store_relaxed(out, group.load_relaxed(in) + 1);
  }
};

const Kernel& spin_kernel();
#ifdef ONSTREAM_WITH_CUDA
const void* cuda_spin();  // spin_kernel.cu
#endif

}  // namespace onstream::bench
