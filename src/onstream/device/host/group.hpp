// HostGroup: the host's Group (device/kernel/group.hpp), one thread, which is its own block and warp; and the launcher
// of bodies over it. Its atomics serve code of the host, too.
//
// Besides the contract it has carry(), which copies where one address may be a remote process address. pause() yields
// early and then sleeps, so that many ranks share few cores.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "onstream/base/clock.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/host_turn.hpp"
#include "onstream/device/kernel/interrupt.hpp"
#include "onstream/device/kernel/remote_process.hpp"

namespace onstream {

class HostGroup {
 public:
  HostGroup(int block, int blocks) : block_(block), blocks_(blocks) {}

  // Whether addresses may be remote process addresses (remote_process.hpp): then only carry() copies, and a copy may
  // fail.
  static constexpr bool kCrossMemory = true;
  static constexpr bool kStoresInOrder = true;

  int rank() const { return 0; }
  int size() const { return 1; }
  int block() const { return block_; }
  int blocks() const { return blocks_; }

  void sync() const {}
  bool sync_or(bool mine) const { return mine; }
  void sync_warp() const {}
  bool any_of_warp(bool mine) const { return mine; }
  template <class Make>
  static auto of_first(const Make& make) {
    return make();
  }
  template <class T>
  static T& shared() {
    static thread_local T room;
    return room;
  }

  static std::uint64_t load_relaxed(const std::uint64_t* word) { return ref(word).load(std::memory_order_relaxed); }
  static std::uint64_t load_acquire(const std::uint64_t* word) {
    return ref(word).load(std::memory_order_acquire);  // pairs with store_release, fence() + store_relaxed
  }
  static void store_relaxed(std::uint64_t* word, std::uint64_t value) {
    ref(word).store(value, std::memory_order_relaxed);
  }
  static void store_release(std::uint64_t* word, std::uint64_t value) {
    ref(word).store(value, std::memory_order_release);  // pairs with load_acquire
  }

  static std::uint32_t load_relaxed(const std::uint32_t* word) { return ref(word).load(std::memory_order_relaxed); }
  static void store_relaxed(std::uint32_t* word, std::uint32_t value) {
    ref(word).store(value, std::memory_order_relaxed);
  }
  static std::uint32_t load_acquire(const std::uint32_t* word) {
    return ref(word).load(std::memory_order_acquire);  // pairs with store_release
  }
  static void store_release(std::uint32_t* word, std::uint32_t value) {
    ref(word).store(value, std::memory_order_release);  // pairs with load_acquire
  }
  static void add_system(std::uint32_t* word, std::uint32_t value) {
    ref(word).fetch_add(value, std::memory_order_acq_rel);
  }

  static std::uint64_t add(std::uint64_t* word, std::uint64_t value) {
    return ref(word).fetch_add(value, std::memory_order_acq_rel);
  }
  static void add_system(std::uint64_t* word, std::uint64_t value) {
    ref(word).fetch_add(value, std::memory_order_acq_rel);
  }
  static std::uint64_t exchange(std::uint64_t* word, std::uint64_t value) {
    return ref(word).exchange(value, std::memory_order_acq_rel);
  }
  static std::uint64_t compare_swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t value) {
    ref(word).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
    return expected;
  }

  template <class Word>
  static Word fetch_add_system(Word* word, Word value) {
    return ref(word).fetch_add(value, std::memory_order_acq_rel);
  }
  template <class Word>
  static Word fetch_and_system(Word* word, Word value) {
    return modify(word, [value](Word old) { return old & value; });
  }
  template <class Word>
  static Word fetch_or_system(Word* word, Word value) {
    return modify(word, [value](Word old) { return old | value; });
  }
  template <class Word>
  static Word fetch_xor_system(Word* word, Word value) {
    return modify(word, [value](Word old) { return old ^ value; });
  }
  template <class Word>
  static Word swap_system(Word* word, Word value) {
    return ref(word).exchange(value, std::memory_order_acq_rel);
  }
  template <class Word>
  static Word compare_swap_system(Word* word, Word expected, Word value) {
    ref(word).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
    return expected;
  }

  // Acquire and release cost nothing on x86-64 and make a line's arrival order the stores before it. The low half is
  // stored last and loaded first: a reader that sees a new one sees the high half with it, regardless of the old
  // content (lane/host/packed.hpp).
  static Line load_line(const Line* line) {
    const std::uint64_t low = load_acquire(&line->low);
    return {low, load_acquire(&line->high)};
  }
  static void store_line(Line* line, Line value) {
    store_release(&line->high, value.high);
    store_release(&line->low, value.low);
  }

  static void store_beside(std::uint64_t* word, std::uint64_t value, std::uint64_t data) {
    store_relaxed(word + (reinterpret_cast<std::uintptr_t>(word) % sizeof(Line) == 0 ? 1 : -1), data);
    store_release(word, value);
  }

