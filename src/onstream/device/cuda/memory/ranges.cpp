#include "onstream/device/cuda/memory/ranges.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/cuda/check.hpp"
#include "onstream/device/memory/pages.hpp"

namespace onstream::cuda {

namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit, const char* what) {
  if (bytes > std::numeric_limits<std::size_t>::max() - unit) {
    fail(ErrorCode::invalid_argument, what, " of ", bytes, " B: no machine has that much");
  }
  return (bytes + unit - 1) / unit * unit;
}

CUmemLocation gpu_at(int ordinal) { return {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}}; }
// An importer need not know its node: any stands for the host.
CUmemLocation host_near(const Gpu& gpu) { return {CU_MEM_LOCATION_TYPE_HOST_NUMA, {std::max(0, gpu.numa_node())}}; }

std::string text_of(const CUmemLocation& location) {
  return concat(location.type == CU_MEM_LOCATION_TYPE_DEVICE ? "GPU " : "the host's NUMA node ", location.id);
}

CUmemAllocationProp shareable(const Gpu& gpu, DriverRange::Home home) {
  const bool on_gpu = home == DriverRange::Home::gpu;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = on_gpu ? gpu_at(gpu.ordinal()) : host_near(gpu);
  properties.allocFlags.gpuDirectRDMACapable = on_gpu && gpu.rdma() ? 1 : 0;
  return properties;
}

std::size_t granularity_of(const CUmemAllocationProp& properties) {
  std::size_t granularity = 0;
  check(driver().mem_get_allocation_granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "asking for the allocation granularity of ", text_of(properties.location));
  return granularity;
}

std::string free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    forget_error();
    return "free memory unknown";
  }
  return concat(human_bytes(free), " of ", human_bytes(total), " free");
}

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

DriverRange DriverRange::create(Gpu& gpu, Home home, std::size_t bytes) {
  if (!gpu.exports_by_fd()) {
    fail(ErrorCode::unsupported, "GPU ", gpu.ordinal(), " (", gpu.name(),
         ") cannot share memory by file descriptor (virtual memory management)");
  }
  const ControlPath path(gpu);
  const CUmemAllocationProp properties = shareable(gpu, home);
  const std::size_t granularity = granularity_of(properties);
  const std::size_t mapped = round_up(bytes, granularity, home == Home::gpu ? "device memory" : "pinned memory");
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().mem_create(&handle, mapped, &properties, 0);
  if (result != CUDA_SUCCESS) {
    check(result, "allocating ", human_bytes(mapped), " on ", text_of(properties.location),
          home == Home::gpu ? concat(" (", free_memory(), ")") : "");
  }
  DriverRange range(gpu, home, handle, mapped);
  range.map(granularity, std::max(granularity, alignment_of(bytes)));
  std::vector<CUmemLocation> who;
  for (const int ordinal : home == Home::gpu ? gpu.reached_by() : gpu.all_of_process()) who.push_back(gpu_at(ordinal));
  range.allow(who);
  return range;
}

DriverRange DriverRange::import(Gpu& gpu, Home home, const Fd& fd, std::size_t mapped_bytes) {
  const char* what = home == Home::gpu ? "GPU" : "pinned";
  require(fd.valid(), "importing ", what, " memory: its file descriptor did not arrive");
  const ControlPath path(gpu);
  CUmemGenericAllocationHandle handle = 0;
  check(driver().mem_import(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get())),
                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "importing ", human_bytes(mapped_bytes), " of another process's ", what, " memory on GPU ", gpu.ordinal());
  DriverRange range(gpu, home, handle, mapped_bytes);
  const std::size_t granularity = granularity_of(shareable(gpu, home));
  range.map(granularity, granularity);
  range.allow({gpu_at(gpu.ordinal())});
  return range;
}

// At a multiple of `wanted` if there are as many addresses.
void DriverRange::map(std::size_t granularity, std::size_t wanted) {
  if (driver().mem_address_reserve(&address_, bytes_, wanted, 0, 0) != CUDA_SUCCESS) {
    address_ = 0;
    check(driver().mem_address_reserve(&address_, bytes_, granularity, 0, 0), "reserving ", bytes_,
          " B of address space");
  }
  check(driver().mem_map(address_, bytes_, 0, handle_, 0), "mapping ", human_bytes(bytes_), " for GPU ",
        gpu_->ordinal());
  mapped_at_ = address_;
}

