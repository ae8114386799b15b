// The sender's side of a shared copy (shared_copy.hpp): CopySender, and Helper, which lends a hand now and then. Host
// device only. Every wait has the world's deadline.
#pragma once

#include "onstream/lane/host/shared_copy.hpp"

namespace onstream::lane {

// One message of this rank's.
class CopySender : public Sharing {
 public:
  CopySender(const WaitView& wait, const LaneView& view, std::uint64_t number, std::uint64_t bytes)
      : Sharing(wait, view, view.acks, number, bytes), view_(&view) {}

  // Whether the message's place is free: the last message in it has ended.
  template <Group G>
  bool is_free(const G& group) const {
    const std::uint64_t last = group.load_relaxed(&share_->claim) >> kShareShift;
    return last == 0 || group.load_acquire(ack_) / 2 >= last;
  }

  // Before the announcement. `peer_source` is the receiver's address of the source.
  template <Group G>
  void open(const G& group, const void* source, std::uint64_t peer_source) const {
    group.store_relaxed(&share_->through, 0);
    group.store_relaxed(&share_->source, reinterpret_cast<std::uint64_t>(source));
    group.store_relaxed(&share_->peer_source, peer_source);
    group.store_release(&share_->bytes, bytes_);  // pairs with Helper::search, which then sees that the last has ended
    group.store_release(&share_->claim, first_claim());
  }

  // Whether the message is a shared one.
  template <Group G>
  bool is_open(const G& group) const {
    return group.load_acquire(&share_->claim) >> kShareShift == number_ + 1;
  }

  enum class CopyMeans {
    plain,  // plain copies only
    all     // makes system copies too
  };
  // Copies without waiting for anybody: plain copies, or one system call.
  template <Group G>
  Status lend(const G& group, CopyMeans means) {
    const auto* source = source_at(group);
    bool more = find(group) && (means == CopyMeans::all || !is_remote_process(destination_));
    while (more && has_unclaimed(group)) {
      const Status status = carry_next(group, destination_, source);
      if (status != Status::ok) return status;
      more = !is_remote_process(destination_);
    }
    return Status::ok;
  }

  // Works and waits until the message has ended.
  template <Group G>
  Status see_through(const G& group) {
    Status status = Status::ok;
    for (CopyStep step = CopyStep::none; status == Status::ok && step != CopyStep::end;) {
      status = wait_until(group, wait_, [&] {
        step = next(group, true);
        return step != CopyStep::none;
      });
      if (status == Status::ok && step == CopyStep::carry) status = carry_next(group, destination_, source_at(group));
    }
    return status == Status::ok ? outcome(group) : status;
  }

  // Does one step, if there is one that is not left to the receiver for good. Whether it did.
  template <Group G>
  bool help(const G& group) {
    return next(group, false) == CopyStep::carry && carry_next(group, destination_, source_at(group)) == Status::ok;
  }

  template <Group G>
  bool has_work(const G& group) const {
    return has_unclaimed(group) && !has_ended(group);
  }

 private:
  template <Group G>
  const std::byte* source_at(const G& group) const {
    return reinterpret_cast<const std::byte*>(group.load_relaxed(&share_->source));
  }

  // Where the receive wants its data, once it has said so.
  template <Group G>
  bool find(const G& group) {
    if (destination_ != nullptr) return true;
    Answered answer{Status::ok, Answer::refused, 0, 0};
    if (!answered(group, *view_, number_, answer) || bytes_ > answer.room) return false;
    if (answer.answer != Answer::here && answer.answer != Answer::remote_process) return false;
    destination_ = reinterpret_cast<std::byte*>(answer.address);
    return true;
  }

  // Whether the receiver copies this plainly where this side would call the system.
  template <Group G>
  bool is_left(const G& group) const {
    return is_remote_process(destination_) && !is_remote_process(group.load_relaxed(&share_->peer_source));
  }

  template <Group G>
  CopyStep next(const G& group, bool takes_over) {
    if (has_ended(group)) return CopyStep::end;
    if (!has_unclaimed(group) || !find(group)) return CopyStep::none;
    return is_left(group) && (!takes_over || is_given_time(group)) ? CopyStep::none : CopyStep::carry;
  }

  const LaneView* view_;
  std::byte* destination_ = nullptr;
};

// Copies a rank's own messages to the peer while it waits for the peer's: two ranks that both wait for their receives
// first would else each be alone.
class Helper {
 public:
  Helper(const WaitView& wait, const LaneView& view) : wait_(wait), view_(view), lender_(wait, view, 0, 0) {}

  // One step for the oldest message, if there is one to be done. Whether it did.
  template <Group G>
  bool help(const G& group) {
    if (lends_ && !lender_.has_work(group)) lends_ = false;
    if (!lends_ && looks_++ % kEvery == kFirst) search(group);
    return lends_ && lender_.help(group);
  }

 private:
  static constexpr int kEvery = 64;  // looks between searches, which look at every place
  static constexpr int kFirst = 8;

  template <Group G>
  void search(const G& group) {
    std::uint64_t oldest = 0;
    for (std::uint64_t place = 0; place < view_.receives; ++place) {
      const SharedCopyState* share = share_of(view_, view_.acks, place);
      const std::uint64_t serves = group.load_acquire(&share->claim) >> kShareShift;  // pairs with CopySender::open
      if (serves == 0 || (oldest != 0 && serves > oldest)) continue;
      if (CopySender(wait_, view_, serves - 1, group.load_acquire(&share->bytes)).has_work(group)) oldest = serves;
    }
    if (oldest == 0) return;
    const std::uint64_t bytes = group.load_acquire(&share_of(view_, view_.acks, oldest - 1)->bytes);
    lender_ = CopySender(wait_, view_, oldest - 1, bytes);
    lends_ = true;
  }

  WaitView wait_;
  const LaneView& view_;
  CopySender lender_;
  bool lends_ = false;
  int looks_ = 0;
};

}  // namespace onstream::lane
