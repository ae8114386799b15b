// RingReader: takes one message after another, of any kind, out of a lane's ring. First block only; every thread holds
// the same values.
#pragma once

#include "onstream/lane/crew.hpp"
#include "onstream/lane/host/late.hpp"
#include "onstream/lane/host/packed.hpp"
#include "onstream/lane/host/remote_lane.hpp"
#include "onstream/lane/host/shared_copy_receiver.hpp"
#include "onstream/lane/ring.hpp"

namespace onstream::lane {

class RingReader {
 public:
  ONSTREAM_BODY RingReader(const WaitView& wait, const LaneView& lane, Fetcher& fetcher, std::uint64_t head,
                           std::uint64_t returned)
      : wait_(wait), lane_(lane), fetcher_(fetcher), head_(head), returned_(returned) {}

  // Whether the next message can be taken without waiting for the sender's next step. One thread.
  template <Group G>
  ONSTREAM_BODY bool available(const G& group, std::uint64_t number, std::uint64_t offered) const {
    Seen seen;
    if (!look(group, lane_, head_, seen)) return false;
    if constexpr (G::kCrossMemory) {
      if (lane_.remote != nullptr && seen.kind() == Header::pull) return lane_.remote->is_ready(seen.address);
    }
    return offered == 0 || !seen.asks() || arrived(group, lane_, number, 0, 1);
  }

  // Takes the next message. `bytes` gets its size. Not ok: timeout or aborted (the lane is lost) or truncated.
  template <Group G>
  ONSTREAM_BODY Status take(const G& group, const Target& target, std::uint64_t& bytes) {
    Seen seen;
    const Status status = await_header(group, wait_, lane_, head_, seen);
    if (status != Status::ok) return status;
    bytes = seen.bytes();
    sender_hears_ = seen.kind() != Header::data;
    if constexpr (G::kCrossMemory) {
      if (seen.kind() == Header::share || seen.kind() == Header::share_ordered) return take_shared(group, target, seen);
      if (seen.kind() == Header::failed) {
        head_ += 1;
        return Status::unmapped;
      }
    }
    switch (seen.kind()) {
      case Header::data: return take_data(group, target, seen);
      case Header::placed:
        if (group.rank() == 0) group.fence();  // earlier writes are there for work after this op
        head_ += 1;
        return Status::ok;
      case Header::pull: return take_left(group, target, seen);
      default: return take_announced(group, target, seen);
    }
  }

  // Whether the sender of the message taken last waits for an answer, which it reports itself. If not, its host is to
  // be told of a truncation.
  ONSTREAM_BODY bool sender_hears() const { return sender_hears_; }

  template <Group G>
  ONSTREAM_BODY void give_credit(const G& group) {
    const std::uint64_t was = returned_;
    returned_ = credit_at(lane_, head_, was);
    lane::give_credit(group, lane_, was, returned_);
  }

  ONSTREAM_BODY std::uint64_t head() const { return head_; }
  ONSTREAM_BODY std::uint64_t returned() const { return returned_; }

 private:
  template <Group G>
  ONSTREAM_BODY Status take_data(const G& group, const Target& target, const Seen& seen) {
    const std::uint64_t bytes = seen.bytes();
    if constexpr (G::kStoresInOrder) {
      if (is_packed<G>(bytes)) {
        const bool fits = takes<G>(bytes, target.capacity);
        if (fits) unpack(group, lane_, head_, target.destination, bytes);
        head_ += ring_units<G>(bytes);
        return fits ? Status::ok : Status::truncated;
      }
    }
    const Status status = take_lines(group, wait_, lane_, head_, bytes, target);
    if (!loses_lane(status)) head_ += units_for(bytes);
    return status;
  }

  template <Group G>
  ONSTREAM_BODY Status take_shared(const G& group, const Target& target, const Seen& seen) {
    head_ += 1;
    if (takes<G>(seen.bytes(), target.capacity)) {
      CopyReceiver taker(wait_, lane_, target.number, seen.bytes());
      return taker.take(group, target.destination, reinterpret_cast<const std::byte*>(seen.address),
                        target.waits && target.offered != 0);
    }
    acknowledge(group, target, Status::truncated);
    return Status::truncated;
  }

