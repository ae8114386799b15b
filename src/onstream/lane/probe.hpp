// Probe: looks for the next message of a lane that no receive has asked for, and takes nothing. Messages that receives
// were posted for are passed over, whether they have come or not. Protocol and memory: lane.hpp.
//
// Nobody receives on the lane meanwhile (a lock of the host sees to it, a stream's order on a GPU), but for waits of
// posted receives: their lock is taken, where there are such receives.
#pragma once

#include "onstream/lane/host/packed.hpp"
#include "onstream/lane/ring.hpp"

namespace onstream::lane {

// The header behind that of `passed` messages from unit `head` on, if it has come. One thread. The chunks of a staged
// message are part of it.
template <Group G>
ONSTREAM_CALL bool look_past(const G& group, const LaneView& lane, std::uint64_t head, std::uint64_t passed,
                             Seen& seen) {
  while (look(group, lane, head, seen)) {
    const bool begins = seen.kind() != Header::chunk;
    if (begins && passed == 0) return true;
    if (begins) --passed;
    head += seen.kind() == Header::data ? ring_units<G>(seen.bytes()) : 1;
  }
  return false;
}

// One look: nothing has come, the next message has, or another thread takes messages of posted receives just now.
enum class NextMessage { none, there, busy };

// One look of one thread for the next message; `seen` gets its header.
template <Group G>
ONSTREAM_CALL NextMessage next_message(const G& group, const LaneView& lane, Seen& seen) {
  Receiving* const state = lane.receiving;
  const auto [drained, head] = load_pair(group, &state->drained);
  const auto told = [](bool there) { return there ? NextMessage::there : NextMessage::none; };
  if (group.load_acquire(&state->posted) == drained) return told(look_past(group, lane, head, 0, seen));
  if (group.compare_swap(&state->lock, 0, 1) != 0) return NextMessage::busy;
  group.fence();  // the lock's previous holder left its counters before it let go
  const std::uint64_t taken = group.load_acquire(&state->drained);
  const std::uint64_t posted = group.load_acquire(&state->posted);
  NextMessage next = NextMessage::busy;  // a receive that has taken its message is about to count itself
  if (posted >= taken) next = told(look_past(group, lane, group.load_relaxed(&state->head), posted - taken, seen));
  group.store_release(&state->lock, 0);
  return next;
}

// A look as one word: 0 for none, the message's bytes and 1, or kBusy.
constexpr std::uint64_t kBusy = ~std::uint64_t{0};
ONSTREAM_BODY std::uint64_t word_of(NextMessage next, const Seen& seen) {
  return next == NextMessage::none ? 0 : next == NextMessage::there ? seen.bytes() + 1 : kBusy;
}

// One look at several lanes, for a device whose memory the host does not read.
constexpr int kMostProbed = 32;
struct Probe {
  // The fields of a LaneView that it needs.
  struct LaneQueue {
    Receiving* receiving = nullptr;
    Line* ring = nullptr;
    std::uint64_t ring_shift = 0;
  };
  std::uint64_t* found = nullptr;  // pinned: word_of() each place
  int count = 0;
  LaneQueue places[kMostProbed];

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() != 0) return;
    for (int i = 0; i < count; ++i) {
      LaneView lane;
      lane.receiving = places[i].receiving;
      lane.ring = places[i].ring;
      lane.ring_shift = places[i].ring_shift;
      Seen seen;
      const NextMessage next = next_message(group, lane, seen);
      group.store_relaxed(found + i, word_of(next, seen));
    }
  }
};

}  // namespace onstream::lane
