// A copy slot: how a kernel asks the host's copy thread for transfers by the copy engine, and learns that they are
// done.
//
// Requests lie in pinned host memory, where the thread looks; the answer, how many are done, in device memory, where
// the kernel waits, written by the copy thread's stream behind them. One op owns a slot; its count grows with
// every use, so a captured op asks again at each replay.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/wait.hpp"

ONSTREAM_EITHER_BEGIN
namespace onstream {

struct alignas(64) CopySlot {
  static constexpr std::uint64_t kDepth = 32;  // as many may be under way
  struct CopyRequest {
    std::uint64_t destination = 0;
    std::uint64_t source = 0;
    std::uint64_t bytes = 0;
    std::uint64_t answered = 0;  // not 0: it is said when it is done, and with it all before it
  };
  std::uint64_t asked = 0;  // release/acquire: the requests up to that number are whole
  CopyRequest requests[kDepth];
};

// A slot as its op knows it. Copies are made in the order of their requests, which are numbered from 1 on; the last one
// of an op's run is answered, and awaited. Its methods are for one thread.
struct Copier {
  CopySlot* slot = nullptr;  // null: no copy engine
  std::uint64_t* done = nullptr;
  std::uint64_t lead = 0;  // the first bytes, which kernels write while the copy engine starts

  // As an op begins.
  template <Group G>
  ONSTREAM_EITHER std::uint64_t last_number(const G& group) const {
    return group.load_relaxed(done);
  }
  // The source must be in memory before (stream order does that). `number` is the one after the last. An answer costs
  // the engine a few microseconds.
  template <Group G>
  ONSTREAM_EITHER void ask(const G& group, std::uint64_t number, std::uint64_t destination, const void* source,
                           std::uint64_t bytes, bool answered) const {
    CopySlot::CopyRequest& request = slot->requests[number % CopySlot::kDepth];
    group.store_relaxed(&request.destination, destination);
    group.store_relaxed(&request.source, reinterpret_cast<std::uint64_t>(source));
    group.store_relaxed(&request.bytes, bytes);
    group.store_relaxed(&request.answered, std::uint64_t{answered});
    group.store_release(&slot->asked, number);  // pairs with CopyThread::serve
  }
  // For the only transfer of an op: all but its lead. Returns the request's number.
  template <Group G>
  ONSTREAM_EITHER std::uint64_t ask(const G& group, std::uint64_t destination, const void* source,
                                    std::uint64_t bytes) const {
    const std::uint64_t number = last_number(group) + 1;
    ask(group, number, destination + lead, static_cast<const std::byte*>(source) + lead, bytes - lead, true);
    return number;
  }
  // Whether it has been copied: in a world that has failed requests are answered all the same. `wait` has the word that
  // says so, which is stored before anything is answered that way.
  template <Group G>
  ONSTREAM_EITHER bool is_done(const G& group, const WaitView& wait, std::uint64_t number) const {
    return is_answered(group, number) && (group.load_relaxed(wait.abort) & kWorldFailed) == 0;
  }
  template <Group G>
  ONSTREAM_EITHER Status await(const G& group, const WaitView& wait, std::uint64_t number) const {
    const Status status = wait_for_self(group, wait, [&] { return is_done(group, wait, number); });
    if (status != Status::ok) outlast(group, wait, number);
    return status;
  }
  // After a wait for a request was given up: waits until the engine touches that memory no more, which is soon if the
  // thread lives.
  template <Group G>
  ONSTREAM_EITHER_CALL void outlast(const G& group, const WaitView& wait, std::uint64_t number) const {
    constexpr std::uint64_t kMostNs = 2'000'000'000;
    const std::uint64_t begin = group.now_ns();
    for (std::uint32_t round = 0; !is_answered(group, number) && group.now_ns() - begin < kMostNs; ++round) {
      group.pause(round, wait.spins);
    }
  }

 private:
  template <Group G>
  ONSTREAM_EITHER bool is_answered(const G& group, std::uint64_t number) const {
    return group.load_acquire(done) >= number;
  }
};

}  // namespace onstream
ONSTREAM_EITHER_END
