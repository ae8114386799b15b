// Uses: how far each stream has work of one owner, so that the owner's end can wait for it, or be put off until then.
//
// One event a stream, behind the newest op. Work that is captured is no use yet, nor are replays: a graph keeps alive
// what it needs by itself (Device::retain). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/device/device.hpp"
#include "onstream/device/group.hpp"

namespace onstream {

class Uses {
 public:
  // `event` lies behind the newest op on the stream.
  void note(Stream stream, std::shared_ptr<Event> event) {
    const std::lock_guard lock(mutex_);
    newest_[stream.handle] = std::move(event);
  }

  std::vector<std::shared_ptr<Event>> unfinished() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Event>> events;
    for (const auto& [handle, event] : newest_) {
      if (!event->done()) events.push_back(event);
    }
    return events;
  }

  // Blocks until all noted work has finished. False at the deadline.
  bool finish(Deadline deadline) const {
    for (const auto& event : unfinished()) {
      for (std::uint32_t round = 0; !event->done(); ++round) {
        if (deadline.passed()) return false;
        HostGroup::pause(round, 16);
      }
    }
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<Event>> newest_;  // by stream
};

}  // namespace onstream
