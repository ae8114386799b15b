// A copy slot: how a kernel asks the host's copy thread for a transfer by the copy engine, and learns that it is done.
//
// Lies in pinned host memory. One op owns a slot; the counts grow with every use, so a captured op asks again at each
// replay. The kernel writes the request and the number, the copy thread writes the number when the data is there.
#pragma once

#include <cstdint>

#include "onstream/device/wait.hpp"

namespace onstream {

struct alignas(64) CopySlot {
  std::uint64_t asked = 0;  // release/acquire: the fields below are whole
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
  std::uint64_t done = 0;
};

// Asks and waits. One thread; what it copies must be in memory before (stream order does that).
template <class Group>
ONSTREAM_BODY Status copy_through(const Group& group, const WaitView& wait, CopySlot* slot, std::uint64_t destination,
                                  const void* source, std::uint64_t bytes) {
  const std::uint64_t number = group.load_relaxed(&slot->asked) + 1;
  group.store_relaxed(&slot->destination, destination);
  group.store_relaxed(&slot->source, reinterpret_cast<std::uint64_t>(source));
  group.store_relaxed(&slot->bytes, bytes);
  group.store_release(&slot->asked, number);  // pairs with CopyThread::serve
  return wait_for_self(group, wait, [&] { return group.load_acquire(&slot->done) >= number; });
}

}  // namespace onstream
