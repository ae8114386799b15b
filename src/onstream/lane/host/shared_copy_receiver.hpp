// The receiver's side of a shared copy (shared_copy.hpp). Host device only. It waits with the world's deadline.
#pragma once

#include "onstream/lane/host/shared_copy_sender.hpp"

namespace onstream::lane {

// One message of the peer's.
class CopyReceiver : public Sharing {
 public:
  CopyReceiver(const WaitView& wait, const LaneView& view, std::uint64_t number, std::uint64_t bytes)
      : Sharing(wait, view, view.peer_acks, number, bytes), view_(view) {}

  // Works and waits until the message has ended. Where the sender can copy plainly, as it was offered the place, and
  // this side cannot, the sender is given time first.
  template <Group G>
  Status take(const G& group, std::byte* destination, const std::byte* source, bool offered) {
    const bool is_left = offered && is_remote_process(source);
    Helper helper(wait_, view_);
    Status status = Status::ok;
    for (CopyStep step = CopyStep::none; status == Status::ok && step != CopyStep::end;) {
      status = wait_until(group, wait_, [&] {
        step = next(group, is_left);
        return step != CopyStep::none || helper.help(group);
      });
      if (status == Status::ok && step == CopyStep::carry) status = carry_next(group, destination, source);
    }
    const Status ended = outcome(group);
    return ended == Status::ok ? status : ended;
  }

 private:
  template <Group G>
  CopyStep next(const G& group, bool is_left) {
    if (has_ended(group)) return CopyStep::end;
    if (!has_unclaimed(group)) return CopyStep::none;
    return is_left && is_given_time(group) ? CopyStep::none : CopyStep::carry;
  }

  const LaneView& view_;
};

}  // namespace onstream::lane
