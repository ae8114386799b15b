// The receiving end of a lane, as kernel bodies: Receive (ordered), Post (irecv) and AwaitReceive (its wait, or one
// look). Protocol and memory: lane.hpp.
//
// Messages leave the ring in order. An ordered receive with no posted receive before it takes its message itself;
// otherwise it posts, and whoever holds the lane's lock drains everything up to the message it waits for.
#pragma once

#include "onstream/plan/lane_crew.hpp"

namespace onstream::lane {

// Where the next message shall go.
struct Target {
  std::byte* destination = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t number = 0;
  std::uint64_t offered = 0;  // not 0: a posting said `here`
};

// Takes messages out of one lane's ring. First block only; every thread holds the same values.
class Intake {
 public:
  ONSTREAM_BODY Intake(const WaitView& wait, const View& lane, Fetcher& fetcher, std::uint64_t head,
                       std::uint64_t returned)
      : wait_(wait), lane_(lane), fetcher_(fetcher), head_(head), returned_(returned) {}

  // Tells the sender where message `number` shall go, or what becomes of it.
  template <class Group>
  ONSTREAM_BODY static void answer(const Group& group, const View& lane, std::uint64_t number, Answer what,
                                   std::uint64_t address, std::uint64_t room) {
    if (group.rank() != 0) return;
    Posting* posting = lane.peer_postings + (number & (lane.receives - 1));
    const std::uint32_t flag = static_cast<std::uint32_t>(number + 1);
    group.store_line(&posting->address, flag_line(address, flag));
    group.store_line(&posting->bytes, flag_line(room, flag));
    group.store_line(&posting->answer, flag_line(static_cast<std::uint64_t>(what), flag));
    group.store_line(&posting->number, flag_line(number, flag));
  }

  // Whether the next message can be taken without waiting for the sender's next step. One thread.
  template <class Group>
  ONSTREAM_BODY bool available(const Group& group, std::uint64_t offered) const {
    std::uint64_t word = 0;
    std::uint64_t address = 0;
    if (!look(group, head_, word, address)) return false;
    const Header kind = header_kind(word);
    const bool awaits_done = offered != 0 && (kind == Header::push || kind == Header::stage);
    return !awaits_done || look(group, head_ + 1, word, address);
  }

  // Takes the next message. `bytes` gets its size. Not ok: timeout or aborted (the lane is lost) or truncated.
  template <class Group>
  ONSTREAM_BODY Status take(const Group& group, const Target& target, std::uint64_t& bytes) {
    std::uint64_t word = 0;
    std::uint64_t address = 0;
    const std::uint64_t own_line = static_cast<std::uint64_t>(group.rank()) + 1;
    Line own{0, 0};
    if (few_poll(target)) {
      if (group.rank() == 0) (void)wait_until(group, wait_, [&] { return look(group, head_, word, address); });
      group.sync();
    }
    // The thread's own payload line is loaded together with the header: one trip less when the payload is there.
    Status status = wait_until(group, wait_, [&] {
      const Place place = place_of(lane_, head_, own_line);
      own = group.load_line(lane_.ring + place.index);
      return look(group, head_, word, address);
    });
    status = agree(group, status);
    if (status != Status::ok) return status;
    bytes = header_bytes(word);
    sender_asks_nobody_ = header_kind(word) == Header::data || header_kind(word) == Header::pull;
    switch (header_kind(word)) {
      case Header::data: return take_data(group, target, bytes, own);
      case Header::placed:
        if (group.rank() == 0) group.fence();  // as for `done`
        head_ += 1;
        return Status::ok;
      case Header::pull: return take_pull(group, target, bytes, address);
      default: return take_announced(group, target, bytes, address, header_kind(word));
    }
  }

  // Whether the sender of the message taken last did not wait for an answer: then its host is to be told of a
  // truncation.
  ONSTREAM_BODY bool sender_asks_nobody() const { return sender_asks_nobody_; }

  // Gives credit back in large steps, or at once where it is little. One thread.
  template <class Group>
  ONSTREAM_BODY void give_credit(const Group& group) {
    if (head_ - returned_ < std::uint64_t{1} << (lane_.ring_shift - 2)) return;
    returned_ = head_;
    if (group.rank() == 0) group.store_relaxed(&lane_.peer_returned->credit, head_);
  }

  // Puts the counters back into memory. First thread.
  template <class Group>
  ONSTREAM_BODY void store_counters(const Group& group) const {
    group.store_relaxed(&lane_.receiving->head, head_);
    group.store_relaxed(&lane_.receiving->returned, returned_);
  }

