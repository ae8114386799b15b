// Spread messages: a few KiB in the ring by several blocks on either side, each of which stores, or takes, lines of its
// own. One block issues the accesses of 8 KiB one after the other; several issue them side by side.
//
// Every block reads the lane's counters for itself, and the first one advances them. It need not know that the others
// are through, as the next op waits for the whole kernel; only that they have read. They count that in the counters'
// `finished`, and nobody waits for the atomic's answer; a receive's first block takes no lines, so that nobody's wait
// for that count holds up a line. An op that gives up leaves that word lost, so that none behind it takes its counts
// for its own.
//
// A spread receive gives credit when it begins, for the lines that earlier ones took: it would have to wait for its
// other blocks at its end. So when it has ended, less than a quarter of the ring and its own lines are kept back, and
// no message on such a lane is longer than three eighths of the ring (ring_capacity() of message/lanes.hpp).
//
// The first block of a spread receive takes any other message than the expected one, and the others help as they would
// in any large receive (crew.hpp). All see the same header, so all go the same way; that they have seen it they count
// once more, before the first block gives the header's place away.
#pragma once

#include "onstream/lane/ring.hpp"

namespace onstream::lane {

constexpr int kSpreadThreads = 128;
constexpr int kSpreadLines = 2;  // that one thread has under way

// The blocks of one spread op.
class Spread {
 public:
  template <Group G>
  ONSTREAM_BODY Spread(const G& group, std::uint64_t* finished)
      : finished_(finished), others_(static_cast<std::uint64_t>(group.blocks()) - 1) {}

  // Counts a block other than the first: it is through with the counters, or has seen a header that is not expected.
  // One thread, behind a barrier of the block.
  template <Group G>
  ONSTREAM_BODY void count(const G& group) const {
    (void)group.add(finished_, 1);
  }
  // Marks the op as lost for a block that gives up. One thread; true for the first such block, which reports it.
  template <Group G>
  ONSTREAM_BODY bool lose(const G& group) const {
    return group.add(finished_, kLost) < kLost;
  }

  // One thread of the first block: waits until the others have counted `times` times. Not ok: the lane is lost.
  template <Group G>
  ONSTREAM_BODY Status await(const G& group, const WaitView& wait, std::uint64_t times) const {
    std::uint64_t counted = 0;
    const Status status = wait_for_self(group, wait, [&] {
      counted = group.load_acquire(finished_);
      return counted % kLost >= times * others_ || counted >= kLost;
    });
    return status == Status::ok && counted >= kLost ? Status::aborted : status;
  }
  template <Group G>
  ONSTREAM_BODY void reset(const G& group) const {
    if (others_ > 0) group.store_relaxed(finished_, 0);
  }

 private:
  std::uint64_t* finished_;
  std::uint64_t others_;
};

// This thread among those of all blocks, and how many those are.
template <Group G>
ONSTREAM_BODY std::uint32_t spread_rank(const G& group) {
  return static_cast<std::uint32_t>(group.block() * group.size() + group.rank());
}
template <Group G>
ONSTREAM_BODY std::uint32_t spread_size(const G& group) {
  return static_cast<std::uint32_t>(group.blocks() * group.size());
}

}  // namespace onstream::lane
