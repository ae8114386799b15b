// Address ranges that one process can hand to another: GPU memory behind a file descriptor, and host memory behind one.
//
// Each owns its pages and its mapping, and undoes both in the reverse order. Nothing here waits for work that still
// uses a range: the owner lets go after that work.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

#include "onstream/base/fd.hpp"
#include "onstream/device/cuda/gpu.hpp"

namespace onstream::cuda {

// Physical GPU memory mapped into this process (the driver's virtual memory management).
class GpuRange {
 public:
  // New memory of `gpu`, at least `bytes`, that every GPU which reaches `gpu` may access. Its content is undefined.
  static GpuRange create(Gpu& gpu, std::size_t bytes);
  // The memory behind another process's descriptor, `mapped_bytes` as that process mapped it, for `gpu` to access.
  static GpuRange import(Gpu& gpu, const Fd& fd, std::size_t mapped_bytes);

  GpuRange(GpuRange&& other) noexcept;
  GpuRange& operator=(GpuRange&&) = delete;
  ~GpuRange();

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  std::size_t mapped_bytes() const { return bytes_; }
  Fd export_fd() const;  // a new descriptor each time

 private:
  GpuRange(Gpu& gpu, CUmemGenericAllocationHandle handle, std::size_t bytes)
      : gpu_(&gpu), handle_(handle), bytes_(bytes) {}
  void map(std::size_t alignment);
  void allow(const std::vector<int>& ordinals);

  Gpu* gpu_;  // null once moved from
  CUmemGenericAllocationHandle handle_;
  std::size_t bytes_;  // a multiple of the allocation granularity
  CUdeviceptr address_ = 0;
  CUdeviceptr mapped_at_ = 0;
};

// Host memory in an anonymous file, locked and registered so that kernels of every GPU use it at the host's address.
class HostRange {
 public:
  static HostRange create(Gpu& gpu, std::size_t bytes);  // zeroed
  static HostRange import(Gpu& gpu, Fd fd, std::size_t mapped_bytes);

  HostRange(HostRange&& other) noexcept;
  HostRange& operator=(HostRange&&) = delete;
  ~HostRange();

  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::size_t mapped_bytes() const { return bytes_; }
  Fd export_fd() const;  // a new descriptor each time

 private:
  HostRange(Gpu& gpu, Fd fd, std::size_t bytes);
  void register_pages();

  Gpu* gpu_;
  Fd fd_;
  std::size_t bytes_;  // a multiple of the page size
  void* address_ = nullptr;
  bool registered_ = false;
};

}  // namespace onstream::cuda
