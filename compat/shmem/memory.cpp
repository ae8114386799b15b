// The symmetric heap. Every call is collective and meets the other PEs, as the standard has it.
#include <algorithm>
#include <bit>
#include <limits>

#include "guarded.hpp"
#include "onstream/symmetric.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

void barrier(Runtime& shmem) {
  shmem.default_context().quiet();
  shmem.world().team()->sync();
}

// Null where there is no room, which is then so on every PE; a line says how much there is.
template <class Function>
void* allocated(const char* call, const Function& function) {
  return guarded(call, [&](Runtime& shmem) -> void* {
    try {
      void* const made = function(shmem);
      barrier(shmem);
      return made;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::system) throw;
      log(LogLevel::warn, call, ": ", error.what());
      return nullptr;
    }
  });
}

void* allocate(const char* call, std::size_t size, std::size_t alignment, long hints = 0) {
  if (size == 0) return guarded(call, [](Runtime&) -> void* { return nullptr; });
  return allocated(call, [&](Runtime& shmem) {
    Heap& heap = (hints & SHMEMX_MALLOC_DEVICE) != 0 ? shmem.device_heap() : shmem.heap();
    return heap.allocate(size, alignment);
  });
}

void release(const char* call, void* address) {
  guarded(call, [&](Runtime& shmem) {
    if (address == nullptr) return;
    barrier(shmem);
    Heap* const heap = shmem.heap_of(address);
    require(heap != nullptr, address, " is not in the symmetric heap");
    heap->free(address);
  });
}

void* resize(const char* call, void* address, std::size_t size) {
  if (address == nullptr) return allocate(call, size, Heap::kAlignment);
  if (size == 0) {
    release(call, address);
    return nullptr;
  }
  return allocated(call, [&](Runtime& shmem) {
    barrier(shmem);
    Heap* const heap = shmem.heap_of(address);
    require(heap != nullptr, address, " is not in the symmetric heap");
    return heap->reallocate(address, size);
  });
}

// Smaller powers of two are alignments too; other values are refused.
std::size_t whole_alignment(std::size_t asked) {
  return std::has_single_bit(asked) ? std::max(asked, sizeof(void*)) : asked;
}

}  // namespace

void* shmem_malloc(size_t size) { return allocate("shmem_malloc", size, Heap::kAlignment); }

void* shmem_malloc_with_hints(size_t size, long hints) {
  return allocate("shmem_malloc_with_hints", size, Heap::kAlignment, hints);
}

void* shmem_align(size_t alignment, size_t size) { return allocate("shmem_align", size, whole_alignment(alignment)); }

void* shmem_calloc(size_t count, size_t size) {
  if (count == 0 || size == 0) return allocate("shmem_calloc", 0, Heap::kAlignment);
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();  // more than any heap has
  const std::size_t bytes = count <= kMost / size ? count * size : kMost;
  return allocated("shmem_calloc", [&](Runtime& shmem) { return shmem.heap().allocate_zeroed(bytes); });
}

void* shmem_realloc(void* ptr, size_t size) { return resize("shmem_realloc", ptr, size); }
void shmem_free(void* ptr) { release("shmem_free", ptr); }

void* shmalloc(size_t size) { return allocate("shmalloc", size, Heap::kAlignment); }
void shfree(void* ptr) { release("shfree", ptr); }
void* shrealloc(void* ptr, size_t size) { return resize("shrealloc", ptr, size); }
void* shmemalign(size_t alignment, size_t size) { return allocate("shmemalign", size, whole_alignment(alignment)); }
