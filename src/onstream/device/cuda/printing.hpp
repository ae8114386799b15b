// Kernels that print, by printf or by an assert that fails: CUDA gives a GPU what they need at the first launch of one
// that could, whosoever it is, and that one starts only when all running kernels have ended.
#pragma once

#include <cuda_runtime_api.h>

namespace onstream::cuda {

// Launches one that prints nothing. Afterwards others start beside running kernels.
cudaError_t prepare_printing(cudaStream_t stream);

}  // namespace onstream::cuda
