// The memory that this library allocated in this process and can export: found again from any address inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "onstream/base/fd.hpp"
#include "onstream/device.hpp"
#include "onstream/device/export.hpp"

namespace onstream::cuda {

// How an ExportRecord's memory travels.
enum class Flavour : std::uint32_t {
  legacy_ipc = 1,  // handle: a cudaIpcMemHandle_t; the driver finds the memory
  gpu_memory,      // the driver's descriptor of GPU memory; handle: its mapped bytes
  host_memory,     // the driver's descriptor of host memory; handle: its mapped bytes
  file,            // a file in host memory; handle: its mapped bytes
};

struct OwnAllocation {
  MemoryInfo info;
  Flavour flavour = Flavour::gpu_memory;
  std::size_t mapped_bytes = 0;   // whole pages, at least info.bytes
  std::function<Fd()> export_fd;  // valid while the allocation lives
  std::weak_ptr<void> range;      // an importer in this very process keeps it mapped
};

// Adds an allocation and gives it its id. Thread-safe, as all here.
void add_own(OwnAllocation own);
void remove_own(const std::byte* base) noexcept;
std::uint64_t own_removals();   // so far
bool is_own(std::uint64_t id);  // MemoryInfo::id of such an allocation, also once it is gone
// The entry of the allocation around an address. A table look-up, no driver call.
std::optional<MemoryInfo> find_own(const void* address);
// Keeps the allocation with this base and id mapped, also after its owner has let go. Null if it is not, or no longer,
// ours.
std::shared_ptr<void> keep_own(const std::byte* base, std::uint64_t id);
// Exports the allocation with this base and id, which cannot be freed in the meantime. Throws invalid_argument if it is
// gone.
Export export_own(const MemoryInfo& info);

}  // namespace onstream::cuda
