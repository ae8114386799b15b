// The kernels of ping-kernel-pong: one computes for a given time, then passes a count on; the other plays many steps,
// and sends and waits itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/kernel.hpp"

namespace onstream::bench {

struct Spin {
  std::uint64_t duration_ns = 0;
  const std::uint64_t* in = nullptr;  // where a message came
  std::uint64_t* out = nullptr;       // where the next one goes from: the count of `in` and one more

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const std::uint64_t start = group.now_ns();
    while (group.now_ns() - start < duration_ns) {
    }
    if (group.block() == 0 && group.rank() == 0) group.store_relaxed(out, group.load_relaxed(in) + 1);
  }
};

// One block. Rank 0 waits for the ball, computes and sends; rank 1 sends, waits and computes. `come` counts the balls
// that came, over all kernels: `before` of them were there before this one.
struct Play {
  SegmentView view;
  Spin spin;
  std::byte* in = nullptr;
  const std::byte* out = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* come = nullptr;
  std::uint64_t before = 0;
  std::uint64_t steps = 0;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::uint64_t step = before + 1; step <= before + steps; ++step) {
      if (view.rank == 1) send(group, step);
      if (view.wait(group, come, Compare::eq, step) != Status::ok) return;
      spin(group);
      group.sync();  // the count was written
      if (view.rank == 0) send(group, step);
    }
  }

 private:
  template <Group G>
  ONSTREAM_BODY void send(const G& group, std::uint64_t step) const {
    view.put_signal(group, in, out, bytes, come, step, SignalOp::set, 1 - view.rank);
  }
};

const Kernel& spin_kernel();
const Kernel& play_kernel();
#ifdef ONSTREAM_WITH_CUDA
const void* cuda_spin();  // spin_kernel.cu
const void* cuda_play();
#endif

}  // namespace onstream::bench
