#include "onstream/device/cuda/gpu.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "onstream/base/log.hpp"
#include "onstream/device/cuda/check.hpp"
#include "onstream/device/cuda/memory/ranges.hpp"
#include "onstream/device/cuda/printing.hpp"

namespace onstream::cuda {

namespace {

// Read by the driver when it starts, so set before this library's first CUDA call; a value that the user chose stays.
void prepare_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Streams share hardware queues, 8 unless told otherwise. Work queued behind a kernel that waits for a peer would
    // wait too, and the peer may be waiting for that very work. 32 is the most there are.
    // CUDA_MODULE_LOADING stays the user's: our kernels are loaded by name (Device::load, docs/decisions/0008).
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  });
}

int attribute_value(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().device_get_attribute(&value, which, device), "reading attribute ", static_cast<int>(which), " of GPU ",
        device);
  return value;
}

bool attribute(CUdevice device, CUdevice_attribute which) { return attribute_value(device, which) != 0; }

std::string digits_of(const cudaUUID_t& uuid) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : uuid.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

}  // namespace

int count_gpus(std::string& why_none) {
  prepare_environment();
  int driver_version = 0;
  if (cudaDriverGetVersion(&driver_version) != cudaSuccess || driver_version == 0) {
    forget_error();
    why_none = "no NVIDIA driver on this machine";
    return 0;
  }
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return count;
  forget_error();
  if (result == cudaSuccess || result == cudaErrorNoDevice) {
    why_none = "the NVIDIA driver shows no GPU; is CUDA_VISIBLE_DEVICES empty?";
  } else if (result == cudaErrorInsufficientDriver) {
    why_none = concat("the NVIDIA driver is too old: it supports CUDA ", driver_version / 1000, ".",
                      driver_version % 1000 / 10, ", onstream was built with CUDA ", CUDART_VERSION / 1000, ".",
                      CUDART_VERSION % 1000 / 10);
  } else if (result == cudaErrorInitializationError) {
    why_none = concat("CUDA did not start (", text_of(result),
                      "); a process forked after its parent used CUDA cannot use it: start a new program instead");
  } else {
    why_none = concat("CUDA did not start (", text_of(result), ")");
  }
  return 0;
}

Gpu& Gpu::of(int ordinal) {
  // Never destroyed: objects that refer to a Gpu may outlive every static object.
  static std::mutex* mutex = new std::mutex;
  static std::map<int, Gpu*>* gpus = new std::map<int, Gpu*>;

  std::string why_none;
  const int count = count_gpus(why_none);
  if (count == 0) fail(ErrorCode::unsupported, "cuda:", ordinal, " cannot be opened: ", why_none);
  if (ordinal < 0 || ordinal >= count) {
    fail(ErrorCode::unsupported, "cuda:", ordinal, " cannot be opened: there ", count == 1 ? "is " : "are ", count,
         count == 1 ? " GPU, cuda:0" : concat(" GPUs, cuda:0 to cuda:", count - 1));
  }
  const std::lock_guard<std::mutex> lock(*mutex);
  Gpu*& entry = (*gpus)[ordinal];
  if (entry == nullptr) entry = new Gpu(ordinal);
  CUcontext current = nullptr;
  check(driver().ctx_get_current(&current), "asking for this thread's current GPU");
  if (current == nullptr) check(driver().ctx_set_current(entry->context_), "making GPU ", ordinal, " current");
  return *entry;
}

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  CUcontext previous = nullptr;
  int previous_ordinal = 0;
  check(driver().ctx_get_current(&previous), "asking for this thread's current GPU");
  if (previous != nullptr) check(cudaGetDevice(&previous_ordinal), "asking for this thread's current GPU");

  check(cudaSetDevice(ordinal), "starting GPU ", ordinal);
  check(driver().ctx_get_current(&context_), "reading the context of GPU ", ordinal);
  if (previous != nullptr) {
    check(cudaSetDevice(previous_ordinal), "going back to GPU ", previous_ordinal);
    check(driver().ctx_set_current(previous), "going back to the context of GPU ", previous_ordinal);
  }
  if (context_ == nullptr) fail(ErrorCode::system, "GPU ", ordinal, " has no context after cudaSetDevice");

  const ControlPath path(*this);
  read_properties();
  find_peers();
  find_whole_lines();
  try_host_memory();
  own_stream_ = take_stream();
  load_driver_kernels();
  check(prepare_printing(own_stream_), "a first kernel on GPU ", ordinal);
  check(cudaStreamSynchronize(own_stream_), "a first kernel on GPU ", ordinal);
}

