// The stand-in for the CUDA runtime over onstream's host device: the functions that cuda_runtime.h declares.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"

using namespace onstream;

struct CUevent_st {
  std::shared_ptr<Event> point;
  std::shared_ptr<std::atomic<std::uint64_t>> passed_ns = std::make_shared<std::atomic<std::uint64_t>>(0);
};

struct CUgraph_st {
  std::shared_ptr<Graph> captured;
};
struct CUgraphExec_st {
  std::shared_ptr<Graph> captured;
};

namespace {

struct State {
  std::shared_ptr<Device> device = open_device("host", 0);
  Stream default_stream = device->create_stream();
  std::mutex mutex;
  std::map<void*, std::shared_ptr<Memory>> memory;
  std::map<void*, unsigned> streams;  // with their flags
};

State& state() {
  // Never destroyed: programs free their memory in destructors of their own statics.
  static auto* const all = new State;
  return *all;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

template <class Function>
cudaError_t guarded(const Function& function) {
  try {
    return note(function());
  } catch (const std::exception& error) {
    log(LogLevel::error, "the stand-in for CUDA: ", error.what());
    return note(cudaErrorUnknown);
  }
}

Stream stream_of(cudaStream_t stream) { return stream == nullptr ? state().default_stream : Stream{stream}; }

bool is_known(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  return stream == nullptr || state().streams.contains(stream);
}

enum class Which { all, blocking };

void synchronize(Which which) {
  std::vector<Stream> streams = {state().default_stream};
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& [handle, flags] : state().streams) {
      if (which == Which::all || (flags & cudaStreamNonBlocking) == 0) streams.push_back({handle});
    }
  }
  for (const Stream stream : streams) state().device->synchronize(stream);
}

cudaError_t allocate(void** pointer, std::size_t bytes, MemoryKind kind) {
  return guarded([&] {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    std::shared_ptr<Memory> memory;
    try {
      memory = state().device->allocate(bytes, kind);
    } catch (const Error&) {
      return cudaErrorMemoryAllocation;
    }
    *pointer = memory->data();
    const std::lock_guard lock(state().mutex);
    state().memory[*pointer] = std::move(memory);
    return cudaSuccess;
  });
}

