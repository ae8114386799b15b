// Capture and replay on the host device.
//
// A Capture collects tasks, in the order in which the program enqueues them, from the stream that began it and from
// those that joined by waiting for an event of it. Each waits for the last one of its stream before it, and for those
// that its stream's events stand for. If every task waits for the one before it, the HostGraph is simply a list;
// otherwise it has branches (branches.hpp). Replays of one graph never overlap, as on a GPU. The graph keeps the
// objects that its work needs, and they are released in the thread of DeferredRelease: the last owner of a graph may be
// a stream's worker, and such an object may own that stream's device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/host/branches.hpp"
#include "onstream/device/host/task.hpp"
#include "onstream/device/lifetime/guards.hpp"

namespace onstream::host {

class HostStream;

// The tasks and objects of a capture. The destructor hands the retained objects to DeferredRelease.
struct CapturedTasks {
  CapturedTasks() = default;
  CapturedTasks(CapturedTasks&&) = default;
  CapturedTasks& operator=(CapturedTasks&&) = delete;
  ~CapturedTasks();

  std::vector<Node> nodes;
  std::size_t streams = 0;  // with tasks
  std::vector<std::shared_ptr<const void>> retained;
  LaunchGuards guards;  // of those retained
};

class HostGraph final : public onstream::Graph {
 public:
  explicit HostGraph(CapturedTasks captured);
  ~HostGraph() override = default;
  HostGraph(const HostGraph&) = delete;
  HostGraph& operator=(const HostGraph&) = delete;

  std::size_t nodes() const override { return captured_.nodes.size(); }
  const LaunchGuards& guards() const { return captured_.guards; }
  // Runs all tasks: in the calling thread, unless that stands still.
  void run() const;

 private:
  CapturedTasks captured_;
  std::unique_ptr<Branches> branches_;  // null: a list
  mutable std::mutex replaying_;
};

class Capture {
 public:
  explicit Capture(const HostStream* origin) : origin_(origin) {}

  const HostStream* origin() const { return origin_; }
  bool open() const;
  // False, and nothing appended, when the capture has ended.
  bool append(const HostStream* stream, Task& task);
  // A stream's position: its last task, or the tasks that it waits for before its next one.
  std::vector<std::size_t> reached(const HostStream* stream) const;
  void wait(const HostStream* stream, const std::vector<std::size_t>& nodes);
  void retain(std::shared_ptr<const void> thing);
  void guard(std::shared_ptr<const LaunchGuard> guard);
  // Throws invalid_argument for work that the origin does not wait for.
  CapturedTasks end();
  // The stream is gone. Without its origin the capture has ended, and lets go of everything: the retained things may
  // hold events of the capture, which hold it.
  void leave(const HostStream* stream);

 private:
  // Another stream may come to have the address of one that is gone.
  struct StreamTail {
    std::vector<std::size_t> reached;
    bool has_tasks = false;
  };

  const HostStream* const origin_;  // compared, never followed
  mutable std::mutex mutex_;
  std::optional<CapturedTasks> captured_ = CapturedTasks();  // until it has ended
  std::map<const HostStream*, StreamTail> chains_;           // compared, never followed
  std::size_t left_ = 0;                                     // streams with tasks that are gone
};

}  // namespace onstream::host
