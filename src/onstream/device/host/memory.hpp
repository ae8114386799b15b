// Memory of the host device: anonymous shared memory (memfd) that other processes map by file descriptor. Nothing is
// named, so nothing is left behind, and the size of /dev/shm does not matter.
//
// Mappings are known per process, not per device: an address means the same to every device of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include "onstream/base/fd.hpp"

#include "onstream/device.hpp"
#include "onstream/device/export.hpp"

namespace onstream::host {

// One range of shared memory in this address space: our own allocation, or a peer's that was imported.
class SharedRange {
 public:
  // Allocates zeroed memory, at a multiple of the largest power of two within `bytes` (up to a GiB), as long as there
  // are addresses for that. Throws system with the bytes asked for.
  SharedRange(std::size_t bytes, MemoryKind kind);
  // Maps memory that another process exported. Throws when `fd` does not match `record`.
  SharedRange(const ExportRecord& record, const Fd& fd);
  ~SharedRange();
  SharedRange(const SharedRange&) = delete;
  SharedRange& operator=(const SharedRange&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  std::uint64_t id() const { return id_; }
  MemoryInfo info() const;
  // Throws unsupported for imported memory.
  Export share() const;

 private:
  MemoryKind kind_;
  std::size_t bytes_;
  std::uint64_t id_;
  Fd fd_;  // of our own allocations only
  std::byte* data_ = nullptr;
};

// All shared ranges of this process, by address. Thread-safe.
class SharedRanges {
 public:
  static SharedRanges& of_process();

  void add(const std::shared_ptr<SharedRange>& shared);
  void remove(const SharedRange& shared);
  // The entry of the range that holds `address`.
  std::optional<MemoryInfo> find(const void* address) const;
  // Our own allocation with that id; null once it is freed.
  std::shared_ptr<SharedRange> find_id(std::uint64_t id) const;
  std::uint64_t removals() const { return removals_.load(std::memory_order_acquire); }  // pairs with remove()

 private:
  struct RangeEntry {
    MemoryInfo info;
    std::weak_ptr<SharedRange> shared;
  };

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, RangeEntry> by_base_;
  std::atomic<std::uint64_t> version_{1};  // changes with every add and remove; see find()
  std::atomic<std::uint64_t> removals_{0};
};

std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind);
MemoryInfo inspect(const void* address);
Export export_memory(const MemoryInfo& info);
std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd);

}  // namespace onstream::host