 private:
  // For long transfers one thread polls: hundreds that do would slow the stores that they wait for.
  ONSTREAM_BODY static bool few_poll(const Target& target) {
    constexpr std::uint64_t kLong = std::uint64_t{1} << 20;
    return target.offered != 0 && target.capacity > kLong;
  }

  template <class Group>
  ONSTREAM_BODY bool look(const Group& group, std::uint64_t head, std::uint64_t& word, std::uint64_t& address) const {
    const Place first = place_of(lane_, head, 0);
    const Line line0 = group.load_line(lane_.ring + first.index);
    const Line line1 = group.load_line(lane_.ring + first.index + 1);
    if (!has_flag(line0, first.flag)) return false;
    word = line_data(line0);
    if (header_kind(word) == Header::data) return true;
    if (!has_flag(line1, first.flag)) return false;
    address = line_data(line1);
    return true;
  }

  // Path ll: every line proves itself.
  template <class Group>
  ONSTREAM_BODY Status take_data(const Group& group, const Target& target, std::uint64_t bytes, Line own) {
    const std::uint64_t units = units_for(bytes);
    const std::uint64_t lines = units * kUnitLines;
    const std::uint64_t size = static_cast<std::uint64_t>(group.size());
    const bool fits = bytes <= target.capacity;
    Status status = Status::ok;
    for (std::uint64_t line = static_cast<std::uint64_t>(group.rank()) + 1; line < lines && status == Status::ok;
         line += size) {
      const Place place = place_of(lane_, head_, line);
      if (!has_flag(own, place.flag)) {
        status = wait_until(group, wait_, [&] {
          own = group.load_line(lane_.ring + place.index);
          return has_flag(own, place.flag);
        });
      }
      if (fits && status == Status::ok) store_payload(target.destination, bytes, line - 1, line_data(own));
      own = Line{0, 0};
      if (line + size < lines) own = group.load_line(lane_.ring + place_of(lane_, head_, line + size).index);
    }
    status = agree(group, status);
    if (status != Status::ok) return status;
    head_ += units;
    return fits ? Status::ok : Status::truncated;
  }

  template <class Group>
  ONSTREAM_BODY Status take_pull(const Group& group, const Target& target, std::uint64_t bytes, std::uint64_t source) {
    head_ += 1;
    const bool fits = bytes <= target.capacity;
    const Status status = fits ? fetcher_.fetch(group, target.destination, reinterpret_cast<const void*>(source), bytes)
                               : Status::truncated;
    acknowledge(group, target.number, fits ? 0 : 1);
    return status;
  }

  template <class Group>
  ONSTREAM_BODY void acknowledge(const Group& group, std::uint64_t number, std::uint64_t refused) const {
    if (group.rank() != 0) return;
    std::uint64_t* ack = lane_.peer_acks + (number & (lane_.receives - 1));
    group.store_release(ack, (number + 1) * 2 + refused);  // pairs with wait_for_ack, wait_for_answer and AwaitSend
  }

  // A large message whose sender waits for an answer, unless a posting was made.
  template <class Group>
  ONSTREAM_BODY Status take_announced(const Group& group, const Target& target, std::uint64_t bytes,
                                      std::uint64_t source, Header kind) {
    if (bytes > target.capacity) {
      acknowledge(group, target.number, 1);
      head_ += 1;
      return Status::truncated;
    }
    if (target.offered != 0) {
      std::uint64_t word = 0;
      std::uint64_t unused = 0;
      Status status = Status::ok;
      if (group.rank() == 0 || !few_poll(target)) {
        status = wait_until(group, wait_, [&] { return look(group, head_ + 1, word, unused); });
      }
      status = agree(group, status);
      if (group.rank() == 0)
        group.fence();  // what the sender wrote before `done` is visible to what runs after this op
      if (status == Status::ok) head_ += 2;
      return status;
    }
    answer(group, lane_, target.number, Answer::mine, 0, target.capacity);
    if (kind == Header::push) return take_pull(group, target, bytes, source);
    head_ += 1;
    return fetch_chunks(group, target, bytes);
  }

