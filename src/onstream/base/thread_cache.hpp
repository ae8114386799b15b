// ThreadCache: an allocator for objects that come and go by the million, such as requests. Each thread keeps the memory
// of those that it let go last, and takes it from there without a lock or any other atomic operation: behind a store to
// memory that another core has, each of those waits until the store is through.
//
// For std::allocate_shared. Memory that another thread lets go stays with that thread; a thread frees its kept memory
// when it ends.
#pragma once

#include <cstddef>
#include <new>

namespace onstream {

template <std::size_t kBytes>
class KeptBlocks {
 public:
  static void* take() {
    CachedBlocks& kept = of_thread();
    if (kept.count == 0) return ::operator new(kBytes);
    return kept.blocks[--kept.count];
  }
  static void give_back(void* block) noexcept {
    CachedBlocks& kept = of_thread();
    if (kept.count == kMost || kept.closed) return ::operator delete(block);
    kept.blocks[kept.count++] = block;
  }

 private:
  // Plain data, which other objects of the thread may still use when Closer has ended.
  static constexpr std::size_t kMost = 256;
  struct CachedBlocks {
    std::size_t count;
    bool closed;
    void* blocks[kMost];
  };
  struct Closer {
    CachedBlocks& kept;
    ~Closer() {
      kept.closed = true;
      while (kept.count > 0) ::operator delete(kept.blocks[--kept.count]);
    }
  };
  static CachedBlocks& of_thread() {
    static constinit thread_local CachedBlocks kept{};
    static thread_local Closer closer{kept};
    (void)closer;
    return kept;
  }
};

template <class T>
class ThreadCache {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kKeeps = false;  // so that a use after the end is seen
#else
  static constexpr bool kKeeps = true;
#endif
  using value_type = T;
  ThreadCache() = default;
  template <class Other>
  explicit ThreadCache(const ThreadCache<Other>&) {}

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "operator new gives no more");
    if (count != 1 || !kKeeps) return static_cast<T*>(::operator new(count * sizeof(T)));
    return static_cast<T*>(KeptBlocks<sizeof(T)>::take());
  }
  void deallocate(T* block, std::size_t count) noexcept {
    if (count != 1 || !kKeeps) return ::operator delete(block);
    KeptBlocks<sizeof(T)>::give_back(block);
  }
  template <class Other>
  bool operator==(const ThreadCache<Other>&) const {
    return true;
  }
};

}  // namespace onstream