// The CPU, too, may use memory of the host.
void DriverRange::allow(const std::vector<CUmemLocation>& who) {
  std::vector<CUmemLocation> all = who;
  if (home_ == Home::host) all.push_back(host_near(*gpu_));
  for (const CUmemLocation& location : all) {
    const CUmemAccessDesc access{location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUresult result = driver().mem_set_access(address_, bytes_, &access, 1);
    if (result == CUDA_SUCCESS) continue;
    fail(ErrorCode::unsupported, text_of(location), " cannot be given access to ", human_bytes(bytes_), " of ",
         home_ == Home::gpu ? "GPU memory (no NVLink or PCIe peer access?): " : "pinned memory: ", text_of(result));
  }
}

DriverRange::DriverRange(DriverRange&& other) noexcept
    : gpu_(std::exchange(other.gpu_, nullptr)),
      home_(other.home_),
      handle_(other.handle_),
      bytes_(other.bytes_),
      address_(other.address_),
      mapped_at_(other.mapped_at_) {}

DriverRange::~DriverRange() {
  if (gpu_ == nullptr) return;
  try {
    const ControlPath path(*gpu_);
    if (mapped_at_ != 0) static_cast<void>(driver().mem_unmap(mapped_at_, bytes_));
    if (address_ != 0) static_cast<void>(driver().mem_address_free(address_, bytes_));
    static_cast<void>(driver().mem_release(handle_));
  } catch (...) {
    // Only while the process ends: CUDA is gone already and has freed everything.
  }
}

Fd DriverRange::export_fd() const {
  const ControlPath path(*gpu_);
  int fd = -1;
  check(driver().mem_export(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "exporting ",
        human_bytes(bytes_), home_ == Home::gpu ? " of GPU " : " of pinned memory of GPU ", gpu_->ordinal());
  return Fd(fd);
}

FileRange::FileRange(Gpu& gpu, Fd fd, std::size_t bytes) : gpu_(&gpu), fd_(std::move(fd)), bytes_(bytes) {
  if (!gpu.one_host_address()) {
    fail(ErrorCode::unsupported, "GPU ", gpu.ordinal(), " (", gpu.name(),
         ") has its own addresses for registered host memory; onstream needs one address for both");
  }
}

FileRange FileRange::create(Gpu& gpu, std::size_t bytes) {
  const std::size_t mapped = round_up(bytes, page_bytes(), "pinned memory");
  Fd fd(::memfd_create("onstream pinned", MFD_CLOEXEC));
  if (!fd.valid()) fail_errno("memfd_create for pinned memory");
  if (mapped > static_cast<std::size_t>(std::numeric_limits<off_t>::max())) {
    fail(ErrorCode::invalid_argument, "pinned memory of ", bytes, " B: no machine has that much");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(mapped)) != 0) {
    fail_errno(concat("ftruncate of pinned memory to ", mapped, " B"));
  }
  FileRange range(gpu, std::move(fd), mapped);
  range.register_pages(alignment_of(bytes));
  return range;
}

FileRange FileRange::import(Gpu& gpu, Fd fd, std::size_t mapped_bytes) {
  require(fd.valid(), "importing pinned memory: its file descriptor did not arrive");
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) fail_errno("fstat of imported pinned memory");
  // Touching pages past the end of a file ends the process, so the sender's word is not enough.
  require(mapped_bytes > 0 && static_cast<std::uint64_t>(status.st_size) >= mapped_bytes,
          "importing pinned memory: ", mapped_bytes, " B announced, ", status.st_size, " B behind the file descriptor");
  FileRange range(gpu, std::move(fd), mapped_bytes);
  range.register_pages(1);
  return range;
}

void FileRange::register_pages(std::size_t alignment) {
  address_ = map_pages(bytes_, alignment, MAP_SHARED, fd_.get());
  const ControlPath path(*gpu_);
  check(cudaHostRegister(address_, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped), "registering ",
        human_bytes(bytes_), " of host memory on GPU ", gpu_->ordinal());
  registered_ = true;
  void* on_gpu = nullptr;
  check(cudaHostGetDevicePointer(&on_gpu, address_, 0), "asking for the GPU's address of pinned memory");
  if (on_gpu != address_) {
    fail(ErrorCode::unsupported, "GPU ", gpu_->ordinal(), " sees pinned memory at ", on_gpu, ", the host at ", address_,
         "; onstream needs one address for both");
  }
}

FileRange::FileRange(FileRange&& other) noexcept
    : gpu_(other.gpu_),
      fd_(std::move(other.fd_)),
      bytes_(other.bytes_),
      address_(std::exchange(other.address_, nullptr)),
      registered_(std::exchange(other.registered_, false)) {}

FileRange::~FileRange() {
  try {
    if (registered_) {
      const ControlPath path(*gpu_);
      if (cudaHostUnregister(address_) != cudaSuccess) forget_error();
    }
  } catch (...) {
    // Only while the process ends: CUDA is gone already and has let go of the pages.
  }
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

Fd FileRange::export_fd() const {
  Fd fd = duplicate(fd_);
  if (!fd.valid()) fail_errno("duplicating the file descriptor of pinned memory");
  return fd;
}

}  // namespace onstream::cuda
