// Moving a message that was left to its receiver (Header::pull), though its receive has been posted since.
//
// Mostly the receiver moves it, when it waits for its receive. But a rank may wait for its send before it waits for its
// receive, and its peer may do the same: each would wait for the other. So the wait of the send pushes once it sees the
// receive descriptor.
//
// Both may begin at one moment. Each writes down that it does, then looks whether the other one has, with a
// sequentially consistent fence between (Dekker's algorithm: E. W. Dijkstra, "Over de sequentialiteit van
// procesbeschrijvingen", EWD 35), so that one at least sees the other; plain stores and loads, as an atomic across PCIe
// is none. A sender that sees the receiver leaves the message to it. A receiver that sees the sender waits until that
// has brought the message or left it.
//
// The words lie in the receiver's memory, two for each of `receives` messages: number + 1 of the message that the
// receiver fetches, and the sender's word, (number + 1) * 4 + Pushing. The sender's waits of one lane take turns
// (Sending::lock), so that a late one does not write over a later message's word.
#pragma once

#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

enum class Pushing : std::uint64_t { begins = 0, left = 1, brought = 2 };

struct LateWords {
  std::uint64_t* fetching;
  std::uint64_t* pushing;
};
ONSTREAM_BODY LateWords late_words(std::uint64_t* receivers_acks, std::uint64_t receives, std::uint64_t number) {
  std::uint64_t* first = receivers_acks + late_at(receives) + 2 * (number & (receives - 1));
  return {first, first + 1};
}
ONSTREAM_BODY std::uint64_t pushing_word(std::uint64_t number, Pushing what) {
  return (number + 1) * 4 + static_cast<std::uint64_t>(what);
}

// The sender's side: the wait of one message. One thread, which holds the lane's lock.
class LatePush {
 public:
  ONSTREAM_BODY LatePush(const LaneView& lane, std::uint64_t number)
      : words_(late_words(lane.peer_acks, lane.receives, number)), number_(number) {}

  // False: the receiver fetches the message.
  template <Group G>
  ONSTREAM_BODY bool begin(const G& group) const {
    group.store_relaxed(words_.pushing, pushing_word(number_, Pushing::begins));
    group.fence_all();
    if (group.load_acquire(words_.fetching) < number_ + 1) return true;
    say(group, Pushing::left);
    return false;
  }

  template <Group G>
  ONSTREAM_BODY void end(const G& group, Status status) const {
    say(group, status == Status::ok ? Pushing::brought : Pushing::left);
  }

 private:
  template <Group G>
  ONSTREAM_BODY void say(const G& group, Pushing what) const {
    group.store_release(words_.pushing, pushing_word(number_, what));  // pairs with was_brought
  }

  LateWords words_;
  std::uint64_t number_;
};

// The receiver's side, before it fetches message `number`: whether the sender has brought it already. All threads of
// the first block.
template <Group G>
ONSTREAM_CALL Status was_brought(const G& group, const WaitView& wait, const LaneView& lane, std::uint64_t number,
                                 bool& brought) {
  const LateWords words = late_words(lane.acks, lane.receives, number);
  Status status = Status::ok;
  std::uint64_t stated = 0;
  if (group.rank() == 0) {
    group.store_relaxed(words.fetching, number + 1);
    group.fence_all();
    status = wait_until(group, wait, [&] {
      stated = group.load_acquire(words.pushing);
      return stated != pushing_word(number, Pushing::begins);
    });
  }
  brought = group.sync_or(status == Status::ok && stated == pushing_word(number, Pushing::brought));
  return agree(group, status);
}

}  // namespace onstream::lane
