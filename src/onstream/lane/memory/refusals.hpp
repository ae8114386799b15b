// Refusals: which messages of a lane the receiver did not take, for the waits of their posted sends.
//
// An ack says it too, but its place serves every `receives`-th message, and a later one may be through before anybody
// asks about this one. So the newest kRefusals refusals are written down beside the acks, in the sender's memory,
// before the ack that tells of them: a count, and for each (number + 1) * 2 + whether it could not be copied, and the
// receive's room. On the host device either rank writes (shared_copy.hpp), elsewhere the receiver alone.
#pragma once

#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

// Those of the lane whose acks these are, in either rank's address space.
ONSTREAM_BOTH std::uint64_t* refusals_of(std::uint64_t* acks, std::uint64_t receives) {
  return acks + receives + kArrivals;
}

// One thread, before the ack.
template <Group G>
ONSTREAM_CALL void note_refusal(const G& group, std::uint64_t* refusals, std::uint64_t number, Status why,
                                std::uint64_t room) {
  std::uint64_t before = 0;
  if constexpr (G::kCrossMemory) {
    before = group.add(refusals, 1);
  } else {  // an atomic across PCIe is none
    before = group.load_relaxed(refusals);
    group.store_relaxed(refusals, before + 1);
  }
  const std::uint64_t word = (number + 1) * 2 + (why == Status::unmapped ? 1 : 0);
  std::uint64_t* note = refusals + 1 + 2 * (before % kRefusals);
  group.store_relaxed(note + 1, room);
  group.store_relaxed(note, word);
}

struct RefusedMessage {
  Status why;  // ok: there was none
  std::uint64_t room;
};

// Whether a message was refused, and why, once its ack has come, or the ack of a later one in its place. Where the list
// has lost notes as old as the message, a false alarm is better than a loss that nobody hears of.
template <Group G>
ONSTREAM_CALL RefusedMessage refusal_of(const G& group, const std::uint64_t* refusals, std::uint64_t number) {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < kRefusals; ++i) {
    const std::uint64_t* note = refusals + 1 + 2 * i;
    const std::uint64_t word = group.load_relaxed(note);
    if (word / 2 == number + 1) {
      return {word % 2 == 1 ? Status::unmapped : Status::truncated, group.load_relaxed(note + 1)};
    }
    if (word / 2 < oldest) oldest = word / 2;
  }
  constexpr std::uint64_t kNotKnown = ~std::uint64_t{0};
  return {oldest > number + 1 ? Status::truncated : Status::ok, kNotKnown};
}

}  // namespace onstream::lane
