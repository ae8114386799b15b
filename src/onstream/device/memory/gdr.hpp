// gdrcopy: GPU memory that the CPU writes through the GPU's PCIe window, by NVIDIA's libgdrapi and its driver gdrdrv.
// Both are found at run time; no header of theirs is needed, and none of CUDA. And a GPU's small memory over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "onstream/device.hpp"

namespace onstream {

class Gdr {
 public:
  // Loads the library and opens the driver. Throws unsupported saying which of the two is missing.
  explicit Gdr(const std::string& library);
  ~Gdr();
  Gdr(const Gdr&) = delete;
  Gdr& operator=(const Gdr&) = delete;

  // The one of this process, never closed; null, and the reason, where there is none.
  static const Gdr* of_process(std::string& why_none);

  // The range starts at a whole page of the GPU's and has whole pages.
  static constexpr std::size_t kPageBytes = 65536;

  // GPU memory in the CPU's address space. Ends before the memory does.
  class GdrWindow {
   public:
    GdrWindow(const Gdr& gdr, std::uintptr_t gpu_address, std::size_t bytes);  // throws system
    ~GdrWindow();
    GdrWindow(const GdrWindow&) = delete;
    GdrWindow& operator=(const GdrWindow&) = delete;

    // Thread-safe for ranges that do not overlap. The bytes are there for any kernel launched after the call.
    void write(std::size_t offset, const void* source, std::size_t bytes) const;
    void read(void* destination, std::size_t offset, std::size_t bytes) const;  // slow: a trip for every few bytes

   private:
    const Gdr& gdr_;
    std::size_t bytes_;
    unsigned long handle_ = 0;
    std::byte* mapped_ = nullptr;
  };

 private:
  struct GdrFunctions;
  std::unique_ptr<const GdrFunctions> functions_;
  void* driver_ = nullptr;
};

// Small memory of a GPU: GPU memory in gdrcopy's window where gdrcopy works, else pinned memory that kernels read over
// PCIe. Pieces are cut from slabs, as a window has a page at least. A slab goes with its last piece, the newest not
// before this object; the bytes of a piece are not given away again.
class GdrMemories {
 public:
  using Find = const Gdr* (*)(std::string& why_none);                          // as Gdr::of_process
  using Allocate = std::function<std::shared_ptr<Memory>(std::size_t bytes)>;  // zeroed; may throw

  // Where its memory comes from. The library that `find` answers with stays open while there are pieces.
  struct Source {
    std::string gpu;  // for people
    Find find = &Gdr::of_process;
    Allocate device_memory;  // at a page, and of as many bytes as asked for: whole pages
    Allocate pinned_memory;
  };

  explicit GdrMemories(Source source) : source_(std::move(source)) {}

  // Thread-safe. Pieces outlive this object. Throws as pinned memory does.
  std::shared_ptr<SmallMemory> allocate(std::size_t bytes);
  // As found by then: a window that could not be made ends gdrcopy's use, and is the reason.
  SmallCopies how() const;
  // The answer to expect by `find`, as far as can be told without a GPU's memory.
  static SmallCopies expected(Find find);

 private:
  class Slab;
  class GdrPiece;
  std::shared_ptr<SmallMemory> cut(std::size_t bytes);

  const Source source_;
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<Slab> slab_;
  std::size_t cut_ = 0;      // bytes of it that are given away
  std::string why_not_gdr_;  // once a window could not be made
};

}  // namespace onstream
