// The kernels of bench_one_sided: the cases that are timed inside a kernel, over the device API.
//
// Two ranks play ping-pong; words count on, so that a kernel may be launched again: it begins at `first`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/kernel.hpp"

namespace onstream::bench {

// One thread puts 8 bytes, which the other waits for: the data is its own signal.
struct PutWait {
  SegmentView view;
  std::uint64_t* word;
  std::uint64_t first;
  std::uint64_t rounds;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() != 0) return;
    const auto thread = thread_scope(group);
    const int other = 1 - view.rank;
    for (std::uint64_t round = first; round < first + rounds; ++round) {
      if (view.rank == 0) view.put_value(word, round, other);
      if (view.wait(thread, word, Compare::eq, round) != Status::ok) return;
      if (view.rank == 1) view.put_value(word, round, other);
    }
  }
};

// The ping-pong of PutWait with an LL line of 16 bytes, which carries any 8 bytes and proves their arrival.
struct LineWait {
  SegmentView view;
  Line* line;
  std::uint32_t first;
  std::uint32_t rounds;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() != 0) return;
    const auto thread = thread_scope(group);
    const int other = 1 - view.rank;
    std::uint64_t value = 1;
    for (std::uint32_t round = first; round < first + rounds; ++round) {
      if (view.rank == 0) view.put_line(line, value, round, other);
      if (view.wait_line(thread, line, round, &value) != Status::ok) return;
      if (view.rank == 1) view.put_line(line, value, round, other);
    }
  }
};

// A block puts `bytes` and signals; the other's block waits and answers alike.
struct BlockPutSignal {
  SegmentView view;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
  std::uint64_t* word;
  std::uint64_t first;
  std::uint64_t rounds;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const int other = 1 - view.rank;
    for (std::uint64_t round = first; round < first + rounds; ++round) {
      if (view.rank == 0) view.put_signal(group, to, from, bytes, word, round, SignalOp::set, other);
      if (view.wait(group, word, Compare::eq, round) != Status::ok) return;
      if (view.rank == 1) view.put_signal(group, to, from, bytes, word, round, SignalOp::set, other);
    }
  }
};

// The whole grid puts; its last block signals.
struct GridPutSignal {
  SegmentView view;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
  std::uint64_t* word;
  std::uint64_t* ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    view.put_signal_by_grid(group, to, from, bytes, word, std::uint64_t{1}, SignalOp::add, 1 - view.rank, ticket);
  }
};

const Kernel& put_wait_kernel();
const Kernel& line_wait_kernel();
const Kernel& block_put_signal_kernel();
const Kernel& grid_put_signal_kernel();

#ifdef ONSTREAM_WITH_CUDA
struct OneSidedAddresses {
  const void* put_wait;
  const void* line_wait;
  const void* block_put_signal;
  const void* grid_put_signal;
};
OneSidedAddresses one_sided_addresses();  // one_sided_kernels.cu
#endif

}  // namespace onstream::bench
