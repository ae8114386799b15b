// Bounce buffers: memory that kernels and peers can reach, standing in for memory that they cannot. Pinned host memory
// stands in for plain host memory, device memory for all else.
//
// A pool by size class. A buffer goes back when the last owner lets go and the stream has passed the recorded event.
// A buffer used in a captured graph is never reused.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream {

class BouncePool {
 public:
  explicit BouncePool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // At least `bytes`, not in use by anyone. May allocate.
  std::shared_ptr<Memory> take(std::size_t bytes, MemoryKind kind);
  // Small memory of at least `bytes`, not in use by anyone. May allocate. Given back like the rest.
  std::shared_ptr<SmallMemory> take_small(std::size_t bytes);
  // After the last work on `stream` that touches it.
  void give_back(std::shared_ptr<Memory> memory, Stream stream);
  // When no work touches it any more.
  void give_back(std::shared_ptr<Memory> memory);

 private:
  template <class Fits>
  std::shared_ptr<Memory> take_returned(std::size_t bytes, const Fits& fits);

  struct Returned {
    std::shared_ptr<Memory> memory;
    std::shared_ptr<Event> event;  // null: free at once; never done inside a capture
  };
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::multimap<std::size_t, Returned> returned_;
  std::vector<std::shared_ptr<Memory>> kept_;  // used by graphs
};

}  // namespace onstream
