// The sender's side of a shared copy (lane_share.hpp): Lender, and Helper, which lends a hand now and then. Host device
// only. Who waits, waits with the world's deadline.
#pragma once

#include "onstream/plan/lane_share.hpp"

namespace onstream::lane {

// One message of this rank's.
class Lender : public Sharing {
 public:
  Lender(const WaitView& wait, const View& view, std::uint64_t number, std::uint64_t bytes)
      : Sharing(wait, view, view.acks, number, bytes), view_(&view) {}

  // Whether the message's place is free: the last message in it has ended.
  template <class Group>
  bool is_free(const Group& group) const {
    const std::uint64_t last = group.load_relaxed(&share_->claim) >> kShareShift;
    return last == 0 || group.load_acquire(ack_) / 2 >= last;
  }

  // Before the announcement. The relay: null, or where both sides see it.
  template <class Group>
  void open(const Group& group, const void* source, const void* relay, std::uint64_t peer_relay) const {
    group.store_relaxed(&share_->through, 0);
    group.store_relaxed(&share_->source, reinterpret_cast<std::uint64_t>(source));
    group.store_release(&share_->bytes, bytes_);  // pairs with Helper::search: who sees it sees that the last has ended
    group.store_relaxed(&share_->relay, chunk_ <= Relay::kSlotBytes ? reinterpret_cast<std::uint64_t>(relay) : 0);
    group.store_relaxed(&share_->peer_relay, peer_relay);
    group.store_release(&share_->claim, first_claim());
  }

  // Whether the message is a shared one.
  template <class Group>
  bool is_open(const Group& group) const {
    return group.load_acquire(&share_->claim) >> kShareShift == number_ + 1;
  }

  enum class Reach {
    plain,  // copies what a plain copy can
    all     // makes the system copy too, where the receiver is not there
  };
  // Does what can be done without waiting for anybody.
  template <class Group>
  Status lend(const Group& group, Reach reach) const {
    std::byte* destination = nullptr;
    if (!find(group, destination)) return Status::ok;
    const auto* source = reinterpret_cast<const std::byte*>(group.load_relaxed(&share_->source));
    const auto may = [&] { return !is_foreign(destination) || (reach == Reach::all && !receiver_is_here(group)); };
    while (has_unclaimed(group) && may()) {
      const Status status = carry_next(group, destination, source);
      if (status != Status::ok) return status;
    }
    return Status::ok;
  }

  // Works and waits until the message has ended.
  template <class Group>
  Status see_through(const Group& group) {
    const Share* before = share_of(*view_, view_->acks, number_ - 1);
    // A source that the receiver reads at a plain copy's speed is best left to it.
    constexpr int kLong = 16 * kPatience;
    const bool foreign = group.load_relaxed(&share_->relay) != 0;
    const int patient = foreign ? patience(group, before, group.load_relaxed(&before->receiver)) : kLong;
    int looks = 0;
    Status status = Status::ok;
    for (Step step = Step::none; status == Status::ok && step != Step::end;) {
      status = wait_until(group, wait_, [&] {
        step = next(group, ++looks > patient);
        return step != Step::none;
      });
      if (status == Status::ok) status = take_step(group, step);
      if (step == Step::put) looks = 0;
    }
    leave(group);
    return status == Status::ok ? outcome(group) : status;
  }

  // Does one step that can be done at once with plain copies. Whether it did.
  template <class Group>
  bool help(const Group& group) {
    const Step step = next(group, false);
    if (step == Step::none || step == Step::end) return false;
    return take_step(group, step) == Status::ok;
  }

  // Gives the relay back. What is in its slots the receiver takes all the same.
  template <class Group>
  void leave(const Group& group) {
    if (relay_ == nullptr) return;
    group.store_release(&share_->sender, (number_ + 1) * 2);
    group.store_release(&relay_->lock, 0);
    relay_ = nullptr;
  }

  template <class Group>
  bool receiver_is_here(const Group& group) const {
    return group.load_acquire(&share_->receiver) == number_ + 1;
  }

  template <class Group>
  bool has_work(const Group& group) const {
    return has_unclaimed(group) && !has_ended(group);
  }

 private:
  enum class Step { none, carry, put, end };

