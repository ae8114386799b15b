// Small memory over memory that the CPU addresses itself; and every kind's check of a put and a get.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>

#include "onstream/base/error.hpp"
#include "onstream/device.hpp"

namespace onstream {

inline void check_small(const char* call, std::size_t offset, std::size_t bytes, std::size_t room) {
  require(offset <= room && bytes <= room - offset, call, " of ", bytes, " B at offset ", offset,
          " of small memory of ", room, " B");
}

class AddressedSmallMemory final : public SmallMemory {
 public:
  explicit AddressedSmallMemory(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return memory_->data(); }
  std::size_t bytes() const override { return memory_->bytes(); }
  MemoryKind kind() const override { return memory_->kind(); }

  void put(std::size_t offset, const void* source, std::size_t bytes) override {
    check_small("put", offset, bytes, memory_->bytes());
    std::memcpy(memory_->data() + offset, source, bytes);
    std::atomic_thread_fence(std::memory_order_release);  // before the launch that follows
  }
  void get(void* destination, std::size_t offset, std::size_t bytes) const override {
    check_small("get", offset, bytes, memory_->bytes());
    std::atomic_thread_fence(std::memory_order_acquire);
    std::memcpy(destination, memory_->data() + offset, bytes);
  }

 private:
  std::shared_ptr<Memory> memory_;
};

}  // namespace onstream
