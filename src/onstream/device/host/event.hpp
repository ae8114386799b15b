// A point in a host stream's work: a flag that the stream sets when it gets there.
//
// An event recorded while the stream captures is a point in that capture instead: other streams that wait for it join
// the capture, and it is never done by itself.
#pragma once

#include <atomic>
#include <memory>

#include "onstream/device/device.hpp"

namespace onstream::host {

class Capture;

class Event final : public onstream::Event {
 public:
  explicit Event(std::shared_ptr<Capture> capture) : capture_(std::move(capture)) {}

  // Throws invalid_argument for a point in a capture.
  bool done() const override;

  // The capture that this is a point in; null for a point in work that runs.
  const std::shared_ptr<Capture>& capture() const { return capture_; }

  void set() {
    set_.store(1, std::memory_order_release);  // pairs with done() and wait()
    set_.notify_all();
  }
  bool is_set() const { return set_.load(std::memory_order_acquire) != 0; }
  // Blocks until set; the work before the point is bounded by its own deadlines.
  void wait() const { set_.wait(0, std::memory_order_acquire); }

 private:
  std::shared_ptr<Capture> capture_;
  std::atomic<int> set_{0};
};

}  // namespace onstream::host
