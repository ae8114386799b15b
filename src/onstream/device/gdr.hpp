// gdrcopy: GPU memory that the CPU writes through the GPU's PCIe window, by NVIDIA's libgdrapi and its driver gdrdrv.
// Both are found at run time; no header of theirs is needed, and none of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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
  class Window {
   public:
    Window(const Gdr& gdr, std::uintptr_t gpu_address, std::size_t bytes);  // throws system
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    // Thread-safe for ranges that do not overlap. What was written is there for any kernel launched after the call.
    void write(std::size_t offset, const void* source, std::size_t bytes) const;
    void read(void* destination, std::size_t offset, std::size_t bytes) const;  // slow: a trip for every few bytes

   private:
    const Gdr& gdr_;
    std::size_t bytes_;
    unsigned long handle_ = 0;
    std::byte* mapped_ = nullptr;
  };

 private:
  struct Functions;
  std::unique_ptr<const Functions> functions_;
  void* driver_ = nullptr;
};

}  // namespace onstream