cudaError_t release(void* pointer) {
  return guarded([&] {
    if (pointer == nullptr) return cudaSuccess;
    synchronize(Which::blocking);
    const std::lock_guard lock(state().mutex);
    return state().memory.erase(pointer) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

// A host function that owns its argument; inside a capture the graph owns it, which may run it any number of times.
template <class Function>
void enqueue(Stream stream, Function function) {
  Device& device = *state().device;
  if (device.capturing(stream)) {
    const auto kept = std::make_shared<Function>(std::move(function));
    device.retain(stream, kept);
    return device.call([](void* argument) { (*static_cast<Function*>(argument))(); }, kept.get(), stream);
  }
  auto owned = std::make_unique<Function>(std::move(function));
  device.call(
      [](void* argument) {
        const std::unique_ptr<Function> own(static_cast<Function*>(argument));
        (*own)();
      },
      owned.get(), stream);
  owned.release();
}

}  // namespace

void* onstream_standin_default_stream(void) { return state().default_stream.handle; }

// --- the device ---

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return note(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return note(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return note(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaSetDeviceFlags(unsigned /*flags*/) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return guarded([&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *properties = {};
    state().device->name().copy(properties->name, sizeof properties->name - 1);
    properties->totalGlobalMem = static_cast<std::size_t>(list_devices().back().memory_bytes);
    properties->multiProcessorCount = state().device->max_blocks();
    properties->maxThreadsPerBlock = 1;
    properties->unifiedAddressing = 1;
    properties->canMapHostMemory = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit /*limit*/) {
  if (value == nullptr) return note(cudaErrorInvalidValue);
  *value = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  return guarded([] {
    synchronize(Which::all);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceReset(void) { return cudaDeviceSynchronize(); }

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return note(cudaErrorInvalidValue);
  *free_bytes = *total_bytes = static_cast<std::size_t>(list_devices().back().memory_bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorUnknown: break;
  }
  return "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

// --- memory ---

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return allocate(pointer, bytes, MemoryKind::device); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return allocate(pointer, bytes, MemoryKind::pinned); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) { return cudaMallocHost(pointer, bytes); }
cudaError_t cudaFree(void* pointer) { return release(pointer); }
cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }

// Everything is host memory already.
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned /*flags*/) {
  return note(pointer != nullptr && bytes > 0 ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void* pointer) { return note(pointer != nullptr ? cudaSuccess : cudaErrorInvalidValue); }
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned /*flags*/) {
  if (device_pointer == nullptr) return note(cudaErrorInvalidValue);
  *device_pointer = pointer;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind /*kind*/) {
  return guarded([&] {
    if (bytes > 0 && (destination == nullptr || source == nullptr)) return cudaErrorInvalidValue;
    synchronize(Which::blocking);
    if (bytes > 0) std::memmove(destination, source, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    if (bytes > 0 && (destination == nullptr || source == nullptr)) return cudaErrorInvalidValue;
    state().device->copy(destination, source, bytes, stream_of(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* destination, int value, size_t bytes) {
  return guarded([&] {
    if (bytes > 0 && destination == nullptr) return cudaErrorInvalidValue;
    synchronize(Which::blocking);
    if (bytes > 0) std::memset(destination, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* destination, int value, size_t bytes, cudaStream_t stream) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (destination == nullptr) return cudaErrorInvalidValue;
    enqueue(stream_of(stream), [=] { std::memset(destination, value, bytes); });
    return cudaSuccess;
  });
}

// --- streams and events ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return guarded([&] {
    if (stream == nullptr) return cudaErrorInvalidValue;
    const Stream made = state().device->create_stream();
    *stream = static_cast<cudaStream_t>(made.handle);
    const std::lock_guard lock(state().mutex);
    state().streams[made.handle] = flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded([&] {
    {
      const std::lock_guard lock(state().mutex);
      if (state().streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
    }
    state().device->destroy_stream({stream});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    state().device->synchronize(stream_of(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    return state().device->idle(stream_of(stream)) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return guarded([&] {
    if (!is_known(stream) || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->point != nullptr) state().device->wait(stream_of(stream), event->point);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    state().device->call(function, argument, stream_of(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return guarded([&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    *event = new CUevent_st;
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return note(event != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&] {
    if (!is_known(stream) || event == nullptr) return cudaErrorInvalidResourceHandle;
    enqueue(stream_of(stream), [passed = event->passed_ns] { passed->store(now_ns()); });
    event->point = state().device->record(stream_of(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return note(cudaErrorInvalidResourceHandle);
  return event->point == nullptr || event->point->done() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return note(cudaErrorInvalidResourceHandle);
  for (std::uint32_t round = 0; event->point != nullptr && !event->point->done(); ++round) HostGroup::pause(round);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr || start == nullptr || end == nullptr) return note(cudaErrorInvalidValue);
  if (start->point == nullptr || end->point == nullptr) return note(cudaErrorInvalidResourceHandle);
  if (!start->point->done() || !end->point->done()) return cudaErrorNotReady;
  constexpr double kNsPerMs = 1e6;
  const auto begin = static_cast<double>(start->passed_ns->load());
  *milliseconds = static_cast<float>((static_cast<double>(end->passed_ns->load()) - begin) / kNsPerMs);
  return cudaSuccess;
}

// --- graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  return guarded([&] {
    if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    state().device->begin_capture({stream});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = new CUgraph_st{state().device->end_capture(stream_of(stream))};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return guarded([&] {
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    if (status == nullptr) return cudaErrorInvalidValue;
    const bool active = state().device->capturing(stream_of(stream));
    *status = active ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long /*flags*/) {
  if (made == nullptr || graph == nullptr) return note(cudaErrorInvalidValue);
  *made = new CUgraphExec_st{graph->captured};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return guarded([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    if (!is_known(stream)) return cudaErrorInvalidResourceHandle;
    state().device->launch(graph->captured, stream_of(stream));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return note(graph != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return note(graph != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}
