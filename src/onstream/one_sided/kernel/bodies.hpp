// Kernel bodies of one-sided ops that are no list of steps: a barrier, a copy between layouts, a wait for many words.
#pragma once

#include "onstream/kernel.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/one_sided/kernel/step.hpp"

namespace onstream::one_sided {

// One block; a thread or more a member. It takes the barrier's number, and leaves the next one's, before earlier work
// has ended, unless it is told to be late (device/lifetime/last_epoch.hpp).
struct TeamBarrier {
  static constexpr bool kBegins = true;  // device/cuda/entry.cuh

  TeamView team;
  std::uint32_t late = 0;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (late != 0) group.wait_dependency();
    const std::uint64_t mine = group.load_relaxed(team.number) + 1;
    group.sync_or(mine == 0);  // every thread has read it, and not only asked for it
    const bool lets_in = is_of_last_warp(group);
    if (lets_in) {
      if (group.rank() == group.size() - 1) group.store_relaxed(team.number, mine);
      group.fence();
    }
    std::uint64_t* const first = team.first_flag(group);
    group.settle(mine ^ reinterpret_cast<std::uint64_t>(first));
    group.wait_dependency();
    if (lets_in) group.launch_dependents();
    if (first != nullptr) group.fence();  // earlier work's stores come before the flags
    (void)team.meet(group, mine, first);  // a meeting that fails has left a fault
  }
};

// Any grid. Seen by peers whom a later op of the stream tells.
struct Walk {
  LayoutView to_layout;
  LayoutView from_layout;
  std::byte* to;
  std::byte* from;
  std::uint64_t bytes;
  std::uint32_t access_width;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    copy_part(group, {to, &to_layout}, {from, &from_layout}, bytes, access_width,
              static_cast<std::uint32_t>(group.block()), static_cast<std::uint32_t>(group.blocks()));
    group.fence();
  }
};

enum class Many : std::uint8_t { all, any, some };

// Runs in one block. `first` is the wait for the first word; a wait that fails leaves a fault.
struct WaitMany {
  WaitView wait;
  Step first;
  std::uint64_t count;
  const int* left_out;
  std::uint64_t* found;
  std::uint64_t* indices;
  Many many;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (many == Many::all) return await_all(group);
    if (group.rank() != 0) return;
    std::uint64_t one = count;
    if (has_one(count, left_out)) {
      const Status status = wait_for_peer(group, wait, kAnyRank, [&] { return (one = next(group, 0)) != count; });
      if (status != Status::ok) return tell(group, status);
    }
    if (many == Many::any) return group.store_relaxed(found, one);
    std::uint64_t total = 0;
    for (; one < count; one = next(group, one + 1)) group.store_relaxed(indices + total++, one);
    group.store_relaxed(found, total);
  }

 private:
  ONSTREAM_BODY Step step(std::uint64_t i) const {
    Step one = first;
    one.target += i * first.width;
    return one;
  }
  ONSTREAM_BODY bool takes_part(std::uint64_t i) const { return left_out == nullptr || left_out[i] == 0; }

  template <Group G>
  ONSTREAM_BODY void await_all(const G& group) const {
    const auto stride = static_cast<std::uint64_t>(group.size());
    for (auto i = static_cast<std::uint64_t>(group.rank()); i < count; i += stride) {
      if (takes_part(i) && await(group, wait, step(i)) != Status::ok) return;
    }
  }
  // The first word from `from` on that compares; count: none.
  template <Group G>
  ONSTREAM_BODY std::uint64_t next(const G& group, std::uint64_t from) const {
    const WordRange range = range_of(first);
    for (std::uint64_t i = from; i < count; ++i) {
      if (takes_part(i) && is_met(group, step(i), range)) return i;
    }
    return count;
  }
  template <Group G>
  ONSTREAM_BODY void tell(const G& group, Status status) const {
    const std::uint64_t comparison = comparison_code(first.compare, first.sign);
    report(group, wait, status, word_fault(kAnyRank, first.width, first.source, comparison, first.target));
  }
};

}  // namespace onstream::one_sided
