// Shared copies: a large message of the host device, whose bytes both of its ranks copy.
//
// The sender opens the message's SharedCopyState and announces it in the ring; the receive says in its descriptor where
// the data shall go. From then on each side, as long as it waits for this message, claims the next chunks that nobody
// has claimed and copies them: two cores work on one message, and either side alone brings it to its end. The side that
// finishes the last chunk acknowledges.
//
// Source and destination may be plain memory of two processes, each known to the other by a remote process address
// (device/kernel/remote_process.hpp), which the system copies from one process to the other: the sender's calls write
// the chunks that the receiver's do not read. Such a call costs four times a plain copy; where one side can do with
// that, the other leaves the message to it for a while.
//
// A SharedCopyState lies in the sender's memory behind the acks, one for each of `receives` messages, on the host
// device only. Only groups that know remote process addresses have these bodies: a GPU's kernels hold nothing of it.
#pragma once

#include "onstream/device/kernel/remote_process.hpp"
#include "onstream/lane/memory/refusals.hpp"

namespace onstream::lane {

// Written by the sender before the announcement, except the counts, which both ranks write.
struct SharedCopyState {
  std::uint64_t claim;        // (number + 1) << kShareShift, plus the chunks claimed so far, by either
  std::uint64_t through;      // chunks in the destination, and kLost for each that could not be copied
  std::uint64_t source;       // in the sender's address space
  std::uint64_t peer_source;  // for the receiver; the sender checks whether it is a remote process address
  std::uint64_t bytes;
  std::uint64_t apart[3];  // from the next message's: a line of the cache each
};

constexpr int kShareShift = 24;

// Bytes behind the acks of one lane and peer.
ONSTREAM_BOTH std::uint64_t share_bytes(std::uint64_t receives) { return receives * sizeof(SharedCopyState); }

// The SharedCopyState of message `number`; `acks` are the sender's, in either rank's address space.
inline SharedCopyState* share_of(const LaneView& view, std::uint64_t* acks, std::uint64_t number) {
  return reinterpret_cast<SharedCopyState*>(acks + acks_of(view.receives)) + (number & (view.receives - 1));
}

// Not worth sharing if the sender can place it at once: 16 KiB take 0.53 us so, and 0.74 shared; 32 KiB 0.8 either way.
constexpr std::uint64_t kShareMin = 16 * 1024;

// Small enough that both sides end at about the same time, large enough that a claim does not count.
inline std::uint64_t share_chunk(std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kLeast = 4 * kPage;
  constexpr std::uint64_t kMost = 16 * kPage;
  constexpr std::uint64_t kParts = 16;
  constexpr int kCountBits = kShareShift - 1;
  const std::uint64_t part = (bytes / kParts + kPage - 1) / kPage * kPage;
  const std::uint64_t fair = part < kLeast ? kLeast : part > kMost ? kMost : part;
  const std::uint64_t countable = ((bytes >> kCountBits) + kPage) / kPage * kPage;
  return fair < countable ? countable : fair;
}

// Copies between addresses of which one may be a remote process address. One thread. Returns ok; unmapped; or, when the
// peer's process is gone, aborted if the abort word is set within 2 s, as the mesh needs time to notice a death, else
// unmapped: a peer that leaves takes its memory along.
template <Group G>
inline Status carry(const G& group, const WaitView& wait, void* destination, const void* source, std::uint64_t bytes) {
  const Status status = group.carry(destination, source, bytes);
  if (status != Status::aborted) return status;
  constexpr std::uint64_t kNewsTravelNs = 2'000'000'000;
  WaitView patient = wait;
  if (patient.timeout_ns > kNewsTravelNs) patient.timeout_ns = kNewsTravelNs;
  return wait_until(group, patient, [] { return false; }) == Status::aborted ? Status::aborted : Status::unmapped;
}

// Why the receiver refused message `number`. The sender's.
template <Group G>
ONSTREAM_BODY Status why_refused(const G& group, const LaneView& view, std::uint64_t number) {
  if constexpr (G::kCrossMemory) {
    const Status why = refusal_of(group, refusals_of(view.acks, view.receives), number).why;
    if (why == Status::unmapped) return why;
  }
  return Status::truncated;
}

// One shared message, from either side.
class Sharing {
 public:
  Sharing(const WaitView& wait, const LaneView& view, std::uint64_t* acks, std::uint64_t number, std::uint64_t bytes)
      : wait_(wait),
        share_(share_of(view, acks, number)),
        ack_(acks + (number & (view.receives - 1))),
        refusals_(refusals_of(acks, view.receives)),
        number_(number),
        bytes_(bytes),
        chunk_(share_chunk(bytes)),
        count_((bytes + chunk_ - 1) / chunk_) {}

