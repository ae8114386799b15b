// A lane whose both ends lie in this process, for bodies that crowds of host threads run (crowd.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "onstream/lane/await_send.hpp"
#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"
#include "support/check.hpp"
#include "support/crowd.hpp"

namespace onstream::test {

using namespace onstream::lane;

// One lane from this thread to this thread: both ends in one memory.
class Loop {
 public:
  explicit Loop(std::uint64_t shift)
      : ring_(kUnitLines << shift),
        descriptors_(descriptors_of(kReceives)),
        acks_(acks_of(kReceives)),
        posted_(kReceives) {
    view_.sending = &sending_;
    view_.returned = view_.peer_returned = &returned_;
    view_.ring = view_.peer_ring = ring_.data();
    view_.ring_shift = shift;
    view_.receiving = &receiving_;
    view_.receives = kReceives;
    view_.descriptors = view_.peer_descriptors = descriptors_.data();
    view_.acks = view_.peer_acks = acks_.data();
    view_.posted = posted_.data();
    view_.crew = &crew_;
    wait_.timeout_ns = 60'000'000'000;
    wait_.abort = &abort_;
    wait_.fault_count = &fault_count_;
    wait_.faults = faults_.data();
  }
  // The longest message within the credit that is always given back; and the longest one of a lane that spreads.
  std::uint64_t most() const { return payload_of((std::uint64_t{3} << view_.ring_shift) / 4); }
  std::uint64_t most_spread() const { return payload_of((std::uint64_t{3} << view_.ring_shift) / 8); }

  // The arguments of a rank's kernels for one message, and for a receive as large. `ring_max`: the longest in the ring.
  Send send(const void* from, std::uint64_t bytes, std::uint64_t ring_max) const {
    Send out;
    out.source = from;
    out.bytes = bytes;
    out.ring_max = out.offer_min = ring_max;
    out.peer_source = reinterpret_cast<std::uint64_t>(from);
    out.lane = view_;
    out.wait = wait_;
    return out;
  }
  Receive receive(void* to, std::uint64_t capacity, std::uint64_t ring_max) const {
    Receive out;
    out.destination = to;
    out.capacity = capacity;
    out.offer_min = ring_max;
    out.peer_destination = reinterpret_cast<std::uint64_t>(to);
    out.lane = view_;
    out.wait = wait_;
    return out;
  }

  Post post(void* to, std::uint64_t capacity, std::uint64_t ring_max, const Ticket& ticket) const {
    return {wait_, view_, to, capacity, ring_max, reinterpret_cast<std::uint64_t>(to), ticket};
  }
  AwaitReceive await(const Ticket& ticket) { return {wait_, view_, &crew_, Look::wait, ticket}; }
  AwaitLargeSend glance(const Send& sent) {
    return {{wait_, view_, sent.bytes, Look::once, sent.ticket}, sent.source, &crew_};
  }

  void set_deadline(double seconds) { wait_.timeout_ns = static_cast<std::uint64_t>(seconds * 1e9); }
  std::uint64_t faults() const { return HostGroup::load_relaxed(&fault_count_); }
  std::uint64_t sent() const { return sending_.number; }

  // Both at once, by such grids.
  template <class SendBody, class ReceiveBody>
  void pass(const SendBody& send, Grid of_send, const ReceiveBody& receive, Grid of_receive) {
    std::thread other([&] { crowd_entry<SendBody>(&send, of_send); });
    crowd_entry<ReceiveBody>(&receive, of_receive);
    other.join();
    check_passed(1);
  }

  // Checks that so many messages have gone through, whole, since the last check.
  void check_passed(std::uint64_t messages) {
    CHECK(fault_count_ == 0);
    number_ += messages;
    CHECK(sending_.number == number_ && receiving_.drained == number_ && receiving_.posted == number_);
    CHECK(sending_.head == receiving_.head && sending_.finished == 0 && receiving_.finished == 0);
  }

 private:
  static std::uint64_t payload_of(std::uint64_t units) { return (units * kUnitLines - 1) * kLineData; }

  static constexpr std::uint64_t kReceives = 4;
  std::vector<Line> ring_;
  std::vector<ReceiveDescriptor> descriptors_;
  std::vector<std::uint64_t> acks_;
  std::vector<Posted> posted_;
  Sending sending_;
  Returned returned_;
  Receiving receiving_;
  BlockTeam crew_;
  LaneView view_;
  WaitView wait_;
  std::uint64_t abort_ = 0;
  std::uint64_t fault_count_ = 0;
  std::array<Fault, kFaultSlots> faults_;
  std::uint64_t number_ = 0;
};

// A request's words.
struct Asked {
  Numbered numbered;
  std::uint64_t status = static_cast<std::uint64_t>(Status::pending);
  std::uint64_t received = 0;
  Ticket ticket() { return {&numbered, &status, &received, 1}; }
  bool is_ok() const { return static_cast<Status>(status) == Status::ok; }
};

}  // namespace onstream::test
