#include "onstream/device/cuda/entry.cuh"
#include "spin_kernel.hpp"

namespace onstream::bench {

const void* cuda_spin() { return reinterpret_cast<const void*>(&cuda_entry<Spin>); }
const void* cuda_play() { return reinterpret_cast<const void*>(&cuda_entry<Play>); }

}  // namespace onstream::bench
