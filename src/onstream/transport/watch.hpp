// Watchdog: stands by waits that a stream makes itself (Device::operate), which look at no deadline and at no abort
// word.
//
// The code that enqueues such waits describes them once. The stream sets a pulse word to the number of the phase that
// it is about to wait in. It is taken for waiting as long as some word of that phase has not come; where it resets such
// words itself it writes another pulse at the same time, and a finding counts only if two looks agree on it. A thread
// looks now and then: a word that has not come by the deadline is reported like the fault of a kernel, one that the
// world does not live to see as aborted; and once the world has failed the thread stores the awaited values, so that
// the streams drain.
//
// The stream's values are constants, so a captured launch needs no host. That a phase is a new one is seen by a mark
// that the thread itself leaves in the pulse. Everything lies in pinned host memory: no driver call takes part.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "onstream/transport/failure.hpp"

namespace onstream {

// A word that a stream waits for to be 1, and the fault to report when it does not come.
struct AwaitedWord {
  std::uint32_t* word = nullptr;
  FaultReport fault;  // all but rank and status
};

struct StreamWaits {
  std::uint32_t* pulse = nullptr;
  std::vector<std::vector<AwaitedWord>> phases;  // phases[0] while the pulse is 1, and so on
};

class Watchdog {
 public:
  // `report` fails the world for a timeout, and for a wait for a peer that `has_left`; called in the watch's thread.
  // The memory of `abort` must outlive this object.
  Watchdog(std::uint64_t timeout_ns, const std::uint64_t* abort, std::function<void(const FaultReport&)> report,
           std::function<bool(int peer)> has_left)
      : timeout_ns_(timeout_ns), abort_(abort), report_(std::move(report)), has_left_(std::move(has_left)) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Stands by these waits until the answer is let go: after the launches, before the memory of the words.
  std::shared_ptr<void> stand_by(StreamWaits waits);
  // From now on nothing is reported. Streams are let go on all the same when the abort word is set.
  void mute();

 private:
  struct WatchedWaits {
    StreamWaits waits;
    std::uint64_t since_ns = 0;  // the marked phase was first seen
    int late = 0;                // looks, one after the other, that found it late
    int deserted = 0;            // ... that found it waiting for a peer that had left
    bool reported = false;       // its faults are reported
  };

  void work();
  bool look(WatchedWaits& entry, bool failed);
  void report(WatchedWaits& entry, const std::vector<AwaitedWord>& missing, Status status);

  std::uint64_t timeout_ns_;
  const std::uint64_t* abort_;
  std::function<void(const FaultReport&)> report_;  // guarded by mutex_
  std::function<bool(int peer)> has_left_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable news_;
  std::vector<std::shared_ptr<WatchedWaits>> entries_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace onstream
