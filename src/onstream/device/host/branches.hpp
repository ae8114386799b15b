// How a graph with branches replays on the host device.
//
// The replaying thread runs the tasks itself, in the order in which they were captured: that needs no second thread,
// and fits ranks that share cores. But branches do not wait for each other: one may stand still until a peer has got
// the data that another sends. So there are helpers, one for each stream of the capture but the first. When the
// replaying thread has finished nothing for kStandstill, a helper takes the next task whose predecessors are done.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "onstream/device/host/task.hpp"

namespace onstream::host {

// A captured task, and the tasks before it that it waits for.
struct Node {
  Task task;
  std::vector<std::size_t> after;
};

class Branches {
 public:
  // Refers to `nodes`, each of which comes behind those that it waits for.
  Branches(const std::vector<Node>& nodes, std::size_t streams);
  ~Branches();  // while nothing is replayed
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;

  // Runs each task once. One replay at a time.
  void replay();

 private:
  static constexpr std::chrono::milliseconds kStandstill{1};

  // With mutex_ held:
  std::optional<std::size_t> take();
  void finish(std::size_t node);
  bool under_way() const { return finished_ < nodes_.size(); }

  void help();
  void end_helpers();

  const std::vector<Node>& nodes_;
  std::vector<std::vector<std::size_t>> before_;  // of each node, those that wait for it

  std::mutex mutex_;                 // guards everything below
  std::condition_variable changed_;  // a task is finished
  std::condition_variable begun_;    // a replay has begun: for helpers that have given up looking; or it is time to end
  std::condition_variable ended_;    // it is time to end
  std::vector<std::size_t> missing_;  // of each node, how many of those that it waits for are not finished
  std::vector<bool> taken_;
  std::size_t first_ = 0;  // all before it are taken
  std::size_t finished_;
  std::uint64_t own_ = 0;  // tasks that replaying threads have finished so far
  bool ending_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace onstream::host
