// The receiver's side of a shared copy (lane_share.hpp). Host device only. It waits with the world's deadline.
#pragma once

#include "onstream/plan/lane_lender.hpp"

namespace onstream::lane {

// One message of the peer's.
class Taker : public Sharing {
 public:
  Taker(const WaitView& wait, const View& view, std::uint64_t number, std::uint64_t bytes)
      : Sharing(wait, view, view.peer_acks, number, bytes), view_(view) {}

  // Works and waits until the message has ended.
  template <class Group>
  Status take(const Group& group, std::byte* destination, const std::byte* source) const {
    auto* relay = reinterpret_cast<Relay*>(group.load_relaxed(&share_->peer_relay));
    group.store_release(&share_->receiver, number_ + 1);  // pairs with Lender::receiver_is_here
    const Share* before = share_of(view_, view_.peer_acks, number_ - 1);
    const int patient = patience(group, before, group.load_relaxed(&before->sender) / 2);
    Helper helper(wait_, view_);
    int looks = 0;
    Status status = Status::ok;
    for (Step step = Step::none; status == Status::ok && step != Step::end;) {
      int slot = 0;
      status = wait_until(group, wait_, [&] {
        step = next(group, relay, source, slot);
        if (step != Step::none || helper.help(group)) return true;
        // A peer that waits for a message of this rank's is there, and lends its own in turn.
        const bool impatient = ++looks > (helper.is_met(group) ? kPatience : patient);
        if (impatient && may_carry(group)) step = Step::carry;
        return step != Step::none;
      });
      if (status != Status::ok) break;
      if (step == Step::fetch) fetch(group, *relay, slot, destination);
      if (step == Step::carry) status = carry_next(group, destination, source);
      if (step != Step::carry) looks = 0;
    }
    helper.leave(group);
    const Status ended = outcome(group);
    return ended == Status::ok ? status : ended;
  }

 private:
  enum class Step { none, carry, fetch, end };

  // What is to be done at once.
  template <class Group>
  Step next(const Group& group, Relay* relay, const std::byte* source, int& slot) const {
    for (slot = 0; relay != nullptr && slot < Relay::kSlots; ++slot) {
      const std::uint64_t word = group.load_acquire(&relay->slots[slot].word);  // pairs with Lender::take_step
      if (word >= slot_word(0) && word < slot_word(count_)) return Step::fetch;
    }
    if (has_ended(group)) return Step::end;
    return has_unclaimed(group) && !is_foreign(source) ? Step::carry : Step::none;
  }

  // Whether the system is to copy: there is something left, and the sender does not do it.
  template <class Group>
  bool may_carry(const Group& group) const {
    return has_unclaimed(group) && group.load_acquire(&share_->sender) != (number_ + 1) * 2 + 1;
  }

  template <class Group>
  void fetch(const Group& group, Relay& relay, int slot, std::byte* destination) const {
    const Claim claimed{group.load_relaxed(&relay.slots[slot].word) - slot_word(0), 1};
    group.copy_alone(destination + offset_of(claimed), relay.data(slot), bytes_of(claimed));
    group.store_release(&relay.slots[slot].word, 0);  // pairs with Lender::next
    count_through(group, 1, Status::ok);
  }

  const View& view_;
};

}  // namespace onstream::lane
