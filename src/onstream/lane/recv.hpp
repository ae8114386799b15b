// The receiving end of a lane, as kernel bodies: Receive (ordered), Post (irecv) and AwaitReceive (its wait, or one
// look). Protocol and memory: lane.hpp.
//
// Messages leave the ring in order. An ordered receive with no posted receive before it takes its message itself;
// otherwise it posts, and the wait that holds the lane's lock drains everything up to the message it waits for.
//
// A GPU fetches a kernel's code from far away as it goes, so the code that every message needs is short and inlined,
// and the rest are functions of their own.
#pragma once

#include "onstream/device/kernel/remote_process.hpp"
#include "onstream/lane/intake.hpp"
#include "onstream/lane/spread.hpp"

namespace onstream::lane {

ONSTREAM_BODY Fault recv_fault(const LaneView& lane, bool sender_hears, Status status, std::uint64_t capacity,
                               std::uint64_t bytes) {
  Fault fault = fault_of(OpKind::recv, lane, capacity, bytes);
  fault.tell = !loses_lane(status) && !sender_hears ? 1 : 0;
  return fault;
}

// Drains the lane through message `number`, or takes only the messages that are there. First block.
template <Group G>
ONSTREAM_CALL Status drain(const G& group, const WaitView& wait, const LaneView& lane, Fetcher& fetcher,
                           std::uint64_t number, bool look_once) {
  Receiving* state = lane.receiving;
  bool through = false;
  bool locked = false;
  Status status = Status::ok;
  if (group.rank() == 0) {
    status = wait_for_self(group, wait, [&] {
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

  RingReader intake(wait, lane, fetcher, state->head, state->returned);
  std::uint64_t next = state->drained;
  while (status == Status::ok && next <= number) {
    const Posted posted = lane.posted[next & (lane.receives - 1)];
    const bool there = !look_once || group.sync_or(group.rank() == 0 && intake.available(group, next, posted.offered));
    if (!there) break;
    std::uint64_t bytes = 0;
    const Target target{reinterpret_cast<std::byte*>(posted.destination), posted.capacity, next, posted.offered,
                        !look_once};
    status = intake.take(group, target, bytes);
    intake.give_credit(group);
    if (group.rank() == 0) {
      if (status != Status::ok) {
        const Fault fault = recv_fault(lane, intake.sender_hears(), status, posted.capacity, bytes);
        report(group, wait, status, of_ticket(fault, posted.ticket));
      }
      group.store_relaxed(&state->head, intake.head());
      group.store_relaxed(&state->returned, intake.returned());
      group.fence();
      settle(group, posted.ticket, status, bytes);
      if (!loses_lane(status)) group.store_release(&state->drained, next + 1);
    }
    ++next;
    if (!loses_lane(status)) status = Status::ok;  // later messages are intact
    group.sync();
  }
  group.sync();
  if (group.rank() == 0) group.store_release(&state->lock, 0);
  if (status != Status::ok) return status;
  return next > number ? Status::ok : Status::pending;
}

// A receive descriptor's answer for a destination that the peer knows as `peer_destination`. A sender that cannot write
// to a remote process address leaves its message to this rank, so such an offer promises nothing.
template <Group G>
ONSTREAM_BODY Answer offer_of(std::uint64_t peer_destination) {
  if constexpr (G::kCrossMemory) {
    if (is_remote_process(peer_destination)) return Answer::remote_process;
  }
  return Answer::here;
}

// Posts a receive: its place in the lane's order, and for a large one where the data shall go. First block.
template <Group G>
ONSTREAM_CALL Status enter(const G& group, const WaitView& wait, const LaneView& lane, const Posted& posted,
                           std::uint64_t peer_destination, std::uint64_t offer_min, std::uint64_t number) {
  Receiving* state = lane.receiving;
  // A wait that has just settled a receive may not have counted it yet: it holds the lock until it has.
  const auto room = [&] { return number - group.load_acquire(&state->drained) < lane.receives; };
  if (group.rank() == 0) {
    (void)wait_for_self(group, wait, [&] { return room() || group.load_acquire(&state->lock) == 0; });
  }
  if (group.sync_or(group.rank() == 0 && !room())) {
    if (group.rank() == 0) {
      report(group, wait, Status::misused, fault_of(OpKind::recv, lane, posted.capacity, lane.receives));
      settle(group, posted.ticket, Status::misused, 0);
    }
    return Status::misused;
  }
  const bool offer = posted.capacity > offer_min && peer_destination != 0;
  const Answer where = offer_of<G>(peer_destination);
  if (offer) {
    const std::uint64_t place = number & (lane.receives - 1);
    answer(group, lane, place, number, where, peer_destination, posted.capacity);
  }
  if (group.rank() == 0) {
    Posted entry = posted;
    entry.offered = offer && where == Answer::here ? 1 : 0;
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
  std::uint64_t spread = 0;            // 1: a message of `capacity` comes through the ring by several blocks
  LaneView lane;
  Ticket ticket;
  WaitView wait;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (void)take(group);
  }

  // In whichever way. Each way answers how it ended, for this block: a lane that is lost (loses_lane()) gives nothing
  // more.
  template <Group G>
  ONSTREAM_BODY Status either(const G& group) const {
    return spread != 0 ? take_spread(group) : take(group);
  }

  // By one block that waits, and others that help where there is something to fetch.
  template <Group G>
  ONSTREAM_BODY Status take(const G& group) const {
    if (group.block() != 0) return help(group);
    Counters now;
    const bool behind = !counters(group, now);
    if (group.sync_or(behind)) return queue_up(group, now.number);
    const bool large = capacity > offer_min;
    if (large && peer_destination != 0) return take_offered(group, now);
    if (large && group.blocks() > 1) [[unlikely]]
      return take_otherwise(group, now, 0);
    if (is_packed<G>(capacity)) return take_packed(group, now);
    return take_small(group, now);
  }

  // As take_small(), by several blocks. A sender may push all the same, and is told where to.
  template <Group G>
  ONSTREAM_BODY Status take_spread(const G& group) const {
    const auto [drained, read_head] = load_pair(group, &lane.receiving->drained);
    const auto [number, read_returned] = load_pair(group, &lane.receiving->posted);
    Counters now{number, read_head, read_returned};
    const Spread blocks(group, &lane.receiving->finished);
    const bool leads = group.block() == 0;
    if (group.sync_or(drained != number)) [[unlikely]] {
      const Status status = catch_up(group, now);
      if (status != Status::ok) return give_up(group, blocks, status);
    }
    const bool speaks = leads && group.rank() == 0;
    if (!leads && group.rank() == 0) blocks.count(group);
    const bool offers = capacity > offer_min && peer_destination != 0;
    if (leads) {
      if (offers) answer(group, lane, lane.receives, now.number, Answer::here, peer_destination, capacity);
      const std::uint64_t was = now.returned;  // behind it, messages that have left the ring
      now.returned = credit_at(lane, now.head, was);
      give_credit(group, lane, was, now.returned);
    }
    const auto end = static_cast<std::uint32_t>(lines_for(capacity));
    const std::uint64_t wanted = header_word(Header::data, capacity);
    const Stretch stretch(lane, now.head);
    const LinePlace first = stretch.at(0);
    const Line* const place = lane.ring + first.index;
    // The first block takes no lines where there are others: it has the counters to see to.
    const std::uint32_t aside = group.blocks() > 1 ? static_cast<std::uint32_t>(group.size()) : 0;
    const std::uint32_t size = spread_size(group) - aside;
    const bool takes = !leads || aside == 0;
    const bool whole = is_word(destination, capacity, 0) && capacity % kLineData == 0;
    Line header{0, 0};
    Status status = Status::ok;
    if (speaks) status = blocks.await(group, wait, 1);
    std::uint32_t line = takes ? spread_rank(group) - aside + 1 : end;
    while (status == Status::ok) {
      BatchOf<kSpreadLines> batch(lane.ring, stretch, line, size, end);
      auto* const words = group.early(static_cast<std::uint64_t*>(destination) + (line - 1));
      status = wait_until(group, wait, [&] {
        header = group.load_line(place);
        const bool all = batch.load(group);
        return has_flag(header, first.flag) && (all || line_data(header) != wanted);
      });
      if (status != Status::ok || line_data(header) != wanted) break;
      if (whole) {
        batch.store_words(words, size);
      } else {
        batch.store(destination, capacity, line - 1, size);
      }
      line += kSpreadLines * size;
      if (line >= end) break;
    }
    status = agree(group, status);
    if (status != Status::ok) [[unlikely]]
      return give_up(group, blocks, status);
    if (line_data(header) != wanted) [[unlikely]]
      return take_unexpected(group, blocks, now, offers ? 1 : 0);
    if (!leads) return Status::ok;
    if (speaks) blocks.reset(group);
    return conclude(group, now, {now.number + 1, now.head + units_for(capacity), now.returned}, status, {wanted, 0});
  }

  struct Counters {
    std::uint64_t number;
    std::uint64_t head;
    std::uint64_t returned;
  };
  // One thread's look at them. False: receives posted before are not taken yet.
  template <Group G>
  ONSTREAM_BODY bool counters(const G& group, Counters& now) const {
    const auto [drained, head] = load_pair(group, &lane.receiving->drained);
    const auto [number, returned] = load_pair(group, &lane.receiving->posted);
    now = {number, head, returned};
    return drained == number;
  }

  // One block. Takes a message of just the expected size from the ring; `now` become the counters behind it. Everything
  // that does not depend on it is computed before it comes.
  template <Group G>
  ONSTREAM_BODY Status take_small(const G& group, Counters& now) const {
    const auto size = static_cast<std::uint32_t>(group.size());
    const std::uint32_t line = static_cast<std::uint32_t>(group.rank()) + 1;
    const auto end = static_cast<std::uint32_t>(lines_for(capacity));
    const std::uint64_t wanted = header_word(Header::data, capacity);
    const Stretch stretch(lane, now.head);
    const LinePlace first = stretch.at(0);
    const Line* place = lane.ring + first.index;
    Batch batch(lane.ring, stretch, line, size, end);
    const bool whole = is_word(destination, capacity, 0) && capacity % kLineData == 0;
    const bool more = end > kLinesInFlight * size + 1;
    auto* const words = group.early(static_cast<std::uint64_t*>(destination) + (line - 1));
    const Counters then = after(group, now, now.head + units_for(capacity));
    Line header{0, 0};
    Status status = wait_until(group, wait, [&] {
      header = group.load_line(place);
      const bool all = batch.load(group);
      return has_flag(header, first.flag) && (all || line_data(header) != wanted);
    });
    const bool exact = line_data(header) == wanted;
    if (exact && status == Status::ok) {
      if (whole) {
        batch.store_words(words, size);
      } else {
        batch.store(destination, capacity, line - 1, size);
      }
    }
    status = agree(group, status);
    if (status == Status::ok && (!exact || more)) [[unlikely]] {
      status = take_otherwise(group, now, 0);
      group.sync();
      (void)counters(group, now);
      return status;
    }
    const Counters was = now;
    now = then;
    return conclude(group, was, then, status, {wanted, 0});
  }

 private:
  // Takes such a message where it is packed.
  template <Group G>
  ONSTREAM_BODY Status take_packed(const G& group, const Counters& now) const {
    if constexpr (G::kStoresInOrder) {
      Seen seen;
      const Status status = await_header(group, wait, lane, now.head, seen);
      if (status == Status::ok && seen.word != header_word(Header::data, capacity))
        return take_otherwise(group, now, 0);
      if (status == Status::ok) unpack(group, lane, now.head, destination, capacity);
      return conclude(group, now, after(group, now, now.head + ring_units<G>(capacity)), status, seen);
    } else {
      return Status::ok;  // never called
    }
  }

  // Takes a large message whose sender finds the descriptor. There is nothing to fetch then, so the other blocks end
  // while the data comes.
  template <Group G>
  ONSTREAM_BODY Status take_offered(const G& group, const Counters& now) const {
    const Answer where = offer_of<G>(peer_destination);
    answer(group, lane, lane.receives, now.number, where, peer_destination, capacity);
    const Counters then = after(group, now, now.head + 1);
    Seen seen;
    Status status = await_header(group, wait, lane, now.head, seen);
    if constexpr (G::kCrossMemory) {
      if (status == Status::ok && where == Answer::remote_process) return take_otherwise(group, now, 0);
    }
    if (status == Status::ok && (!seen.asks() || seen.bytes() > capacity)) return take_otherwise(group, now, 1);
    if (group.blocks() > 1) dismiss(group);
    if (status == Status::ok) status = await_arrivals(group, wait, lane, now.number);
    return conclude(group, now, then, status, seen);
  }

  // For a spread receive behind posted ones: the first block takes those; the others wait until it, or another wait,
  // has taken them, with twice the deadline for each.
  template <Group G>
  ONSTREAM_CALL Status catch_up(const G& group, Counters& now) const {
    Status status = Status::ok;
    if (group.block() == 0) {
      Fetcher alone(wait, nullptr);
      status = drain(group, wait, lane, alone, now.number - 1, false);
    } else if (group.rank() == 0) {
      WaitView patient = wait;
      patient.timeout_ns *= 2;
      std::uint64_t drained = group.load_acquire(&lane.receiving->drained);
      while (status == Status::ok && drained < now.number) {
        const std::uint64_t before = drained;
        status = wait_for_self(group, patient, [&] {
          drained = group.load_acquire(&lane.receiving->drained);
          return drained != before;
        });
      }
    }
    status = agree(group, status);
    now.head = group.load_relaxed(&lane.receiving->head);
    now.returned = group.load_relaxed(&lane.receiving->returned);
    group.sync();
    if (group.rank() == 0) group.fence();  // before it counts that it has read them
    return status;
  }

  // Ends a spread receive whose lane is lost.
  template <Group G>
  ONSTREAM_CALL Status give_up(const G& group, const Spread& blocks, Status status) const {
    if (group.rank() != 0) return status;
    if (blocks.lose(group)) report(group, wait, status, recv_fault(lane, false, status, capacity, 0));
    if (group.block() == 0) settle(group, ticket, status, 0);
    return status;
  }

  // Takes another message than the expected one, in a spread receive.
  template <Group G>
  ONSTREAM_CALL Status take_unexpected(const G& group, const Spread& blocks, const Counters& now,
                                       std::uint64_t offered) const {
    if (group.block() != 0) {
      if (group.rank() == 0) blocks.count(group);
      return help(group);
    }
    Status status = Status::ok;
    if (group.rank() == 0) status = blocks.await(group, wait, 2);
    status = agree(group, status);
    if (status == Status::ok) {
      if (group.rank() == 0) blocks.reset(group);
      return take_otherwise(group, now, offered);
    }
    (void)give_up(group, blocks, status);
    dismiss(group);
    return status;
  }

  // The counters behind a message that ends at unit `head`; where its size is expected, before it comes.
  template <Group G>
  ONSTREAM_BODY Counters after(const G& group, const Counters& now, std::uint64_t head) const {
    return {group.early(now.number + 1), group.early(head), group.early(credit_at(lane, head, now.returned))};
  }

  template <Group G>
  ONSTREAM_BODY Status conclude(const G& group, const Counters& was, const Counters& then, Status status,
                                const Seen& seen) const {
    if (group.rank() != 0) return status;
    if (status != Status::ok) [[unlikely]] {
      const bool asks = seen.kind() != Header::data;
      report(group, wait, status, of_ticket(recv_fault(lane, asks, status, capacity, seen.bytes()), ticket));
    }
    if (!loses_lane(status)) {
      give_credit(group, lane, was.returned, then.returned);
      store_pair(group, &lane.receiving->drained, then.number, then.head);  // nobody waits elsewhere: stream order does
      store_pair(group, &lane.receiving->posted, then.number, then.returned);
    }
    settle(group, ticket, status, seen.bytes());
    return status;
  }

  // Any other message.
  template <Group G>
  ONSTREAM_CALL Status take_otherwise(const G& group, Counters now, std::uint64_t offered) const {
    Fetcher fetcher(wait, lane.crew);
    RingReader intake(wait, lane, fetcher, now.head, now.returned);
    std::uint64_t bytes = 0;
    const Status status =
        intake.take(group, {static_cast<std::byte*>(destination), capacity, now.number, offered}, bytes);
    const Header kind = intake.sender_hears() ? Header::push : Header::data;
    now.returned = intake.returned();
    (void)conclude(group, now, after(group, now, intake.head()), status, {header_word(kind, bytes), 0});
    fetcher.dismiss(group);
    return status;
  }

  template <Group G>
  ONSTREAM_CALL Status queue_up(const G& group, std::uint64_t number) const {
    Fetcher fetcher(wait, lane.crew);
    const Posted posted{reinterpret_cast<std::uint64_t>(destination), capacity, 0, ticket};
    Status status = enter(group, wait, lane, posted, peer_destination, offer_min, number);
    if (status == Status::ok) {
      group.sync();
      status = drain(group, wait, lane, fetcher, number, false);
    }
    fetcher.dismiss(group);
    return status;
  }

  template <Group G>
  ONSTREAM_CALL Status help(const G& group) const {
    Fetcher(wait, lane.crew).help(group);
    return Status::ok;  // of the first block
  }
  template <Group G>
  ONSTREAM_CALL void dismiss(const G& group) const {
    Fetcher(wait, lane.crew).dismiss(group);
  }
};

struct ReceiveSpread : Receive {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (void)take_spread(group);
  }
};

struct Post {
  WaitView wait;
  LaneView lane;
  void* destination = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t offer_min = 0;
  std::uint64_t peer_destination = 0;
  Ticket ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const Posted posted{reinterpret_cast<std::uint64_t>(destination), capacity, 0, ticket};
    (void)enter(group, wait, lane, posted, peer_destination, offer_min, lane.receiving->posted);
  }
};

// Takes from a bounce buffer the bytes that have come, no more.
struct Deliver {
  void* destination = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  Ticket ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.load_acquire(ticket.status) != static_cast<std::uint64_t>(Status::ok)) return;
    const std::uint64_t received = group.load_relaxed(ticket.received);
    group.copy(destination, source, received < bytes ? received : bytes);
  }
};

