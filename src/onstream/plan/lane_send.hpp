// The sending end of a lane, as kernel bodies: Send (ordered: ends when the buffer may be reused; or posted: ends at
// once) and AwaitSend (the wait of a posted send). Protocol and memory: lane.hpp.
#pragma once

#include "onstream/plan/copy_slot.hpp"
#include "onstream/plan/lane.hpp"

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
  View lane;
  std::uint64_t peer_source = 0;   // the source as the peer loads it, or 0 if it cannot
  Header announce = Header::push;  // of a message larger than ring_max: push, pull or stage
  Completion completion = Completion::ordered;
  std::int32_t place_first = 0;  // 1: a found offer is faster than the ring (host), else only where room is short
  std::byte* bounce = nullptr;   // stage: two chunks that the peer can load, and where it sees them
  std::uint64_t peer_bounce = 0;
  std::uint64_t chunk_bytes = 0;
  CopySlot* copier = nullptr;  // path copy: the copy engine writes into the destination, asked by one block
  Ticket ticket;
  WaitView wait;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    if (bytes <= ring_max) {
      if (bytes > offer_min && looks_for_offer(group) && is_offered(group)) {
        place(group);
      } else {
        through_ring(group);
      }
    } else if (completion == Completion::posted) {
      post(group);
    } else {
      direct(group);
    }
  }

  // Whether the receive of the next message is there, with room, and may be written to.
  template <class Group>
  ONSTREAM_BODY bool is_offered(const Group& group) const {
    Answered answer{Status::ok, Answer::refused, 0, 0};
    const bool here = group.rank() == 0 && answered(group, lane.sending->number, answer) &&
                      answer.answer == Answer::here && bytes <= answer.room;
    return group.sync_or(here);
  }

 private:
  struct Answered {
    Status status;
    Answer answer;
    std::uint64_t address;
    std::uint64_t room;
  };

  template <class Group>
  ONSTREAM_BODY Status wait_for_room(const Group& group, std::uint64_t head, std::uint64_t units) const {
    return wait_until(group, wait, [&] {
      return head + units - group.load_relaxed(&lane.returned->credit) <= std::uint64_t{1} << lane.ring_shift;
    });
  }

  template <class Group>
  ONSTREAM_BODY void fail(const Group& group, Status status, std::uint64_t extra) const {
    report(group, wait, status, fault_of(OpKind::send, lane, bytes, extra));
    settle(group, ticket, status, 0);
  }

  // Data and flag in one store. The first payload line is loaded while the counters are on their way.
  template <class Group>
  ONSTREAM_BODY void through_ring(const Group& group) const {
    const std::uint64_t rank = static_cast<std::uint64_t>(group.rank());
    const std::uint64_t size = static_cast<std::uint64_t>(group.size());
    const std::uint64_t units = units_for(bytes);
    const std::uint64_t lines = units * kUnitLines;
    std::uint64_t value = rank == 0 ? header_word(Header::data, bytes) : load_payload(source, bytes, rank - 1);
    const auto [head, number] = load_pair(group, &lane.sending->head);
    Status status = wait_for_room(group, head, units);
    if (status == Status::ok) {
      for (std::uint64_t line = rank; line < lines;) {
        const Place place = place_of(lane, head, line);
        group.store_line(lane.peer_ring + place.index, flag_line(value, place.flag));
        line += size;
        if (line < lines) value = load_payload(source, bytes, line - 1);
      }
    }
    status = agree(group, status);
    if (rank != 0) return;
    if (status != Status::ok) return fail(group, status, number);
    lane.sending->head = head + units;
    lane.sending->number = number + 1;
    settle(group, ticket, Status::ok, bytes);
  }

  // A posted send must not wait for room while its receive is there: two ranks that post all before they wait for any
  // would deadlock. So a quarter of the ring is kept for the one unit that a placed message takes.
  template <class Group>
  ONSTREAM_BODY bool looks_for_offer(const Group& group) const {
    if (place_first != 0) return true;
    if (completion == Completion::ordered) return false;
    const std::uint64_t ring = std::uint64_t{1} << lane.ring_shift;
    const std::uint64_t ahead = lane.sending->head + units_for(bytes) - group.load_relaxed(&lane.returned->credit);
    return group.sync_or(group.rank() == 0 && ahead > ring - ring / 4);
  }

  // One block writes into the destination that the receiver has offered.
  template <class Group>
  ONSTREAM_BODY void place(const Group& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    Answered answer{Status::ok, Answer::refused, 0, 0};
    (void)answered(group, number, answer);
    group.copy_alone(reinterpret_cast<void*>(answer.address), source, bytes);
    const Status status = agree(group, wait_for_room(group, head, 1));
    if (group.rank() != 0) return;
    if (status != Status::ok) return fail(group, status, number);
    group.fence();
    store_unit(group, lane, head, header_word(Header::placed, bytes), 0);
    lane.sending->head = head + 1;
    lane.sending->number = number + 1;
    settle(group, ticket, Status::ok, bytes);
  }

  // Whether the receiver has answered for message `number`, and what.
  template <class Group>
  ONSTREAM_BODY bool answered(const Group& group, std::uint64_t number, Answered& out) const {
    const Posting* posting = lane.postings + (number & (lane.receives - 1));
    const std::uint32_t flag = static_cast<std::uint32_t>(number + 1);
    const Line last = group.load_line(&posting->number);
    const Line address = group.load_line(&posting->address);
    const Line room = group.load_line(&posting->bytes);
    const Line answer = group.load_line(&posting->answer);
    if (!has_flag(last, flag) || line_data(last) != number) return false;
    if (!has_flag(address, flag) || !has_flag(room, flag) || !has_flag(answer, flag)) return false;
    out = {Status::ok, static_cast<Answer>(line_data(answer)), line_data(address), line_data(room)};
    return true;
  }

  template <class Group>
  ONSTREAM_BODY Answered wait_for_answer(const Group& group, std::uint64_t number) const {
    Answered out{Status::ok, Answer::refused, 0, 0};
    // The posting's place may hold a later receive already; then the ack tells what became of this message.
    constexpr std::uint32_t kAckEvery = 64;  // looking there each time would double the time between two looks
    std::uint64_t ack = 0;
    std::uint32_t looks = 0;
    out.status = wait_until(group, wait, [&] {
      if (answered(group, number, out)) return true;
      if (++looks % kAckEvery != 0) return false;
      ack = group.load_acquire(lane.acks + (number & (lane.receives - 1)));
      return ack / 2 == number + 1;
    });
    if (out.status == Status::ok && ack / 2 == number + 1) {
      out.answer = ack % 2 == 1 ? Answer::refused : Answer::mine;
      out.room = ack % 2 == 1 ? 0 : bytes;
    }
    return out;
  }

  // Staged sends run as one block, so that it alone counts the units. Ordered large send: announce, wait for the
  // receiver's answer, do what it says. Every block sees the same answer.
  template <class Group>
  ONSTREAM_BODY void direct(const Group& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    constexpr int kPollingBlocks = 16;
    const bool first = group.block() == 0;
    Status status = Status::ok;
    if (first && group.rank() == group.size() - 1) {
      status = wait_for_room(group, head, 2);
      if (status == Status::ok) store_unit(group, lane, head, header_word(announce, bytes), peer_source);
    }
    Answered answer{Status::ok, Answer::mine, 0, bytes};
    if (announce != Header::pull && group.blocks() > kPollingBlocks) {  // then one thread of each polls
      if (group.rank() == 0) (void)wait_for_answer(group, number);
      group.sync();
    }
    if (announce != Header::pull && status == Status::ok) answer = wait_for_answer(group, number);
    if (status == Status::ok) status = answer.status;
    // Each thread goes on by itself from here: all see the same answer, and the barrier comes after the copy.
    const bool fits = answer.answer != Answer::refused && bytes <= answer.room;
    const bool here = fits && answer.answer == Answer::here;
    if (here && status == Status::ok) {
      if (copier == nullptr) {
        group.copy(reinterpret_cast<void*>(answer.address), source, bytes);
      } else if (group.rank() == 0) {
        status = copy_through(group, wait, copier, answer.address, source, bytes);
      }
    }
    status = agree(group, status);
    std::uint64_t units = here ? 2 : 1;
    if (fits && !here && first && status == Status::ok) {
      status = announce == Header::stage ? send_chunks(group, head, units) : wait_for_ack(group, number);
      if (status == Status::ok && group.rank() == 0) settle(group, ticket, Status::ok, bytes);
    }
    finish(group, head, number, units, status == Status::ok && !fits ? Status::truncated : status, here);
  }

  // Posted large send: push if the receive is there already, else leave it to the receiver. The first block decides.
  template <class Group>
  ONSTREAM_BODY void post(const Group& group) const {
    const auto [head, number] = load_pair(group, &lane.sending->head);
    Answered answer{Status::ok, Answer::refused, 0, 0};
    Status status = Status::ok;
    if (group.block() == 0 && group.rank() == 0) {
      status = wait_for_room(group, head, 2);
      const bool push = announce != Header::pull && answered(group, number, answer) && answer.answer == Answer::here;
      if (status == Status::ok) {
        store_unit(group, lane, head, header_word(push ? Header::push : Header::pull, bytes), peer_source);
      }
      group.store_release(&lane.sending->decision, (number + 1) * 2 + (push ? 1 : 0));
    }
    std::uint64_t decision = 0;
    const Status waited = wait_until(group, wait, [&] {
      decision = group.load_acquire(&lane.sending->decision);
      return decision / 2 == number + 1;
    });
    status = agree(group, status != Status::ok ? status : waited);
    const bool push = decision % 2 == 1;
    bool fits = true;
    if (push && status == Status::ok) {
      (void)answered(group, number, answer);
      fits = bytes <= answer.room;
      if (fits) group.copy(reinterpret_cast<void*>(answer.address), source, bytes);
    }
    finish(group, head, number, push && fits ? 2 : 1, status == Status::ok && !fits ? Status::truncated : status,
           push && fits);
  }

  // The last block signals and advances the counters.
  template <class Group>
  ONSTREAM_BODY void finish(const Group& group, std::uint64_t head, std::uint64_t number, std::uint64_t units,
                            Status status, bool pushed) const {
    const bool lost = status != Status::ok && status != Status::truncated;
    if (group.rank() == 0 && (lost || (status != Status::ok && group.block() == 0))) fail(group, status, bytes);
    if (last_to_finish(group, &lane.sending->finished, status) != Finish::last) return;
    if (pushed) store_unit(group, lane, head + 1, header_word(Header::done, bytes), 0);
    lane.sending->head = head + units;
    lane.sending->number = number + 1;
    number_ticket(group, ticket, number);
    if (pushed && status == Status::ok) settle(group, ticket, Status::ok, bytes);
  }

  template <class Group>
  ONSTREAM_BODY Status wait_for_ack(const Group& group, std::uint64_t number) const {
    std::uint64_t ack = 0;
    const Status status = wait_until(group, wait, [&] {
      ack = group.load_acquire(lane.acks + (number & (lane.receives - 1)));
      return ack / 2 >= number + 1;
    });
    if (status != Status::ok) return agree(group, status);
    return agree(group, ack / 2 == number + 1 && ack % 2 == 1 ? Status::truncated : Status::ok);
  }

  // Staged: copy chunk after chunk into the bounce buffer, two in flight; the receiver fetches each and counts. One
  // block.
  template <class Group>
  ONSTREAM_BODY Status send_chunks(const Group& group, std::uint64_t head, std::uint64_t& units) const {
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

// Waits for a posted send, or looks once.
struct AwaitSend {
  WaitView wait;
  View lane;
  std::uint64_t bytes = 0;
  std::int32_t look_once = 0;
  Ticket ticket;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    if (group.rank() != 0) return;
    std::uint64_t number = 0;
    std::uint64_t ack = 0;
    const auto settled = [&] { return static_cast<Status>(group.load_acquire(ticket.status)) != Status::pending; };
    const auto acked = [&] {
      // Not numbered: it has not run yet, or went through the ring. A pushed one is settled and never acked.
      if (!is_numbered(group, ticket)) return settled();
      number = group.load_relaxed(&ticket.numbered->number);
      ack = group.load_acquire(lane.acks + (number & (lane.receives - 1)));  // pairs with Receive's ack
      return ack / 2 >= number + 1 || settled();
    };
    Status status = Status::ok;
    if (settled()) return;
    if (look_once != 0) {
      if (!acked()) return;
    } else {
      status = wait_until(group, wait, acked);
    }
    if (settled()) return;
    if (status == Status::ok && ack / 2 == number + 1 && ack % 2 == 1) status = Status::truncated;
    // A truncation is reported by the receiver, which tells this rank's host.
    if (status != Status::ok && status != Status::truncated) {
      report(group, wait, status, fault_of(OpKind::send, lane, bytes, bytes));
    }
    settle(group, ticket, status, bytes);
  }
};

}  // namespace onstream::lane
