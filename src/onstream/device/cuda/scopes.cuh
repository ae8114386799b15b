// The threads that do one thing together in a kernel: one thread, a warp, a block, or the whole grid. All have Group's
// interface.
//
// For kernels of any shape of block; a warp or a block takes part with all its threads, a grid with all its blocks.
#pragma once

#include <cstring>
#include <type_traits>

#include "onstream/device/cuda/group.cuh"

namespace onstream {

// Each defines `rank()`, `size()` and the threads that `sync()` waits for. Copies hide those of a whole block.
template <class Scope>
class CudaScope : public CudaGroup {
 public:
  ONSTREAM_BODY void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    const auto& scope = static_cast<const Scope&>(*this);
    share(destination, source, bytes, static_cast<std::size_t>(scope.rank()), static_cast<std::size_t>(scope.size()));
  }

  ONSTREAM_BODY void copy_twice(void* destination, void* other, const void* source, std::size_t bytes) const {
    copy_alone(destination, source, bytes);
    copy_alone(other, source, bytes);
  }

  // As all blocks of the grid together.
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    const auto& scope = static_cast<const Scope&>(*this);
    share(destination, source, bytes,
          static_cast<std::size_t>(block()) * static_cast<std::size_t>(scope.size()) +
              static_cast<std::size_t>(scope.rank()),
          static_cast<std::size_t>(blocks()) * static_cast<std::size_t>(scope.size()));
  }
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes, std::uint32_t part,
                          std::uint32_t parts) const {
    const auto& scope = static_cast<const Scope&>(*this);
    const auto size = static_cast<std::size_t>(scope.size());
    share(destination, source, bytes, part * size + static_cast<std::size_t>(scope.rank()), parts * size);
  }
  struct Flight {};  // nothing flies ahead
  ONSTREAM_BODY static Flight fetch(const void*, std::size_t, std::uint32_t, std::uint32_t) { return {}; }
  ONSTREAM_BODY void copy(const Flight&, void* destination, const void* source, std::size_t bytes, std::uint32_t part,
                          std::uint32_t parts) const {
    copy(destination, source, bytes, part, parts);
  }

 protected:
  ONSTREAM_BODY static int thread_in_block() {
    return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  }
  ONSTREAM_BODY static int threads_of_block() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }
};

class ThreadScope : public CudaScope<ThreadScope> {
 public:
  ONSTREAM_BODY int rank() const { return 0; }
  ONSTREAM_BODY int size() const { return 1; }
  ONSTREAM_BODY void sync() const {}
  ONSTREAM_BODY bool sync_or(bool mine) const { return mine; }
  template <class Make>
  ONSTREAM_BODY auto of_first(const Make& make) const -> decltype(make()) {
    return make();
  }
};

class WarpScope : public CudaScope<WarpScope> {
 public:
  ONSTREAM_BODY int rank() const { return thread_in_block() % warpSize; }
  ONSTREAM_BODY int size() const { return warpSize; }
  ONSTREAM_BODY void sync() const { __syncwarp(); }
  ONSTREAM_BODY bool sync_or(bool mine) const { return __any_sync(0xffffffffu, mine) != 0; }
  template <class Make>
  ONSTREAM_BODY auto of_first(const Make& make) const -> decltype(make()) {
    using Made = decltype(make());
    static_assert(std::is_trivially_copyable_v<Made> && sizeof(Made) % sizeof(unsigned) == 0);
    Made made{};
    if (rank() == 0) made = make();
    unsigned words[sizeof(Made) / sizeof(unsigned)];
    memcpy(words, &made, sizeof made);
    for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, 0);
    memcpy(&made, words, sizeof made);
    return made;
  }
};

class BlockScope : public CudaScope<BlockScope> {
 public:
  ONSTREAM_BODY int rank() const { return thread_in_block(); }
  ONSTREAM_BODY int size() const { return threads_of_block(); }
  template <class Make>
  ONSTREAM_BODY auto of_first(const Make& make) const -> decltype(make()) {
    return of_first_in_block(rank() == 0, make);
  }
};

static_assert(Group<ThreadScope> && Group<WarpScope> && Group<BlockScope>);

ONSTREAM_BODY ThreadScope thread_scope(const CudaGroup&) { return {}; }
ONSTREAM_BODY WarpScope warp_scope(const CudaGroup&) { return {}; }
ONSTREAM_BODY BlockScope block_scope(const CudaGroup&) { return {}; }

}  // namespace onstream
