#include "onstream/device/cuda/entry.cuh"
#include "wide_lines_kernels.hpp"

namespace onstream::test {

const void* write_octets_entry() { return reinterpret_cast<const void*>(&cuda_entry<WriteOctets>); }
const void* read_octets_entry() { return reinterpret_cast<const void*>(&cuda_entry<ReadOctets>); }

}  // namespace onstream::test
