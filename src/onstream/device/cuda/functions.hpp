// The driver's handles of kernels, by the addresses that programs know them by: the driver launches a kernel in 0.4 us
// less than the runtime library does, which looks the handle up each time. One table for each GPU.
//
// The thread that loads or first launches a kernel makes its entry; launches find it without a lock. An entry stays;
// loading another kernel at that address replaces it, as when a library is loaded where another was unloaded. A kernel
// that no longer fits is no error: each of its launches looks it up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "onstream/device/cuda/driver.hpp"

namespace onstream::cuda {

class Functions {
 public:
  // Null if there is no entry.
  CUfunction find(const void* kernel) const {
    for (std::size_t at = begin_of(kernel);; at = (at + 1) % kEntries) {
      const void* here = entries_[at].kernel.load(std::memory_order_acquire);  // pairs with put()
      if (here == kernel) return entries_[at].function.load(std::memory_order_relaxed);
      if (here == nullptr) return nullptr;
    }
  }

  void put(const void* kernel, CUfunction function) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::size_t at = begin_of(kernel);
    const void* here = nullptr;
    while ((here = entries_[at].kernel.load(std::memory_order_relaxed)) != nullptr && here != kernel) {
      at = (at + 1) % kEntries;
    }
    if (here == nullptr && count_ == kMost) return;
    entries_[at].function.store(function, std::memory_order_relaxed);
    if (here != nullptr) return;
    entries_[at].kernel.store(kernel, std::memory_order_release);  // pairs with find()
    ++count_;
  }

 private:
  static constexpr std::size_t kEntries = 2048;
  static constexpr std::size_t kMost = kEntries / 2;  // full, a search would be long, and one in vain without end

  struct FunctionEntry {
    std::atomic<const void*> kernel{nullptr};
    std::atomic<CUfunction> function{nullptr};
  };

  static std::size_t begin_of(const void* kernel) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // Fibonacci hashing: Knuth, TAOCP volume 3, 6.4
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(kernel) * kGolden >> 32) % kEntries;
  }

  std::mutex mutex_;  // of the writers
  std::array<FunctionEntry, kEntries> entries_;
  std::size_t count_ = 0;
};

}  // namespace onstream::cuda
