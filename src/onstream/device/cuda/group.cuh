// The GPU's Group: the threads of one block. The interface is documented in device/group.hpp.
//
// System-scope accesses use PTX with explicit semantics (PTX ISA, "Memory Consistency Model"): peers are other GPUs, and
// the host. 16-byte lines are volatile vector accesses: each 8-byte half is single-copy atomic, which is all that the
// line protocol needs.
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
  ONSTREAM_BODY static std::uint64_t exchange(std::uint64_t* word, std::uint64_t value) {
    return atomicExch(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
  }
  ONSTREAM_BODY static std::uint64_t compare_swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(expected),
                     static_cast<unsigned long long>(value));
  }

  ONSTREAM_BODY static Line load_line(const Line* line) {
    Line value;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(value.low), "=l"(value.high) : "l"(line) : "memory");
    return value;
  }
  ONSTREAM_BODY static void store_line(Line* line, Line value) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(line), "l"(value.low), "l"(value.high) : "memory");
  }

  ONSTREAM_BODY static void fence() { __threadfence_system(); }

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

  // Loads bypass L1, which other GPUs' stores do not invalidate while a kernel runs.
  // 16-byte accesses, four in flight a thread, where both sides and the size allow; then 8-byte, then single bytes.
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    const std::size_t first = static_cast<std::size_t>(block()) * size() + rank();
    share(destination, source, bytes, first, static_cast<std::size_t>(blocks()) * size());
  }
  ONSTREAM_BODY void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    share(destination, source, bytes, rank(), size());
  }

 private:
  ONSTREAM_BODY static void share(void* destination, const void* source, std::size_t bytes, std::size_t first,
                                  std::size_t step) {
    const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source);
    std::size_t done = 0;
    if (bits % 16 == 0) {
      done = copy_as<uint4>(destination, source, bytes, first, step);
    } else if (bits % 8 == 0) {
      done = copy_as<unsigned long long>(destination, source, bytes, first, step);
    } else if (bits % 4 == 0) {
      done = copy_as<std::uint32_t>(destination, source, bytes, first, step);
    }
    auto* to = static_cast<unsigned char*>(destination);
    const auto* from = static_cast<const unsigned char*>(source);
    for (std::size_t i = done + first; i < bytes; i += step) to[i] = __ldcg(from + i);
  }

  template <class Word>
  ONSTREAM_BODY static std::size_t copy_as(void* destination, const void* source, std::size_t bytes, std::size_t first,
                                           std::size_t step) {
    const std::size_t count = bytes / sizeof(Word);
    auto* to = static_cast<Word*>(destination);
    const auto* from = static_cast<const Word*>(source);
    std::size_t i = first;
    for (; i + 3 * step < count; i += 4 * step) {
      const Word a = __ldcg(from + i), b = __ldcg(from + i + step), c = __ldcg(from + i + 2 * step), d = __ldcg(from + i + 3 * step);
      to[i] = a;
      to[i + step] = b;
      to[i + 2 * step] = c;
      to[i + 3 * step] = d;
    }
    for (; i < count; i += step) to[i] = __ldcg(from + i);
    return count * sizeof(Word);
  }
};

}  // namespace onstream
