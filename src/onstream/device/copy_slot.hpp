// A copy slot: how a kernel asks the host's copy thread for a transfer by the copy engine, and learns that it is done.
//
// The request lies in pinned host memory, where the thread looks; the answer in device memory, where the kernel waits,
// written by the copy thread's stream behind the copy. One op owns a slot; its count grows with every use, so a
// captured op asks again at each replay.
#pragma once

#include <cstdint>

#include "onstream/device/wait.hpp"

namespace onstream {

struct alignas(64) CopySlot {
  std::uint64_t asked = 0;  // release/acquire: the fields below are whole
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
};

// A slot as its op knows it. Requests come one at a time, so the number of the last one done is that of the last asked.
// Its methods are for one thread.
struct Copier {
  CopySlot* slot = nullptr;  // null: no copy engine
  std::uint64_t* done = nullptr;
  std::uint64_t lead = 0;  // the first bytes, which kernels write while the copy engine starts

  // What is to be copied must be in memory before (stream order does that). Returns the request's number.
  template <class Group>
  ONSTREAM_BODY std::uint64_t ask(const Group& group, std::uint64_t destination, const void* source,
                                  std::uint64_t bytes) const {
    const std::uint64_t number = group.load_relaxed(done) + 1;
    group.store_relaxed(&slot->destination, destination + lead);
    group.store_relaxed(&slot->source, reinterpret_cast<std::uint64_t>(source) + lead);
    group.store_relaxed(&slot->bytes, bytes - lead);
    group.store_release(&slot->asked, number);  // pairs with CopyThread::serve
    return number;
  }
  template <class Group>
  ONSTREAM_BODY bool is_done(const Group& group, std::uint64_t number) const {
    return group.load_acquire(done) >= number;
  }
  template <class Group>
  ONSTREAM_BODY Status await(const Group& group, const WaitView& wait, std::uint64_t number) const {
    const Status status = wait_for_self(group, wait, [&] { return is_done(group, number); });
    if (status != Status::ok) outlast(group, wait, number);
    return status;
  }
  // Of a request whose wait was given up: until the engine touches that memory no more, which is soon if the thread
  // lives.
  template <class Group>
  ONSTREAM_CALL void outlast(const Group& group, const WaitView& wait, std::uint64_t number) const {
    constexpr std::uint64_t kMostNs = 2'000'000'000;
    const std::uint64_t begin = group.now_ns();
    for (std::uint32_t round = 0; !is_done(group, number) && group.now_ns() - begin < kMostNs; ++round) {
      group.pause(round, wait.spins);
    }
  }
};

}  // namespace onstream
