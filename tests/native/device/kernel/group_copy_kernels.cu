// The GPU entries of group_copy.cpp's kernels.
#include "group_copy_kernels.hpp"

#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

template <class Body>
const void* copy_entry() {
  return reinterpret_cast<const void*>(&cuda_entry<Body>);
}

template const void* copy_entry<CopyByGrid>();
template const void* copy_entry<CopyAlone>();

}  // namespace onstream::test
