// SegmentRows: the segments that a program made of a world, found by the addresses of this rank's parts.
//
// Every host-issued op on symmetric memory looks its address up, so each thread remembers its last answer and the
// version that it holds for. A row goes with the segment's last handle, or when it is freed; in a forked child it
// stays. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "onstream/base/fork_guard.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

struct SegmentRow {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool cpu = false;                   // the CPU may touch the parts
  std::vector<std::uintptr_t> parts;  // of each rank, as this rank addresses it; 0: not reachable
  std::shared_ptr<Window> window;
  const Segment* segment = nullptr;  // whose row this is

  bool holds(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) - begin < bytes; }
};

class SegmentRows {
 public:
  SegmentRows();

  void add(const Segment& segment, std::shared_ptr<const SegmentRow> row);
  void remove(const Segment& segment);
  // The row that `address` lies in, or null. Valid until the thread's next call.
  const SegmentRow* find(const void* address) const;

 private:
  const ForkGuard guard_;
  mutable std::shared_mutex mutex_;
  std::uint64_t id_;  // never reused: a thread's memory may outlive this object
  std::atomic<std::uint64_t> version_ = 1;
  std::map<std::uintptr_t, std::shared_ptr<const SegmentRow>> rows_;  // by begin
};

}  // namespace onstream::one_sided
