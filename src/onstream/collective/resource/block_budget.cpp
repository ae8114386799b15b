#include "onstream/collective/resource/block_budget.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"

namespace onstream::collective {

namespace {

// A rank's message about each part, after its limits.
struct BudgetStatus {
  std::uint64_t calls;
  std::int32_t kept;
  std::int32_t is_there;
  BlockBudget::Blocks how;
  std::int32_t unused;
};

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T taken(const std::string& from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// Whether there are two channels, of ranks that have a GPU each, see docs/decisions/0012.
bool two_alone(const BlockBudget::WantedBlocks& wanted) {
  return wanted.kept.size() == 2 && wanted.how == BlockBudget::Blocks::in_order && !wanted.shared;
}

// The blocks that all channels have placed if each has `blocks`, or more where it keeps more.
int sum_of(const BlockBudget::WantedBlocks& wanted, int blocks) {
  int sum = 0;
  for (const int one : wanted.kept) sum += std::max(one, blocks);
  return sum;
}

}  // namespace

// Sets the blocks of calls from `from` on. Ranks that have let go of the part say 0 calls: the earlier steps still
// hold.
void BlockBudget::BudgetShare::step_to(std::uint64_t from, int blocks) {
  if (steps_.empty()) return steps_.push_back({from, blocks});
  from = std::max(from, steps_.back().from);
  if (from == steps_.back().from) {
    steps_.back().blocks = blocks;  // nobody has come to it
  } else if (blocks != steps_.back().blocks) {
    steps_.push_back({from, blocks});
  }
}

int BlockBudget::BudgetShare::blocks_of(std::uint64_t call) {
  while (steps_.size() > 1 && steps_[1].from <= call) steps_.erase(steps_.begin());
  return steps_.front().blocks;
}

int BlockBudget::BudgetShare::of_next_call() {
  const std::lock_guard lock(*mutex_);
  return blocks_of(++calls_);
}

bool BlockBudget::BudgetShare::takes_next_call(int blocks) {
  const std::lock_guard lock(*mutex_);
  if (blocks_of(calls_ + 1) != blocks) return false;
  ++calls_;
  return true;
}

void BlockBudget::BudgetShare::keep(int blocks) {
  const std::lock_guard lock(*mutex_);
  kept_ = std::max(kept_, blocks);
}

BlockBudget::Limits BlockBudget::limits_of(const Fabric& fabric) {
  const int limit = fabric.block_limit();
  return {limit, static_cast<std::int32_t>(fabric.parameters().collective_blocks),
          limit < fabric.device()->max_blocks() / 2 ? 1 : 0, fabric.device()->kind() == DeviceKind::host ? 0 : 1};
}

int BlockBudget::share(const WantedBlocks& wanted) {
  const int alone = std::max(1, std::min(wanted.most, wanted.limit));
  if (wanted.kept.size() <= 1) return alone;
  if (two_alone(wanted)) return std::max(1, std::min(wanted.most, wanted.limit - 1));
  for (int blocks = alone; blocks > 1; --blocks) {
    if (sum_of(wanted, blocks) <= wanted.limit) return blocks;
  }
  return 1;
}

bool BlockBudget::fits(const WantedBlocks& wanted) {
  return wanted.kept.size() <= 1 || two_alone(wanted) || sum_of(wanted, 1) <= wanted.limit;
}

void BlockBudget::warn_of(const WantedBlocks& wanted) {
  if (warned_) return;
  warned_ = true;
  log(LogLevel::warn, "collectives of ", wanted.kept.size(), " channels have ", sum_of(wanted, 1),
      " blocks at least, with what graphs and plans keep, and room for ", wanted.limit,
      " on a GPU: if ranks start large ones in different orders, they may wait for each other until the deadline; make "
      "fewer channels, or make them before graphs and plans (docs/collectives.md)");
}

std::shared_ptr<BlockBudget::BudgetShare> BlockBudget::enter(Fabric& fabric, std::string_view topic, Blocks how,
                                                             std::span<const int> ranks, const Limits& limits) {
  // Making a channel waits for the device, so for the collectives of other threads. All ranks are through with that
  // before any keeps calls from being prepared: then only hosts wait, for hosts that are here.
  fabric.barrier(topic);
  const std::lock_guard lock(*mutex_);
  const std::shared_ptr<BudgetShare> made(new BudgetShare(mutex_, how, ranks));
  parts_.push_back(made);
  std::vector<std::shared_ptr<BudgetShare>> parts;
  std::string mine;
  put(mine, limits);
  for (const std::weak_ptr<BudgetShare>& weak : parts_) {
    const std::shared_ptr<BudgetShare>& part = parts.emplace_back(weak.lock());
    put(mine, part == nullptr ? BudgetStatus{} : BudgetStatus{part->calls_, part->kept_, 1, part->how_, 0});
  }
  WantedBlocks wanted{INT32_MAX, INT32_MAX, false, {}, Blocks::in_order};
  bool keeps_out = false;
  std::vector<BudgetStatus> all(parts.size());
  const std::vector<std::string> status_by = fabric.all_gather(topic, mine);
  for (std::size_t rank = 0; rank < status_by.size(); ++rank) {
    const std::string& theirs = status_by[rank];
    require(theirs.size() == mine.size(), "the ranks have made different channels of collectives");
    const auto other = taken<Limits>(theirs, 0);
    wanted.limit = std::min(wanted.limit, other.limit);
    wanted.most = std::min(wanted.most, other.most);
    wanted.shared = wanted.shared || other.shared != 0;
    keeps_out = keeps_out || other.keeps_out != 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto status = taken<BudgetStatus>(theirs, sizeof(Limits) + i * sizeof(BudgetStatus));
      // Teams that are made together have one place here, and calls of their own.
      if (parts[i] != nullptr && std::ranges::count(parts[i]->ranks_, static_cast<int>(rank)) > 0) {
        all[i].calls = std::max(all[i].calls, status.calls);
      }
      all[i].kept = std::max(all[i].kept, status.kept);
      all[i].is_there = std::max(all[i].is_there, status.is_there);
      wanted.how = std::max(wanted.how, status.how);
    }
  }
  for (const BudgetStatus& status : all) {
    if (status.is_there != 0) wanted.kept.push_back(status.kept);
  }
  if (keeps_out && fabric.rank() == 0 && !fits(wanted)) warn_of(wanted);
  const int blocks = share(wanted);
  std::vector<std::weak_ptr<BudgetShare>> there;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (all[i].is_there != 0) there.push_back(parts_[i]);
    if (parts[i] != nullptr) parts[i]->step_to(std::max(all[i].calls, parts[i]->calls_) + 1, blocks);
  }
  parts_ = std::move(there);
  return made;
}

}  // namespace onstream::collective
