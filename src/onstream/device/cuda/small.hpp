// Small memory of a GPU: GPU memory in gdrcopy's window where gdrcopy works, else pinned memory that kernels read over
// PCIe. Pieces of gdrcopy's memory are cut from slabs, as a window has a page of 64 KiB at least.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "onstream/device/cuda/gpu.hpp"
#include "onstream/device/device.hpp"

namespace onstream::cuda {

class GdrSlab;

class SmallMemories {
 public:
  explicit SmallMemories(Gpu& gpu) : gpu_(gpu) {}

  // Thread-safe. Pieces outlive this object.
  std::shared_ptr<SmallMemory> allocate(std::size_t bytes);
  SmallCopies how() const;
  // What this process would use, as far as can be told without a GPU's memory.
  static SmallCopies wanted();

 private:
  std::shared_ptr<SmallMemory> cut(std::size_t bytes);

  Gpu& gpu_;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<GdrSlab> slab_;
  std::size_t cut_ = 0;      // bytes of it that are given away
  std::string why_not_gdr_;  // once a window could not be made
};

}  // namespace onstream::cuda