// Copies within the GPU and the clearing of memory are kernels of the driver's own, which it too may load when first
// used.
void Gpu::load_driver_kernels() {
  constexpr std::size_t kBytes = 4096;
  void* memory = nullptr;
  check(cudaMalloc(&memory, 2 * kBytes), "allocating ", 2 * kBytes, " B on GPU ", ordinal_);
  auto* bytes = static_cast<std::byte*>(memory);
  cudaError_t result = cudaMemsetAsync(bytes, 0, 2 * kBytes, own_stream_);
  for (const std::size_t size : {std::size_t{8}, std::size_t{13}, kBytes - 1, kBytes}) {
    if (result == cudaSuccess) result = cudaMemsetAsync(bytes, 0, size, own_stream_);
    if (result != cudaSuccess) break;
    result = cudaMemcpyAsync(bytes + kBytes, bytes, size, cudaMemcpyDeviceToDevice, own_stream_);
  }
  const cudaError_t finished = cudaStreamSynchronize(own_stream_);
  const cudaError_t freed = cudaFree(memory);
  check(result, "a first copy on GPU ", ordinal_);
  check(finished, "a first copy on GPU ", ordinal_);
  check(freed, "freeing ", 2 * kBytes, " B on GPU ", ordinal_);
}

void Gpu::read_properties() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal_), "reading the properties of GPU ", ordinal_);
  name_ = properties.name;
  uuid_ = digits_of(properties.uuid);
  multiprocessors_ = properties.multiProcessorCount;
  capability_ = properties.major * 10 + properties.minor;
  memory_bytes_ = properties.totalGlobalMem;
  one_host_address_ = properties.canUseHostPointerForRegisteredMem != 0;
  check(driver().device_get(&device_, ordinal_), "asking the driver for GPU ", ordinal_);
  exports_by_fd_ = attribute(device_, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
                   attribute(device_, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  shares_managed_ = attribute(device_, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  rdma_ = attribute(device_, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
}

// By making some: a driver that can may not be allowed to. An older driver does not know the question.
void Gpu::try_host_memory() {
  constexpr auto kCan = CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  int can = 0;
  std::string why_not = "the driver does not hand out host memory";
  if (driver().device_get_attribute(&can, kCan, device_) == CUDA_SUCCESS && can != 0) {
    numa_node_ = attribute_value(device_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    try {
      if (numa_node_ >= 0) static_cast<void>(DriverRange::create(*this, DriverRange::Home::host, 1));
      maps_host_memory_ = numa_node_ >= 0;
      why_not = "it is near no NUMA node";
    } catch (const Error& error) {
      why_not = error.what();
    }
  }
  if (maps_host_memory_) return;
  log(LogLevel::info, "GPU ", ordinal_,
      ": pinned memory is registered, and letting go of it waits for kernels: ", why_not);
}

void Gpu::find_peers() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  reached_by_ = {ordinal_};
  may_reach_ = {ordinal_};
  for (int other = 0; other < count; ++other) {
    int there = 0;
    int back = 0;
    all_.push_back(other);
    if (other == ordinal_) continue;
    check(cudaDeviceCanAccessPeer(&there, ordinal_, other), "asking whether GPU ", ordinal_, " reaches GPU ", other);
    check(cudaDeviceCanAccessPeer(&back, other, ordinal_), "asking whether GPU ", other, " reaches GPU ", ordinal_);
    if (there != 0) may_reach_.push_back(other);
    if (back != 0) reached_by_.push_back(other);
  }
}

// Over NVLink, which has native atomics where PCIe has none. Of a GPU that this process cannot see nothing is known.
void Gpu::find_whole_lines() {
  constexpr int kFrom = 90;  // the compute capability of the GPUs that the test ll128_lines.cpp is run on
  if (capability_ < kFrom) return;
  whole_lines_to_ = {uuid_};
  for (const int other : may_reach_) {
    if (other == ordinal_) continue;
    int atomics = 0;
    cudaDeviceProp properties{};
    check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, ordinal_, other), "asking how GPU ",
          ordinal_, " reaches GPU ", other);
    if (atomics == 0) continue;
    check(cudaGetDeviceProperties(&properties, other), "reading the properties of GPU ", other);
    if (properties.major * 10 + properties.minor >= kFrom) whole_lines_to_.push_back(digits_of(properties.uuid));
  }
}

bool Gpu::may_reach(int other) const {
  return std::find(may_reach_.begin(), may_reach_.end(), other) != may_reach_.end();
}

void Gpu::enable_peer(int other) {
  if (reaches(other)) return;
  if (!may_reach(other)) {
    fail(ErrorCode::unsupported, "GPU ", ordinal_, " (", name_, ") cannot address the memory of GPU ", other,
         ": no NVLink or PCIe peer access between them");
  }
  const ControlPath path(*this);
  const cudaError_t result = cudaDeviceEnablePeerAccess(other, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) {
    forget_error();
  } else {
    check(result, "letting GPU ", ordinal_, " address the memory of GPU ", other);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  peers_.insert(other);
}

bool Gpu::reaches(int other) const {
  if (other == ordinal_) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  return peers_.count(other) != 0;
}

void Gpu::zero(void* address, std::size_t bytes) {
  check(cudaMemsetAsync(address, 0, bytes, own_stream_), "clearing ", bytes, " B on GPU ", ordinal_);
  check(cudaStreamSynchronize(own_stream_), "clearing ", bytes, " B on GPU ", ordinal_);
}

void Gpu::upload(cudaGraphExec_t graph, cudaStream_t idle) {
  const cudaStream_t stream = idle != nullptr ? idle : own_stream_;
  check(cudaGraphUpload(graph, stream), "uploading a graph to GPU ", ordinal_);
  check(cudaStreamSynchronize(stream), "uploading a graph to GPU ", ordinal_);
}

void Gpu::check_alive() const {
  const ControlPath path(*this);
  static_cast<void>(is_ready(cudaStreamQuery(own_stream_), "asking GPU ", ordinal_, " for a sign of life"));
}

CUfunction Gpu::function_of(const Kernel& kernel) {
  const CUfunction known = functions_.find(kernel.cuda);
  return known != nullptr ? known : look_up(kernel);
}

CUfunction Gpu::look_up(const Kernel& kernel) {
  const ControlPath path(*this);  // CUDA may load the kernel
  cudaFunction_t function = nullptr;
  check(cudaGetFuncBySymbol(&function, kernel.cuda), "looking up kernel ", kernel.name, " for GPU ", ordinal_);
  functions_.put(kernel.cuda, function);
  return function;
}

template <class Handle>
std::optional<Handle> Gpu::take_spare(std::vector<Handle>& spares) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (spares.empty()) return std::nullopt;
  const Handle handle = spares.back();
  spares.pop_back();
  return handle;
}

// False: there is no memory to remember it with.
template <class Handle>
bool Gpu::keep_spare(std::vector<Handle>& spares, Handle handle) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    spares.push_back(handle);
    return true;
  } catch (...) {
    return false;
  }
}

