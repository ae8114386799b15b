// SendReceive: a receive and an ordered send of one rank side by side in one kernel, as a ring or a halo by messages
// needs them. Neither waits for the other, so ranks that all exchange at once do not deadlock.
//
// ExchangeMany is the same for several of each: a group of messages, in any order. Those of one lane and direction
// follow each other on the same blocks; lanes and directions go side by side.
//
// The first blocks receive: a block that answers a peer is never placed behind one that waits for a peer. All blocks
// fit on the GPU together. For devices whose blocks run side by side; the host device's do not, and it never launches
// this.
#pragma once

#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

// Some blocks of a grid as a grid of their own.
template <Group G>
class SubGrid : public G {
 public:
  ONSTREAM_BODY SubGrid(const G& whole, int first, int count) : G(whole), first_(first), count_(count) {}

  ONSTREAM_BODY int block() const { return G::block() - first_; }
  ONSTREAM_BODY int blocks() const { return count_; }
  // The first of these.
  ONSTREAM_BODY SubGrid first(int count) const {
    SubGrid some = *this;
    some.count_ = count;
    return some;
  }

  using G::copy;
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    G::copy(destination, source, bytes, static_cast<std::uint32_t>(block()), static_cast<std::uint32_t>(blocks()));
  }

 private:
  int first_;
  int count_;
};

struct SendReceive {
  std::int32_t receive_blocks = 1;
  Receive receive;
  Send send;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() < receive_blocks) {
      (void)receive.either(SubGrid<G>(group, 0, receive_blocks));
    } else {
      (void)send.ordered(SubGrid<G>(group, receive_blocks, group.blocks() - receive_blocks));
    }
  }
};

// Where the blocks of one lane and direction meet between two messages: a word in the lane that counts the blocks that
// have come, and in its upper half the meetings. A block that gives up leaves it lost, so that the others do too; which
// are told by `fault` and end with the world.
template <Group G>
ONSTREAM_CALL Status meet(const G& group, const WaitView& wait, std::uint64_t* turn, const Fault& fault) {
  group.sync();
  const auto blocks = static_cast<std::uint64_t>(group.blocks());
  if (blocks == 1) return Status::ok;
  constexpr int kMeetings = 32;  // bits below their count
  constexpr std::uint64_t kGivenUp = std::uint64_t{1} << 31;
  constexpr std::uint64_t kPatience = 64;  // the other blocks may be in many waits of one message
  Status status = Status::ok;
  if (group.rank() == 0) {
    group.fence();
    const std::uint64_t seen = group.add(turn, 1);
    group.fence();  // the last one goes on by what the others have stored
    const std::uint64_t meeting = seen >> kMeetings;
    WaitView patient = wait;
    patient.timeout_ns *= kPatience;
    if (seen + 1 - (meeting << kMeetings) == blocks) {
      group.store_release(turn, (meeting + 1) << kMeetings);  // pairs with the acquire below
    } else {
      std::uint64_t word = seen;
      status = wait_for_self(group, patient, [&] {
        word = group.load_acquire(turn);
        return word >> kMeetings != meeting || (word & kGivenUp) != 0;
      });
      if (status == Status::ok && word >> kMeetings == meeting) status = Status::aborted;
      if (status != Status::ok) (void)group.fetch_or_system(turn, kGivenUp);
      if (status == Status::timeout) report(group, wait, status, fault);
    }
  }
  return agree(group, status);
}

// Messages of one lane and direction: they run one after another.
struct Chain {
  std::int16_t end = 0;       // the block behind its last one
  std::int16_t messages = 0;  // the message behind its last one, in the list of its direction
};

