// The GPU's Group: the threads of one block. The contract is the concept in device/kernel/group.hpp.
//
// System-scope accesses use PTX with explicit semantics (PTX ISA, "Memory Consistency Model"): peers are other GPUs,
// and the host. 16-byte lines are volatile vector accesses: each 8-byte half is single-copy atomic, which is all that
// the line protocol needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream {

class CudaGroup {
  static constexpr int kFlightWords = 8;  // accesses of 16 bytes that one thread has under way

 public:
  static constexpr bool kCrossMemory = false;
  static constexpr bool kStoresInOrder = false;

  ONSTREAM_BODY int rank() const { return static_cast<int>(threadIdx.x); }
  ONSTREAM_BODY int size() const { return static_cast<int>(blockDim.x); }
  ONSTREAM_BODY int block() const { return static_cast<int>(blockIdx.x); }
  ONSTREAM_BODY int blocks() const { return static_cast<int>(gridDim.x); }

  ONSTREAM_BODY void sync() const { __syncthreads(); }
  ONSTREAM_BODY bool sync_or(bool mine) const { return __syncthreads_or(mine ? 1 : 0) != 0; }

  template <class Make>
  ONSTREAM_BODY auto of_first(const Make& make) const -> decltype(make()) {
    return of_first_in_block(rank() == 0, make);
  }

  template <class T>
  ONSTREAM_BODY static T& shared() {
    __shared__ T room;
    return room;
  }

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

  ONSTREAM_BODY static std::uint32_t load_relaxed(const std::uint32_t* word) {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  ONSTREAM_BODY static void store_relaxed(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  ONSTREAM_BODY static std::uint32_t load_acquire(const std::uint32_t* word) {
    std::uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  ONSTREAM_BODY static void store_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  ONSTREAM_BODY static void add_system(std::uint32_t* word, std::uint32_t value) { atomicAdd_system(word, value); }

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

  // The types that CUDA's atomics take for a word.
  ONSTREAM_BODY static unsigned* plain(std::uint32_t* word) { return word; }
  ONSTREAM_BODY static unsigned long long* plain(std::uint64_t* word) {
    return reinterpret_cast<unsigned long long*>(word);
  }
  template <class Word>
  ONSTREAM_BODY static Word fetch_add_system(Word* word, Word value) {
    return static_cast<Word>(atomicAdd_system(plain(word), value));
  }
  template <class Word>
  ONSTREAM_BODY static Word fetch_and_system(Word* word, Word value) {
    return static_cast<Word>(atomicAnd_system(plain(word), value));
  }
  template <class Word>
  ONSTREAM_BODY static Word fetch_or_system(Word* word, Word value) {
    return static_cast<Word>(atomicOr_system(plain(word), value));
  }
  template <class Word>
  ONSTREAM_BODY static Word fetch_xor_system(Word* word, Word value) {
    return static_cast<Word>(atomicXor_system(plain(word), value));
  }
  template <class Word>
  ONSTREAM_BODY static Word swap_system(Word* word, Word value) {
    return static_cast<Word>(atomicExch_system(plain(word), value));
  }
  template <class Word>
  ONSTREAM_BODY static Word compare_swap_system(Word* word, Word expected, Word value) {
    return static_cast<Word>(atomicCAS_system(plain(word), expected, value));
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

  // A warp's access of 16 bytes a thread goes by subgroups, each of which is one packet where it is 128 bytes in a row.
  // By whole warps: subgroups that wait for each other alone would make four of every instruction.
  ONSTREAM_BODY static Line load_subgroup(const Line* lines) { return load_line(lines + threadIdx.x % 8); }
  ONSTREAM_BODY static void store_subgroup(Line* lines, Line mine) { store_line(lines + threadIdx.x % 8, mine); }
  ONSTREAM_BODY static void sync_warp() { __syncwarp(); }
  ONSTREAM_BODY static bool any_of_warp(bool mine) { return __any_sync(~0u, mine ? 1 : 0) != 0; }

  // One access of 128 bits, not two of 64.
  ONSTREAM_BODY static void store_beside(std::uint64_t* word, std::uint64_t value, std::uint64_t data) {
    const bool first = reinterpret_cast<std::uintptr_t>(word) % sizeof(Line) == 0;
    asm volatile("{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.global.b128 [%0], both; }" ::"l"(
                     first ? word : word - 1),
                 "l"(first ? value : data), "l"(first ? data : value)
                 : "memory");
  }

  template <class Word>
  ONSTREAM_BODY static Word early(Word value) {
    static_assert(sizeof(Word) == sizeof(std::uint64_t));
    asm volatile("" : "+l"(value));
    return value;
  }
  // An instruction that uses them and does nothing.
  ONSTREAM_BODY static void settle(std::uint64_t all) {
    asm volatile("{ .reg .pred never; setp.eq.u64 never, %0, -1; @never nanosleep.u32 0; }" ::"l"(all));
  }

  ONSTREAM_BODY static void wait_dependency() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  ONSTREAM_BODY static void launch_dependents() {
    __syncwarp();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  }

  // Passing messages needs acquire-release; a sequentially consistent fence costs more.
  ONSTREAM_BODY static void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
  ONSTREAM_BODY static void fence_all() { asm volatile("fence.sc.sys;" ::: "memory"); }

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

  // Accesses are as wide as the distance between both sides allows, and each thread has eight in flight: few blocks
  // need as many to fill a link whose answers take a microsecond. Loads bypass L1, which the stores of other GPUs do
  // not invalidate while a kernel runs.
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    copy(destination, source, bytes, static_cast<std::uint32_t>(block()), static_cast<std::uint32_t>(blocks()));
  }
  ONSTREAM_BODY void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    copy(destination, source, bytes, 0, 1);
  }
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes, std::uint32_t part,
                          std::uint32_t parts) const {
    share(destination, source, bytes, static_cast<std::size_t>(part) * size() + rank(),
          static_cast<std::size_t>(parts) * size());
  }

  // Loads once and stores twice, where all lies at multiples of 16 bytes.
  ONSTREAM_BODY void copy_twice(void* destination, void* other, const void* source, std::size_t bytes) const {
    const std::uintptr_t all = reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(other) |
                               reinterpret_cast<std::uintptr_t>(source) | bytes;
    if (all % sizeof(uint4) != 0) {
      copy_alone(destination, source, bytes);
      copy_alone(other, source, bytes);
      return;
    }
    const auto* from = static_cast<const uint4*>(source);
    const std::size_t count = bytes / sizeof(uint4);
    for (std::size_t first = rank(); first < count; first += std::size_t{kFlightWords} * size()) {
      uint4 held[kFlightWords];
#pragma unroll
      for (int k = 0; k < kFlightWords; ++k) {
        const std::size_t at = first + static_cast<std::size_t>(k) * size();
        if (at < count) held[k] = __ldcg(from + at);
      }
#pragma unroll
      for (int k = 0; k < kFlightWords; ++k) {
        const std::size_t at = first + static_cast<std::size_t>(k) * size();
        if (at >= count) break;
        static_cast<uint4*>(destination)[at] = held[k];
        static_cast<uint4*>(other)[at] = held[k];
      }
    }
  }

  // A copy in two steps, for when the source is known before the destination: the threads' first loads are on their way
  // meanwhile.
  struct Flight {
    uint4 held[kFlightWords];
  };
  ONSTREAM_BODY Flight fetch(const void* source, std::size_t bytes, std::uint32_t part, std::uint32_t parts) const {
    Flight flight{};
    if (reinterpret_cast<std::uintptr_t>(source) % sizeof(uint4) != 0) return flight;
    const FlightWords words(*this, bytes, part, parts);
    const auto* from = static_cast<const uint4*>(source) + words.first;
#pragma unroll
    for (int k = 0; k < kFlightWords; ++k) {
      if (k * words.step < words.left) flight.held[k] = __ldcg(from + k * words.step);
    }
    return flight;
  }
  ONSTREAM_BODY void copy(const Flight& flight, void* destination, const void* source, std::size_t bytes,
                          std::uint32_t part, std::uint32_t parts) const {
    const std::uintptr_t both =
        reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source);
    if (both % sizeof(uint4) != 0) return copy(destination, source, bytes, part, parts);
    const FlightWords words(*this, bytes, part, parts);
    auto* to = static_cast<uint4*>(destination) + words.first;
#pragma unroll
    for (int k = 0; k < kFlightWords; ++k) {
      if (k * words.step < words.left) to[k * words.step] = flight.held[k];
    }
    const std::size_t flown = std::size_t{kFlightWords} * words.step * sizeof(uint4);
    const std::size_t done = flown < bytes ? flown : bytes & ~(sizeof(uint4) - 1);
    if (done == bytes) return;
    copy(static_cast<std::byte*>(destination) + done, static_cast<const std::byte*>(source) + done, bytes - done, part,
         parts);
  }

