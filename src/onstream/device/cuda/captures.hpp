// Captures: the guards of the graphs that Device objects of one GPU capture, as CUDA hands no graph's objects back.
//
// A row is known by the stream that began the capture, and by CUDA's number of it, which no other one ever has. The
// graph owns the guards, not this table. The row of a capture that a program ends by calls of its own stays until the
// stream begins another. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "onstream/device/lifetime/guards.hpp"

namespace onstream::cuda {

class Captures {
 public:
  void begin(cudaStream_t stream, unsigned long long number) {
    const std::lock_guard lock(mutex_);
    open_[stream] = {number, {}};
  }
  // False: that capture has it already. Of another's capture every time is the first.
  bool add(unsigned long long number, const std::shared_ptr<const LaunchGuard>& guard) {
    const std::lock_guard lock(mutex_);
    for (auto& [stream, capture] : open_) {
      if (capture.number != number) continue;
      if (holds(capture.guards, guard)) return false;
      capture.guards.push_back(guard);
    }
    return true;
  }
  // None of a stream that began no capture.
  LaunchGuards end(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    auto ended = open_.extract(stream);
    return ended.empty() ? LaunchGuards() : std::move(ended.mapped().guards);
  }

 private:
  struct Open {
    unsigned long long number;
    LaunchGuards guards;
  };
  std::mutex mutex_;
  std::map<cudaStream_t, Open> open_;
};

}  // namespace onstream::cuda
