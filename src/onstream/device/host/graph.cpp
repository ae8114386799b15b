// Collecting tasks, and running them again and again.
#include "onstream/device/host/graph.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/disposal.hpp"

namespace onstream::host {

namespace {

bool is_list(const std::vector<Node>& nodes) {
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (std::ranges::find(nodes[i].after, i - 1) == nodes[i].after.end()) return false;
  }
  return true;
}

}  // namespace

Graph::Graph(Captured captured) : captured_(std::move(captured)) {
  if (!is_list(captured_.nodes)) branches_ = std::make_unique<Branches>(captured_.nodes, captured_.streams);
}

Graph::~Graph() {
  for (auto& thing : captured_.retained) Disposal::of_process().hand_over(std::move(thing));
}

void Graph::run() const {
  const std::lock_guard lock(replaying_);
  if (branches_ != nullptr) return branches_->replay();
  for (const Node& node : captured_.nodes) host::run(node.task);
}

void GraphTask::run() const { graph->run(); }

bool Capture::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

bool Capture::append(const Stream* stream, Task& task) {
  const std::lock_guard lock(mutex_);
  if (!open_) return false;
  std::vector<std::size_t>& reached = reached_[stream];
  captured_.nodes.push_back({std::move(task), std::move(reached)});
  reached = {captured_.nodes.size() - 1};
  return true;
}

std::vector<std::size_t> Capture::reached(const Stream* stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = reached_.find(stream);
  return found == reached_.end() ? std::vector<std::size_t>() : found->second;
}

void Capture::wait(const Stream* stream, const std::vector<std::size_t>& nodes) {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t>& reached = reached_[stream];
  for (const std::size_t node : nodes) {
    if (std::ranges::find(reached, node) == reached.end()) reached.push_back(node);
  }
}

void Capture::retain(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  auto& retained = captured_.retained;
  if (open_ && (retained.empty() || retained.back() != thing)) retained.push_back(std::move(thing));
}

Captured Capture::end() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  std::vector<bool> awaited(captured_.nodes.size(), false);
  for (const Node& node : captured_.nodes) {
    for (const std::size_t earlier : node.after) awaited[earlier] = true;
  }
  for (const std::size_t node : reached_[origin_]) awaited[node] = true;
  require(
      std::ranges::find(awaited, false) == awaited.end(),
      "end_capture(): there is unjoined work: another stream joined the capture, and the one that began it does not "
      "wait for an event behind all that was added there");
  captured_.streams = reached_.size();
  return std::move(captured_);
}

bool Event::done() const {
  require(
      capture_ == nullptr,
      "done() of an event that was recorded while its stream was capturing: it is a point in the graph, not in work "
      "that runs. Record an event after launching the graph.");
  return is_set();
}

}  // namespace onstream::host