 protected:
  enum class CopyStep { none, carry, end };

  // Whether the side that can copy plainly is still given time, from the first such question on: as much as the system
  // would take, so that at worst the message takes twice as long.
  template <Group G>
  bool is_given_time(const G& group) {
    constexpr std::uint64_t kCallNs = 1000;
    constexpr std::uint64_t kBytesPerNs = 13;
    constexpr std::uint64_t kMostNs = 100'000;
    const std::uint64_t now = group.now_ns();
    if (given_since_ns_ == 0) given_since_ns_ = now;
    const std::uint64_t call = kCallNs + bytes_ / kBytesPerNs;
    return now - given_since_ns_ < (call < kMostNs ? call : kMostNs);
  }

  template <Group G>
  bool has_ended(const G& group) const {
    return group.load_acquire(ack_) / 2 >= number_ + 1;  // pairs with count_through
  }
  // How it ended, once it has; until then, ok.
  template <Group G>
  Status outcome(const G& group) const {
    const std::uint64_t ack = group.load_acquire(ack_);
    if (ack <= (number_ + 1) * 2) return Status::ok;
    return refusal_of(group, refusals_, number_).why;
  }

  std::uint64_t first_claim() const { return (number_ + 1) << kShareShift; }

  template <Group G>
  bool has_unclaimed(const G& group) const {
    return group.load_acquire(&share_->claim) - first_claim() < count_;  // pairs with CopySender::open
  }

  // Chunks that are the caller's now.
  struct Claim {
    std::uint64_t first;
    std::uint64_t chunks;  // 0: there are no more
  };
  template <Group G>
  Claim claim(const G& group, std::uint64_t most) const {
    for (;;) {
      const std::uint64_t claim = group.load_acquire(&share_->claim);
      const std::uint64_t next = claim - first_claim();
      if (next >= count_) return {count_, 0};
      const std::uint64_t chunks = count_ - next < most ? count_ - next : most;
      if (group.compare_swap(&share_->claim, claim, claim + chunks) == claim) return {next, chunks};
    }
  }

  std::uint64_t offset_of(const Claim& claim) const { return claim.first * chunk_; }
  std::uint64_t bytes_of(const Claim& claim) const {
    const std::uint64_t left = bytes_ - offset_of(claim);
    return left < claim.chunks * chunk_ ? left : claim.chunks * chunk_;
  }

  // Claimed chunks are in the destination, or never will be.
  template <Group G>
  void count_through(const G& group, std::uint64_t chunks, Status status) const {
    const std::uint64_t mine = status == Status::ok ? chunks : kLost + chunks;
    const std::uint64_t through = group.add(&share_->through, mine) + mine;  // orders the chunks of both before the ack
    if (through % kLost != count_) return;
    const std::uint64_t refused = through >= kLost ? 1 : 0;
    if (refused != 0) note_refusal(group, refusals_, number_, Status::unmapped, bytes_);
    group.store_release(ack_, (number_ + 1) * 2 + refused);
  }

  // Chunks that one call of the system copies: as many as still let both sides end at about the same time.
  std::uint64_t call_chunks() const {
    constexpr std::uint64_t kParts = 4;
    constexpr std::uint64_t kLeast = 2;
    constexpr std::uint64_t kMost = 4;
    const std::uint64_t part = count_ / kParts;
    return part < kLeast ? kLeast : part > kMost ? kMost : part;
  }

  // Claims and copies a chunk, or several if the copy is a system call. Returns aborted if the peer is gone; the
  // message then stays as it is.
  template <Group G>
  Status carry_next(const G& group, std::byte* destination, const std::byte* source) const {
    const bool calls = is_remote_process(destination) || is_remote_process(source);
    const Claim mine = claim(group, calls ? call_chunks() : 1);
    if (mine.chunks == 0) return Status::ok;
    const std::uint64_t offset = offset_of(mine);
    const bool spoiled = group.load_relaxed(&share_->through) >= kLost;  // then the rest is of no use
    const Status status =
        spoiled ? Status::unmapped : carry(group, wait_, destination + offset, source + offset, bytes_of(mine));
    if (loses_lane(status)) return status;
    count_through(group, mine.chunks, status);
    return Status::ok;
  }

  WaitView wait_;
  SharedCopyState* share_;
  std::uint64_t* ack_;
  std::uint64_t* refusals_;
  std::uint64_t number_;
  std::uint64_t bytes_;
  std::uint64_t chunk_;
  std::uint64_t count_;
  std::uint64_t given_since_ns_ = 0;
};

}  // namespace onstream::lane