 protected:
  template <class Make>
  ONSTREAM_BODY static auto of_first_in_block(bool first, const Make& make) -> decltype(make()) {
    auto& room = shared<decltype(make())>();
    __syncthreads();  // all have read the last call's value
    if (first) room = make();
    __syncthreads();
    return room;
  }

  // This thread's 16-byte words in the first flights of a part. Few instructions: they run between two trips to memory.
  struct FlightWords {
    ONSTREAM_BODY FlightWords(const CudaGroup& group, std::size_t bytes, std::uint32_t part, std::uint32_t parts)
        : first(part * group.size() + group.rank()), step(parts * group.size()) {
      const std::size_t count = bytes / sizeof(uint4);
      constexpr std::uint32_t kEnough = 1u << 30;
      const std::uint32_t most = count < kEnough ? static_cast<std::uint32_t>(count) : kEnough;
      left = most > first ? most - first : 0;
    }
    std::uint32_t first;
    std::uint32_t step;
    std::uint32_t left;  // words from the first on; enough for every flight
  };

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
      share_words<uint4, kFlightWords>(to + head, from + head, (tail - head) / 16, first, step);
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
    for (; i + (kFlight - 1) * step < count; i += kFlight * step) {
      Word held[kFlight];
#pragma unroll
      for (int k = 0; k < kFlight; ++k) held[k] = __ldcg(from + i + k * step);
#pragma unroll
      for (int k = 0; k < kFlight; ++k) to[i + k * step] = held[k];
    }
    if (i >= count) return;
    Word held[kFlight];  // the rest is less than one full flight: all of it at once too
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (i + k * step < count) held[k] = __ldcg(from + i + k * step);
    }
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (i + k * step < count) to[i + k * step] = held[k];
    }
  }
};
static_assert(Group<CudaGroup>);

}  // namespace onstream
