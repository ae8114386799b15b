// CUDA calls for the tests of the cuda device: memory, streams and captures that onstream did not make.
// CUDA headers stay in cuda_device_kernels.cu, which a build with CUDA has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "onstream/device.hpp"
#include "onstream/device/kernel/group.hpp"

namespace onstream::test {

// *word += value, by one thread.
struct AddTo {
  std::uint64_t* word;
  std::uint64_t value;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() == 0 && group.rank() == 0) group.store_relaxed(word, group.load_relaxed(word) + value);
  }
};

// The same under another name: a kernel that nothing has launched before.
struct AddLate : AddTo {};

// And one that a capture launches first.
struct AddInCapture : AddTo {};

// The same, and one that prints when there is nothing to add.
struct AddOrTell : AddTo {
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (value == 0) printf("nothing to add\n");
    AddTo::operator()(group);
  }
};

// Waits until *word is not 0; then *ended = 1, or 2 when 10 s were not enough.
struct AwaitWord {
  const std::uint64_t* word;
  std::uint64_t* ended;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() != 0 || group.rank() != 0) return;
    const std::uint64_t start_ns = group.now_ns();
    std::uint64_t end = 0;
    for (std::uint32_t round = 0; end == 0; ++round) {
      if (group.load_acquire(word) != 0) {
        end = 1;  // pairs with the host's release
      } else if (group.now_ns() - start_ns > 10'000'000'000u) {
        end = 2;
      } else {
        group.pause(round, 1024);
      }
    }
    group.store_relaxed(ended, end);
  }
};

const void* add_to_entry();
const void* add_late_entry();
const void* add_in_capture_entry();
const void* add_or_tell_entry();
const void* await_word_entry();

// The user's own calls. Each throws Error with CUDA's words when CUDA refuses.
namespace user {

int current_gpu();
void use_gpu(int ordinal);

void* malloc_device(std::size_t bytes);  // cudaMalloc
void free_device(void* address);
void* malloc_pool(std::size_t bytes);  // cudaMallocAsync on the default stream
void free_pool(void* address);
// Two allocations of the driver's (cuMemCreate) side by side in one range of addresses, each of `bytes` rounded up.
void* map_device(std::size_t bytes);
void unmap_device(void* address);
void* malloc_managed(std::size_t bytes);
void* malloc_pinned(std::size_t bytes);
void free_pinned(void* address);

void* make_stream();
void destroy_stream(void* stream);

// A capture in the strictest mode, which PyTorch uses: global. end_capture() launches the graph `launches` times, waits
// for it and drops it.
void begin_global_capture(void* stream);
void end_capture(void* stream, int launches);

// CUDA_MODULE_LOADING as the program has it; null if nobody set it.
const char* loading_set_by_user();

// Whether CUDA has an error left over for the next cudaGetLastError of the program.
bool error_left();

}  // namespace user
}  // namespace onstream::test
