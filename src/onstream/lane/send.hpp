// The sending end of a lane, as kernel bodies: Send, ordered (ends when the buffer may be reused) or posted (ends at
// once; its wait is in await_send.hpp). Protocol and memory: lane.hpp.
#pragma once

#include "onstream/device/kernel/copy_slot.hpp"
#include "onstream/lane/host/packed.hpp"
#include "onstream/lane/host/shared_copy_sender.hpp"
#include "onstream/lane/spread.hpp"

namespace onstream::lane {

enum class Completion : std::int32_t {
  ordered,  // the op ends when its buffer may be used again
  posted    // the op ends at once, the request's wait completes it
};

struct Send {
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t ring_max = 0;   // largest message that travels in the ring
  std::uint64_t offer_min = 0;  // a larger one may go straight to its destination if the receive is there already
  LaneView lane;
  std::uint64_t peer_source = 0;   // the source as the peer loads it, or 0 if it cannot
  Header announce = Header::push;  // of a message larger than ring_max: push, pull or stage
  Completion completion = Completion::ordered;
  std::int16_t place_first = 0;  // 1: a found offer is faster than the ring (host), else only where room is short
  std::int16_t spread = 0;       // 1: by several blocks through the ring, if ordered
  std::byte* bounce = nullptr;   // stage: two chunks that the peer can load, and where it sees them
  std::uint64_t peer_bounce = 0;
  std::uint64_t chunk_bytes = 0;
  Copier copier;  // path copy: the copy engine writes into the destination, asked by the first block
  Ticket ticket;
  WaitView wait;

  // Which of the four ways the message goes, known before it runs.
  enum class SendWay { small, spread, direct, posted };
  SendWay way() const {
    if (spread != 0) return SendWay::spread;
    if (bytes <= ring_max) return SendWay::small;
    return completion == Completion::posted ? SendWay::posted : SendWay::direct;
  }
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (bytes <= ring_max) {
      (void)small(group);
    } else if (completion == Completion::posted) {
      post(group);
    } else {
      (void)direct(group);
    }
  }

  // For the host's group: as operator(), and calls passed() as soon as the lane's next send may run. A message that
  // both ranks copy may end long after that.
  template <Group G, class Passed>
  ONSTREAM_BODY void run(const G& group, const Passed& passed) const {
    if (bytes > ring_max && announce == Header::share) {
      (void)share(group, passed);
    } else {
      (*this)(group);
    }
  }

  // Each way answers how it ended, for this block: a lane that is lost (loses_lane()) takes nothing more.

  // Small enough for the ring, or for a host copy into a destination that is known already.
  template <Group G>
  ONSTREAM_BODY Status small(const G& group) const {
    if (bytes > offer_min && looks_for_offer(group) && is_offered(group)) [[unlikely]]
      return place(group);
    return through_ring(group);
  }

  // One that is ordered, in whichever of its three ways.
  template <Group G>
  ONSTREAM_BODY Status ordered(const G& group) const {
    if (spread != 0) return through_ring_spread(group);
    return bytes <= ring_max ? small(group) : direct(group);
  }

