// A large fetch shared by the blocks of one receiving op. The first block calls fetch() and dismiss(); all other blocks
// run help() and nothing else. On the host such ops have one block, since its blocks run one after the other.
#pragma once

#include "onstream/lane/host/shared_copy.hpp"

namespace onstream::lane {

class Fetcher {
 public:
  // Without a crew the first block copies alone.
  ONSTREAM_BODY Fetcher(const WaitView& wait, BlockTeam* crew) : wait_(wait), crew_(crew) {}

  // First block, all threads: copies with the whole grid. Ends when all blocks are through.
  template <Group G>
  ONSTREAM_CALL Status fetch(const G& group, void* destination, const void* source, std::uint64_t bytes) {
    if constexpr (G::kCrossMemory) return carry(group, wait_, destination, source, bytes);
    if (group.blocks() == 1 || crew_ == nullptr || bytes <= most_alone(group) || jobs_ + 1 >= kDismissed) {
      group.copy_alone(destination, source, bytes);
      group.fence();
      group.sync();
      return Status::ok;
    }
    ++jobs_;
    if (group.rank() == 0) {
      group.store_relaxed(&crew_->destination, reinterpret_cast<std::uint64_t>(destination));
      group.store_relaxed(&crew_->source, reinterpret_cast<std::uint64_t>(source));
      group.store_relaxed(&crew_->bytes, bytes);
      group.store_release(&crew_->job, group.load_relaxed(&crew_->run) * 256 + jobs_);  // pairs with help()'s acquire
    }
    group.copy(destination, source, bytes);
    group.fence();
    group.sync();
    Status status = Status::ok;
    if (group.rank() == 0) status = wait_for(group, &crew_->arrived, jobs_);
    return agree(group, status);
  }

  // First block: lets the others go.
  template <Group G>
  ONSTREAM_BODY void dismiss(const G& group) {
    if (group.blocks() == 1 || group.rank() != 0) return;
    group.store_release(&crew_->job, group.load_relaxed(&crew_->run) * 256 + kDismissed);
    leave(group);
  }

  // The other blocks. One thread of each looks for work: thousands that poll would slow the stores that they wait for.
  template <Group G>
  ONSTREAM_BODY void help(const G& group) {
    constexpr std::uint64_t kPatience =
        16;  // the first block counts a deadline for each of its waits, this one for all
    WaitView patient = wait_;
    patient.timeout_ns *= kPatience;
    const std::uint64_t run = group.load_relaxed(&crew_->run);
    for (std::uint64_t expected = run * 256 + 1;; ++expected) {
      Status status = Status::ok;
      if (group.rank() == 0) {
        status = wait_for_self(group, patient, [&] { return group.load_acquire(&crew_->job) >= expected; });
      }
      if (agree(group, status) != Status::ok || group.load_acquire(&crew_->job) == run * 256 + kDismissed) break;
      group.copy(reinterpret_cast<void*>(group.load_relaxed(&crew_->destination)),
                 reinterpret_cast<const void*>(group.load_relaxed(&crew_->source)), group.load_relaxed(&crew_->bytes));
      group.fence();
      group.sync();
      if (group.rank() == 0) group.add(&crew_->arrived, 1);
    }
    group.sync();
    if (group.rank() == 0) leave(group);
  }

 private:
  // The bytes that one block has under way at once: for fewer, waking the others takes longer than the copy.
  template <Group G>
  ONSTREAM_BODY static std::uint64_t most_alone(const G& group) {
    constexpr std::uint64_t kMost = 64 * 1024;
    constexpr std::uint64_t kThread = 128;
    const std::uint64_t at_once = static_cast<std::uint64_t>(group.size()) * kThread;
    return at_once < kMost ? at_once : kMost;
  }

  // The last block to leave makes the crew ready for the next op, which stream order keeps behind this one.
  template <Group G>
  ONSTREAM_BODY void leave(const G& group) const {
    group.fence();
    if (group.add(&crew_->left, 1) + 1 != static_cast<std::uint64_t>(group.blocks())) return;
    group.store_relaxed(&crew_->arrived, 0);
    group.store_relaxed(&crew_->left, 0);
    group.store_relaxed(&crew_->run, group.load_relaxed(&crew_->run) + 1);
  }

  template <Group G>
  ONSTREAM_BODY Status wait_for(const G& group, const std::uint64_t* count, std::uint64_t each) const {
    const std::uint64_t whole = each * static_cast<std::uint64_t>(group.blocks() - 1);
    return wait_for_self(group, wait_, [&] { return group.load_acquire(count) >= whole; });
  }

  WaitView wait_;
  BlockTeam* crew_;
  std::uint64_t jobs_ = 0;
};

}  // namespace onstream::lane
