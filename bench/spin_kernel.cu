#include "onstream/device/cuda/entry.cuh"
#include "spin_kernel.hpp"

namespace onstream::bench {

const void* cuda_spin() { return reinterpret_cast<const void*>(&cuda_entry<Spin>); }

}  // namespace onstream::bench
