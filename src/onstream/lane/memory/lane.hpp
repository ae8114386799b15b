// The lane: an in-order queue of messages from one rank to another, in device memory on both sides.
//
// Receiver's memory holds a ring of 64-byte units that the sender writes. Every line (16 bytes) of a unit is two 8-byte
// words of 4 bytes data and 4 bytes flag, so data and flag arrive together and need no fence. The flag is the lap of
// the ring. Every unit of the ring is written whole in every lap, so a stale flag is always exactly one lap old: no
// sequence number can wrap into a match. A message starts with a header line (its kind, its number of bytes); a small
// one carries its payload in the ring (path ll; the host device packs all but the smallest, packed.hpp), a large one is
// announced and moves directly between the buffers.
//
// Sender's memory holds the words that the receiver writes back: credit (units consumed), receive descriptors (where a
// large receive wants its data) and acks (messages pulled). All counters live in device memory and are advanced by the
// ops themselves, so an op means the same eager or replayed. One op of a lane and direction runs at a time
// (message.hpp): the order of streams sees to it on a GPU, a lock on the host (queue_lock.hpp). Waits on posted
// receives may run on any stream: they take the lane's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/ll.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream::lane {

class RemoteLane;

constexpr std::uint64_t kUnitBytes = 64;
constexpr std::uint64_t kUnitLines = kUnitBytes / sizeof(Line);

// The kind in the first line of a message, or of a later step of a large one.
enum class Header : std::uint64_t {
  data = 1,  // the payload follows in the ring
  push = 2,  // large: the sender waits for a receive descriptor, then writes into the destination, and each of its
             // blocks leaves an arrival; line 1 holds the source address
  pull = 3,  // large: the receiver loads from the source address in line 1, then acks. The wait of a posted one may
             // push it after all (late.hpp)
  stage =
      4,  // large: as push, but the source cannot be loaded from; if the destination cannot be stored to, chunks come
  chunk = 5,   // one chunk of a staged message is in the bounce buffer; line 1 holds its address
  placed = 6,  // the data is in the destination: the descriptor was there when the sender looked
  // Host device only (shared_copy.hpp):
  share = 7,          // large: both copy; line 1 holds the source address. The sender asks nobody
  share_ordered = 8,  // as share, and the sender's op waits for the end
  failed = 9,         // as placed, but the data could not be copied
};

constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << 56) - 1;

ONSTREAM_BODY std::uint64_t header_word(Header kind, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(kind) << 56 | bytes;
}
ONSTREAM_BODY Header header_kind(std::uint64_t word) { return static_cast<Header>(word >> 56); }
ONSTREAM_BODY std::uint64_t header_bytes(std::uint64_t word) { return word & kBytesMask; }

// Ring lines of a message that travels in the ring, the header and the payload, and its units: padded to whole ones.
ONSTREAM_BOTH std::uint64_t lines_for(std::uint64_t bytes) { return 1 + (bytes + kLineData - 1) / kLineData; }
ONSTREAM_BOTH std::uint64_t units_for(std::uint64_t bytes) { return (lines_for(bytes) + kUnitLines - 1) / kUnitLines; }

// A receiver's answer to an announcement, or its descriptor ahead of it.
enum class Answer : std::uint64_t {
  here = 1,            // write to `address`, `bytes` of room
  receiver_pulls = 2,  // I fetch it myself (pull or chunks)
  refused = 3,         // it does not fit; `bytes` of room
  remote_process = 4   // as here, by carry() alone (shared_copy.hpp); a sender that cannot leaves it to me
};

// Written by the receiver into the sender's memory; lines as in the ring, flag = low half of number + 1.
struct alignas(64) ReceiveDescriptor {
  Line address;
  Line bytes;
  Line answer;
  Line number;  // of the message, in full
};

// Sender's memory, written by the receiver.
struct alignas(64) Returned {
  std::uint64_t credit = 0;  // ring units consumed
  std::uint64_t chunks = 0;  // staged chunks fetched, ever
};

