// The kernels of group_copy.cpp.
#pragma once

#include <cstddef>

#include "onstream/device.hpp"
#include "onstream/device/kernel/group.hpp"

namespace onstream::test {

struct CopyByGrid {
  void* destination;
  const void* source;
  std::size_t bytes;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    group.copy(destination, source, bytes);
  }
};

// The last block copies all of it.
struct CopyAlone {
  void* destination;
  const void* source;
  std::size_t bytes;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() + 1 == group.blocks()) group.copy_alone(destination, source, bytes);
  }
};

#ifdef ONSTREAM_WITH_CUDA
template <class Body>
const void* copy_entry();  // group_copy_kernels.cu
#else
template <class Body>
const void* copy_entry() {
  return nullptr;
}
#endif

}  // namespace onstream::test
