// Uses: how far each stream has work of one owner, so that its end can wait for that work.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "onstream/device/device.hpp"

namespace onstream {

class Uses {
 public:
  explicit Uses(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // After an op was enqueued. The point behind it; null inside a capture.
  std::shared_ptr<Event> note(Stream stream) {
    if (device_->capturing(stream)) return nullptr;
    std::shared_ptr<Event> event = device_->record(stream);
    const std::lock_guard lock(mutex_);
    newest_[stream.handle] = event;
    return event;
  }

  // Waits for all of it; false when the deadline comes first.
  bool done(Deadline deadline) {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, event] : newest_) {
      for (std::uint32_t round = 0; !event->done(); ++round) {
        if (deadline.passed()) return false;
        HostGroup::pause(round, 16);
      }
    }
    return true;
  }

 private:
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Event>> newest_;  // by stream
};

}  // namespace onstream