// At most so many receives, and so many sends. Those of a chain stand together, in their order.
template <int kMost>
struct ExchangeMany {
  std::int32_t receiving = 0;               // chains of receives
  std::int32_t sending = 0;                 // and of sends
  Chain chains[2 * kMost];                  // of receives, then of sends
  std::int16_t receive_blocks[kMost] = {};  // of the chain's blocks, those that take part in each message
  std::int16_t send_blocks[kMost] = {};
  Receive receive[kMost];
  Send send[kMost];

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    int own = 0;
    while (group.block() >= chains[own].end) ++own;
    const int first = own == 0 ? 0 : chains[own - 1].end;
    const SubGrid<G> all(group, first, chains[own].end - first);
    const int begin = own == 0 || own == receiving ? 0 : chains[own - 1].messages;
    const bool receives = own < receiving;
    const SubGrid<G> some(group, first, receives ? receive_blocks[begin] : send_blocks[begin]);
    Status status = Status::ok;
    if (some.block() < some.blocks()) status = receives ? receive[begin].either(some) : send[begin].ordered(some);
    if (begin + 1 == chains[own].messages) return;
    if (receives) return go_on(all, receive, receive_blocks, begin, chains[own].messages, status);
    go_on(all, send, send_blocks, begin, chains[own].messages, status);
  }

 private:
  // The messages of a chain behind its first one, `done`, which ended with `status`. Not inline: the first one, often
  // the only one, has the registers for itself.
  template <Group G, class Message>
  ONSTREAM_CALL static void go_on(const SubGrid<G>& chain, const Message* messages, const std::int16_t* blocks,
                                  int done, int end, Status status) {
    while (++done < end) {
      const Message next = messages[done];  // in one trip, while the block may still wait for the last one
      if (chain.sync_or(loses_lane(status)) || meet(chain, next.wait, turn_of(next), fault_at(next)) != Status::ok)
        return;
      const SubGrid<G> some = chain.first(blocks[done]);
      status = some.block() < some.blocks() ? run(next, some) : Status::ok;
    }
  }
  template <Group G>
  ONSTREAM_BODY static Status run(const Receive& message, const G& group) {
    return message.either(group);
  }
  template <Group G>
  ONSTREAM_BODY static Status run(const Send& message, const G& group) {
    return message.ordered(group);
  }
  ONSTREAM_BODY static Fault fault_at(const Receive& message) {
    return fault_of(OpKind::recv, message.lane, message.capacity, 0);
  }
  ONSTREAM_BODY static Fault fault_at(const Send& message) {
    return fault_of(OpKind::send, message.lane, message.bytes, 0);
  }
  ONSTREAM_BODY static std::uint64_t* turn_of(const Receive& message) { return &message.lane.receiving->turn; }
  ONSTREAM_BODY static std::uint64_t* turn_of(const Send& message) { return &message.lane.sending->turn; }
};

// The same where all messages are small: they travel in the ring, by one block each, and the counters of a lane go from
// message to message in registers. A kernel of its own, as a GPU starts a short one faster.
template <int kMost>
struct ExchangeSmall : ExchangeMany<kMost> {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const int own = group.block();
    const SubGrid<G> block(group, own, 1);
    const int begin = own == 0 || own == this->receiving ? 0 : this->chains[own - 1].messages;
    const int end = this->chains[own].messages;
    if (own < this->receiving) {
      take_all(block, begin, end);
    } else {
      send_all(block, begin, end);
    }
  }

 private:
  template <Group G>
  ONSTREAM_BODY void take_all(const G& group, int begin, int end) const {
    Receive::Counters now;
    const bool behind = !this->receive[begin].counters(group, now);
    if (group.sync_or(behind)) [[unlikely]]
      return take_behind(group, begin, end);
    for (int i = begin; i < end; ++i) {
      const Status status = this->receive[i].take_small(group, now);
      if (i + 1 < end && group.sync_or(loses_lane(status))) return;
    }
  }
  // Behind posted receives.
  template <Group G>
  ONSTREAM_CALL void take_behind(const G& group, int begin, int end) const {
    for (int i = begin; i < end; ++i) {
      if (group.sync_or(loses_lane(this->receive[i].take(group)))) return;
    }
  }
  template <Group G>
  ONSTREAM_BODY void send_all(const G& group, int begin, int end) const {
    const LaneView& lane = this->send[begin].lane;
    const auto [first, counted] = load_pair(group, &lane.sending->head);
    const std::uint64_t consumed = this->send[begin].credit(group);
    std::uint64_t head = first;
    std::uint64_t number = counted;
    for (int i = begin; i < end; ++i, ++number) {
      const Status status = this->send[i].through_ring_at(group, head, number, consumed);
      if (i + 1 < end && group.sync_or(loses_lane(status))) return;
      head += units_for(this->send[i].bytes);
    }
  }
};

constexpr int kFew = 3;   // all others of four ranks; larger arguments take longer to come
constexpr int kMany = 7;  // all others of eight, and as many as fit in a kernel's arguments
static_assert(sizeof(ExchangeMany<kMany>) <= 4096, "a kernel's arguments end there");

}  // namespace onstream::lane
