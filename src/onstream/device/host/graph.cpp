// Collecting tasks, and running them again and again.
#include "onstream/device/host/graph.hpp"

#include <utility>

#include "onstream/base/error.hpp"

namespace onstream::host {

void Graph::run() const {
  const std::lock_guard lock(replaying_);
  for (const Task& task : tasks_) host::run(task);
}

void GraphTask::run() const { graph->run(); }

bool Capture::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

bool Capture::append(Task& task) {
  const std::lock_guard lock(mutex_);
  if (open_) tasks_.push_back(std::move(task));
  return open_;
}

std::vector<Task> Capture::end() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  return std::move(tasks_);
}

bool Event::done() const {
  require(
      capture_ == nullptr,
      "done() of an event that was recorded while its stream was capturing: it is a point in the graph, not in work "
      "that runs. Record an event after launching the graph.");
  return is_set();
}

}  // namespace onstream::host
