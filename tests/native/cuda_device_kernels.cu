#include "cuda_device_kernels.hpp"

#include <cuda_runtime_api.h>

#include "onstream/base/error.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

const void* add_to_entry() { return reinterpret_cast<const void*>(&cuda_entry<AddTo>); }

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

bool error_left() { return cudaGetLastError() != cudaSuccess; }

}  // namespace user
}  // namespace onstream::test
