// Operations on words by a CUDA stream (the driver's stream memory operations). A capture makes them nodes of the
// graph.
#pragma once

#include <span>

#include "onstream/device.hpp"
#include "onstream/device/cuda/gpu.hpp"

namespace onstream::cuda {

// The words are checked already and the GPU is current. Does not block.
void operate_on_words(const Gpu& gpu, std::span<const WordOp> ops, cudaStream_t stream);

}  // namespace onstream::cuda
