#include "onstream/device/cuda/memory/small.hpp"

#include "onstream/base/text.hpp"
#include "onstream/device/cuda/memory/memory.hpp"

namespace onstream::cuda {

namespace {

// The driver's copies finish before they return, so that they do not meet writes through the window.
std::shared_ptr<Memory> device_memory_for_window(Gpu& gpu, std::size_t bytes) {
  auto memory = cuda::allocate(gpu, bytes, MemoryKind::device);
  const ControlPath path(gpu);
  const int yes = 1;
  const auto at = reinterpret_cast<std::uintptr_t>(memory->data());
  // Not every kind of memory has this attribute; nothing but kernels reads small memory anyway.
  static_cast<void>(driver().pointer_set_attribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
  return memory;
}

}  // namespace

SmallMemories::SmallMemories(Gpu& gpu)
    : memories_(
          {.gpu = concat("GPU ", gpu.ordinal()),
           .find = &Gdr::of_process,
           .device_memory = [&gpu](std::size_t bytes) { return device_memory_for_window(gpu, bytes); },
           .pinned_memory = [&gpu](std::size_t bytes) { return cuda::allocate(gpu, bytes, MemoryKind::pinned); }}) {}

SmallCopies SmallMemories::wanted() { return GdrMemories::expected(&Gdr::of_process); }

}  // namespace onstream::cuda