// Sender's memory, the sender's own.
struct alignas(64) Sending {
  std::uint64_t head = 0;      // ring units written, ever
  std::uint64_t number = 0;    // messages sent, ever; loaded together with head
  std::uint64_t finished = 0;  // blocks of the running op that are through, and kLost for each that gave up
  std::uint64_t decision = 0;  // isend: (number + 1) * 2 + whether it pushes
  std::uint64_t chunks = 0;    // staged chunks offered, ever
  std::uint64_t lock = 0;      // held by the wait that pushes (late.hpp)
  std::uint64_t busy = 0;      // host device: the thread that sends on this lane now (queue_lock.hpp)
  std::uint64_t turn = 0;      // where the blocks of several messages meet (send_receive.hpp)
};
static_assert(sizeof(Sending) == 64);

// Receiver's memory, the receiver's own.
struct alignas(64) Receiving {
  std::uint64_t drained = 0;   // receives completed, ever; stored and loaded in one access with head
  std::uint64_t head = 0;      // ring units consumed, ever
  std::uint64_t posted = 0;    // receives posted, ever
  std::uint64_t returned = 0;  // credit last given back
  std::uint64_t finished = 0;  // of a running spread op, blocks that have read these counters (spread.hpp)
  std::uint64_t lock = 0;      // held by the wait that drains
  std::uint64_t chunks = 0;    // staged chunks fetched, ever
  std::uint64_t busy = 0;      // host device: the thread that receives on this lane now (queue_lock.hpp)
  std::uint64_t turn = 0;      // where the blocks of several messages meet (send_receive.hpp)
};

// The message number that a posted op got. Device memory. Valid once `use` is the ticket's own: the wait may run on
// another stream, and before the op that it waits for.
struct Numbered {
  std::uint64_t number = 0;
  std::uint64_t use = 0;
};

// How an op with a request ends. `numbered` in device memory; `status` in pinned memory, where the host looks.
struct Ticket {
  Numbered* numbered = nullptr;
  std::uint64_t* status = nullptr;    // Status
  std::uint64_t* received = nullptr;  // bytes of the message
  std::uint64_t use = 0;              // counts the requests that the ticket has served; and kOwed
};
// In the `use` of a ticket: a call of the host waits for the op, and tells how it ended.
constexpr std::uint64_t kOwed = std::uint64_t{1} << 63;

// How the blocks of a receiving op share a large fetch: the first block finds the work, the others do their part of it.
// A job is run * 256 + its number within the op; kDismissed ends the op. Advances by itself, so it survives replay.
struct alignas(64) BlockTeam {
  std::uint64_t run = 0;
  std::uint64_t job = 0;
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
  std::uint64_t arrived = 0;  // blocks through with jobs of this run
  std::uint64_t left = 0;     // blocks that took their dismissal
};
constexpr std::uint64_t kDismissed = 255;

// A posted receive that nobody has waited for yet. Receiver's memory.
struct alignas(64) Posted {
  std::uint64_t destination;
  std::uint64_t capacity;
  std::uint64_t offered;  // not 0: a receive descriptor said `here`
  Ticket ticket;
};

// Both ends of a lane between this rank and `peer`, as this rank's kernels see them. The fields for a small message
// come first: kernel arguments are fetched by cache lines, and each line costs a tenth of a small message's time.
struct LaneView {
  Sending* sending = nullptr;
  Returned* returned = nullptr;  // mine, written by the peer
  Line* peer_ring = nullptr;
  std::uint64_t ring_shift = 0;  // the ring has 2^ring_shift units: a division would cost a tenth of the latency
  Receiving* receiving = nullptr;
  Line* ring = nullptr;
  Returned* peer_returned = nullptr;
  std::uint64_t receives = 0;  // entries of descriptors, acks and posted; a power of two

  // Mine, written by the peer: one receive descriptor for each of `receives` messages, and behind them that of a
  // receive which has no other before it. A sender can ask for the latter before it knows its message's number.
  ReceiveDescriptor* descriptors = nullptr;
  ReceiveDescriptor* peer_descriptors = nullptr;
  // Mine, written by the peer: an ack for each of `receives` messages, (number + 1) * 2 + refused; behind them
  // kArrivals arrivals, one for each block of the peer's last push: (number + 1) * 256 + how many blocks push; the
  // refusals (refusals.hpp); and the words about messages of the peer that were left to me (late.hpp).
  std::uint64_t* acks = nullptr;
  std::uint64_t* peer_acks = nullptr;
  Posted* posted = nullptr;
  BlockTeam* crew = nullptr;  // of ordered receives
  std::int32_t peer = 0;
  std::int32_t lane = 0;
  RemoteLane* remote = nullptr;  // host device: the peer is on another host (host/remote_lane.hpp)
};

