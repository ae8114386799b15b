// Bounce buffers: memory that kernels and peers can reach, standing in for memory that they cannot. Pinned host memory
// stands in for plain host memory, device memory for all else.
//
// A pool by size class. A buffer goes back when the last owner lets go and the stream has passed the recorded event;
// one that a graph uses, when that graph is over. A forked child gives nothing back.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "onstream/base/fork_guard.hpp"
#include "onstream/device.hpp"

namespace onstream {

class BouncePool : public std::enable_shared_from_this<BouncePool> {
 public:
  explicit BouncePool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // At least `bytes`, not in use by anyone. May allocate.
  std::shared_ptr<Memory> take(std::size_t bytes, MemoryKind kind);
  // Small memory of at least `bytes`, not in use by anyone. May allocate. Given back like the rest.
  std::shared_ptr<SmallMemory> take_small(std::size_t bytes);
  // Call it after the last work on `stream` that touches the memory.
  void give_back(std::shared_ptr<Memory> memory, Stream stream);
  // Call it when no work touches the memory any more.
  void give_back(std::shared_ptr<Memory> memory);
  // Gives it back when the last owner of the returned handle lets go.
  std::shared_ptr<const void> give_back_later(std::shared_ptr<Memory> memory);

 private:
  template <class Fits>
  std::shared_ptr<Memory> take_returned(std::size_t bytes, const Fits& fits);

  struct ReturnedBuffer {
    std::shared_ptr<Memory> memory;
    std::shared_ptr<Event> event;  // null: free at once; never done inside a capture
  };
  const ForkGuard guard_;
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::multimap<std::size_t, ReturnedBuffer> returned_;
};

}  // namespace onstream
