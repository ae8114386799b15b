// How a message is seen to arrive, for the receiving kernels of a lane: its header, its lines in the ring, the arrivals
// of a push; and the receiver's answer. Every thread of the first block calls these alike unless told otherwise.
// Protocol and memory: lane.hpp.
#pragma once

#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

// Where the next message shall go.
struct Target {
  std::byte* destination = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t number = 0;
  std::uint64_t offered = 0;  // not 0: a receive descriptor said `here`
  bool waits = true;          // else it is only looked for
};

// Whether a receive of so much room takes a message: one by a layout takes no shorter message either.
template <Group G>
ONSTREAM_BODY bool takes(std::uint64_t bytes, std::uint64_t capacity) {
  if constexpr (requires { G::kExact; }) {
    return bytes == capacity;
  } else {
    return bytes <= capacity;
  }
}

// Tells the sender where message `number` shall go, or that it is refused or fetched: in that message's receive
// descriptor, or in the last one for a receive that has no other before it.
template <Group G>
ONSTREAM_BODY void answer(const G& group, const LaneView& lane, std::uint64_t place, std::uint64_t number, Answer what,
                          std::uint64_t address, std::uint64_t room) {
  if (group.rank() != 0) return;
  ReceiveDescriptor* descriptor = lane.peer_descriptors + place;
  const std::uint32_t flag = static_cast<std::uint32_t>(number + 1);
  group.store_line(&descriptor->address, flag_line(address, flag));
  group.store_line(&descriptor->bytes, flag_line(room, flag));
  group.store_line(&descriptor->answer, flag_line(static_cast<std::uint64_t>(what), flag));
  group.store_line(&descriptor->number, flag_line(number, flag));
}

// A message's header.
struct Seen {
  std::uint64_t word = 0;
  std::uint64_t address = 0;

  ONSTREAM_BODY Header kind() const { return header_kind(word); }
  ONSTREAM_BODY std::uint64_t bytes() const { return header_bytes(word); }
  // Whether its sender asks for a receive descriptor and then pushes, if the descriptor says `here`.
  ONSTREAM_BODY bool asks() const { return kind() == Header::push || kind() == Header::stage; }
};

// Whether the header at `head` is there. One thread.
template <Group G>
ONSTREAM_BODY bool look(const G& group, const LaneView& lane, std::uint64_t head, Seen& seen) {
  const LinePlace first = place_of(lane, head, 0);
  const Line line0 = group.load_line(lane.ring + first.index);
  // In one trip with the first. The host's first line proves the rest, which may be on its way until then.
  Line line1{};
  if constexpr (!G::kStoresInOrder) line1 = group.load_line(lane.ring + first.index + 1);
  if (!has_flag(line0, first.flag)) return false;
  seen.word = line_data(line0);
  if (seen.kind() == Header::data) return true;
  if constexpr (G::kStoresInOrder) line1 = group.load_line(lane.ring + first.index + 1);
  if (!has_flag(line1, first.flag)) return false;
  seen.address = line_data(line1);
  return true;
}

// Waits for the header at `head`. One thread polls: hundreds that do would slow the stores that they wait for.
template <Group G>
ONSTREAM_BODY Status await_header(const G& group, const WaitView& wait, const LaneView& lane, std::uint64_t head,
                                  Seen& seen) {
  const auto there = [&] { return look(group, lane, head, seen); };
  Status status = Status::ok;
  if (group.rank() == 0) status = wait_until(group, wait, there);
  group.sync();
  if (group.rank() != 0) status = look_too(there);
  return agree(group, status);
}

// Payload lines of the ring that one thread waits for together: first, first + step, ... below `end`. Everything that
// does not depend on them is computed before they come, as every instruction after that counts.
template <int kLines>
struct BatchOf {
  const Line* places[kLines];
  std::uint32_t flags[kLines];
  Line lines[kLines];
  int count = 0;

