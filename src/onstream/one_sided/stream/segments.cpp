#include "onstream/one_sided/stream/segments.hpp"

#include <mutex>

namespace onstream::one_sided {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct Remembered {
  std::uint64_t id = 0;
  std::uint64_t version = 0;
  std::shared_ptr<const SegmentRow> row;
};

}  // namespace

SegmentRows::SegmentRows() : id_(next_id()) {}

void SegmentRows::add(const Segment& segment, std::shared_ptr<const SegmentRow> row) {
  const std::unique_lock lock(mutex_);
  rows_[reinterpret_cast<std::uintptr_t>(segment.local())] = std::move(row);
  version_.fetch_add(1, std::memory_order_release);  // pairs with find()
}

void SegmentRows::remove(const Segment& segment) {
  if (guard_.in_child()) return;
  const std::unique_lock lock(mutex_);
  std::erase_if(rows_, [&](const auto& row) { return row.second->segment == &segment; });
  version_.fetch_add(1, std::memory_order_release);  // pairs with find()
}

const SegmentRow* SegmentRows::find(const void* address) const {
  thread_local Remembered last;
  if (last.id == id_ && last.version == version_.load(std::memory_order_acquire) && last.row->holds(address)) {
    return last.row.get();
  }
  const std::shared_lock lock(mutex_);
  auto next = rows_.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (next == rows_.begin()) return nullptr;
  const std::shared_ptr<const SegmentRow>& row = std::prev(next)->second;
  if (!row->holds(address)) return nullptr;
  last = {id_, version_.load(std::memory_order_relaxed), row};
  return row.get();
}

}  // namespace onstream::one_sided
