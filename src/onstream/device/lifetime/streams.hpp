// Streams of the library's own (cuda: streams share few hardware queues, and to make one may wait for running kernels;
// docs/decisions/0005).
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device.hpp"

namespace onstream {

// For calls in which the host waits and no stream is given: each leases one, so that no wait is queued behind
// another's. A world has one pool for all of its calls, and makes more streams only if several threads wait at once.
// Thread-safe.
class StreamPool {
 public:
  // On cuda it makes its first stream, before anybody's kernel waits for this rank.
  explicit StreamPool(std::shared_ptr<Device> device) : device_(std::move(device)) {
    free_.reserve(1);
    if (device_->kind() == DeviceKind::cuda) free_.push_back(device_->create_stream());
  }
  ~StreamPool() {
    for (const Stream stream : free_) let_go_of(*device_, stream);
    for (const Stream stream : left_) let_go_of(*device_, stream);
  }
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  class StreamLease {
   public:
    StreamLease(StreamPool& pool, Stream stream) : pool_(pool), stream_(stream) {}
    ~StreamLease() {
      const bool thrown = std::uncaught_exceptions() > exceptions_;  // so the enqueued work may wait for long
      const std::lock_guard lock(pool_.mutex_);
      std::erase_if(pool_.leased_, [this](Stream one) { return one.handle == stream_.handle; });
      (thrown ? pool_.left_ : pool_.free_).push_back(stream_);
    }
    StreamLease(const StreamLease&) = delete;
    StreamLease& operator=(const StreamLease&) = delete;
    Stream get() const { return stream_; }

   private:
    StreamPool& pool_;
    Stream stream_;
    int exceptions_ = std::uncaught_exceptions();
  };

  StreamLease lease() {
    {
      const std::lock_guard lock(mutex_);
      if (free_.empty()) take_back_idle();
      if (!free_.empty()) {
        leased_.push_back(free_.back());
        free_.pop_back();
        return StreamLease(*this, leased_.back());
      }
    }
    const Stream stream = device_->create_stream();
    const std::lock_guard lock(mutex_);
    leased_.push_back(stream);
    return StreamLease(*this, stream);
  }

  // The streams on which a thread waits, and reports their failures.
  std::vector<Stream> leased() const {
    const std::lock_guard lock(mutex_);
    return leased_;
  }

  // Blocks until the copy is done.
  void copy_now(void* destination, const void* source, std::size_t bytes) {
    if (device_->kind() == DeviceKind::host) {
      std::memcpy(destination, source, bytes);
      return;
    }
    const StreamLease stream = lease();
    device_->copy(destination, source, bytes, stream.get());
    device_->synchronize(stream.get());
  }

 private:
  void take_back_idle() {
    // By iterators: clang++ 14 does not take the ranges that the library of g++ 12 returns.
    const auto is_busy = [this](Stream stream) { return !device_->idle(stream); };
    const auto idle = std::partition(left_.begin(), left_.end(), is_busy);
    free_.insert(free_.end(), idle, left_.end());
    left_.erase(idle, left_.end());
  }

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::vector<Stream> free_;
  std::vector<Stream> leased_;
  std::vector<Stream> left_;  // by calls that threw, perhaps with work that has not ended
};

// One stream, made when first asked for. Thread-safe.
class LateStream {
 public:
  explicit LateStream(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~LateStream() {
    if (stream_.handle != nullptr) let_go_of(*device_, stream_);
  }
  LateStream(const LateStream&) = delete;
  LateStream& operator=(const LateStream&) = delete;

  Stream get() {
    const std::lock_guard lock(mutex_);
    if (stream_.handle == nullptr) stream_ = device_->create_stream();
    return stream_;
  }

 private:
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  Stream stream_;
};

}  // namespace onstream