  template <class Word>
  static Word early(Word value) {
    return value;
  }

  static void settle(std::uint64_t) {}

  static void wait_dependency() {}  // a stream of the host is one thread
  static void launch_dependents() {}

  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void fence_all() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static std::uint64_t now_ns() { return onstream::now_ns(); }
  static bool interrupted() { return interrupt_hook != nullptr && interrupt_hook(); }

  // Rounds below `spins` burn a few nanoseconds; then the core is given away; then the thread sleeps. On a busy machine
  // each yield may take many milliseconds, so some of them count as sleep. Where ranks share no cores (`spins` is not
  // 0) a yield takes 0.3 us, and a rank that is late by a part of its work, as those of a stencil are, finds its peers
  // awake; to wake costs 110 us.
  static constexpr std::uint32_t kFewYields = 256;
  static constexpr std::uint32_t kManyYields = 4096;
  static bool pause(std::uint32_t round, std::uint32_t spins = 1024) {
    return pause(round, spins, spins == 0 ? kFewYields : kManyYields);
  }
  static bool pause(std::uint32_t round, std::uint32_t spins, std::uint32_t yields) {
    constexpr std::uint32_t kYieldsASleep = 16;
    if (round < spins) {
      relax();
      return false;
    }
    if (round < spins + yields) {
      sched_yield();
      return round % kYieldsASleep == kYieldsASleep - 1;
    }
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
    return true;
  }

  // The same where the thread moves the network along: each round looks there, and costs ten times as much. It sleeps
  // on the network's descriptor, so it is late for a rank of its own host only.
  static bool pause(std::uint32_t round, std::uint32_t spins, const HostTurn& turn) {
    constexpr std::uint32_t kSpins = 256;
    constexpr std::uint32_t kYields = 64;
    constexpr std::uint64_t kNapNs = 50'000;
    constexpr std::uint32_t kAsleepEvery = 256;  // rounds: a busy network shall not keep the thread from an interrupt
    const bool counts = round % kAsleepEvery == kAsleepEvery - 1;
    if (turn.move(turn.context) || round < std::min(spins, kSpins)) return counts;
    if (round < spins + kYields) {
      sched_yield();
      return false;
    }
    turn.nap(turn.context, kNapNs);
    return true;
  }

  void copy(void* destination, const void* source, std::size_t bytes) const {
    copy(destination, source, bytes, static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(blocks_));
  }
  void copy(void* destination, const void* source, std::size_t bytes, std::uint32_t part, std::uint32_t parts) const {
    const std::size_t share = (bytes / parts + 63) / 64 * 64;
    const std::size_t begin = std::min(bytes, share * part);
    const std::size_t end = part + 1 == parts ? bytes : std::min(bytes, begin + share);
    std::memcpy(static_cast<std::byte*>(destination) + begin, static_cast<const std::byte*>(source) + begin,
                end - begin);
  }
  struct Flight {};
  static Flight fetch(const void*, std::size_t, std::uint32_t, std::uint32_t) { return {}; }
  void copy(const Flight&, void* destination, const void* source, std::size_t bytes, std::uint32_t part,
            std::uint32_t parts) const {
    copy(destination, source, bytes, part, parts);
  }
  void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    std::memcpy(destination, source, bytes);
  }
  void copy_twice(void* destination, void* other, const void* source, std::size_t bytes) const {
    copy_alone(destination, source, bytes);
    copy_alone(other, source, bytes);
  }
  static Status carry(void* destination, const void* source, std::size_t bytes) {
    if (is_remote_process(destination) || is_remote_process(source))
      return copy_cross_memory(destination, source, bytes);
    std::memcpy(destination, source, bytes);
    return Status::ok;
  }

 private:
  // fetch_or and its sisters of std::atomic_ref, as g++ 12.2 compiles them where a switch chooses among them, lose
  // their operand (seen in Context::atomic_word at -O2); x86-64 has but this loop for them anyway.
  template <class Word, class Change>
  static Word modify(Word* word, const Change& change) {
    Word old = ref(word).load(std::memory_order_relaxed);
    while (!ref(word).compare_exchange_weak(old, change(old), std::memory_order_acq_rel)) {
    }
    return old;
  }
  template <class Word>
  static std::atomic_ref<Word> ref(const Word* word) {
    return std::atomic_ref<Word>(*const_cast<Word*>(word));
  }
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }

  int block_;
  int blocks_;
};
static_assert(Group<HostGroup>);

// The host launcher of a body: its blocks one after the other.
template <class Body>
void host_entry(const void* body, int blocks) {
  Body copy;
  std::memcpy(&copy, body, sizeof(Body));
  for (int block = 0; block < blocks; ++block) copy(HostGroup(block, blocks));
}

}  // namespace onstream
