// Refusals: which messages of a lane the receiver did not take, for the waits of their posted sends.
//
// An ack says it too, but its place serves every `receives`-th message, and a later one may be through before anybody
// asks about this one. So the newest kRefusals refusals are written down beside the acks, in the sender's memory,
// before the ack that tells of them: a count, and (number + 1) * 2 + whether it could not be copied. On the host device
// either rank writes (share.hpp), elsewhere the receiver alone.
#pragma once

#include "onstream/lane/lane.hpp"

namespace onstream::lane {

// Those of the lane whose acks these are, in either rank's address space.
ONSTREAM_BOTH std::uint64_t* refusals_of(std::uint64_t* acks, std::uint64_t receives) {
  return acks + receives + kArrivals;
}

// One thread, before the ack.
template <class Group>
ONSTREAM_CALL void note_refusal(const Group& group, std::uint64_t* refusals, std::uint64_t number, Status why) {
  std::uint64_t before = 0;
  if constexpr (Group::kForeign) {
    before = group.add(refusals, 1);
  } else {  // an atomic across PCIe is none
    before = group.load_relaxed(refusals);
    group.store_relaxed(refusals, before + 1);
  }
  const std::uint64_t word = (number + 1) * 2 + (why == Status::unmapped ? 1 : 0);
  group.store_relaxed(refusals + 1 + before % kRefusals, word);
}

// What became of a message whose ack has come, or the ack of a later one in its place. Where the list has lost what is
// as old as the message, a false alarm is better than a loss that nobody hears of.
template <class Group>
ONSTREAM_CALL Status refusal_of(const Group& group, const std::uint64_t* refusals, std::uint64_t number) {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (std::uint64_t i = 1; i <= kRefusals; ++i) {
    const std::uint64_t word = group.load_relaxed(refusals + i);
    if (word / 2 == number + 1) return word % 2 == 1 ? Status::unmapped : Status::truncated;
    if (word / 2 < oldest) oldest = word / 2;
  }
  return oldest > number + 1 ? Status::truncated : Status::ok;
}

}  // namespace onstream::lane
