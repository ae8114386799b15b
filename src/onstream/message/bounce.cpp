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
  if (device_->capturing(stream)) return device_->retain(stream, give_back_later(std::move(memory)));
  std::shared_ptr<Event> event = device_->record(stream);
  const std::size_t bytes = memory->bytes();
  const std::lock_guard lock(mutex_);
  returned_.emplace(bytes, Returned{std::move(memory), std::move(event)});
}

std::shared_ptr<const void> BouncePool::give_back_later(std::shared_ptr<Memory> memory) {
  struct Later {
    std::shared_ptr<BouncePool> pool;
    std::shared_ptr<Memory> memory;
    ~Later() { pool->give_back(std::move(memory)); }
  };
  return std::shared_ptr<const Later>(new Later{shared_from_this(), std::move(memory)});
}

void BouncePool::give_back(std::shared_ptr<Memory> memory) {
  const std::size_t bytes = memory->bytes();
  const std::lock_guard lock(mutex_);
  returned_.emplace(bytes, Returned{std::move(memory), nullptr});
}

}  // namespace onstream
