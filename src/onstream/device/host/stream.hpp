// A stream of the host device: a queue of tasks, executed strictly one after the other.
//
// The first thread to come executes: the stream's own worker thread, or one that waits in synchronize(), so that
// "enqueue; synchronize" switches no thread. `running_` is the right to execute and never has two owners. Invariant: if
// the queue is not empty and nobody executes, the worker is awake. The worker starts with the first task, spins briefly
// when it runs dry, and then sleeps; waking it is the only system call of an enqueue.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "onstream/device/host/graph.hpp"
#include "onstream/device/host/task.hpp"

namespace onstream::host {

class HostStream {
 public:
  HostStream() = default;
  ~HostStream();  // waits for the work; an open capture is dropped
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Runs `task` after all earlier ones, or adds it to the capture. Does not block on earlier work.
  void enqueue(Task task);

  // Nothing enqueued is unfinished. Throws invalid_argument while capturing.
  bool idle() const;
  // Blocks until all that was enqueued before the call has finished, executing it where the worker has not begun.
  // Throws invalid_argument while capturing.
  void synchronize();

  std::shared_ptr<HostEvent> record();
  void wait(const std::shared_ptr<HostEvent>& event);

  void begin_capture();
  std::shared_ptr<HostGraph> end_capture();
  bool capturing() const;
  void retain(std::shared_ptr<const void> thing);
  void guard(std::shared_ptr<const LaunchGuard> guard);

 private:
  // With mutex_ held by `lock`:
  bool executable() const { return !running_ && !queue_.empty(); }
  void execute_front(std::unique_lock<std::mutex>& lock);
  void finish_one();
  void wake_worker();
  bool in_capture() const { return capture_ != nullptr && capture_->open(); }

  void work();

  mutable std::mutex mutex_;  // guards everything below
  std::list<Task> queue_;
  std::list<Task> spare_;                    // nodes of finished tasks, to enqueue without an allocation
  std::atomic<std::uint64_t> enqueued_ = 0;  // written under mutex_, read by spinning threads
  std::atomic<std::uint64_t> finished_ = 0;
  std::uint64_t next_waited_ = UINT64_MAX;  // the lowest finished_ that a sleeper in synchronize() waits for
  bool running_ = false;
  bool worker_asleep_ = false;
  bool stopping_ = false;
  std::shared_ptr<Capture> capture_;
  std::condition_variable wake_;
  std::condition_variable progress_;
  std::thread worker_;
};

}  // namespace onstream::host