constexpr std::uint64_t kArrivals = 128;  // blocks of a push, at most
constexpr std::uint64_t kArrivalBlocks = 256;
constexpr std::uint64_t kRefusals = 31;  // of two words each, behind their count

ONSTREAM_BOTH std::uint64_t descriptors_of(std::uint64_t receives) { return receives + 1; }
ONSTREAM_BOTH std::uint64_t late_at(std::uint64_t receives) { return receives + kArrivals + 2 + 2 * kRefusals; }
ONSTREAM_BOTH std::uint64_t acks_of(std::uint64_t receives) { return late_at(receives) + 2 * receives; }

// Where a line lies in the ring, and the flag it carries there.
struct LinePlace {
  std::uint32_t index;
  std::uint32_t flag;
};

// The lines of the message that starts at unit `head`. It is no longer than the ring, so they pass its end once at
// most, and a line costs three instructions: before a word leaves, each of them counts for every warp.
class Stretch {
 public:
  ONSTREAM_BODY Stretch(const LaneView& view, std::uint64_t head)
      : last_(static_cast<std::uint32_t>((kUnitLines << view.ring_shift) - 1)),
        first_(static_cast<std::uint32_t>(head * kUnitLines) & last_),
        flag_(static_cast<std::uint32_t>((head >> view.ring_shift) + 1)) {}

  ONSTREAM_BODY LinePlace at(std::uint32_t line) const {
    const std::uint32_t index = first_ + line;
    return {index & last_, flag_ + (index > last_ ? 1 : 0)};
  }

 private:
  std::uint32_t last_;  // of the ring
  std::uint32_t first_;
  std::uint32_t flag_;
};
ONSTREAM_BODY LinePlace place_of(const LaneView& view, std::uint64_t head, std::uint32_t line) {
  return Stretch(view, head).at(line);
}

