#include "onstream/device/cuda/memory/managed.hpp"

#include "onstream/device/cuda/check.hpp"

namespace onstream::cuda {

namespace {

// The runtime's calls took the number of a GPU, or of the CPU, before CUDA 13.
#if CUDART_VERSION >= 13000
using Place = cudaMemLocation;
Place on_gpu(const Gpu& gpu) { return {cudaMemLocationTypeDevice, gpu.ordinal()}; }
Place on_cpu() { return {cudaMemLocationTypeHost, 0}; }
cudaError_t prefetch(void* address, std::size_t bytes, Place place, cudaStream_t stream) {
  return cudaMemPrefetchAsync(address, bytes, place, 0, stream);
}
#else
using Place = int;
Place on_gpu(const Gpu& gpu) { return gpu.ordinal(); }
Place on_cpu() { return cudaCpuDeviceId; }
cudaError_t prefetch(void* address, std::size_t bytes, Place place, cudaStream_t stream) {
  return cudaMemPrefetchAsync(address, bytes, place, stream);
}
#endif

void apply(const Gpu& gpu, void* address, std::size_t bytes, cudaMemoryAdvise advice, Place place) {
  check(cudaMemAdvise(address, bytes, advice, place), "advising ", bytes, " B of managed memory at ", address,
        " (advice ", static_cast<int>(advice), ") on GPU ", gpu.ordinal());
}

}  // namespace

void advise_managed(const Gpu& gpu, void* address, std::size_t bytes, Advice advice) {
  if (!gpu.shares_managed()) return;
  switch (advice) {
    case Advice::none:
      apply(gpu, address, bytes, cudaMemAdviseUnsetReadMostly, on_gpu(gpu));
      apply(gpu, address, bytes, cudaMemAdviseUnsetPreferredLocation, on_gpu(gpu));
      return;
    case Advice::device:
      apply(gpu, address, bytes, cudaMemAdviseSetPreferredLocation, on_gpu(gpu));
      return apply(gpu, address, bytes, cudaMemAdviseSetAccessedBy, on_cpu());
    case Advice::host:
      apply(gpu, address, bytes, cudaMemAdviseSetPreferredLocation, on_cpu());
      return apply(gpu, address, bytes, cudaMemAdviseSetAccessedBy, on_gpu(gpu));
    case Advice::read_mostly: return apply(gpu, address, bytes, cudaMemAdviseSetReadMostly, on_gpu(gpu));
  }
}

void prefetch_managed(const Gpu& gpu, void* address, std::size_t bytes, DeviceKind where, cudaStream_t stream) {
  if (!gpu.shares_managed()) return;
  check(prefetch(address, bytes, where == DeviceKind::cuda ? on_gpu(gpu) : on_cpu(), stream), "prefetching ", bytes,
        " B of managed memory at ", address, " to ", where == DeviceKind::cuda ? "GPU " : "the CPU from GPU ",
        gpu.ordinal());
}

}  // namespace onstream::cuda