  ONSTREAM_BODY BatchOf(const Line* ring, const Stretch& stretch, std::uint32_t first, std::uint32_t step,
                        std::uint32_t end) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) {
      const std::uint32_t line = first + k * step;
      const LinePlace place = stretch.at(line);
      places[k] = ring + place.index;
      flags[k] = place.flag;
      if (line < end) count = k + 1;
    }
  }

  // Loads them; whether all have come.
  template <Group G>
  ONSTREAM_BODY bool load(const G& group) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) {
      if (k < count) lines[k] = group.load_line(places[k]);
    }
    bool all = true;
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) all = all && (k >= count || has_flag(lines[k], flags[k]));
    return all;
  }

  // To words `to`, to + step, ...
  ONSTREAM_BODY void store_words(std::uint64_t* to, std::uint64_t step) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) {
      if (k < count) to[k * step] = line_data(lines[k]);
    }
  }
  // Any alignment and any number of bytes. `line` is that of the first, counted from the payload's begin.
  ONSTREAM_BODY void store(void* destination, std::uint64_t bytes, std::uint64_t line, std::uint64_t step) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) {
      if (k < count) store_payload(destination, bytes, line + k * step, line_data(lines[k]));
    }
  }
};
using Batch = BatchOf<kLinesInFlight>;

// Path ll: every line proves itself. Waits for all, and stores them if there is room.
template <Group G>
ONSTREAM_BODY Status take_lines(const G& group, const WaitView& wait, const LaneView& lane, std::uint64_t head,
                                std::uint64_t bytes, const Target& target) {
  const auto end = static_cast<std::uint32_t>(lines_for(bytes));
  const auto size = static_cast<std::uint32_t>(group.size());
  const Stretch stretch(lane, head);
  const bool fits = takes<G>(bytes, target.capacity);
  Status status = Status::ok;
  for (std::uint32_t line = static_cast<std::uint32_t>(group.rank()) + 1; line < end && status == Status::ok;
       line += kLinesInFlight * size) {
    Batch batch(lane.ring, stretch, line, size, end);
    status = wait_until(group, wait, [&] { return batch.load(group); });
    if (fits && status == Status::ok) batch.store(target.destination, bytes, line - 1, size);
  }
  status = agree(group, status);
  return status == Status::ok && !fits ? Status::truncated : status;
}

// Whether the sender's blocks own, own + step, ... have brought their parts of message `number`. Parts of a later push
// come after all of an earlier one: the sender's ops follow each other. One thread.
template <Group G>
ONSTREAM_BODY bool arrived(const G& group, const LaneView& lane, std::uint64_t number, std::uint64_t own,
                           std::uint64_t step) {
  if (own >= kArrivals) return true;
  const std::uint64_t* arrivals = lane.acks + lane.receives;
  const std::uint64_t first = group.load_acquire(arrivals);  // pairs with tell_arrival
  std::uint64_t mine = group.load_acquire(arrivals + own);   // in one trip with the first
  if (first / kArrivalBlocks != number + 1) return first / kArrivalBlocks > number + 1;
  for (std::uint64_t block = own; block < first % kArrivalBlocks;) {
    if (mine / kArrivalBlocks < number + 1) return false;
    block += step;
    if (block < first % kArrivalBlocks) mine = group.load_acquire(arrivals + block);
  }
  return true;
}

// Each thread acquires the arrival it waited for, and the barrier passes it on: the data is there for work after this
// op. (A fence here would wait for the group's own stores, half a microsecond.)
template <Group G>
ONSTREAM_BODY Status await_arrivals(const G& group, const WaitView& wait, const LaneView& lane, std::uint64_t number) {
  const std::uint64_t own = static_cast<std::uint64_t>(group.rank());
  const std::uint64_t step = static_cast<std::uint64_t>(group.size());
  return agree(group, wait_until(group, wait, [&] { return arrived(group, lane, number, own, step); }));
}

// Credit for the ring goes back in large steps: how far it has when the ring is read up to `head`.
ONSTREAM_BODY std::uint64_t credit_at(const LaneView& lane, std::uint64_t head, std::uint64_t returned) {
  return head - returned < std::uint64_t{1} << (lane.ring_shift - 2) ? returned : head;
}

// Gives it back if there is more of it than there `was`.
template <Group G>
ONSTREAM_BODY void give_credit(const G& group, const LaneView& lane, std::uint64_t was, std::uint64_t now) {
  if (now == was || group.rank() != 0) return;
  std::uint64_t* consumed = &lane.peer_returned->credit;
  if constexpr (G::kStoresInOrder) {
    group.store_release(consumed, now);  // see Send::credit
  } else {
    group.store_relaxed(consumed, now);
  }
}

}  // namespace onstream::lane