// Loads a payload line (0 based) that no wider access holds: any alignment, zero-padded at the end.
ONSTREAM_CALL std::uint64_t load_ragged(const void* source, std::uint64_t bytes, std::uint64_t line) {
  const std::uint64_t offset = line * kLineData;
  const auto* from = static_cast<const unsigned char*>(source) + offset;
  std::uint64_t value = 0;
  const std::uint64_t count = bytes - offset < kLineData ? bytes - offset : kLineData;
  for (std::uint64_t i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return value;
}
ONSTREAM_CALL void store_ragged(void* destination, std::uint64_t bytes, std::uint64_t line, std::uint64_t value) {
  const std::uint64_t offset = line * kLineData;
  auto* to = static_cast<unsigned char*>(destination) + offset;
  const std::uint64_t count = bytes - offset < kLineData ? bytes - offset : kLineData;
  for (std::uint64_t i = 0; i < count; ++i) to[i] = static_cast<unsigned char>(value >> (8 * i));
}

ONSTREAM_BODY bool is_word(const void* address, std::uint64_t bytes, std::uint64_t line) {
  return (line + 1) * kLineData <= bytes && reinterpret_cast<std::uintptr_t>(address) % kLineData == 0;
}

// How many half words of 4 bytes, if it consists of nothing else, as arrays of floats and ints do.
ONSTREAM_BODY std::uint32_t halves_of(const void* address, std::uint64_t bytes) {
  const bool all = (reinterpret_cast<std::uintptr_t>(address) | bytes) % sizeof(std::uint32_t) == 0;
  return all ? static_cast<std::uint32_t>(bytes / sizeof(std::uint32_t)) : 0;
}

// The half words `half` and `half` + 1 of so many.
ONSTREAM_BODY std::uint64_t load_halves(const void* source, std::uint32_t halves, std::uint32_t half) {
  const auto* const from = static_cast<const std::uint32_t*>(source) + half;
  const std::uint64_t low = from[0];
  return half + 1 < halves ? low | std::uint64_t{from[1]} << 32 : low;
}
ONSTREAM_BODY void store_halves(void* destination, std::uint32_t halves, std::uint32_t half, std::uint64_t value) {
  auto* const to = static_cast<std::uint32_t*>(destination) + half;
  to[0] = static_cast<std::uint32_t>(value);
  if (half + 1 < halves) to[1] = static_cast<std::uint32_t>(value >> 32);
}

// A message's payload in the ring, at its source: any alignment, any number of bytes.
class Payload {
 public:
  ONSTREAM_BODY Payload(const void* source, std::uint64_t bytes)
      : source_(source),
        bytes_(bytes),
        words_(is_word(source, bytes, 0) ? static_cast<std::uint32_t>(bytes / kLineData) : 0) {}

  // The 8 bytes of line `line` (0 based), zero at and behind the end.
  ONSTREAM_BODY std::uint64_t at(std::uint32_t line) const {
    if (line < words_) return static_cast<const std::uint64_t*>(source_)[line];
    if (line * kLineData >= bytes_) return 0;
    const std::uint32_t halves = halves_of(source_, bytes_);
    return halves != 0 ? load_halves(source_, halves, 2 * line) : load_ragged(source_, bytes_, line);
  }

 private:
  const void* source_;
  std::uint64_t bytes_;
  std::uint32_t words_;  // whole and aligned
};

ONSTREAM_BODY void store_payload(void* destination, std::uint64_t bytes, std::uint64_t line, std::uint64_t value) {
  if (is_word(destination, bytes, line)) {
    static_cast<std::uint64_t*>(destination)[line] = value;
  } else if (line * kLineData < bytes) {
    const std::uint32_t halves = halves_of(destination, bytes);
    if (halves != 0) {
      store_halves(destination, halves, static_cast<std::uint32_t>(2 * line), value);
    } else {
      store_ragged(destination, bytes, line, value);
    }
  }
}

// One status for the whole group: ok only if every thread's is. A barrier.
template <Group G>
ONSTREAM_BODY Status agree(const G& group, Status mine) {
  if (!group.sync_or(mine != Status::ok)) return Status::ok;
  return mine != Status::ok ? mine : Status::aborted;
}

// For the other threads of a group whose first one has waited: they see the data it saw, at their first look, and do
// not repeat a wait it gave up. No barrier has to tell them which.
template <class Ready>
ONSTREAM_BODY Status look_too(const Ready& ready) {
  constexpr int kLooks = 1024;
  ONSTREAM_ROLLED
  for (int look = 0; look < kLooks; ++look) {
    if (ready()) return Status::ok;
  }
  return Status::aborted;
}

// Whether an op that ended so has lost its lane: then nothing more can be said about the messages on it.
ONSTREAM_BOTH bool loses_lane(Status status) { return status >= Status::timeout; }

// Stores one unit: two words, then padding. The header line goes last, so that a reader that sees it finds the rest on
// the way.
template <Group G>
ONSTREAM_BODY void store_unit(const G& group, const LaneView& view, std::uint64_t head, std::uint64_t word0,
                              std::uint64_t word1) {
  for (std::uint32_t line = kUnitLines; line-- > 0;) {
    const LinePlace place = place_of(view, head, line);
    group.store_line(view.peer_ring + place.index, flag_line(line == 0 ? word0 : line == 1 ? word1 : 0, place.flag));
  }
}

// A receive descriptor as it was at one look.
struct DescriptorSnapshot {
  Line number;
  Line address;
  Line room;
  Line answer;
};
template <Group G>
ONSTREAM_BODY DescriptorSnapshot read_descriptor(const G& group, const ReceiveDescriptor* descriptor) {
  return {group.load_line(&descriptor->number), group.load_line(&descriptor->address),
          group.load_line(&descriptor->bytes), group.load_line(&descriptor->answer)};
}

struct Answered {
  Status status;
  Answer answer;
  std::uint64_t address;
  std::uint64_t room;
};

// Whether the snapshot is whole and about message `number`; `out` gets its answer.
ONSTREAM_BODY bool tells(const DescriptorSnapshot& snapshot, std::uint64_t number, Answered& out) {
  const std::uint32_t flag = static_cast<std::uint32_t>(number + 1);
  if (!has_flag(snapshot.number, flag) || line_data(snapshot.number) != number) return false;
  if (!has_flag(snapshot.address, flag) || !has_flag(snapshot.room, flag) || !has_flag(snapshot.answer, flag))
    return false;
  out = {Status::ok, static_cast<Answer>(line_data(snapshot.answer)), line_data(snapshot.address),
         line_data(snapshot.room)};
  return true;
}

// Whether the receiver has answered for message `number`; `out` gets the answer.
template <Group G>
ONSTREAM_BODY bool answered(const G& group, const LaneView& view, std::uint64_t number, Answered& out) {
  const DescriptorSnapshot lone = read_descriptor(group, view.descriptors + view.receives);
  const DescriptorSnapshot own = read_descriptor(group, view.descriptors + (number & (view.receives - 1)));
  return tells(lone, number, out) || tells(own, number, out);
}

// Two neighbouring words in one access.
template <Group G>
ONSTREAM_BODY Line load_pair(const G& group, const std::uint64_t* first) {
  return group.load_line(reinterpret_cast<const Line*>(first));
}

template <Group G>
ONSTREAM_BODY void store_pair(const G& group, std::uint64_t* first, std::uint64_t low, std::uint64_t high) {
  group.store_line(reinterpret_cast<Line*>(first), {low, high});
}

// Counts for one part of a work that gave up, on top of the part itself.
constexpr std::uint64_t kLost = std::uint64_t{1} << 32;

// Counts a block that is through with the lane's counters and the op's buffer; true for the last, if none gave up: it
// advances the counters. One thread of each block. Orders no other memory accesses.
template <Group G>
ONSTREAM_BODY bool last_to_finish(const G& group, std::uint64_t* finished, bool gave_up) {
  if (group.blocks() == 1) return !gave_up;
  const std::uint64_t before = group.add(finished, gave_up ? kLost + 1 : 1);
  if (before % kLost + 1 != static_cast<std::uint64_t>(group.blocks())) return false;
  group.store_relaxed(finished, 0);
  return !gave_up && before < kLost;
}

ONSTREAM_BODY Fault fault_of(OpKind op, const LaneView& view, std::uint64_t bytes, std::uint64_t extra) {
  Fault fault;
  fault.op = static_cast<std::uint64_t>(op);
  fault.peer = static_cast<std::uint64_t>(view.peer);
  fault.tag = static_cast<std::uint64_t>(view.lane);
  fault.bytes = bytes;
  fault.extra = extra;
  return fault;
}

// The fault of the op with this ticket.
ONSTREAM_BODY Fault of_ticket(Fault fault, const Ticket& ticket) {
  fault.owed = (ticket.use & kOwed) != 0 ? 1 : 0;
  return fault;
}

// How far a wait for a posted op goes: to its end; one look; or to its end if it has run, where its peer has left and
// nothing more comes.
enum class Look : std::int32_t { wait, once, finish };

// Tells the request's wait which message it is about. One thread.
template <Group G>
ONSTREAM_BODY void number_ticket(const G& group, const Ticket& ticket, std::uint64_t number) {
  if (ticket.numbered == nullptr) return;
  group.store_relaxed(&ticket.numbered->number, number);
  group.store_release(&ticket.numbered->use, ticket.use);  // pairs with is_numbered
}

template <Group G>
ONSTREAM_BODY bool is_numbered(const G& group, const Ticket& ticket) {
  return group.load_acquire(&ticket.numbered->use) == ticket.use;
}

// Tells the host how an op with a request ended. One thread.
template <Group G>
ONSTREAM_BODY void settle(const G& group, const Ticket& ticket, Status status, std::uint64_t received) {
  if (ticket.status == nullptr) return;
  group.store_relaxed(ticket.received, received);
  group.store_release(ticket.status, static_cast<std::uint64_t>(status));  // pairs with the host's acquire
}

}  // namespace onstream::lane
