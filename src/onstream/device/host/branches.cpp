#include "onstream/device/host/branches.hpp"

#include "onstream/device/host/patience.hpp"
#include "onstream/device/host/worker.hpp"

namespace onstream::host {

Branches::Branches(const std::vector<Node>& nodes, std::size_t streams)
    : nodes_(nodes), before_(nodes.size()), finished_(nodes.size()) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::size_t earlier : nodes[i].after) before_[earlier].push_back(i);
  }
  try {
    while (helpers_.size() + 1 < streams) {
      helpers_.push_back(start_worker("a graph with branches", [this] { help(); }));
    }
  } catch (...) {
    end_helpers();
    throw;
  }
}

Branches::~Branches() { end_helpers(); }

void Branches::end_helpers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  ended_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Branches::replay() {
  std::unique_lock lock(mutex_);
  missing_.clear();
  for (const Node& node : nodes_) missing_.push_back(node.after.size());
  taken_.assign(nodes_.size(), false);
  first_ = finished_ = 0;
  begun_.notify_all();
  Patience patience("another branch of its graph");
  while (under_way()) {
    const std::optional<std::size_t> node = take();
    if (!node) {
      patience.sleep(lock, changed_);
      continue;
    }
    lock.unlock();
    run(nodes_[*node].task);
    lock.lock();
    ++own_;
    finish(*node);
  }
}

std::optional<std::size_t> Branches::take() {
  while (first_ < nodes_.size() && taken_[first_]) ++first_;
  for (std::size_t i = first_; i < nodes_.size(); ++i) {
    if (taken_[i] || missing_[i] > 0) continue;
    taken_[i] = true;
    return i;
  }
  return std::nullopt;
}

void Branches::finish(std::size_t node) {
  ++finished_;
  for (const std::size_t later : before_[node]) --missing_[later];
  changed_.notify_all();
}

void Branches::help() {
  constexpr int kLooksBeforeSleep = 20;  // replays follow each other
  int looks = 0;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!under_way() && looks++ == kLooksBeforeSleep) {
      begun_.wait(lock, [this] { return ending_ || under_way(); });
      looks = 0;
    }
    const std::uint64_t own = own_;
    ended_.wait_for(lock, kStandstill, [this] { return ending_; });
    if (!under_way()) continue;
    looks = 0;
    while (own_ == own) {
      const std::optional<std::size_t> node = take();
      if (!node) break;
      lock.unlock();
      run(nodes_[*node].task);
      lock.lock();
      finish(*node);
    }
  }
}

}  // namespace onstream::host
