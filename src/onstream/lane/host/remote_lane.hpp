// A lane to a peer on another host, as the ops of the host device see it: they write for the peer into memory of their
// own rank, and the network proxy carries that over (lane/remote/remote_lanes.hpp).
#pragma once

#include <cstdint>

#include "onstream/device/kernel/wait.hpp"
#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

class RemoteLane {
 public:
  virtual ~RemoteLane() = default;
  // An op is about to use the lane: from now on the proxy looks at it.
  virtual void open() = 0;
  // An op has written: carries it over, unless another thread does.
  virtual void turn() = 0;
  // Brings the payload of a large message, which its header named by `payload`, to its destination, and waits for it.
  // Ok, timeout, or aborted; unmapped if there is no such payload of so many bytes.
  virtual Status fetch(const WaitView& wait, void* destination, std::uint64_t payload, std::uint64_t bytes) = 0;
  // Whether fetch() and refuse() would not wait now. Starts the payload on its way to a receive that is posted.
  virtual bool is_ready(std::uint64_t payload) = 0;
  // Lets such a payload go.
  virtual void refuse(std::uint64_t payload) = 0;
  // Whether it lies here already: its sender is through, and hears nothing of the receive.
  virtual bool is_here(std::uint64_t payload) const = 0;
};

// Behind an op of the host on this lane.
inline void carry_over(const LaneView& lane) {
  if (lane.remote != nullptr) lane.remote->turn();
}

}  // namespace onstream::lane
