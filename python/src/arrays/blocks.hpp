// Block: a piece of onstream's memory that a Python array views. Holding it keeps the memory alive.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/device.hpp"

namespace onstream::python {

struct WorldState;

struct Block {
  std::shared_ptr<void> owner;  // the Memory or Segment
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  bool on_host = true;   // the CPU may load and store it
  int device_index = 0;  // of the device that addresses it, unless on_host
};

// An owner of memory, or of a segment, for Python. The last one that goes gives it back behind the ops of the world
// that are under way, and behind the work of array libraries on the streams that were current, in this thread, as the
// owner was made, or are current where it goes. Does not block.
std::shared_ptr<void> owner_in_order(std::shared_ptr<void> memory, MemoryKind kind, std::shared_ptr<Device> device,
                                     std::weak_ptr<WorldState> state);

inline bool cpu_can_touch(const Device& device, MemoryKind kind) {
  return device.kind() == DeviceKind::host || kind != MemoryKind::device;
}

}  // namespace onstream::python