  // The sender's wait may bring it, where a receive descriptor said that it fits.
  template <Group G>
  ONSTREAM_BODY Status take_left(const G& group, const Target& target, const Seen& seen) {
    if ((target.offered != 0 || G::kCrossMemory) && takes<G>(seen.bytes(), target.capacity)) {
      bool brought = false;
      const Status status = was_brought(group, wait_, lane_, target.number, brought);
      if (brought) head_ += 1;
      if (brought || status != Status::ok) return status;
    }
    return take_pull(group, target, seen.bytes(), seen.address);
  }

  template <Group G>
  ONSTREAM_BODY Status take_pull(const G& group, const Target& target, std::uint64_t bytes, std::uint64_t source) {
    head_ += 1;
    const bool fits = takes<G>(bytes, target.capacity);
    if constexpr (G::kCrossMemory) {
      if (lane_.remote != nullptr) return take_remote(group, target, bytes, source);
    }
    const Status status = fits ? fetcher_.fetch(group, target.destination, reinterpret_cast<const void*>(source), bytes)
                               : Status::truncated;
    if (!loses_lane(status)) acknowledge(group, target, status);
    return status;
  }

  // A large message of another host: the network brings it.
  template <Group G>
  ONSTREAM_BODY Status take_remote(const G& group, const Target& target, std::uint64_t bytes, std::uint64_t payload) {
    sender_hears_ = !lane_.remote->is_here(payload);
    Status status = Status::truncated;
    if (bytes <= target.capacity) {
      status = lane_.remote->fetch(wait_, target.destination, payload, bytes);
    } else {
      lane_.remote->refuse(payload);
    }
    if (!loses_lane(status)) acknowledge(group, target, status);
    return status;
  }

  template <Group G>
  ONSTREAM_BODY void acknowledge(const G& group, const Target& target, Status status) const {
    if (group.rank() != 0) return;
    const std::uint64_t number = target.number;
    if (status != Status::ok) {
      note_refusal(group, refusals_of(lane_.peer_acks, lane_.receives), number, status, target.capacity);
    }
    std::uint64_t* ack = lane_.peer_acks + (number & (lane_.receives - 1));
    // pairs with wait_for_ack, find_answer and AwaitSend
    group.store_release(ack, (number + 1) * 2 + (status != Status::ok ? 1 : 0));
  }

  // A large message whose sender waits for an answer, unless a receive descriptor was made.
  template <Group G>
  ONSTREAM_BODY Status take_announced(const G& group, const Target& target, const Seen& seen) {
    const std::uint64_t bytes = seen.bytes();
    if (!takes<G>(bytes, target.capacity)) {
      acknowledge(group, target, Status::truncated);
      head_ += 1;
      return Status::truncated;
    }
    if (target.offered != 0) {
      const Status status = await_arrivals(group, wait_, lane_, target.number);
      if (status == Status::ok) head_ += 1;
      return status;
    }
    const std::uint64_t place = target.number & (lane_.receives - 1);
    answer(group, lane_, place, target.number, Answer::receiver_pulls, 0, target.capacity);
    if (seen.kind() == Header::push) return take_pull(group, target, bytes, seen.address);
    head_ += 1;
    return fetch_chunks(group, target, bytes);
  }

  template <Group G>
  ONSTREAM_BODY Status fetch_chunks(const G& group, const Target& target, std::uint64_t bytes) {
    std::uint64_t fetched = lane_.receiving->chunks;
    for (std::uint64_t offset = 0; offset < bytes; ++fetched) {
      Seen seen;
      Status status = wait_until(group, wait_, [&] { return look(group, lane_, head_, seen); });
      group.fence();  // pairs with the sender's fence before its chunk header
      status = agree(group, status);
      if (status != Status::ok) return status;
      const auto* source = reinterpret_cast<const void*>(seen.address);
      status = fetcher_.fetch(group, target.destination + offset, source, seen.bytes());
      if (status != Status::ok) return status;
      offset += seen.bytes();
      head_ += 1;
      give_credit(group);
      if (group.rank() == 0) group.store_release(&lane_.peer_returned->chunks, fetched + 1);
    }
    group.sync();
    if (group.rank() == 0) lane_.receiving->chunks = fetched;
    return Status::ok;
  }

  const WaitView& wait_;
  const LaneView& lane_;
  Fetcher& fetcher_;
  std::uint64_t head_;
  std::uint64_t returned_;
  bool sender_hears_ = true;
};

}  // namespace onstream::lane
