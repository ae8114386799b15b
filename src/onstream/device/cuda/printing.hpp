// Kernels that print, by printf or by an assert that fails: CUDA sets a GPU up for them at the process's first launch
// of a kernel that could print, the program's or ours, and that launch starts only when all running kernels have ended.
#pragma once

#include <cuda_runtime_api.h>

namespace onstream::cuda {

// Launches one that prints nothing. Afterwards others start beside running kernels.
cudaError_t prepare_printing(cudaStream_t stream);

}  // namespace onstream::cuda
