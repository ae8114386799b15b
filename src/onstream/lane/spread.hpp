// Spread messages: a few KiB in the ring by several blocks on either side, each of which stores, or takes, lines of its
// own. One block issues the accesses of 8 KiB one after the other; several issue them side by side.
//
// Every block reads the lane's counters for itself, and the first one advances them. It need not know that the others
// are through, as the next op waits for the whole kernel; only that they have read. They count that in the counters'
// `finished`, and nobody waits for the atomic's answer; a receive's first block takes no lines, so that nobody's wait
// for that count holds up a line. Credit for what the op itself takes is given by the lane's next receive, which knows
// without asking that every block has read its lines.
//
// What is not the message that a spread receive expects is taken by its first block, and the others help as they would
// in any large receive (crew.hpp). All see the same header, so all go the same way; that they have seen it they count
// once more, before the first block gives the header's place away.
#pragma once

#include "onstream/lane/ring.hpp"

namespace onstream::lane {

constexpr std::uint64_t kSpreadMin = 4096;  // bytes; a smaller message is faster by one block
constexpr int kSpreadThreads = 128;
constexpr int kSpreadLines = 2;  // that one thread has under way

// The blocks of one spread op.
class Spread {
 public:
  template <class Group>
  ONSTREAM_BODY Spread(const Group& group, std::uint64_t* finished)
      : finished_(finished), others_(static_cast<std::uint64_t>(group.blocks()) - 1) {}

  // Of any other than the first: it is through with the counters, or has seen a header that is not expected. One
  // thread, behind a barrier of the block.
  template <class Group>
  ONSTREAM_BODY void count(const Group& group) const {
    (void)group.add(finished_, 1);
  }

  // Of the first block: whether the others have counted `times` times.
  template <class Group>
  ONSTREAM_BODY bool all_counted(const Group& group, std::uint64_t times) const {
    return group.load_acquire(finished_) >= times * others_;  // the last one counts before the op ends
  }
  template <class Group>
  ONSTREAM_BODY void reset(const Group& group) const {
    if (others_ > 0) group.store_relaxed(finished_, 0);
  }

 private:
  std::uint64_t* finished_;
  std::uint64_t others_;
};

// This thread among those of all blocks, and how many those are.
template <class Group>
ONSTREAM_BODY std::uint32_t spread_rank(const Group& group) {
  return static_cast<std::uint32_t>(group.block() * group.size() + group.rank());
}
template <class Group>
ONSTREAM_BODY std::uint32_t spread_size(const Group& group) {
  return static_cast<std::uint32_t>(group.blocks() * group.size());
}

}  // namespace onstream::lane
