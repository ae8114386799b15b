#include "onstream/device/cuda/memory/memory.hpp"

#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "onstream/device/cuda/check.hpp"
#include "onstream/device/cuda/memory/pins.hpp"
#include "onstream/device/cuda/memory/ranges.hpp"
#include "onstream/device/cuda/memory/registry.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/lifetime/process_id.hpp"

namespace onstream::cuda {

namespace {

// Memory that is exportable: a range, and its entry in the list of own allocations.
template <class Range, MemoryKind kKind>
class ExportableMemory final : public Memory {
 public:
  ExportableMemory(Range range, std::size_t bytes, int device_index, Flavour flavour)
      : range_(std::make_shared<Range>(std::move(range))), bytes_(bytes) {
    OwnAllocation own;
    own.info.kind = kKind;
    own.info.device_index = device_index;
    own.info.base = range_->data();
    own.info.bytes = bytes;
    own.info.exportable = true;
    own.info.kernel_access = true;
    own.flavour = flavour;
    own.mapped_bytes = range_->mapped_bytes();
    own.export_fd = [this] { return range_->export_fd(); };
    own.range = range_;
    add_own(std::move(own));
  }
  ~ExportableMemory() override { remove_own(range_->data()); }

  std::byte* data() const override { return range_->data(); }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return kKind; }

 private:
  std::shared_ptr<Range> range_;  // shared with importers of this process
  std::size_t bytes_;
};

// So much of a GPU's room for managed memory, held. Throws if there is less.
class ManagedShare {
 public:
  ManagedShare(Gpu& gpu, std::size_t bytes) : gpu_(gpu), bytes_(bytes) {
    const ControlPath path(gpu);
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking GPU ", gpu.ordinal(), " for its free memory");
    const std::lock_guard lock(gpu_.managed().mutex);
    ManagedRoom& room = gpu_.managed().room;
    const std::size_t left = room.left(free, total);
    if (bytes > left) {
      fail(ErrorCode::system, "managed memory of ", human_bytes(bytes), " on GPU ", gpu.ordinal(),
           ": there is room for ", human_bytes(left), "; ", human_bytes(free), " of ", human_bytes(total),
           " are free, and ", human_bytes(room.held()),
           " of managed memory are held by this process; others are taken to use ", human_bytes(room.others()));
    }
    room.take(bytes);
  }
  ~ManagedShare() {
    const std::lock_guard lock(gpu_.managed().mutex);
    gpu_.managed().room.give_back(bytes_);
  }
  ManagedShare(const ManagedShare&) = delete;
  ManagedShare& operator=(const ManagedShare&) = delete;

 private:
  Gpu& gpu_;
  std::size_t bytes_;
};

class ManagedMemory final : public Memory {
 public:
  ManagedMemory(Gpu& gpu, std::size_t bytes) : gpu_(gpu), bytes_(bytes), share_(gpu, bytes) {
    const ControlPath path(gpu);
    check(cudaMallocManaged(&address_, bytes, cudaMemAttachGlobal), "allocating ", human_bytes(bytes),
          " of managed memory on GPU ", gpu.ordinal());
    try {
      gpu.zero(address_, bytes);
    } catch (...) {
      release();
      throw;
    }
  }
  ~ManagedMemory() override { release(); }
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(address_); }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::managed; }

 private:
  void release() noexcept {
    try {
      const ControlPath path(gpu_);
      if (cudaFree(address_) != cudaSuccess) forget_error();
    } catch (...) {
      // Only while the process ends: CUDA is gone already and has freed everything.
    }
  }

  Gpu& gpu_;
  std::size_t bytes_;
  ManagedShare share_;
  void* address_ = nullptr;
};

class PageableMemory final : public Memory {
 public:
  explicit PageableMemory(std::size_t bytes)
      : bytes_(bytes), address_(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow))) {
    if (address_ == nullptr) fail(ErrorCode::system, "host memory of ", human_bytes(bytes), ": none left");
    std::memset(address_, 0, bytes);
  }
  ~PageableMemory() override { ::operator delete(address_, kAlignment); }
  PageableMemory(const PageableMemory&) = delete;
  PageableMemory& operator=(const PageableMemory&) = delete;

  std::byte* data() const override { return address_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::host; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::size_t bytes_;
  std::byte* address_;
};