// Makes the ticket of a captured op pending again at each replay.
struct Reopen {
  Ticket ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() == 0) group.store_release(ticket.status, static_cast<std::uint64_t>(Status::pending));
  }
};

// Waits for a posted receive, or looks once.
struct AwaitReceive {
  WaitView wait;
  LaneView lane;
  BlockTeam* crew = nullptr;  // the request's own: waits of several requests may run at once
  Look look = Look::wait;
  Ticket ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    Fetcher fetcher(wait, crew);
    if (group.block() != 0) return fetcher.help(group);
    Status status = Status::ok;
    if (group.rank() == 0) {
      // The receive that this wait is about may be on its way on another stream.
      const auto has_run = [&] { return is_numbered(group, ticket); };
      status = look == Look::wait ? wait_for_self(group, wait, has_run) : has_run() ? Status::ok : Status::pending;
      if (loses_lane(status)) report(group, wait, status, fault_of(OpKind::recv, lane, 0, kNotRun));
    }
    status = agree(group, status);
    if (status == Status::ok) {
      status = drain(group, wait, lane, fetcher, group.load_relaxed(&ticket.numbered->number), look == Look::once);
    }
    const bool lost = status == Status::timeout || status == Status::aborted;
    if (lost && group.rank() == 0) settle(group, ticket, status, 0);
    fetcher.dismiss(group);
  }
};

}  // namespace onstream::lane
