// Disposal: lets go of things whose release may wait for running kernels (docs/decisions/0005), in a thread of its own.
//
// hand_over() never blocks. The destructor waits until all is released.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace onstream {

class Disposal {
 public:
  Disposal() = default;
  ~Disposal() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    news_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Disposal(const Disposal&) = delete;
  Disposal& operator=(const Disposal&) = delete;

  void hand_over(std::shared_ptr<void> thing) {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    things_.push_back(std::move(thing));
    news_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      news_.wait(lock, [this] { return stopping_ || !things_.empty(); });
      if (things_.empty()) return;
      std::vector<std::shared_ptr<void>> now = std::exchange(things_, {});
      lock.unlock();
      now.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::shared_ptr<void>> things_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace onstream
