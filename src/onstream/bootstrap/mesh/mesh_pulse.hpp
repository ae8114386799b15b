// The pulse between hosts: a rank tells its peers on other hosts that it lives, and times their silence.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "onstream/base/clock.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream {

// The periods that follow from parameter network_timeout_s. A peer is named dead before that has passed since the cut,
// whenever in the period the cut comes.
struct PulseTimes {
  explicit PulseTimes(double timeout_s) : period_s(timeout_s / 5), limit_s(timeout_s * 4 / 5) {}
  double period_s;  // a rank that has sent nothing for so long sends a pulse
  double limit_s;   // a peer that was silent for so long is dead
};

// Time in which the mesh's thread listened. Not counted is the time in which the process stood still, or its thread had
// other work: bytes that came meanwhile lie unread, and that is no silence.
class ListeningClock {
 public:
  // Once a turn of the thread, after all that came has been read.
  void turn() {
    constexpr std::uint64_t kLongestTurnNs = 150'000'000;  // a turn waits for 50 ms
    const std::uint64_t now = now_ns();
    listened_ns_ += std::min(now - last_ns_, kLongestTurnNs);
    last_ns_ = now;
  }
  std::uint64_t listened_ns() const { return listened_ns_; }

 private:
  std::uint64_t last_ns_ = now_ns();
  std::uint64_t listened_ns_ = 0;
};

// A thread of its own, so that a long handler in the mesh's thread does not look like a death. It calls `beat` four
// times a period, until it is destroyed.
class PulseThread {
 public:
  PulseThread(double period_s, std::function<void()> beat)
      : quarter_(period_s / 4), beat_(std::move(beat)), thread_(quiet_thread([this] { run(); })) {}
  ~PulseThread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_one();
    thread_.join();
  }
  PulseThread(const PulseThread&) = delete;
  PulseThread& operator=(const PulseThread&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, quarter_, [this] { return stopping_; })) {
      lock.unlock();
      beat_();
      lock.lock();
    }
  }

  const std::chrono::duration<double> quarter_;
  const std::function<void()> beat_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace onstream