  template <class Group>
  ONSTREAM_BODY Status fetch_chunks(const Group& group, const Target& target, std::uint64_t bytes) {
    std::uint64_t fetched = lane_.receiving->chunks;
    for (std::uint64_t offset = 0; offset < bytes; ++fetched) {
      std::uint64_t word = 0;
      std::uint64_t source = 0;
      Status status = wait_until(group, wait_, [&] { return look(group, head_, word, source); });
      group.fence();  // pairs with the sender's fence before its chunk header
      status = agree(group, status);
      if (status != Status::ok) return status;
      status =
          fetcher_.fetch(group, target.destination + offset, reinterpret_cast<const void*>(source), header_bytes(word));
      if (status != Status::ok) return status;
      offset += header_bytes(word);
      head_ += 1;
      give_credit(group);
      if (group.rank() == 0) group.store_release(&lane_.peer_returned->chunks, fetched + 1);
    }
    group.sync();
    if (group.rank() == 0) lane_.receiving->chunks = fetched;
    return Status::ok;
  }

  WaitView wait_;
  View lane_;
  Fetcher& fetcher_;
  std::uint64_t head_;
  std::uint64_t returned_;
  bool sender_asks_nobody_ = false;
};

ONSTREAM_BODY Fault recv_fault(const View& lane, const Intake& intake, Status status, std::uint64_t capacity,
                               std::uint64_t bytes) {
  Fault fault = fault_of(OpKind::recv, lane, capacity, bytes);
  fault.tell = status == Status::truncated && intake.sender_asks_nobody() ? 1 : 0;
  return fault;
}

// Drains the lane through message `number`, or takes what is there. First block.
template <class Group>
ONSTREAM_BODY Status drain(const Group& group, const WaitView& wait, const View& lane, Fetcher& fetcher,
                           std::uint64_t number, bool look_once) {
  Receiving* state = lane.receiving;
  bool through = false;
  bool locked = false;
  Status status = Status::ok;
  if (group.rank() == 0) {
    status = wait_until(group, wait, [&] {
      through = group.load_acquire(&state->drained) > number;
      if (!through) locked = group.compare_swap(&state->lock, 0, 1) == 0;
      return through || locked || look_once;
    });
    group.fence();  // the lock's previous holder left its counters before it let go
  }
  status = agree(group, status);
  if (status != Status::ok) {
    if (group.rank() == 0) report(group, wait, status, fault_of(OpKind::recv, lane, 0, number));
    return status;
  }
  if (group.sync_or(through)) return Status::ok;
  if (!group.sync_or(locked)) return Status::pending;

  Intake intake(wait, lane, fetcher, state->head, state->returned);
  std::uint64_t next = state->drained;
  while (status == Status::ok && next <= number) {
    const Posted posted = lane.posted[next & (lane.receives - 1)];
    const bool there = !look_once || group.sync_or(group.rank() == 0 && intake.available(group, posted.offered));
    if (!there) break;
    std::uint64_t bytes = 0;
    const Target target{reinterpret_cast<std::byte*>(posted.destination), posted.capacity, next, posted.offered};
    status = intake.take(group, target, bytes);
    intake.give_credit(group);
    if (group.rank() == 0) {
      if (status != Status::ok) report(group, wait, status, recv_fault(lane, intake, status, posted.capacity, bytes));
      intake.store_counters(group);
      group.fence();
      settle(group, posted.ticket, status, bytes);
      if (status == Status::ok || status == Status::truncated) group.store_release(&state->drained, next + 1);
    }
    ++next;
    if (status == Status::truncated) status = Status::ok;  // later messages are intact
    group.sync();
  }
  group.sync();
  if (group.rank() == 0) group.store_release(&state->lock, 0);
  if (status != Status::ok) return status;
  return next > number ? Status::ok : Status::pending;
}

// Posts a receive: its place in the lane's order, and for a large one where the data shall go. First block.
template <class Group>
ONSTREAM_BODY Status enter(const Group& group, const WaitView& wait, const View& lane, const Posted& posted,
                           std::uint64_t peer_destination, std::uint64_t offer_min, std::uint64_t number) {
  Receiving* state = lane.receiving;
  // A wait that has just settled a receive may not have counted it yet: it holds the lock until it has.
  const auto room = [&] { return number - group.load_acquire(&state->drained) < lane.receives; };
  if (group.rank() == 0) {
    (void)wait_until(group, wait, [&] { return room() || group.load_acquire(&state->lock) == 0; });
  }
  if (group.sync_or(group.rank() == 0 && !room())) {
    if (group.rank() == 0) {
      report(group, wait, Status::misused, fault_of(OpKind::recv, lane, posted.capacity, lane.receives));
      settle(group, posted.ticket, Status::misused, 0);
    }
    return Status::misused;
  }
  const bool offer = posted.capacity > offer_min && peer_destination != 0;
  if (offer) Intake::answer(group, lane, number, Answer::here, peer_destination, posted.capacity);
  if (group.rank() == 0) {
    Posted entry = posted;
    entry.offered = offer ? 1 : 0;
    lane.posted[number & (lane.receives - 1)] = entry;
    group.fence();
    group.store_release(&state->posted, number + 1);
    number_ticket(group, posted.ticket, number);
  }
  return Status::ok;
}

struct Receive {
  void* destination = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t offer_min = 0;
  std::uint64_t peer_destination = 0;  // the destination as the peer stores to it, or 0 if it cannot
  View lane;
  Ticket ticket;
  WaitView wait;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    Fetcher fetcher(wait, lane.crew);
    if (group.block() != 0) return fetcher.help(group);
    const auto [drained, head] = load_pair(group, &lane.receiving->drained);
    const auto [number, returned] = load_pair(group, &lane.receiving->posted);
    if (group.sync_or(drained != number)) {
      queue_up(group, fetcher, number);
    } else {
      take_now(group, Intake(wait, lane, fetcher, head, returned), number);
    }
    fetcher.dismiss(group);
  }

