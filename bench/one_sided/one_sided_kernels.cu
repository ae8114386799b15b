#include "one_sided_kernels.hpp"

#include "onstream/device/cuda/entry.cuh"

namespace onstream::bench {

OneSidedAddresses one_sided_addresses() {
  return {reinterpret_cast<const void*>(&cuda_entry<PutWait>), reinterpret_cast<const void*>(&cuda_entry<LineWait>),
          reinterpret_cast<const void*>(&cuda_entry<BlockPutSignal>),
          reinterpret_cast<const void*>(&cuda_entry<GridPutSignal>)};
}

}  // namespace onstream::bench
