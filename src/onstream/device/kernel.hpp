// A kernel: one body, written once over a Group, that every device can run.
//
// A body is a trivially copyable struct with
//     template <class Group> ONSTREAM_BODY void operator()(const Group& group) const;
// Its fields are the arguments. It never names threadIdx; it uses Group's interface alone (group.hpp). On the host
// the blocks of a grid run one after the other in one thread, so a block may wait for lower-numbered blocks and for
// other ranks, never for a higher-numbered block.
//
// A Kernel ties the body to its launchers: define it in a .cpp with host_entry<Body>, and, when CUDA is built, with the
// address of cuda_entry<Body> (device/cuda/entry.cuh) from a .cu file: ONSTREAM_CUDA_ADDRESS(that address).
#pragma once

#include <type_traits>

namespace onstream {

// Threads of a block: a bound known to the compiler leaves each thread 128 registers, and bodies do not spill.
constexpr int kMaxThreads = 512;

struct Grid {
  int blocks = 1;
  int threads = 1;  // of each block, at most kMaxThreads; ignored by the host device
};

struct Kernel {
  const char* name;
  void (*host)(const void* body, int blocks);
  const void* cuda;  // address of a __global__ function taking the body by value; null in a build without CUDA
};

// The expression in a build with CUDA; else null, and the address it names need not exist.
#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(address) address
#else
#define ONSTREAM_CUDA_ADDRESS(address) nullptr
#endif

}  // namespace onstream
