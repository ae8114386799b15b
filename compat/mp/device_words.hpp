// The words through which a kernel of the program starts and awaits one op: pinned memory, from a pool.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device.hpp"

namespace onstream::mp {

struct alignas(64) DeviceWords {
  std::uint64_t doorbell = 0;  // 1: start
  std::uint32_t record = 0;    // stored before the doorbell, as libmp did; read by nobody
  std::uint32_t done = 0;      // 1: the op is complete
  std::uint32_t seen = 0;      // 1: the kernel knows
  std::uint32_t asked = 0;     // 1: a wait descriptor was handed out. The host's own.
};

// Keeps the pool alive while its words are held.
class DeviceWordsPool : public std::enable_shared_from_this<DeviceWordsPool> {
 public:
  explicit DeviceWordsPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // All zero. Given back with the last holder.
  std::shared_ptr<DeviceWords> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    DeviceWords* words = free_.back();
    free_.pop_back();
    *words = {};
    return {words, [pool = shared_from_this()](DeviceWords* back) {
              const std::lock_guard returning(pool->mutex_);
              pool->free_.push_back(back);
            }};
  }

 private:
  void grow() {
    constexpr std::size_t kCount = 64;
    memory_.push_back(device_->allocate(kCount * sizeof(DeviceWords), MemoryKind::pinned));
    auto* words = reinterpret_cast<DeviceWords*>(memory_.back()->data());
    for (std::size_t i = 0; i < kCount; ++i) free_.push_back(words + i);
  }

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<DeviceWords*> free_;
  std::vector<std::shared_ptr<Memory>> memory_;
};

}  // namespace onstream::mp
