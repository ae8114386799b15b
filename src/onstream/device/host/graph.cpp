// Collecting tasks, and running them again and again.
#include "onstream/device/host/graph.hpp"

#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/disposal.hpp"

namespace onstream::host {

Graph::~Graph() {
  for (auto& thing : captured_.retained) Disposal::of_process().hand_over(std::move(thing));
}

void Graph::run() const {
  const std::lock_guard lock(replaying_);
  for (const Task& task : captured_.tasks) host::run(task);
}

void GraphTask::run() const { graph->run(); }

bool Capture::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

bool Capture::append(Task& task) {
  const std::lock_guard lock(mutex_);
  if (open_) captured_.tasks.push_back(std::move(task));
  return open_;
}

void Capture::retain(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  auto& retained = captured_.retained;
  if (open_ && (retained.empty() || retained.back() != thing)) retained.push_back(std::move(thing));
}

Captured Capture::end() {
  const std::lock_guard lock(mutex_);
  open_ = false;
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
