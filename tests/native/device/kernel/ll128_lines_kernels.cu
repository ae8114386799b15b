#include "ll128_lines_kernels.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::test {

const void* write_subgroups_entry() { return reinterpret_cast<const void*>(&cuda_entry<WriteSubgroups>); }
const void* read_subgroups_entry() { return reinterpret_cast<const void*>(&cuda_entry<ReadSubgroups>); }

int capability_of_first_gpu() {
  int major = 0;
  int minor = 0;
  const bool told = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
                    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess;
  return told ? 10 * major + minor : 0;
}

}  // namespace onstream::test
