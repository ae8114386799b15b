// Collecting tasks, and running them again and again.
#include "onstream/device/host/graph.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::host {

namespace {

bool is_list(const std::vector<Node>& nodes) {
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (std::ranges::find(nodes[i].after, i - 1) == nodes[i].after.end()) return false;
  }
  return true;
}

}  // namespace

CapturedTasks::~CapturedTasks() {
  for (auto& thing : retained) DeferredRelease::of_process().hand_over(std::move(thing));
}

HostGraph::HostGraph(CapturedTasks captured) : captured_(std::move(captured)) {
  if (!is_list(captured_.nodes)) branches_ = std::make_unique<Branches>(captured_.nodes, captured_.streams);
}

void HostGraph::run() const {
  const std::lock_guard lock(replaying_);
  if (branches_ != nullptr) return branches_->replay();
  for (const Node& node : captured_.nodes) host::run(node.task);
}

void GraphTask::run() const { graph->run(); }

bool Capture::open() const {
  const std::lock_guard lock(mutex_);
  return captured_.has_value();
}

bool Capture::append(const HostStream* stream, Task& task) {
  const std::lock_guard lock(mutex_);
  if (!captured_) return false;
  StreamTail& chain = chains_[stream];
  captured_->nodes.push_back({std::move(task), std::move(chain.reached)});
  chain = {{captured_->nodes.size() - 1}, true};
  return true;
}

std::vector<std::size_t> Capture::reached(const HostStream* stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = chains_.find(stream);
  return found == chains_.end() ? std::vector<std::size_t>() : found->second.reached;
}

void Capture::wait(const HostStream* stream, const std::vector<std::size_t>& nodes) {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t>& reached = chains_[stream].reached;
  for (const std::size_t node : nodes) {
    if (std::ranges::find(reached, node) == reached.end()) reached.push_back(node);
  }
}

void Capture::retain(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  if (!captured_) return;
  auto& retained = captured_->retained;
  if (retained.empty() || retained.back() != thing) retained.push_back(std::move(thing));
}

void Capture::guard(std::shared_ptr<const LaunchGuard> guard) {
  const std::lock_guard lock(mutex_);
  if (!captured_ || holds(captured_->guards, guard)) return;
  captured_->guards.push_back(guard);
  captured_->retained.push_back(std::move(guard));
}

CapturedTasks Capture::end() {
  std::unique_lock lock(mutex_);
  CapturedTasks captured = std::move(*captured_);
  captured_.reset();
  std::vector<bool> awaited(captured.nodes.size(), false);
  for (const Node& node : captured.nodes) {
    for (const std::size_t earlier : node.after) awaited[earlier] = true;
  }
  for (const std::size_t node : chains_[origin_].reached) awaited[node] = true;
  captured.streams = left_;
  for (const auto& [stream, chain] : chains_) captured.streams += chain.has_tasks ? 1 : 0;
  lock.unlock();  // before anything that the capture holds may end
  require(
      std::ranges::find(awaited, false) == awaited.end(),
      "end_capture(): there is unjoined work: another stream joined the capture, and the one that began it does not "
      "wait for an event behind all that was added there");
  return captured;
}

void Capture::leave(const HostStream* stream) {
  std::optional<CapturedTasks> dropped;  // ends without the lock
  const std::lock_guard lock(mutex_);
  if (stream == origin_ && captured_) {
    dropped.emplace(std::move(*captured_));
    captured_.reset();
  }
  const auto found = chains_.find(stream);
  if (found == chains_.end()) return;
  left_ += found->second.has_tasks ? 1 : 0;
  chains_.erase(found);
}

bool HostEvent::done() const {
  require(
      capture_ == nullptr,
      "done() of an event that was recorded while its stream was capturing: it is a point in the graph, not in work "
      "that runs. Record an event after launching the graph.");
  return is_set();
}

}  // namespace onstream::host