  // Where the receive wants its data, once it has said so.
  template <class Group>
  bool find(const Group& group, std::byte*& destination) const {
    Answered answer{Status::ok, Answer::refused, 0, 0};
    if (!answered(group, *view_, number_, answer) || bytes_ > answer.room) return false;
    if (answer.answer != Answer::here && answer.answer != Answer::foreign) return false;
    destination = reinterpret_cast<std::byte*>(answer.address);
    return true;
  }

  // The relay serves one message at a time. To hold it is to be there.
  template <class Group>
  void enter(const Group& group) {
    auto* relay = reinterpret_cast<Relay*>(group.load_relaxed(&share_->relay));
    if (relay == nullptr || group.compare_swap(&relay->lock, 0, 1) != 0) return;
    relay_ = relay;
    group.store_release(&share_->sender, (number_ + 1) * 2 + 1);  // pairs with Taker::next
  }

  template <class Group>
  Step next(const Group& group, bool impatient) {
    if (has_ended(group)) return Step::end;
    if (!has_unclaimed(group)) return Step::none;
    if (relay_ == nullptr) enter(group);
    if (destination_ == nullptr) (void)find(group, destination_);
    if (destination_ != nullptr && !is_foreign(destination_)) return Step::carry;
    if (!receiver_is_here(group)) return destination_ != nullptr && impatient ? Step::carry : Step::none;
    if (relay_ == nullptr) return Step::none;  // the receiver does it all
    for (slot_ = 0; slot_ < Relay::kSlots; ++slot_) {
      if (group.load_acquire(&relay_->slots[slot_].word) == 0) return Step::put;  // pairs with Taker::fetch
    }
    return Step::none;
  }

  template <class Group>
  Status take_step(const Group& group, Step step) {
    const auto* source = reinterpret_cast<const std::byte*>(group.load_relaxed(&share_->source));
    if (step == Step::carry) return carry_next(group, destination_, source);
    if (step != Step::put) return Status::ok;
    const Claim mine = claim(group, 1);
    if (mine.chunks == 0) return Status::ok;
    group.copy_alone(relay_->data(slot_), source + offset_of(mine), bytes_of(mine));
    group.store_release(&relay_->slots[slot_].word, slot_word(mine.first));  // pairs with Taker::next
    return Status::ok;
  }

  const View* view_;
  Relay* relay_ = nullptr;  // held
  std::byte* destination_ = nullptr;
  int slot_ = 0;
};

// What a rank does for its own messages to the peer while it waits for the peer's: two ranks that both wait for their
// receives first would else each be alone.
class Helper {
 public:
  Helper(const WaitView& wait, const View& view) : wait_(wait), view_(view), lender_(wait, view, 0, 0) {}

  // One step for the oldest message, if there is one to be done. Whether it did.
  template <class Group>
  bool help(const Group& group) {
    if (lends_ && !lender_.has_work(group)) leave(group);
    if (!lends_ && looks_++ % kEvery == kFirst) search(group);
    return lends_ && lender_.help(group);
  }

  // Whether the peer is waiting for the message that is lent a hand.
  template <class Group>
  bool is_met(const Group& group) const {
    return lends_ && lender_.receiver_is_here(group);
  }

  template <class Group>
  void leave(const Group& group) {
    if (lends_) lender_.leave(group);
    lends_ = false;
    looks_ = 0;
  }

 private:
  static constexpr int kEvery = 64;  // looks between searches, which look at every place
  static constexpr int kFirst = 8;

  template <class Group>
  void search(const Group& group) {
    std::uint64_t oldest = 0;
    for (std::uint64_t place = 0; place < view_.receives; ++place) {
      const Share* share = share_of(view_, view_.acks, place);
      const std::uint64_t serves = group.load_acquire(&share->claim) >> kShareShift;  // pairs with Lender::open
      if (serves == 0 || (oldest != 0 && serves > oldest)) continue;
      if (Lender(wait_, view_, serves - 1, group.load_acquire(&share->bytes)).has_work(group)) oldest = serves;
    }
    if (oldest == 0) return;
    const std::uint64_t bytes = group.load_acquire(&share_of(view_, view_.acks, oldest - 1)->bytes);
    lender_ = Lender(wait_, view_, oldest - 1, bytes);
    lends_ = true;
  }

  WaitView wait_;
  const View& view_;
  Lender lender_;
  bool lends_ = false;
  int looks_ = 0;
};

}  // namespace onstream::lane
