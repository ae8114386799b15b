#include "cuda_device_kernels.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

const void* add_to_entry() { return reinterpret_cast<const void*>(&cuda_entry<AddTo>); }

const void* add_late_entry() { return reinterpret_cast<const void*>(&cuda_entry<AddLate>); }
const void* add_in_capture_entry() { return reinterpret_cast<const void*>(&cuda_entry<AddInCapture>); }
const void* add_or_tell_entry() { return reinterpret_cast<const void*>(&cuda_entry<AddOrTell>); }
const void* await_word_entry() { return reinterpret_cast<const void*>(&cuda_entry<AwaitWord>); }

namespace user {

namespace {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail(ErrorCode::system, what, ": ", cudaGetErrorString(result));
}

cudaStream_t handle_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int current_gpu() {
  int ordinal = -1;
  check(cudaGetDevice(&ordinal), "cudaGetDevice");
  return ordinal;
}

void use_gpu(int ordinal) { check(cudaSetDevice(ordinal), "cudaSetDevice"); }

void* malloc_device(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMalloc(&address, bytes), "cudaMalloc");
  return address;
}

void free_device(void* address) { check(cudaFree(address), "cudaFree"); }

void* malloc_pool(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMallocAsync(&address, bytes, nullptr), "cudaMallocAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return address;
}

void free_pool(void* address) {
  check(cudaFreeAsync(address, nullptr), "cudaFreeAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

namespace {

template <class Function>
Function driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
  if (address == nullptr) fail(ErrorCode::unsupported, "the driver has no ", name);
  return reinterpret_cast<Function>(address);
}

void check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) fail(ErrorCode::system, what, ": driver error ", static_cast<int>(result));
}

struct MappedRange {
  CUdeviceptr address = 0;
  std::size_t half = 0;
  CUmemGenericAllocationHandle handles[2] = {};
};

std::mutex mapped_mutex;
std::map<void*, MappedRange> mapped_ranges;

}  // namespace

void* map_device(std::size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = current_gpu();
  MappedRange range;
  check(driver_function<decltype(&::cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
            &range.half, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  range.half = (bytes + range.half - 1) / range.half * range.half;
  check(
      driver_function<decltype(&::cuMemAddressReserve)>("cuMemAddressReserve")(&range.address, 2 * range.half, 0, 0, 0),
      "cuMemAddressReserve");
  for (std::size_t i = 0; i < 2; ++i) {
    check(driver_function<decltype(&::cuMemCreate)>("cuMemCreate")(&range.handles[i], range.half, &properties, 0),
          "cuMemCreate");
    check(driver_function<decltype(&::cuMemMap)>("cuMemMap")(range.address + i * range.half, range.half, 0,
                                                             range.handles[i], 0),
          "cuMemMap");
  }
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver_function<decltype(&::cuMemSetAccess)>("cuMemSetAccess")(range.address, 2 * range.half, &access, 1),
        "cuMemSetAccess");
  void* address = reinterpret_cast<void*>(range.address + range.half - bytes / 2);  // half of it on either side
  const std::lock_guard lock(mapped_mutex);
  mapped_ranges[address] = range;
  return address;
}

void unmap_device(void* address) {
  MappedRange range;
  {
    const std::lock_guard lock(mapped_mutex);
    range = mapped_ranges.at(address);
    mapped_ranges.erase(address);
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(driver_function<decltype(&::cuMemUnmap)>("cuMemUnmap")(range.address, 2 * range.half), "cuMemUnmap");
  for (const CUmemGenericAllocationHandle handle : range.handles) {
    check(driver_function<decltype(&::cuMemRelease)>("cuMemRelease")(handle), "cuMemRelease");
  }
  check(driver_function<decltype(&::cuMemAddressFree)>("cuMemAddressFree")(range.address, 2 * range.half),
        "cuMemAddressFree");
}

void* malloc_managed(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMallocManaged(&address, bytes), "cudaMallocManaged");
  return address;
}

void* malloc_pinned(std::size_t bytes) {
  void* address = nullptr;
  check(cudaMallocHost(&address, bytes), "cudaMallocHost");
  return address;
}

void free_pinned(void* address) { check(cudaFreeHost(address), "cudaFreeHost"); }

void* make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  return stream;
}

void destroy_stream(void* stream) { check(cudaStreamDestroy(handle_of(stream)), "cudaStreamDestroy"); }

void begin_global_capture(void* stream) {
  check(cudaStreamBeginCapture(handle_of(stream), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
}

void end_capture(void* stream, int launches) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(handle_of(stream), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < launches; ++i) check(cudaGraphLaunch(executable, handle_of(stream)), "cudaGraphLaunch");
  check(cudaStreamSynchronize(handle_of(stream)), "cudaStreamSynchronize");
  check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

const char* loading_set_by_user() { return std::getenv("CUDA_MODULE_LOADING"); }

bool error_left() { return cudaGetLastError() != cudaSuccess; }

}  // namespace user
}  // namespace onstream::test
