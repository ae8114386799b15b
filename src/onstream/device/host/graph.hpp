// Capture and replay on the host device.
//
// A Capture collects tasks, in the order in which the program enqueues them, from the stream that began it and from
// those that joined by waiting for an event of it. That order respects every dependency between them, so a Graph is
// simply a list of tasks. Replays of one graph never overlap, as on a GPU. What the captured work needs is kept with
// it, and let go in the disposal's thread: the last owner of a graph may be a stream's worker, and what it lets go of
// may own that stream's device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"
#include "onstream/device/host/task.hpp"

namespace onstream::host {

class Stream;

// What a capture collected.
struct Captured {
  std::vector<Task> tasks;
  std::vector<std::shared_ptr<const void>> retained;
};

class Graph final : public onstream::Graph {
 public:
  explicit Graph(Captured captured) : captured_(std::move(captured)) {}
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::size_t nodes() const override { return captured_.tasks.size(); }
  // Runs all tasks in the calling thread.
  void run() const;

 private:
  Captured captured_;
  mutable std::mutex replaying_;
};

class Capture {
 public:
  explicit Capture(const Stream* origin) : origin_(origin) {}

  const Stream* origin() const { return origin_; }
  bool open() const;
  // False, and nothing appended, when the capture has ended.
  bool append(Task& task);
  void retain(std::shared_ptr<const void> thing);
  Captured end();

 private:
  const Stream* const origin_;  // compared, never followed
  mutable std::mutex mutex_;
  Captured captured_;
  bool open_ = true;
};

}  // namespace onstream::host
