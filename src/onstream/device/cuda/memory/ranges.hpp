// Address ranges that one process can hand to another, behind a file descriptor: the driver's own, of a GPU or of the
// host, and files in host memory.
//
// Each owns its pages and its mapping, and undoes both in the reverse order. Nothing here waits for work that still
// uses a range: the owner lets go after that work.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "onstream/base/fd.hpp"
#include "onstream/device/cuda/gpu.hpp"

namespace onstream::cuda {

// Physical memory that the driver maps into this process (its virtual memory management). Unlike all other kinds it is
// let go without waiting for running kernels (docs/decisions/0005).
class DriverRange {
 public:
  // The GPU's own memory, or the host's, on the NUMA node next to the GPU.
  enum class Home { gpu, host };
  // New memory, at least `bytes`, for every GPU that reaches it, and of the host for the CPU too. Its content is
  // undefined. Home::host only if gpu.maps_host_memory().
  static DriverRange create(Gpu& gpu, Home home, std::size_t bytes);
  // The memory behind another process's descriptor, `mapped_bytes` as that process mapped it, for `gpu` to access.
  static DriverRange import(Gpu& gpu, Home home, const Fd& fd, std::size_t mapped_bytes);

  DriverRange(DriverRange&& other) noexcept;
  DriverRange& operator=(DriverRange&&) = delete;
  ~DriverRange();

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  std::size_t mapped_bytes() const { return bytes_; }
  Fd export_fd() const;  // a new descriptor each time

 private:
  DriverRange(Gpu& gpu, Home home, CUmemGenericAllocationHandle handle, std::size_t bytes)
      : gpu_(&gpu), home_(home), handle_(handle), bytes_(bytes) {}
  void map(std::size_t granularity, std::size_t wanted);
  void allow(const std::vector<CUmemLocation>& who);

  Gpu* gpu_;  // null once moved from
  Home home_;
  CUmemGenericAllocationHandle handle_;
  std::size_t bytes_;  // a multiple of the allocation granularity
  CUdeviceptr address_ = 0;
  CUdeviceptr mapped_at_ = 0;
};

// Host memory in an anonymous file, locked and registered so that kernels of every GPU use it at the host's address:
// where the driver does not hand out host memory itself. Letting go of it waits for every kernel of the process, and
// keeps all others from starting meanwhile.
class FileRange {
 public:
  static FileRange create(Gpu& gpu, std::size_t bytes);  // zeroed
  static FileRange import(Gpu& gpu, Fd fd, std::size_t mapped_bytes);

  FileRange(FileRange&& other) noexcept;
  FileRange& operator=(FileRange&&) = delete;
  ~FileRange();

  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::size_t mapped_bytes() const { return bytes_; }
  Fd export_fd() const;  // a new descriptor each time

 private:
  FileRange(Gpu& gpu, Fd fd, std::size_t bytes);
  void register_pages(std::size_t alignment);

  Gpu* gpu_;
  Fd fd_;
  std::size_t bytes_;  // a multiple of the page size
  void* address_ = nullptr;
  bool registered_ = false;
};

}  // namespace onstream::cuda
