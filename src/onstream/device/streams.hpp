// Streams of the library's own, for calls in which the host waits and no stream is given (cuda only).
//
// A blocking call leases a stream for its duration, so that no wait is queued behind another's wait.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream {

class StreamPool {
 public:
  // Makes the first stream of blocking calls on cuda, before anybody's kernel waits for this rank: to make one may wait
  // for running kernels (docs/decisions/0005).
  explicit StreamPool(std::shared_ptr<Device> device) : device_(std::move(device)) {
    free_.reserve(1);
    if (device_->kind() == DeviceKind::cuda) free_.push_back(device_->create_stream());
  }
  ~StreamPool() {
    for (const Stream stream : free_) let_go_of(*device_, stream);
    for (const Stream stream : {sends_, receives_}) {
      if (stream.handle != nullptr) let_go_of(*device_, stream);
    }
  }
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  // Posted sends, and posted receives, in order: what matches them. Made when first asked for, as streams share few
  // hardware queues.
  Stream sends() { return made(sends_); }
  Stream receives() { return made(receives_); }

  class Lease {
   public:
    Lease(StreamPool& pool, Stream stream) : pool_(pool), stream_(stream) {}
    ~Lease() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.free_.push_back(stream_);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Stream get() const { return stream_; }

   private:
    StreamPool& pool_;
    Stream stream_;
  };

  Lease lease() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const Stream stream = free_.back();
        free_.pop_back();
        return Lease(*this, stream);
      }
    }
    return Lease(*this, device_->create_stream());
  }

 private:
  Stream made(Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (stream.handle == nullptr) stream = device_->create_stream();
    return stream;
  }

  std::shared_ptr<Device> device_;
  Stream sends_;
  Stream receives_;
  std::mutex mutex_;
  std::vector<Stream> free_;
};

}  // namespace onstream
