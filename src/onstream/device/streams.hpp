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
  explicit StreamPool(std::shared_ptr<Device> device)
      : device_(std::move(device)), sends_(device_->create_stream()), receives_(device_->create_stream()) {}
  ~StreamPool() {
    for (const Stream stream : free_) device_->destroy_stream(stream);
    device_->destroy_stream(sends_);
    device_->destroy_stream(receives_);
  }
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  // Posted sends, and posted receives, in order: what matches them.
  Stream sends() const { return sends_; }
  Stream receives() const { return receives_; }

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
  std::shared_ptr<Device> device_;
  Stream sends_;
  Stream receives_;
  std::mutex mutex_;
  std::vector<Stream> free_;
};

}  // namespace onstream
