// Capture and replay on the host device.
//
// A Capture collects tasks, in the order in which the program enqueues them, from the stream that began it and from
// those that joined by waiting for an event of it. That order respects every dependency between them, so a Graph is
// simply a list of tasks. Replays of one graph never overlap, as on a GPU.
#pragma once

#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"
#include "onstream/device/host/task.hpp"

namespace onstream::host {

class Stream;

class Graph final : public onstream::Graph {
 public:
  explicit Graph(std::vector<Task> tasks) : tasks_(std::move(tasks)) {}
  // Runs all tasks in the calling thread.
  void run() const;

 private:
  const std::vector<Task> tasks_;
  mutable std::mutex replaying_;
};

class Capture {
 public:
  explicit Capture(const Stream* origin) : origin_(origin) {}

  const Stream* origin() const { return origin_; }
  bool open() const;
  // False, and nothing appended, when the capture has ended.
  bool append(Task& task);
  std::vector<Task> end();

 private:
  const Stream* const origin_;  // compared, never followed
  mutable std::mutex mutex_;
  std::vector<Task> tasks_;
  bool open_ = true;
};

}  // namespace onstream::host