  // Ordered large send: announces, waits for the receiver's answer, follows it. Every block sees the same answer.
  // Usually the receive is there, and its descriptor comes with the counters. Staged sends run as one block, so that it
  // alone counts the units.
  template <Group G>
  ONSTREAM_BODY Status direct(const G& group) const {
    if constexpr (G::kCrossMemory) {
      if (announce == Header::share) return share(group, [] {});
    }
    const bool pulls = announce == Header::pull;
    const bool speaks = group.block() == 0 && group.rank() == group.size() - 1;
    // All that is asked of memory is asked at once; the data, which takes longest, last.
    DescriptorSnapshot lone{};
    if (!pulls) lone = read_descriptor(group, lane.descriptors + lane.receives);
    const std::uint64_t consumed = speaks ? credit(group) : 0;
    const auto [head, number] = load_pair(group, &lane.sending->head);
    const auto part = static_cast<std::uint32_t>(group.block());
    const auto parts = static_cast<std::uint32_t>(group.blocks());
    typename G::Flight flight{};
    const std::uint64_t own = copier.slot == nullptr ? bytes : copier.lead;
    flight = group.fetch(source, pulls ? 0 : own, part, parts);
    Status status = Status::ok;
    if (speaks) {
      if (!has_room(head, 1, consumed)) status = wait_for_room(group, head, 1);
      if (status == Status::ok) store_unit(group, lane, head, header_word(announce, bytes), peer_source);
    }
    Answered answer{status, Answer::receiver_pulls, 0, bytes};
    if (!pulls && group.sync_or(!tells(lone, number, answer))) {
      // One thread of each block polls: thousands that do would slow the receiver's answer.
      status = agree(group, status);
      if (status == Status::ok && group.rank() == 0) {
        answer = find_answer(group, number, [&](const auto& ready) { return wait_until(group, wait, ready); });
      }
      group.sync();
      if (status == Status::ok && group.rank() != 0) {
        answer = find_answer(group, number, [](const auto& ready) { return look_too(ready); });
      }
    }
    if (status == Status::ok) status = answer.status;
    // Each thread goes on by itself from here: all see the same answer, and the barrier comes after the copy.
    const bool fits = answer.answer != Answer::refused && bytes <= answer.room;
    const bool here = fits && answer.answer == Answer::here;
    if (here && status == Status::ok) {
      const bool asks = copier.slot != nullptr && part == 0 && group.rank() == 0;
      const std::uint64_t request = asks ? copier.ask(group, answer.address, source, bytes) : 0;
      group.copy(flight, reinterpret_cast<void*>(answer.address), source, own, part, parts);
      if (asks) status = copier.await(group, wait, request);
    }
    status = agree(group, status);
    std::uint64_t units = 1;
    if (fits && !here && group.block() == 0 && status == Status::ok) {
      status = announce == Header::stage ? send_chunks(group, head, units) : wait_for_ack(group, number);
      if (status == Status::ok && group.rank() == 0) settle(group, ticket, Status::ok, bytes);
    }
    if (status == Status::ok && !fits) status = why_refused(group, lane, number);
    finish(group, head, number, units, status, answer.room, here);
    return status;
  }

  // As through_ring(), where the lane's counters are known; `consumed` may be old.
  template <Group G>
  ONSTREAM_BODY Status through_ring_at(const G& group, std::uint64_t head, std::uint64_t number,
                                       std::uint64_t consumed) const {
    const auto size = static_cast<std::uint32_t>(group.size());
    const auto units = static_cast<std::uint32_t>(units_for(bytes));
    const std::uint32_t lines = units * kUnitLines;
    const Payload payload(source, bytes);
    auto line = static_cast<std::uint32_t>(group.rank());
    const std::uint64_t value = line == 0 ? header_word(Header::data, bytes) : payload.at(line - 1);
    std::uint64_t values[kLinesInFlight];
    if (lines > size) load_lines(values, payload, line + size, size, lines);
    Status status = Status::ok;
    if (!has_room(head, units, consumed)) [[unlikely]]
      status = wait_for_room(group, head, units);
    if (status == Status::ok && line < lines) {
      const Stretch stretch(lane, head);
      const auto store = [&](std::uint32_t at, std::uint64_t data) {
        const LinePlace place = stretch.at(at);
        group.store_line(lane.peer_ring + place.index, flag_line(data, place.flag));
      };
      const std::uint32_t first = line;
      if constexpr (!G::kStoresInOrder) store(first, value);
      for (line += size; line < lines;) {
        ONSTREAM_UNROLL
        for (int k = 0; k < kLinesInFlight; ++k) {
          if (line + k * size < lines) store(line + k * size, values[k]);
        }
        line += kLinesInFlight * size;
        if (line < lines) load_lines(values, payload, line, size, lines);
      }
      if constexpr (G::kStoresInOrder) store(first, value);  // packed.hpp
    }
    status = agree(group, status);
    if (group.rank() != 0) return status;
    if (status != Status::ok) [[unlikely]]
      return fail(group, status, number);
    store_pair(group, &lane.sending->head, head + units, number + 1);
    settle(group, ticket, Status::ok, bytes);
    return Status::ok;
  }

