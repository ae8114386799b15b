// Pins: plain host memory registered with CUDA, so that kernels may access it at its own address.
//
// CUDA registers whole pages, each once, while buffers of malloc share pages. So this is one list for the process, of
// runs of pages; a buffer holds all runs that it touches, and a run is given back with its last holder. CUDA may wait
// for running kernels then; meanwhile pin() waits for these pages alone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "onstream/device/cuda/gpu.hpp"

namespace onstream::cuda {

// Null for memory that needs no pin, because it is CUDA's or registered with it by someone else.
std::shared_ptr<void> pin(Gpu& gpu, const void* address, std::size_t bytes);

// The pinned pages around an address, across neighbouring runs; nothing if pin() did not register it.
std::optional<std::span<std::byte>> pinned_around(const void* address);

}  // namespace onstream::cuda
