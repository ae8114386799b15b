// ScratchPool: device memory that calls need for as long as they run. The last owner to let go of a block gives it
// back, and the next call for which it is large enough takes it: neither the system nor the peers that have mapped it
// hear of that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "onstream/device.hpp"

namespace onstream::collective {

class ScratchPool : public std::enable_shared_from_this<ScratchPool> {
 public:
  explicit ScratchPool(std::shared_ptr<Device> device) : device_(std::move(device)) { spares_.reserve(kMost + 1); }

  // At least so many bytes, with anything in them. The memory goes back when the pointer's last copy goes.
  std::shared_ptr<std::byte> lease(std::size_t bytes) {
    std::shared_ptr<Memory> memory = take(bytes);
    if (memory == nullptr) memory = device_->allocate(std::max(kLeast, bytes), MemoryKind::device);
    std::byte* const data = memory->data();
    const auto give_back = [home = shared_from_this(), memory = std::move(memory)](std::byte*) mutable {
      home->put(std::move(memory));
    };
    return {data, give_back};
  }
  // The bytes of the blocks that nobody holds now.
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& one : spares_) sum += one->bytes();
    return sum;
  }

 private:
  static constexpr std::size_t kLeast = 4096;
  static constexpr std::size_t kLargest = std::size_t{16} << 20;  // larger ones are freed: to allocate them costs less
  static constexpr std::size_t kMost = 4;                         // spares that are kept: those given back last

  // The smallest that will do, unless most of it would be idle. Null: there is none.
  std::shared_ptr<Memory> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto will_do = [&](const std::shared_ptr<Memory>& one) {
      return one->bytes() >= bytes && one->bytes() / 4 <= std::max(kLeast, bytes);
    };
    auto best = spares_.end();
    for (auto one = spares_.begin(); one != spares_.end(); ++one) {
      if (will_do(*one) && (best == spares_.end() || (*one)->bytes() < (*best)->bytes())) best = one;
    }
    if (best == spares_.end()) return nullptr;
    std::shared_ptr<Memory> memory = std::move(*best);
    spares_.erase(best);
    return memory;
  }
  void put(std::shared_ptr<Memory> memory) {
    if (memory->bytes() > kLargest) return;
    std::shared_ptr<Memory> gone;  // freed without the mutex
    const std::lock_guard lock(mutex_);
    spares_.push_back(std::move(memory));
    if (spares_.size() <= kMost) return;
    gone = std::move(spares_.front());
    spares_.erase(spares_.begin());
  }

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Memory>> spares_;  // in the order in which they came back
};

}  // namespace onstream::collective
