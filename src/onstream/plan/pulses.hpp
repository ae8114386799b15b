// Pulses: words in pinned memory by which the watch knows what a stream waits for (transport/watch.hpp), to be taken
// and given back. Thread-safe; the memory lives as long as this object.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream::plan {

class Pulses {
 public:
  explicit Pulses(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  std::uint32_t* take();
  // What was enqueued with it is over.
  void give_back(std::uint32_t* pulse);

 private:
  std::shared_ptr<Device> device_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Memory>> pages_;
  std::size_t taken_ = 0;  // of the last page
  std::vector<std::uint32_t*> free_;
};

}  // namespace onstream::plan
