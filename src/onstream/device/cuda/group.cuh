// The GPU's Group: the threads of one block. The interface is documented in device/group.hpp.
//
// System-scope accesses use PTX with explicit semantics (PTX ISA, "Memory Consistency Model"): peers are other GPUs,
// and the host. 16-byte lines are volatile vector accesses: each 8-byte half is single-copy atomic, which is all that
// the line protocol needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/group.hpp"

namespace onstream {

class CudaGroup {
 public:
  ONSTREAM_BODY int rank() const { return static_cast<int>(threadIdx.x); }
  ONSTREAM_BODY int size() const { return static_cast<int>(blockDim.x); }
  ONSTREAM_BODY int block() const { return static_cast<int>(blockIdx.x); }
  ONSTREAM_BODY int blocks() const { return static_cast<int>(gridDim.x); }

  ONSTREAM_BODY void sync() const { __syncthreads(); }
  ONSTREAM_BODY bool sync_or(bool mine) const { return __syncthreads_or(mine ? 1 : 0) != 0; }

  ONSTREAM_BODY static std::uint64_t load_relaxed(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  ONSTREAM_BODY static std::uint64_t load_acquire(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  ONSTREAM_BODY static void store_relaxed(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  ONSTREAM_BODY static void store_release(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }

  ONSTREAM_BODY static std::uint64_t add(std::uint64_t* word, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
  }
  ONSTREAM_BODY static void add_system(std::uint64_t* word, std::uint64_t value) {
    atomicAdd_system(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
  }
  ONSTREAM_BODY static std::uint64_t exchange(std::uint64_t* word, std::uint64_t value) {
    return atomicExch(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
  }
  ONSTREAM_BODY static std::uint64_t compare_swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(expected),
                     static_cast<unsigned long long>(value));
  }

  ONSTREAM_BODY static Line load_line(const Line* line) {
    Line value;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.low), "=l"(value.high)
                 : "l"(line)
                 : "memory");
    return value;
  }
  ONSTREAM_BODY static void store_line(Line* line, Line value) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(line), "l"(value.low), "l"(value.high) : "memory");
  }

  // Acquire-release is what passing messages needs; a sequentially consistent fence costs more.
  ONSTREAM_BODY static void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

  ONSTREAM_BODY static std::uint64_t now_ns() {
    std::uint64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
  }

  ONSTREAM_BODY static bool interrupted() { return false; }

  // A GPU thread never sleeps long: after a while it lets other warps go first.
  ONSTREAM_BODY static bool pause(std::uint32_t round, std::uint32_t /*spins*/) {
    if (round > 4096) __nanosleep(100);
    return false;
  }

  // As wide as the distance between both sides allows, eight accesses in flight a thread: what few blocks need to fill
  // a link whose answers take a microsecond. Loads bypass L1, which the stores of other GPUs do not invalidate while a
  // kernel runs.
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    const std::size_t first = static_cast<std::size_t>(block()) * size() + rank();
    share(destination, source, bytes, first, static_cast<std::size_t>(blocks()) * size());
  }
  ONSTREAM_BODY void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    share(destination, source, bytes, static_cast<std::size_t>(rank()), static_cast<std::size_t>(size()));
  }

 private:
  // The share of thread `first` of `step` threads. Not inlined: it is large, and kernels that copy in several places
  // start faster small.
  __device__ __noinline__ static void share(void* destination, const void* source, std::size_t bytes, std::size_t first,
                                            std::size_t step) {
    auto* to = static_cast<unsigned char*>(destination);
    const auto* from = static_cast<const unsigned char*>(source);
    const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
    // The widest power of two up to 16 that divides the distance.
    const std::size_t width = (distance | 16) & (0 - (distance | 16));
    // Bytes up to the destination's first whole word, the words, the bytes behind the last one.
    const std::size_t unaligned = (0 - reinterpret_cast<std::uintptr_t>(to)) & (width - 1);
    const std::size_t head = unaligned < bytes ? unaligned : bytes;
    const std::size_t tail = head + ((bytes - head) & ~(width - 1));
    if (width == 16) {
      share_words<uint4, 8>(to + head, from + head, (tail - head) / 16, first, step);
    } else if (width == 8) {
      share_words<unsigned long long, 8>(to + head, from + head, (tail - head) / 8, first, step);
    } else if (width == 4) {
      share_words<unsigned, 4>(to + head, from + head, (tail - head) / 4, first, step);
    } else {
      share_words<unsigned char, 4>(to + head, from + head, tail - head, first, step);
    }
    for (std::size_t i = first; i < head; i += step) to[i] = __ldcg(from + i);
    for (std::size_t i = tail + first; i < bytes; i += step) to[i] = __ldcg(from + i);
  }

  template <class Word, int kFlight>
  ONSTREAM_BODY static void share_words(void* destination, const void* source, std::size_t count, std::size_t first,
                                        std::size_t step) {
    auto* to = static_cast<Word*>(destination);
    const auto* from = static_cast<const Word*>(source);
    std::size_t i = first;
    for (; i + (kFlight - 1) * step < count; i += kFlight * step) move<kFlight>(to + i, from + i, step, kFlight);
    // What is left is less than one full flight: all of it at once too.
    if (i < count) move<kFlight>(to + i, from + i, step, static_cast<int>((count - i + step - 1) / step));
  }

  // `here` words, `step` apart: all loads, then all stores.
  template <int kFlight, class Word>
  ONSTREAM_BODY static void move(Word* to, const Word* from, std::size_t step, int here) {
    Word held[kFlight];
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (k < here) held[k] = __ldcg(from + k * step);
    }
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (k < here) to[k * step] = held[k];
    }
  }
};

}  // namespace onstream
