// DeferredRelease: lets go of things whose release may wait for running kernels (docs/decisions/0005), or must wait for
// events, in a thread of its own.
//
// hand_over() never blocks. The destructor waits until all is released. The process has one that is never destroyed:
// for things that may be the last owners of a device, and for callbacks that must not call one. The process's end waits
// a moment for it, as a release while a driver shuts down may crash.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>
#include "onstream/base/clock.hpp"

#include "onstream/base/quiet_thread.hpp"
#include "onstream/device.hpp"

namespace onstream {

class DeferredRelease {
 public:
  using Events = std::vector<std::shared_ptr<Event>>;

  DeferredRelease() = default;
  ~DeferredRelease() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    news_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  DeferredRelease(const DeferredRelease&) = delete;
  DeferredRelease& operator=(const DeferredRelease&) = delete;

  // A forked child has one of its own: the thread, and the things handed over, stay with its parent.
  static DeferredRelease& of_process() {
    static std::atomic<DeferredRelease*> current = new DeferredRelease;
    static const AtEnd at_end;
    DeferredRelease* it = current.load(std::memory_order_acquire);  // pairs with the exchange
    if (it->owner_ == ::getpid()) return *it;
    auto own = std::make_unique<DeferredRelease>();
    return current.compare_exchange_strong(it, own.get(), std::memory_order_acq_rel) ? *own.release() : *it;
  }

  // While the returned pointer lives, no DeferredRelease of the process releases anything, except one that is being
  // destroyed. For a caller that enqueues a wait for a launch or store that its own process has still to make: a
  // release that waits for that wait would keep every launch back (docs/decisions/0005). Blocks while something is
  // being released.
  static std::shared_ptr<const void> hold() {
    DeferredRelease& process = of_process();
    std::unique_lock lock(process.mutex_);
    process.released_.wait(lock, [&] { return process.releasing_ == 0; });
    ++process.holds_;
    return {&process, [](DeferredRelease* held) {
              const std::lock_guard guard(held->mutex_);
              --held->holds_;
            }};
  }

  // Blocks until all that was handed over is released. False at the deadline.
  bool finish(double limit_s) {
    std::unique_lock lock(mutex_);
    return released_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return open_ == 0; });
  }

  // Lets go of `thing` once all of `after` are done. Without memory or a thread for that, never.
  void hand_over(std::shared_ptr<const void> thing, Events after = {}) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
      arrived_.emplace_back();  // moved into it only now: this thread must not be the last owner
      arrived_.back() = {std::move(after), std::move(thing)};
      ++open_;
      news_.notify_one();
    } catch (const std::exception&) {
      static_cast<void>(new (std::nothrow)
                            std::shared_ptr<const void>(std::move(thing)));  // better lost than too early
    }
  }

 private:
  struct ReleaseEntry {
    Events after;
    std::shared_ptr<const void> thing;
  };

  struct AtEnd {
    AtEnd() = default;
    ~AtEnd() {
      constexpr double kMomentS = 1;
      static_cast<void>(of_process().finish(kMomentS));
    }
  };

  static bool ready(ReleaseEntry& entry) {
    std::erase_if(entry.after, [](const auto& event) { return ended(*event); });
    return entry.after.empty();
  }

  // Unless somebody holds everything back.
  static bool release(ReleaseEntry& entry, bool whoever_holds) {
    DeferredRelease& process = of_process();
    {
      const std::lock_guard lock(process.mutex_);
      if (process.holds_ > 0 && !whoever_holds) return false;
      ++process.releasing_;
    }
    entry.thing.reset();
    const std::lock_guard lock(process.mutex_);
    --process.releasing_;
    process.released_.notify_all();
    return true;
  }

  void work() {
    constexpr auto kLook = std::chrono::milliseconds(1);
    std::vector<ReleaseEntry> held;
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto wanted = [this] { return stopping_ || !arrived_.empty(); };
      if (held.empty()) {
        news_.wait(lock, wanted);
      } else {
        news_.wait_for(lock, kLook);
      }
      if (held.empty() && arrived_.empty()) return;
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(held));
      arrived_.clear();
      const bool last = stopping_;
      lock.unlock();
      const std::size_t gone =
          std::erase_if(held, [&](ReleaseEntry& entry) { return ready(entry) && release(entry, last); });
      lock.lock();
      open_ -= gone;
      if (open_ == 0) released_.notify_all();
    }
  }

  const pid_t owner_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<ReleaseEntry> arrived_;
  std::size_t open_ = 0;  // handed over and not released
  std::condition_variable released_;
  // Used in the process's own one only:
  int holds_ = 0;
  int releasing_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Shared, and released by the process's DeferredRelease: for things that may hold registered memory, as freeing that
// waits for every kernel of the process.
template <class Thing>
std::shared_ptr<Thing> release_later(std::unique_ptr<Thing> thing) {
  return std::shared_ptr<Thing>(thing.release(), [](Thing* gone) {
    DeferredRelease::of_process().hand_over(std::shared_ptr<const void>(std::shared_ptr<Thing>(gone)));
  });
}

}  // namespace onstream
