// OwnMemory: device memory that the kernels of one world use and no other rank sees, in small pieces. A GPU gives
// memory out by 2 MiB, and a world needs a few words here and there.
//
// A piece is zero when it is taken. It is not given back: a chunk of them goes with its last holder. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>

#include "onstream/device.hpp"

namespace onstream {

class OwnMemory {
 public:
  explicit OwnMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Throws as Device::allocate() does.
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    constexpr std::size_t kApart = 128;  // a line of the GPU's cache
    constexpr std::size_t kChunk = 256 * 1024;
    const std::lock_guard lock(mutex_);
    if (chunk_ == nullptr || chunk_->bytes() - used_ < bytes) {
      chunk_ = device_->allocate(std::max(bytes, kChunk), MemoryKind::device);
      used_ = 0;
    }
    std::byte* const piece = chunk_->data() + used_;
    used_ = std::min(chunk_->bytes(), (used_ + bytes + kApart - 1) / kApart * kApart);
    return {chunk_, piece};
  }

 private:
  std::shared_ptr<Device> device_;
  std::mutex mutex_;  // guards all below
  std::shared_ptr<Memory> chunk_;
  std::size_t used_ = 0;
};

}  // namespace onstream
