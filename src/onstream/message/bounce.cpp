#include "onstream/message/bounce.hpp"

#include <bit>

namespace onstream {

std::shared_ptr<Memory> BouncePool::take(std::size_t bytes, MemoryKind kind) {
  constexpr std::size_t kSmallest = 4096;
  const std::size_t wanted = std::bit_ceil(std::max(bytes, kSmallest));
  {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = returned_.equal_range(wanted);
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second.memory->kind() != kind) continue;
      if (entry->second.event != nullptr && !entry->second.event->done()) continue;
      std::shared_ptr<Memory> memory = std::move(entry->second.memory);
      returned_.erase(entry);
      return memory;
    }
  }
  return device_->allocate(wanted, kind);
}

void BouncePool::give_back(std::shared_ptr<Memory> memory, Stream stream) {
  const bool in_graph = device_->capturing(stream);
  std::shared_ptr<Event> event = in_graph ? nullptr : device_->record(stream);
  const std::lock_guard lock(mutex_);
  if (in_graph) {
    kept_.push_back(std::move(memory));
  } else {
    const std::size_t bytes = memory->bytes();
    returned_.emplace(bytes, Returned{std::move(memory), std::move(event)});
  }
}

void BouncePool::give_back(std::shared_ptr<Memory> memory) {
  const std::size_t bytes = memory->bytes();
  const std::lock_guard lock(mutex_);
  returned_.emplace(bytes, Returned{std::move(memory), nullptr});
}

}  // namespace onstream
