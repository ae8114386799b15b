// StreamTracker: how far each stream has work of one owner, so that its end can wait for that work, or be put off until
// then.
//
// One event a stream, behind the newest op. Captured work is not counted, nor are replays: a graph keeps alive all it
// needs by itself (Device::retain). A forked child has none of these events. Thread-safe.
//
// A thread that notes an op may stop between taking its point and keeping it, while another goes past it on the same
// stream. So each takes a number before its point, and the point of the greatest number stays: it lies behind the ops
// of all smaller numbers, as those were enqueued before their numbers were taken. That is one atomic addition for an
// op, and no lock is held while the device is called.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream {

class StreamTracker {
 public:
  explicit StreamTracker(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // After an op was enqueued. The point behind it; null inside a capture.
  std::shared_ptr<Event> note(Stream stream) {
    const std::uint64_t number = take_number();
    std::shared_ptr<Event> event = device_->point(stream);
    if (event != nullptr) keep(stream, {number, event});
    return event;
  }

  // Notes an op that another owner has a part in: one point for both.
  std::shared_ptr<Event> note(Stream stream, StreamTracker& other) {
    const std::uint64_t number = other.take_number();
    std::shared_ptr<Event> event = note(stream);
    if (event != nullptr) other.keep(stream, {number, event});
    return event;
  }

  // Streams that it has an event of.
  std::size_t streams() const {
    const std::lock_guard lock(mutex_);
    return newest_.size();
  }

  // The newest point of each stream beside these, over or not: the device is not asked.
  std::vector<std::shared_ptr<Event>> points(const std::vector<Stream>& beside = {}) const {
    if (guard_.in_child()) return {};
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Event>> events;
    for (const auto& [handle, point] : newest_) {
      const auto is_this = [one = handle](Stream stream) { return stream.handle == one; };
      if (std::ranges::none_of(beside, is_this)) events.push_back(point.event);
    }
    return events;
  }

  // Waits for all of it; false when the deadline comes first. Throws if the device is lost.
  bool done(Deadline deadline) {
    for (const auto& event : points()) {
      for (std::uint32_t round = 0; !event->done(); ++round) {
        if (deadline.passed()) return false;
        HostGroup::pause(round, 16);
      }
    }
    return true;
  }

 private:
  struct Point {
    std::uint64_t number = 0;
    std::shared_ptr<Event> event;
  };

  // Releases this thread's enqueued work to threads that take a greater number, and acquires the work of those with
  // smaller ones.
  std::uint64_t take_number() { return numbers_.fetch_add(1, std::memory_order_acq_rel) + 1; }

  void keep(Stream stream, Point point) {
    const std::lock_guard lock(mutex_);
    Point& newest = newest_[stream.handle];
    if (point.number > newest.number) newest = std::move(point);
    if (newest_.size() > enough_) forget_done();
  }

  // Streams come and go, also such as nobody tells of.
  void forget_done() {
    constexpr std::size_t kFew = 64;
    std::erase_if(newest_, [](const auto& one) { return ended(*one.second.event); });
    enough_ = std::max(kFew, 2 * newest_.size());
  }

  const ForkGuard guard_;
  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> numbers_ = 0;  // taken so far
  std::map<void*, Point> newest_;           // by stream
  std::size_t enough_ = 64;                 // of them, until done ones are forgotten
};

}  // namespace onstream