// The driver's answers about an address, zero where it knows nothing.
struct Attributes {
  std::uint64_t memory_type = 0;
  std::uint64_t managed = 0;
  std::int64_t ordinal = 0;
  CUdeviceptr base = 0;
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
  std::uint64_t legacy_ipc = 0;
  CUdeviceptr on_gpu = 0;
};

Attributes attributes_of(const void* address) {
  Attributes out;
  // Some of these are written as 1 or 4 bytes: zeroed 8-byte fields hold any of them on a little-endian machine.
  std::array<CUpointer_attribute, 8> which = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                              CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                              CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                              CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                              CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                              CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  std::array<void*, 8> values = {&out.memory_type, &out.managed, &out.ordinal,    &out.base,
                                 &out.bytes,       &out.id,      &out.legacy_ipc, &out.on_gpu};
  check(driver().pointer_get_attributes(static_cast<unsigned>(which.size()), which.data(), values.data(),
                                        reinterpret_cast<CUdeviceptr>(address)),
        "asking the driver about the address ", address);
  return out;
}

// For memory of other GPUs that was mapped for this one: imported, or another library's.
bool current_gpu_accesses(const void* address) {
  unsigned long long flags = 0;
  const CUresult result =
      driver().pointer_get_attribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS && flags == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

class OwnAddress final : public Mapping {
 public:
  OwnAddress(std::byte* data, std::size_t bytes, std::shared_ptr<void> kept)
      : data_(data), bytes_(bytes), kept_(std::move(kept)) {}
  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  std::shared_ptr<void> kept_;  // null for memory of others, such as cudaMalloc's
};

template <class Range>
class RangeMapping final : public Mapping {
 public:
  RangeMapping(Range range, std::size_t bytes) : range_(std::move(range)), bytes_(bytes) {}
  std::byte* data() const override { return range_.data(); }
  std::size_t bytes() const override { return bytes_; }

 private:
  Range range_;
  std::size_t bytes_;
};

// Another process's cudaMalloc memory. The driver counts the openings of one handle, so each mapping opens and closes.
class IpcMapping final : public Mapping {
 public:
  // Null while an allocation that was freed is mapped at its place, or was until just now.
  static std::shared_ptr<IpcMapping> open(Gpu& gpu, const ExportRecord& record) {
    const ControlPath path(gpu);
    cudaIpcMemHandle_t handle{};
    static_assert(sizeof(handle) == sizeof(record.handle));
    std::memcpy(&handle, record.handle.data(), sizeof(handle));
    auto mapping = std::make_shared<IpcMapping>(gpu, record.bytes);
    const cudaError_t result = cudaIpcOpenMemHandle(&mapping->address_, handle, cudaIpcMemLazyEnablePeerAccess);
    if (result == cudaSuccess) return mapping;
    mapping->address_ = nullptr;
    forget_error();
    if (result == cudaErrorAlreadyMapped) return nullptr;
    fail(ErrorCode::unsupported, "GPU ", gpu.ordinal(), " cannot map ", human_bytes(record.bytes), " of process ",
         record.pid, ", its GPU ", record.device_index, " (CUDA IPC): ", text_of(result));
  }
  IpcMapping(Gpu& gpu, std::size_t bytes) : gpu_(gpu), bytes_(bytes) {}
  ~IpcMapping() override {
    if (address_ == nullptr) return;
    try {
      const ControlPath path(gpu_);
      if (cudaIpcCloseMemHandle(address_) != cudaSuccess) forget_error();
    } catch (...) {
      // Only while the process ends: CUDA is gone already and has unmapped everything.
    }
  }
  IpcMapping(const IpcMapping&) = delete;
  IpcMapping& operator=(const IpcMapping&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(address_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  Gpu& gpu_;
  std::size_t bytes_;
  void* address_ = nullptr;
};

std::shared_ptr<Mapping> open_ipc(Gpu& gpu, const ExportRecord& record) {
  auto mapping = IpcMapping::open(gpu, record);
  if (mapping == nullptr) return nullptr;
  // Opening has let this GPU reach the other one; inspect() shall know. Not if this process cannot see that GPU.
  const Current current(gpu);
  const int owner = static_cast<int>(attributes_of(mapping->data()).ordinal);
  if (gpu.may_reach(owner)) gpu.enable_peer(owner);
  return mapping;
}

// The whole pages behind a descriptor, as the exporter mapped them. Throws if that cannot hold the memory announced.
std::size_t mapped_bytes_of(const ExportRecord& record) {
  std::uint64_t mapped = 0;
  std::memcpy(&mapped, record.handle.data(), sizeof(mapped));
  require(mapped >= record.bytes && record.bytes > 0, "import of ", record.bytes, " B from process ", record.pid, ": ",
          mapped, " B are mapped there");
  return mapped;
}

std::shared_ptr<Mapping> own_address(Gpu& gpu, const ExportRecord& record) {
  if (record.kind == MemoryKind::device) gpu.enable_peer(record.device_index);
  auto* base = reinterpret_cast<std::byte*>(record.base);
  return std::make_shared<OwnAddress>(base, record.bytes, keep_own(base, record.id));
}

bool from_pool(const void* address) {
  CUmemoryPool pool = nullptr;
  const CUresult result = driver().pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                                         reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS && pool != nullptr;
}

// GPU memory that legacy IPC does not take.
void describe_private(MemoryInfo& info, const void* address) {
  if (from_pool(address)) {
    info.why_private = "it comes from a memory pool (cudaMallocAsync)";
    return;
  }
  info.why_private = "it was mapped by the program or another library (cuMemMap), or belongs to another process";
  // A range of addresses may be put together from several allocations; the driver does not tell which.
  info.base = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  info.bytes = 0;
  info.id = 0;
}

std::shared_ptr<Memory> device_memory(Gpu& gpu, std::size_t bytes) {
  DriverRange range = DriverRange::create(gpu, DriverRange::Home::gpu, bytes);
  const ControlPath path(gpu);
  gpu.zero(range.data(), range.mapped_bytes());
  return std::make_shared<ExportableMemory<DriverRange, MemoryKind::device>>(std::move(range), bytes, gpu.ordinal(),
                                                                             Flavour::gpu_memory);
}

constexpr int kOfNoGpu = -1;

std::shared_ptr<Memory> file_memory(Gpu& gpu, std::size_t bytes) {
  return std::make_shared<ExportableMemory<FileRange, MemoryKind::pinned>>(FileRange::create(gpu, bytes), bytes,
                                                                           kOfNoGpu, Flavour::file);
}

std::shared_ptr<Memory> pinned_memory(Gpu& gpu, std::size_t bytes) {
  if (!gpu.maps_host_memory()) return file_memory(gpu, bytes);
  DriverRange range = DriverRange::create(gpu, DriverRange::Home::host, bytes);
  std::memset(range.data(), 0, range.mapped_bytes());
  return std::make_shared<ExportableMemory<DriverRange, MemoryKind::pinned>>(std::move(range), bytes, kOfNoGpu,
                                                                             Flavour::host_memory);
}

// Another process's memory behind a descriptor.
template <class Range>
std::shared_ptr<Mapping> mapped(Range range, const ExportRecord& record) {
  return std::make_shared<RangeMapping<Range>>(std::move(range), record.bytes);
}

}  // namespace

std::shared_ptr<Memory> allocate(Gpu& gpu, std::size_t bytes, MemoryKind kind) {
  require(bytes > 0, "allocate: ", name_of(kind), " memory of 0 B");
  switch (kind) {
    case MemoryKind::device: return device_memory(gpu, bytes);
    case MemoryKind::pinned: return pinned_memory(gpu, bytes);
    case MemoryKind::managed: return std::make_shared<ManagedMemory>(gpu, bytes);
    case MemoryKind::host: return std::make_shared<PageableMemory>(bytes);
    case MemoryKind::file: return file_memory(gpu, bytes);
  }
  fail(ErrorCode::invalid_argument, "allocate: memory kind ", static_cast<int>(kind), " is unknown");
}

MemoryInfo inspect(const Gpu& gpu, const void* address) {
  if (std::optional<MemoryInfo> own = find_own(address)) {
    if (own->kind == MemoryKind::device) own->kernel_access = gpu.may_reach(own->device_index);
    return *own;
  }
  const Current current(gpu);
  const Attributes known = attributes_of(address);
  MemoryInfo info;
  info.base = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  info.why_private = "plain host memory belongs to one process";
  if (known.memory_type == 0) return info;
  if (known.base != 0) {
    info.base = reinterpret_cast<std::byte*>(known.base);
    info.bytes = known.bytes;
  }
  info.id = known.id;
  if (known.managed != 0) {
    info.kind = MemoryKind::managed;
    info.kernel_access = true;
    info.why_private = "managed memory belongs to one process";
  } else if (known.memory_type == CU_MEMORYTYPE_HOST) {
    info.kind = MemoryKind::pinned;
    info.kernel_access = known.on_gpu == reinterpret_cast<CUdeviceptr>(address);
    info.why_private = "it was not allocated by onstream, and the driver does not share pinned memory";
    if (const auto pinned = pinned_around(address)) {
      info.base = pinned->data();
      info.bytes = pinned->size();
    }
  } else {
    info.kind = MemoryKind::device;
    info.device_index = static_cast<int>(known.ordinal);
    info.exportable = known.legacy_ipc != 0;
    info.why_private = "";
    if (!info.exportable) describe_private(info, address);
    info.kernel_access = gpu.reaches(info.device_index) || current_gpu_accesses(address);
  }
  return info;
}

Export export_memory(Gpu& gpu, const MemoryInfo& info) {
  if (!info.exportable) {
    fail(ErrorCode::unsupported, "export of ", name_of(info.kind), " memory at ", static_cast<const void*>(info.base),
         ": ", info.why_private);
  }
  require(inspect(gpu, info.base).id == info.id, "export of ", name_of(info.kind), " memory at ",
          static_cast<const void*>(info.base), ": it was freed since it was inspected");
  Export out;
  if (find_own(info.base)) {
    out = export_own(info);
  } else {
    const ControlPath path(gpu);
    cudaIpcMemHandle_t handle{};
    check(cudaIpcGetMemHandle(&handle, info.base), "export of ", info.bytes, " B of GPU ", info.device_index, " at ",
          static_cast<const void*>(info.base), " (CUDA IPC)");
    out.record.flavour = static_cast<std::uint32_t>(Flavour::legacy_ipc);
    std::memcpy(out.record.handle.data(), &handle, sizeof(handle));
  }
  out.record.device = DeviceKind::cuda;
  out.record.kind = info.kind;
  out.record.device_index = info.device_index;
  out.record.pid = static_cast<std::int32_t>(::getpid());
  out.record.process_id = process_id();
  out.record.base = reinterpret_cast<std::uint64_t>(info.base);
  out.record.bytes = info.bytes;
  out.record.id = info.id;
  return out;
}

std::shared_ptr<Mapping> import_memory(Gpu& gpu, const ExportRecord& record, Fd fd) {
  if (record.device != DeviceKind::cuda) {
    fail(ErrorCode::unsupported, "GPU ", gpu.ordinal(), " cannot map ", name_of(record.kind), " memory of process ",
         record.pid, ", which runs on the ", name_of(record.device), " device");
  }
  if (record.pid == static_cast<std::int32_t>(::getpid()) && record.process_id == process_id()) {
    return own_address(gpu, record);
  }
  switch (static_cast<Flavour>(record.flavour)) {
    case Flavour::legacy_ipc: return open_ipc(gpu, record);
    case Flavour::gpu_memory:
      return mapped(DriverRange::import(gpu, DriverRange::Home::gpu, fd, mapped_bytes_of(record)), record);
    case Flavour::host_memory:
      return mapped(DriverRange::import(gpu, DriverRange::Home::host, fd, mapped_bytes_of(record)), record);
    case Flavour::file: return mapped(FileRange::import(gpu, std::move(fd), mapped_bytes_of(record)), record);
  }
  fail(ErrorCode::invalid_argument, "import of ", record.bytes, " B from process ", record.pid, ": handle of kind ",
       record.flavour, " is unknown; do all ranks run the same onstream?");
}

}  // namespace onstream::cuda
