// Uses: how far each stream has work of one owner, so that its end can wait for that work, or be put off until then.
//
// One event a stream, behind the newest op. What is captured is no use yet, nor are replays: a graph keeps alive what
// it needs by itself (Device::retain). None of it is a forked child's. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/device/device.hpp"
#include "onstream/device/group.hpp"

namespace onstream {

class Uses {
 public:
  explicit Uses(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // After an op was enqueued. The point behind it; null inside a capture.
  std::shared_ptr<Event> note(Stream stream) {
    std::shared_ptr<Event> event = device_->point(stream);
    if (event != nullptr) note(stream, event);
    return event;
  }

  // The same for a point that another owner has recorded.
  void note(Stream stream, std::shared_ptr<Event> behind) {
    const std::lock_guard lock(mutex_);
    newest_[stream.handle] = std::move(behind);
    if (newest_.size() > enough_) forget_done();
  }

  // Streams that it has an event of.
  std::size_t streams() const {
    const std::lock_guard lock(mutex_);
    return newest_.size();
  }

  // The newest point of each stream, over or not: the device is not asked.
  std::vector<std::shared_ptr<Event>> points() const {
    if (guard_.in_child()) return {};
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Event>> events;
    for (const auto& [handle, event] : newest_) events.push_back(event);
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
  // Streams come and go, also such as nobody tells of.
  void forget_done() {
    constexpr std::size_t kFew = 64;
    std::erase_if(newest_, [](const auto& one) { return ended(*one.second); });
    enough_ = std::max(kFew, 2 * newest_.size());
  }

  const ForkGuard guard_;
  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<Event>> newest_;  // by stream
  std::size_t enough_ = 64;                         // of them, until done ones are forgotten
};

}  // namespace onstream
