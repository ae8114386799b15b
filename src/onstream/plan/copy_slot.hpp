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
struct Copier {
  CopySlot* slot = nullptr;
  std::uint64_t* done = nullptr;
};

// Asks and waits. One thread; what it copies must be in memory before (stream order does that).
template <class Group>
ONSTREAM_BODY Status copy_through(const Group& group, const WaitView& wait, const Copier& copier,
                                  std::uint64_t destination, const void* source, std::uint64_t bytes) {
  const std::uint64_t number = group.load_relaxed(copier.done) + 1;
  group.store_relaxed(&copier.slot->destination, destination);
  group.store_relaxed(&copier.slot->source, reinterpret_cast<std::uint64_t>(source));
  group.store_relaxed(&copier.slot->bytes, bytes);
  group.store_release(&copier.slot->asked, number);  // pairs with CopyThread::serve
  return wait_for_self(group, wait, [&] { return group.load_acquire(copier.done) >= number; });
}

}  // namespace onstream
