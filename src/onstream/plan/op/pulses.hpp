// Pulses: words in pinned memory that tell the watch which wait a stream is in (transport/watch.hpp), to be taken and
// given back. Thread-safe; the memory lives as long as this object.
#pragma once

#include <cstdint>
#include <memory>

#include "onstream/device/host/group.hpp"
#include "onstream/device/memory/word_pool.hpp"

namespace onstream::plan {

class Pulses {
 public:
  explicit Pulses(std::shared_ptr<Device> device) : words_(std::move(device), MemoryKind::pinned) {}

  std::uint32_t* take() { return words_.take(); }
  // The work enqueued with it is over.
  void give_back(std::uint32_t* pulse) {
    HostGroup::store_release(pulse, std::uint32_t{0});
    words_.give_back(pulse);
  }

 private:
  WordPool<std::uint32_t> words_;
};

}  // namespace onstream::plan
