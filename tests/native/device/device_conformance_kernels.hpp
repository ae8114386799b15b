// The kernels of device_conformance.cpp, device_streams.cpp and device_words.cpp: bodies over a Group, and where a
// build with CUDA has their GPU entries (device_conformance_kernels.cu).
#pragma once

#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::test {

// out[i] = first + i, shared among all threads of all blocks.
struct Fill {
  std::uint64_t* out;
  std::uint64_t count;
  std::uint64_t first;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const std::uint64_t size = static_cast<std::uint64_t>(group.size());
    const std::uint64_t step = static_cast<std::uint64_t>(group.blocks()) * size;
    const std::uint64_t start =
        static_cast<std::uint64_t>(group.block()) * size + static_cast<std::uint64_t>(group.rank());
    for (std::uint64_t i = start; i < count; i += step) out[i] = first + i;
  }
};

// Every thread of every block adds once; blocks[b] gets the threads of block b, which a barrier counts.
struct CountThreads {
  std::uint64_t* total;
  std::uint64_t* blocks;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    group.add(total, 1);
    group.add(blocks + group.block(), 1);
    group.sync();
    const std::uint64_t threads = group.load_relaxed(blocks + group.block());
    if (group.sync_or(group.rank() == group.size() - 1) && group.rank() == 0) {
      group.store_relaxed(blocks + group.blocks() + group.block(), threads);
    }
  }
};

// Adds once, in all.
struct AddOnce {
  std::uint64_t* word;
  std::uint64_t value;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() == 0 && group.rank() == 0) group.add(word, value);
  }
};

struct StoreWord {
  std::uint64_t* word;
  std::uint64_t value;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() == 0 && group.rank() == 0) group.store_release(word, value);  // pairs with WaitForWord
  }
};

// Waits until *word == value; then *ended = 1, or 2 when 30 s were not enough.
struct WaitForWord {
  const std::uint64_t* word;
  std::uint64_t value;
  std::uint64_t* ended;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() != 0 || group.rank() != 0) return;
    const std::uint64_t start_ns = group.now_ns();
    std::uint64_t end = 0;
    for (std::uint32_t round = 0; end == 0; ++round) {
      if (group.load_acquire(word) == value)
        end = 1;  // pairs with StoreWord
      else if (group.now_ns() - start_ns > 30'000'000'000u)
        end = 2;
      else
        group.pause(round, 1024);
    }
    group.store_relaxed(ended, end);
  }
};

// Each thread of the grid adds 1 to a word that the CPU adds to as well, `times` times.
struct AddShared {
  std::uint64_t* word;
  std::uint64_t times;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::uint64_t i = 0; i < times; ++i) group.add_system(word, 1);
  }
};

// Larger than a stream keeps inline: all of it must arrive.
struct StoreSum {
  std::uint64_t values[96];
  std::uint64_t* out;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() != 0 || group.rank() != 0) return;
    std::uint64_t sum = 0;
    for (const std::uint64_t value : values) sum += value;
    group.store_relaxed(out, sum);
  }
};

#ifdef ONSTREAM_WITH_CUDA
template <class Body>
const void* cuda_address();  // device_conformance_kernels.cu
#else
template <class Body>
const void* cuda_address() {
  return nullptr;
}
#endif

template <class Body>
Kernel kernel_of() {
  return {"conformance", &host_entry<Body>, cuda_address<Body>()};
}

}  // namespace onstream::test
