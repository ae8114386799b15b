// Spares: device memory that calls need for as long as they run. Whoever lets go of some last gives it back, and the
// next call that it is large enough for has it: neither the system nor the peers that have mapped it hear of that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream::collective {

class Spares : public std::enable_shared_from_this<Spares> {
 public:
  explicit Spares(std::shared_ptr<Device> device) : device_(std::move(device)) { spares_.reserve(kMost + 1); }

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

 private:
  static constexpr std::size_t kLeast = 4096;
  static constexpr std::size_t kMost = 4;  // spares that are kept

  // The smallest that will do, unless most of it would be idle. Null: there is none.
  std::shared_ptr<Memory> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto first = std::ranges::lower_bound(spares_, bytes, {}, &Memory::bytes);
    if (first == spares_.end() || (*first)->bytes() / 4 > std::max(kLeast, bytes)) return nullptr;
    std::shared_ptr<Memory> memory = std::move(*first);
    spares_.erase(first);
    return memory;
  }
  void put(std::shared_ptr<Memory> memory) {
    std::shared_ptr<Memory> gone;  // freed without the mutex
    const std::lock_guard lock(mutex_);
    spares_.insert(std::ranges::lower_bound(spares_, memory->bytes(), {}, &Memory::bytes), std::move(memory));
    if (spares_.size() <= kMost) return;
    gone = std::move(spares_.front());
    spares_.erase(spares_.begin());
  }

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Memory>> spares_;  // by size
};

}  // namespace onstream::collective
