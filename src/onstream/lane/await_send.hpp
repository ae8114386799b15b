// The waits of posted sends, as kernel bodies: AwaitSend, and AwaitLargeSend, which moves the data itself where its
// receiver has only posted the receive. Protocol and memory: lane.hpp, late.hpp.
#pragma once

#include "onstream/lane/crew.hpp"
#include "onstream/lane/host/late.hpp"
#include "onstream/lane/host/shared_copy_sender.hpp"

namespace onstream::lane {

// Waits for a posted send, or looks once.
struct AwaitSend {
  WaitView wait;
  LaneView lane;
  std::uint64_t bytes = 0;
  Look look = Look::wait;
  Ticket ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() != 0 || settled(group)) return;
    Ack ack;
    Status status = Status::ok;
    if constexpr (G::kCrossMemory) status = lend_hand(group);
    if (!sees_through(group)) {
      if (status == Status::ok && !ended(group, ack)) return;
    } else {
      if (status == Status::ok) {
        status = wait_for_self(group, wait, [&] { return has_run(group); });
      }
      if (status == Status::ok) status = wait_until(group, wait, [&] { return ended(group, ack); });
    }
    conclude(group, status, ack);
  }

  // Settles the ticket if the message has ended, and does nothing for the message. One thread.
  template <Group G>
  ONSTREAM_BODY void glance(const G& group) const {
    Ack ack;
    if (!settled(group) && ended(group, ack)) conclude(group, Status::ok, ack);
  }

 protected:
  struct Ack {
    std::uint64_t number = 0;  // of the message
    std::uint64_t word = 0;
  };

  template <Group G>
  ONSTREAM_BODY bool settled(const G& group) const {
    return static_cast<Status>(group.load_acquire(ticket.status)) != Status::pending;
  }

  template <Group G>
  ONSTREAM_BODY bool has_run(const G& group) const {
    return is_numbered(group, ticket) || settled(group);
  }
  template <Group G>
  ONSTREAM_BODY bool sees_through(const G& group) const {
    return look == Look::wait || (look == Look::finish && has_run(group));
  }

  template <Group G>
  ONSTREAM_BODY bool ended(const G& group, Ack& ack) const {
    // Not numbered: it has not run yet, or went through the ring. A pushed one is settled and never acked.
    if (!is_numbered(group, ticket)) return settled(group);
    ack.number = group.load_relaxed(&ticket.numbered->number);
    ack.word = group.load_acquire(lane.acks + (ack.number & (lane.receives - 1)));  // pairs with Receive's ack
    return ack.word / 2 >= ack.number + 1 || settled(group);
  }

  template <Group G>
  ONSTREAM_BODY void conclude(const G& group, Status status, const Ack& ack) const {
    if (settled(group)) return;
    std::uint64_t room = bytes;
    if (status == Status::ok && ack.word > (ack.number + 1) * 2) {
      const RefusedMessage refusal = refusal_of(group, refusals_of(lane.acks, lane.receives), ack.number);
      status = refusal.why;
      room = refusal.room;
    }
    if (loses_lane(status) && !has_run(group)) room = kNotRun;
    if (status != Status::ok) report(group, wait, status, of_ticket(fault_of(OpKind::send, lane, bytes, room), ticket));
    settle(group, ticket, status, bytes);
  }

  // The sender's part of a shared message, as soon as the op has run that posted it.
  template <Group G>
  ONSTREAM_BODY Status lend_hand(const G& group) const {
    if (look == Look::wait) {
      const Status status = wait_for_self(group, wait, [&] { return has_run(group); });
      if (status != Status::ok) return status;
    }
    if (!is_numbered(group, ticket)) return Status::ok;
    CopySender lender(wait, lane, group.load_relaxed(&ticket.numbered->number), bytes);
    if (!lender.is_open(group)) return Status::ok;
    const Status status =
        look == Look::once ? lender.lend(group, CopySender::CopyMeans::all) : lender.see_through(group);
    return loses_lane(status) ? status : Status::ok;  // the rest is in the ack
  }
};

// Waits for a large posted send, or looks once: pushes it itself once its receive is posted, if the receiver has not
// begun to fetch it. First block; the others help.
struct AwaitLargeSend : AwaitSend {
  const void* source = nullptr;
  BlockTeam* crew = nullptr;  // the request's own: waits of several requests may run at once

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    Fetcher fetcher(wait, crew);
    if (group.block() != 0) return fetcher.help(group);
    see_to(group, fetcher);
    fetcher.dismiss(group);
  }

  // First block.
  template <Group G>
  ONSTREAM_CALL void see_to(const G& group, Fetcher& fetcher) const {
    Answered answer{Status::ok, Answer::refused, 0, 0};
    const bool pushes = group.rank() == 0 && takes_turn(group, answer);
    if (group.sync_or(pushes)) push(group, fetcher, answer);
    AwaitSend::operator()(group);
  }

 private:
  // Waits until the send has ended or is this wait's to push. One thread.
  template <Group G>
  ONSTREAM_CALL bool takes_turn(const G& group, Answered& answer) const {
    if (settled(group)) return false;
    Ack ack;
    bool locked = false;
    const auto takes_lock = [&] {
      if (ended(group, ack)) return true;
      locked = may_push(group, answer) && group.compare_swap(&lane.sending->lock, 0, 1) == 0;
      return locked;
    };
    Status status = Status::ok;
    if constexpr (G::kCrossMemory) status = lend_hand(group);
    if (!sees_through(group)) {
      if (status == Status::ok) (void)takes_lock();
    } else {
      if (status == Status::ok) status = wait_for_self(group, wait, [&] { return has_run(group); });
      if (status == Status::ok) status = wait_until(group, wait, takes_lock);
    }
    if (status != Status::ok) conclude(group, status, ack);
    if (!locked) return false;
    group.fence();  // the lock's previous holder may have brought this message
    const std::uint64_t number = group.load_relaxed(&ticket.numbered->number);
    if (!ended(group, ack) && LatePush(lane, number).begin(group)) return true;
    group.store_release(&lane.sending->lock, 0);
    return false;
  }

  // Whether the receive is there and the message was left to it. One thread.
  template <Group G>
  ONSTREAM_BODY bool may_push(const G& group, Answered& answer) const {
    if (!is_numbered(group, ticket)) return false;
    const std::uint64_t number = group.load_relaxed(&ticket.numbered->number);
    if (!answered(group, lane, number, answer) || bytes > answer.room) return false;
    if constexpr (G::kCrossMemory) {
      const bool shared = CopySender(wait, lane, number, bytes).is_open(group);
      return !shared && (answer.answer == Answer::here || answer.answer == Answer::remote_process);
    }
    return answer.answer == Answer::here;
  }

  template <Group G>
  ONSTREAM_CALL void push(const G& group, Fetcher& fetcher, Answered& answer) const {
    const std::uint64_t number = group.load_relaxed(&ticket.numbered->number);
    if (group.rank() != 0) (void)answered(group, lane, number, answer);
    const Status status = fetcher.fetch(group, reinterpret_cast<void*>(answer.address), source, bytes);
    if (group.rank() != 0) return;
    if (loses_lane(status)) {
      conclude(group, status, {});
    } else {
      LatePush(lane, number).end(group, status);
    }
    if (status == Status::ok) settle(group, ticket, Status::ok, bytes);
    group.store_release(&lane.sending->lock, 0);
  }
};

}  // namespace onstream::lane