  // As through_ring(), by several blocks.
  template <Group G>
  ONSTREAM_BODY Status through_ring_spread(const G& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    const std::uint64_t consumed = credit(group);
    const Spread blocks(group, &lane.sending->finished);
    const std::uint32_t size = spread_size(group);
    const auto units = static_cast<std::uint32_t>(units_for(bytes));
    const std::uint32_t lines = units * kUnitLines;
    const Payload payload(source, bytes);
    std::uint32_t line = spread_rank(group);
    std::uint64_t values[kSpreadLines];
    load_lines(values, payload, line, size, lines);
    Status status = Status::ok;
    if (!has_room(head, units, consumed)) [[unlikely]]
      status = wait_for_room(group, head, units);
    if (status == Status::ok) {
      const Stretch stretch(lane, head);
      while (line < lines) {
        ONSTREAM_UNROLL
        for (int k = 0; k < kSpreadLines; ++k) {
          const std::uint32_t at = line + k * size;
          if (at >= lines) continue;
          const LinePlace place = stretch.at(at);
          const std::uint64_t data = at == 0 ? header_word(Header::data, bytes) : values[k];
          group.store_line(lane.peer_ring + place.index, flag_line(data, place.flag));
        }
        line += kSpreadLines * size;
        if (line < lines) load_lines(values, payload, line, size, lines);
      }
    }
    status = agree(group, status);
    const bool leads = group.block() == 0;
    if (group.rank() == 0) {
      if (leads && status == Status::ok) status = blocks.await(group, wait, 1);
      if (status != Status::ok) [[unlikely]] {
        if (blocks.lose(group)) report(group, wait, status, fault_of(OpKind::send, lane, bytes, number));
        if (leads) settle(group, ticket, status, 0);
      } else if (!leads) {
        blocks.count(group);
      } else {
        blocks.reset(group);
        store_pair(group, &lane.sending->head, head + units, number + 1);
        settle(group, ticket, Status::ok, bytes);
      }
    }
    return status;
  }

  // Whether it would take room in the ring that announcements may need. For the host, which may take another way.
  template <Group G>
  ONSTREAM_BODY bool would_crowd(const G& group) const {
    return bytes <= ring_max && is_room_short(group) && !is_offered(group);
  }

  // Whether the receive of the next message is there, with room, and may be written to.
  template <Group G>
  ONSTREAM_BODY bool is_offered(const G& group) const {
    Answered answer{Status::ok, Answer::refused, 0, 0};
    const bool here = group.rank() == 0 && answered(group, lane, lane.sending->number, answer) &&
                      (answer.answer == Answer::here || is_last_way(group, answer)) && bytes <= answer.room;
    return group.sync_or(here);
  }

  // Units consumed. LL lines need no order with it; a packed message must not overwrite units before the receiver has
  // read them.
  template <Group G>
  ONSTREAM_BODY std::uint64_t credit(const G& group) const {
    const std::uint64_t* consumed = &lane.returned->credit;
    return G::kStoresInOrder ? group.load_acquire(consumed) : group.load_relaxed(consumed);  // pairs with give_credit
  }

 protected:
  ONSTREAM_BODY bool has_room(std::uint64_t head, std::uint64_t units, std::uint64_t credit) const {
    return head + units - credit <= std::uint64_t{1} << lane.ring_shift;
  }
  template <Group G>
  ONSTREAM_BODY Status wait_for_room(const G& group, std::uint64_t head, std::uint64_t units) const {
    return wait_until(group, wait, [&] { return has_room(head, units, credit(group)); });
  }

  template <Group G>
  ONSTREAM_CALL Status fail(const G& group, Status status, std::uint64_t extra) const {
    report(group, wait, status, of_ticket(fault_of(OpKind::send, lane, bytes, extra), ticket));
    settle(group, ticket, status, 0);
    return status;
  }

  // The room of the receive that a message was too large for; the receiver has written it down where it is not known
  // here.
  template <Group G>
  ONSTREAM_BODY std::uint64_t room_of_refusal(const G& group, Status status, std::uint64_t number,
                                              std::uint64_t known) const {
    if (status != Status::truncated || known < bytes) return known;
    return refusal_of(group, refusals_of(lane.acks, lane.receives), number).room;
  }

