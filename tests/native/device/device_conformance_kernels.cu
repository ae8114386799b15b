// The GPU entries of the conformance kernels.
#include "device_conformance_kernels.hpp"

#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

template <class Body>
const void* cuda_address() {
  return reinterpret_cast<const void*>(&cuda_entry<Body>);
}

template const void* cuda_address<Fill>();
template const void* cuda_address<CountThreads>();
template const void* cuda_address<AddOnce>();
template const void* cuda_address<StoreWord>();
template const void* cuda_address<WaitForWord>();
template const void* cuda_address<AddShared>();
template const void* cuda_address<StoreSum>();

}  // namespace onstream::test
