// The GPU entries of one_sided_device.cpp's kernels.
#include "one_sided_device_kernels.hpp"

#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

template <class Body>
const void* one_sided_entry() {
  return reinterpret_cast<const void*>(&cuda_entry<Body>);
}

template const void* one_sided_entry<PutAndWait>();
template const void* one_sided_entry<Change>();
template const void* one_sided_entry<WaitForMany>();
template const void* one_sided_entry<Barriers>();
template const void* one_sided_entry<Lines>();
template const void* one_sided_entry<PutByGrid>();
template const void* one_sided_entry<Columns>();
template const void* one_sided_entry<WaitInVain>();

}  // namespace onstream::test