 private:
  template <class Group>
  ONSTREAM_BODY void take_now(const Group& group, Intake intake, std::uint64_t number) const {
    Target target{static_cast<std::byte*>(destination), capacity, number, 0};
    if (capacity > offer_min && peer_destination != 0) {
      Intake::answer(group, lane, number, Answer::here, peer_destination, capacity);
      target.offered = 1;
    }
    std::uint64_t bytes = 0;
    const Status status = intake.take(group, target, bytes);
    intake.give_credit(group);
    if (group.rank() != 0) return;
    if (status != Status::ok) report(group, wait, status, recv_fault(lane, intake, status, capacity, bytes));
    if (status == Status::ok || status == Status::truncated) {
      intake.store_counters(group);
      group.store_relaxed(&lane.receiving->posted, number + 1);
      group.store_relaxed(&lane.receiving->drained,
                          number + 1);  // nobody waits for this one elsewhere: stream order does
    }
    settle(group, ticket, status, bytes);
  }

  template <class Group>
  ONSTREAM_BODY void queue_up(const Group& group, Fetcher& fetcher, std::uint64_t number) const {
    const Posted posted{reinterpret_cast<std::uint64_t>(destination), capacity, 0, ticket};
    if (enter(group, wait, lane, posted, peer_destination, offer_min, number) != Status::ok) return;
    group.sync();
    (void)drain(group, wait, lane, fetcher, number, false);
  }
};

struct Post {
  WaitView wait;
  View lane;
  void* destination = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t offer_min = 0;
  std::uint64_t peer_destination = 0;
  Ticket ticket;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    const Posted posted{reinterpret_cast<std::uint64_t>(destination), capacity, 0, ticket};
    (void)enter(group, wait, lane, posted, peer_destination, offer_min, lane.receiving->posted);
  }
};

// Makes the ticket of a captured op pending again at each replay.
struct Reopen {
  Ticket ticket;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    if (group.rank() == 0) group.store_release(ticket.status, static_cast<std::uint64_t>(Status::pending));
  }
};

// Waits for a posted receive, or looks once.
struct AwaitReceive {
  WaitView wait;
  View lane;
  Crew* crew = nullptr;  // the request's own: waits of several requests may run at once
  std::int32_t look_once = 0;
  Ticket ticket;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    Fetcher fetcher(wait, crew);
    if (group.block() != 0) return fetcher.help(group);
    Status status = Status::ok;
    if (group.rank() == 0) {
      // The receive that this wait is about may be on its way on another stream.
      if (look_once == 0) status = wait_until(group, wait, [&] { return is_numbered(group, ticket); });
      if (look_once != 0 && !is_numbered(group, ticket)) status = Status::pending;
    }
    status = agree(group, status);
    if (status == Status::ok) {
      status = drain(group, wait, lane, fetcher, group.load_relaxed(&ticket.numbered->number), look_once != 0);
    }
    const bool lost = status == Status::timeout || status == Status::aborted;
    if (lost && group.rank() == 0) settle(group, ticket, status, 0);
    fetcher.dismiss(group);
  }
};

}  // namespace onstream::lane
