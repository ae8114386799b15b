// A point in a host stream's work: a flag that the stream sets when it gets there.
//
// An event recorded while the stream captures is a point in that capture instead: other streams that wait for it join
// the capture, and it is never done by itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "onstream/device.hpp"

namespace onstream::host {

class Capture;

class HostEvent final : public onstream::Event {
 public:
  HostEvent() = default;
  // The point at which these tasks of a capture are done.
  HostEvent(std::shared_ptr<Capture> capture, std::vector<std::size_t> nodes)
      : capture_(std::move(capture)), nodes_(std::move(nodes)) {}

  // Throws invalid_argument for a point in a capture.
  bool done() const override;

  // The capture that this is a point in; null for a point in work that runs.
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  const std::vector<std::size_t>& nodes() const { return nodes_; }

  void set();
  bool is_set() const { return set_.load(std::memory_order_acquire) != 0; }  // pairs with set()
  // Blocks until set, and says so if that takes long (patience.hpp).
  void wait() const;

 private:
  std::shared_ptr<Capture> capture_;
  std::vector<std::size_t> nodes_;
  std::atomic<bool> set_{false};
  mutable std::atomic<int> waiters_{0};
};

}  // namespace onstream::host