  // Data and flag in one store. The counters are asked for first: everything waits for them, and the addresses for
  // loading the data are computed meanwhile.
  template <Group G>
  ONSTREAM_BODY Status through_ring(const G& group) const {
    if constexpr (G::kStoresInOrder) {
      if (is_packed<G>(bytes)) return through_ring_packed(group);
    }
    const auto [head, number] = load_pair(group, &lane.sending->head);
    return through_ring_at(group, head, number, credit(group));
  }

  template <Group G>
  ONSTREAM_BODY Status through_ring_packed(const G& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    const std::uint64_t units = ring_units<G>(bytes);
    const Status status = wait_for_room(group, head, units);
    if (status != Status::ok) return fail(group, status, number);
    pack(group, lane, head, header_word(Header::data, bytes), source, bytes);
    store_pair(group, &lane.sending->head, head + units, number + 1);
    settle(group, ticket, Status::ok, bytes);
    return Status::ok;
  }

  // The payload of this message's ring lines first, first + step, ... Not the header.
  template <int kLines>
  ONSTREAM_BODY static void load_lines(std::uint64_t (&values)[kLines], const Payload& payload, std::uint32_t first,
                                       std::uint32_t step, std::uint32_t lines) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kLines; ++k) {
      const std::uint32_t line = first + k * step;
      if (line != 0 && line < lines) values[k] = payload.at(line - 1);
    }
  }

  // A posted send must not wait for room while its receive is there: two ranks that post all before they wait for any
  // would deadlock. So a quarter of the ring is kept for the one unit that a placed message takes.
  template <Group G>
  ONSTREAM_BODY bool looks_for_offer(const G& group) const {
    if (place_first != 0) return true;
    if (completion == Completion::ordered) return false;
    return group.sync_or(group.rank() == 0 && is_room_short(group));
  }
  template <Group G>
  ONSTREAM_BODY bool is_room_short(const G& group) const {
    const std::uint64_t ring = std::uint64_t{1} << lane.ring_shift;
    const std::uint64_t ahead = lane.sending->head + ring_units<G>(bytes) - group.load_relaxed(&lane.returned->credit);
    return ahead > ring - ring / 4;
  }
  // A system call costs more than the ring, while the ring has room.
  template <Group G>
  ONSTREAM_BODY bool is_last_way(const G& group, const Answered& answer) const {
    if constexpr (G::kCrossMemory) {
      return bytes <= ring_max && answer.answer == Answer::remote_process && is_room_short(group);
    }
    return false;
  }

  // One block writes into the destination that the receiver has offered.
  template <Group G>
  ONSTREAM_CALL Status place(const G& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    Answered answer{Status::ok, Answer::refused, 0, 0};
    (void)answered(group, lane, number, answer);
    Status moved = Status::ok;
    if constexpr (G::kCrossMemory) {
      moved = carry(group, wait, reinterpret_cast<void*>(answer.address), source, bytes);
      if (loses_lane(moved)) return fail(group, moved, number);
    } else {
      group.copy_alone(reinterpret_cast<void*>(answer.address), source, bytes);
    }
    const Status status = agree(group, wait_for_room(group, head, 1));
    if (group.rank() != 0) return status;
    if (status != Status::ok) return fail(group, status, number);
    group.fence();
    store_unit(group, lane, head, header_word(moved == Status::ok ? Header::placed : Header::failed, bytes), 0);
    store_pair(group, &lane.sending->head, head + 1, number + 1);
    if (moved != Status::ok) return fail(group, moved, number);
    settle(group, ticket, Status::ok, bytes);
    return Status::ok;
  }

  // `wait_for` waits until its argument returns true, or gives up.
  template <Group G, class WaitFor>
  ONSTREAM_BODY Answered find_answer(const G& group, std::uint64_t number, const WaitFor& wait_for) const {
    Answered out{Status::ok, Answer::refused, 0, 0};
    // The descriptor's place may hold a later receive already; then the ack tells whether this message was refused.
    constexpr std::uint32_t kAckEvery = 64;  // looking there each time would double the time between two looks
    std::uint64_t ack = 0;
    std::uint32_t looks = 0;
    out.status = wait_for([&] {
      if (answered(group, lane, number, out)) return true;
      if (++looks % kAckEvery != 0) return false;
      ack = group.load_acquire(lane.acks + (number & (lane.receives - 1)));
      return ack / 2 == number + 1;
    });
    if (out.status == Status::ok && ack / 2 == number + 1) {
      out.answer = ack % 2 == 1 ? Answer::refused : Answer::receiver_pulls;
      out.room = bytes;  // not known
    }
    return out;
  }

  // Large send of the host device, copied by both ranks, unless it is of at most kShareMin and its receive is there. A
  // posted send whose place is still taken is left to the receiver alone. Calls passed() once the lane's next send may
  // run.
  template <Group G, class Passed>
  ONSTREAM_BODY Status share(const G& group, const Passed& passed) const {
    if (bytes <= kShareMin && is_offered(group)) return place(group);
    const auto [head, number] = load_pair(group, &lane.sending->head);
    CopySender lender(wait, lane, number, bytes);
    const bool posts = completion == Completion::posted;
    Status status = Status::ok;
    if (!posts) status = wait_until(group, wait, [&] { return lender.is_free(group); });
    const bool shares = lender.is_free(group);
    if (status == Status::ok) status = wait_for_room(group, head, 1);
    if (status != Status::ok) return fail(group, status, bytes);
    if (shares) lender.open(group, source, peer_source);
    const Header kind = !shares ? Header::pull : posts ? Header::share : Header::share_ordered;
    store_unit(group, lane, head, header_word(kind, bytes), peer_source);
    store_pair(group, &lane.sending->head, head + 1, number + 1);
    number_ticket(group, ticket, number);
    passed();
    if (shares) status = posts ? lender.lend(group, CopySender::CopyMeans::plain) : lender.see_through(group);
    if (status != Status::ok) return fail(group, status, room_of_refusal(group, status, number, bytes));
    if (!posts) settle(group, ticket, Status::ok, bytes);
    return Status::ok;
  }

  // Posted large send: push if the receive is there already, else leave it to the receiver. The first block decides.
  template <Group G>
  ONSTREAM_BODY void post(const G& group) const {
    if constexpr (G::kCrossMemory) {
      if (announce == Header::share) return (void)share(group, [] {});
    }
    const auto [head, which] = load_pair(group, &lane.sending->head);
    const auto number = which;  // clang++ 14 captures no binding
    Answered answer{Status::ok, Answer::refused, 0, 0};
    Status status = Status::ok;
    if (group.block() == 0 && group.rank() == 0) {
      status = wait_for_room(group, head, 1);
      const bool push = status == Status::ok && announce != Header::pull && answered(group, lane, number, answer) &&
                        answer.answer == Answer::here;
      if (status == Status::ok) {
        store_unit(group, lane, head, header_word(push ? Header::push : Header::pull, bytes), peer_source);
      }
      group.store_release(&lane.sending->decision, (number + 1) * 2 + (push ? 1 : 0));
    }
    std::uint64_t decision = 0;
    const Status waited = wait_for_self(group, wait, [&] {
      decision = group.load_acquire(&lane.sending->decision);
      return decision / 2 == number + 1;
    });
    status = agree(group, status != Status::ok ? status : waited);
    const bool push = decision % 2 == 1;
    bool fits = true;
    if (push && status == Status::ok) {
      (void)answered(group, lane, number, answer);
      fits = bytes <= answer.room;
      if (fits) group.copy(reinterpret_cast<void*>(answer.address), source, bytes);
      group.sync();
    }
    finish(group, head, number, 1, status == Status::ok && !fits ? Status::truncated : status, answer.room,
           push && fits);
  }

  // This block's share of a push is in the destination. One thread.
  template <Group G>
  ONSTREAM_BODY void tell_arrival(const G& group, std::uint64_t number) const {
    std::uint64_t* arrival = lane.peer_acks + lane.receives + static_cast<std::uint64_t>(group.block());
    const std::uint64_t word = (number + 1) * kArrivalBlocks + static_cast<std::uint64_t>(group.blocks());
    group.store_release(arrival, word);  // pairs with RingReader::await_arrivals
  }

  // The last block advances the counters; all threads have been at a barrier since they copied. `room`: of the receive,
  // where it is known.
  template <Group G>
  ONSTREAM_BODY void finish(const G& group, std::uint64_t head, std::uint64_t number, std::uint64_t units,
                            Status status, std::uint64_t room, bool pushed) const {
    const bool arrives = pushed && status == Status::ok;
    if (completion == Completion::ordered && arrives) return finish_push(group, head, number);
    if (group.rank() != 0) return;
    const bool posted = completion == Completion::posted;
    const bool lost = loses_lane(status);
    const bool refused = !lost && status != Status::ok;
    room = room_of_refusal(group, status, number, room);
    if (lost || (refused && !posted && group.block() == 0)) (void)fail(group, status, room);
    if (arrives) tell_arrival(group, number);
    if (!last_to_finish(group, &lane.sending->finished, lost)) return;
    store_pair(group, &lane.sending->head, head + units, number + 1);
    // A thread that reads the ticket may start the lane's next op on another stream: arrivals and counters come before.
    // A message left to the receiver has a number for its wait; a pushed one has none, or its wait would push it too.
    if (posted && refused) {
      (void)fail(group, status, room);
    } else if (arrives) {
      settle(group, ticket, Status::ok, bytes);
    } else if (posted) {
      number_ticket(group, ticket, number);
    }
  }

  // The next op waits for this one's whole kernel, so its last two steps go side by side: one thread fences and tells
  // the arrival, another one finds out whether this block is the last. Each takes a round to memory.
  template <Group G>
  ONSTREAM_BODY void finish_push(const G& group, std::uint64_t head, std::uint64_t number) const {
    if (group.rank() == 0) tell_arrival(group, number);
    if (group.rank() != group.size() - 1 || !last_to_finish(group, &lane.sending->finished, false)) return;
    store_pair(group, &lane.sending->head, head + 1, number + 1);
    settle(group, ticket, Status::ok, bytes);
  }

  template <Group G>
  ONSTREAM_BODY Status wait_for_ack(const G& group, std::uint64_t number) const {
    std::uint64_t ack = 0;
    const Status status = wait_until(group, wait, [&] {
      ack = group.load_acquire(lane.acks + (number & (lane.receives - 1)));
      return ack / 2 >= number + 1;
    });
    if (status != Status::ok) return agree(group, status);
    return agree(group, ack / 2 == number + 1 && ack % 2 == 1 ? why_refused(group, lane, number) : Status::ok);
  }

  // Staged: copy chunk after chunk into the bounce buffer, two in flight; the receiver fetches each and counts. One
  // block.
  template <Group G>
  ONSTREAM_BODY Status send_chunks(const G& group, std::uint64_t head, std::uint64_t& units) const {
    const std::uint64_t base = lane.sending->chunks;
    const std::uint64_t count = (bytes + chunk_bytes - 1) / chunk_bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      Status status = wait_until(group, wait, [&] {
        return group.load_acquire(&lane.returned->chunks) + 2 > base + i;  // pairs with fetch_chunks' release
      });
      if (status == Status::ok) status = wait_for_room(group, head, units + 1);
      status = agree(group, status);
      if (status != Status::ok) return status;
      const std::uint64_t offset = i * chunk_bytes;
      const std::uint64_t now = bytes - offset < chunk_bytes ? bytes - offset : chunk_bytes;
      std::byte* slot = bounce + (i % 2) * chunk_bytes;
      group.copy_alone(slot, static_cast<const std::byte*>(source) + offset, now);
      group.sync();
      if (group.rank() == 0) {
        group.fence();
        store_unit(group, lane, head + units, header_word(Header::chunk, now), peer_bounce + (i % 2) * chunk_bytes);
      }
      ++units;
    }
    const Status status =
        wait_until(group, wait, [&] { return group.load_acquire(&lane.returned->chunks) >= base + count; });
    if (group.rank() == 0) lane.sending->chunks = base + count;
    return agree(group, status);
  }
};

// The ways as kernels of their own: a GPU starts a short kernel faster.
struct SendSmall : Send {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (void)small(group);
  }
};
struct SendSpread : Send {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (void)through_ring_spread(group);
  }
};
struct SendDirect : Send {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (void)direct(group);
  }
};
struct SendPosted : Send {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    post(group);
  }
};

}  // namespace onstream::lane