cudaStream_t Gpu::take_stream() {
  if (const auto spare = take_spare(streams_)) return *spare;
  cudaStream_t stream = nullptr;
  // Non-blocking: never ordered against the default stream, which may hold a wait.
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream on GPU ", ordinal_);
  return stream;
}

void Gpu::give_stream(cudaStream_t stream) noexcept {
  if (!keep_spare(streams_, stream)) static_cast<void>(cudaStreamDestroy(stream));
}

cudaEvent_t Gpu::take_event() {
  if (const auto spare = take_spare(events_)) return *spare;
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event on GPU ", ordinal_);
  return event;
}

void Gpu::give_event(cudaEvent_t event) noexcept {
  if (!keep_spare(events_, event)) drop_event(event);
}

void Gpu::drop_event(cudaEvent_t event) noexcept { static_cast<void>(cudaEventDestroy(event)); }

Current::Current(const Gpu& gpu) : mine_(gpu.context()) {
  check(driver().ctx_get_current(&previous_), "asking for this thread's current GPU");
  if (previous_ != mine_) check(driver().ctx_set_current(mine_), "making GPU ", gpu.ordinal(), " current");
}

Current::~Current() {
  if (previous_ != mine_) static_cast<void>(driver().ctx_set_current(previous_));
}

ControlPath::ControlPath(const Gpu& gpu) : current_(gpu) {
  check(cudaThreadExchangeStreamCaptureMode(&mode_), "leaving the thread's capture mode");
}

ControlPath::~ControlPath() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }

}  // namespace onstream::cuda
