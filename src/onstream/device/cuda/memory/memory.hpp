// Memory of the cuda device: allocating it, telling an address's kind, and handing it to other processes.
//
// This library's own allocations are kept in one list of the process, so that a rank may use and export memory that
// another rank (a thread of the same process) allocated. Everything else is known from the driver: memory of cudaMalloc
// leaves the process by legacy IPC; pools, other libraries' mappings, managed memory and memory that others pinned do
// not leave it. An allocation is let go after the work that uses it has finished: freeing does not wait for that work,
// or waits for all.
#pragma once

#include <cstddef>
#include <memory>
#include "onstream/base/fd.hpp"

#include "onstream/device.hpp"
#include "onstream/device/cuda/gpu.hpp"
#include "onstream/device/export.hpp"

namespace onstream::cuda {

std::shared_ptr<Memory> allocate(Gpu& gpu, std::size_t bytes, MemoryKind kind);
MemoryInfo inspect(const Gpu& gpu, const void* address);
Export export_memory(Gpu& gpu, const MemoryInfo& info);
std::shared_ptr<Mapping> import_memory(Gpu& gpu, const ExportRecord& record, Fd fd);

}  // namespace onstream::cuda
