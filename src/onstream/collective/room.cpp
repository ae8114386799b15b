#include "onstream/collective/room.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "onstream/base/error.hpp"

namespace onstream::collective {

namespace {

// What a rank says of itself, and of each part.
struct Limits {
  std::int32_t limit;
  std::int32_t most;
  std::int32_t shared;
};
struct Said {
  std::uint64_t calls;
  std::int32_t kept;
  std::int32_t is_there;
  Room::Blocks how;
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

}  // namespace

int Room::Part::of_next_call() {
  const std::lock_guard lock(*mutex_);
  const std::uint64_t call = ++calls_;
  while (steps_.size() > 1 && steps_[1].from <= call) steps_.erase(steps_.begin());
  return steps_.front().blocks;
}

void Room::Part::keep(int blocks) {
  const std::lock_guard lock(*mutex_);
  kept_ = std::max(kept_, blocks);
}

int Room::share(const Wanted& wanted) {
  const int alone = std::max(1, std::min(wanted.most, wanted.limit));
  if (wanted.kept.size() <= 1) return alone;
  if (wanted.kept.size() == 2 && wanted.how == Blocks::in_order && !wanted.shared) {
    return std::max(1, std::min(wanted.most, wanted.limit - 1));
  }
  for (int blocks = alone; blocks > 1; --blocks) {
    int sum = 0;
    for (const int one : wanted.kept) sum += std::max(one, blocks);
    if (sum <= wanted.limit) return blocks;
  }
  return 1;
}

// The hosts of all ranks are here when they tell each other, so no other thread of theirs waits for the mutex for long.
std::shared_ptr<Room::Part> Room::enter(Fabric& fabric, std::string_view topic, Blocks how) {
  const std::lock_guard lock(*mutex_);
  const std::shared_ptr<Part> made(new Part(mutex_, how));
  parts_.push_back(made);
  std::vector<std::shared_ptr<Part>> parts;
  std::string mine;
  const int limit = fabric.block_limit();
  put(mine, Limits{limit, static_cast<std::int32_t>(fabric.parameters().collective_blocks),
                   limit < fabric.device()->max_blocks() / 2 ? 1 : 0});
  for (const std::weak_ptr<Part>& weak : parts_) {
    const std::shared_ptr<Part>& part = parts.emplace_back(weak.lock());
    put(mine, part == nullptr ? Said{} : Said{part->calls_, part->kept_, 1, part->how_, 0});
  }
  Wanted wanted{INT32_MAX, INT32_MAX, false, {}, Blocks::in_order};
  std::vector<Said> all(parts.size());
  for (const std::string& theirs : fabric.all_gather(topic, mine)) {
    require(theirs.size() == mine.size(), "the ranks have made different channels of collectives");
    const auto limits = taken<Limits>(theirs, 0);
    wanted.limit = std::min(wanted.limit, limits.limit);
    wanted.most = std::min(wanted.most, limits.most);
    wanted.shared = wanted.shared || limits.shared != 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto said = taken<Said>(theirs, sizeof(Limits) + i * sizeof(Said));
      all[i].calls = std::max(all[i].calls, said.calls);
      all[i].kept = std::max(all[i].kept, said.kept);
      all[i].is_there = std::max(all[i].is_there, said.is_there);
      wanted.how = std::max(wanted.how, said.how);
    }
  }
  for (const Said& said : all) {
    if (said.is_there != 0) wanted.kept.push_back(said.kept);
  }
  const int blocks = share(wanted);
  std::vector<std::weak_ptr<Part>> there;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (all[i].is_there != 0) there.push_back(parts_[i]);
    if (parts[i] == nullptr) continue;
    std::vector<Part::Step>& steps = parts[i]->steps_;
    if (steps.empty() || steps.back().blocks != blocks) steps.push_back({all[i].calls + 1, blocks});
  }
  parts_ = std::move(there);
  return made;
}

}  // namespace onstream::collective
