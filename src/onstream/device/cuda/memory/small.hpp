// Small memory of a GPU, as device/memory/gdr.hpp cuts it, of this GPU's memory.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/device.hpp"
#include "onstream/device/cuda/gpu.hpp"
#include "onstream/device/memory/gdr.hpp"

namespace onstream::cuda {

class SmallMemories {
 public:
  explicit SmallMemories(Gpu& gpu);

  // Thread-safe. Pieces outlive this object.
  std::shared_ptr<SmallMemory> allocate(std::size_t bytes) { return memories_.allocate(bytes); }
  SmallCopies how() const { return memories_.how(); }
  // The way of copying that this process would use, as far as can be told without a GPU's memory.
  static SmallCopies wanted();

 private:
  GdrMemories memories_;
};

}  // namespace onstream::cuda
