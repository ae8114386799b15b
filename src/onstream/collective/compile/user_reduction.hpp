// A user reduction by a host function, on the host device: one of the library's collectives moves the inputs of all
// ranks to the ranks that need them, and a kernel of the host alone then calls the function, rank by rank.
//
// The object holds the memory in between and the function: keep it until the stream has passed both, or in the graph.
#pragma once

#include <memory>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/enqueue/launch.hpp"
#include "onstream/collective/resource/scratch_pool.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

class UserReduction {
 public:
  // For a call that passes check() and has something to reduce.
  UserReduction(const std::shared_ptr<Fabric>& fabric, ScratchPool& spares, const CollectiveCall& call, int rank,
                int size);
  UserReduction(const UserReduction&) = delete;
  UserReduction& operator=(const UserReduction&) = delete;

  // Throws invalid_argument for a call that cannot be reduced so.
  static void check(const CollectiveCall& call, DeviceKind device);
  // The reduction as one of bytes, to check its buffers by.
  static CollectiveCall in_bytes(const CollectiveCall& call);
  // The move that comes first, without its output.
  static CollectiveCall move_of(const CollectiveCall& call);
  const CollectiveCall& move() const { return move_; }
  // The kernel behind the move in the same channel; no kernel where this rank gets nothing.
  KernelLaunch reduction(const ChannelView& view) const;

  // For the kernel. Never throws.
  void reduce() const;

 private:
  std::weak_ptr<Fabric> fabric_;
  Combine combine_;
  int rank_;
  std::size_t count_;
  std::size_t bytes_;
  std::byte* output_;
  std::size_t ranks_ = 0;  // the first so many are reduced
  std::shared_ptr<std::byte> gathered_;
  CollectiveCall move_;
};

}  // namespace onstream::collective
