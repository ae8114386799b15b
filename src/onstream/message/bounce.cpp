#include "onstream/message/bounce.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace onstream {

namespace {

std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t kSmallest = 4096;
  return std::bit_ceil(std::max(bytes, kSmallest));
}

// Part of a larger allocation: a GPU's driver hands out pinned and device memory by 2 MiB.
class SlabPiece final : public Memory {
 public:
  SlabPiece(std::shared_ptr<Memory> slab, std::size_t offset, std::size_t bytes)
      : slab_(std::move(slab)), offset_(offset), bytes_(bytes) {}
  std::byte* data() const override { return slab_->data() + offset_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return slab_->kind(); }

 private:
  std::shared_ptr<Memory> slab_;
  std::size_t offset_;
  std::size_t bytes_;
};

bool is_small(const std::shared_ptr<Memory>& memory) { return dynamic_cast<SmallMemory*>(memory.get()) != nullptr; }

}  // namespace

// One of exactly this size that nobody uses; null if there is none.
template <class Fits>
std::shared_ptr<Memory> BouncePool::take_returned(std::size_t bytes, const Fits& fits) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = returned_.equal_range(bytes);
  for (auto entry = first; entry != last; ++entry) {
    if (!fits(entry->second.memory)) continue;
    if (entry->second.event != nullptr && !ended(*entry->second.event)) continue;
    std::shared_ptr<Memory> memory = std::move(entry->second.memory);
    returned_.erase(entry);
    return memory;
  }
  return nullptr;
}

std::shared_ptr<Memory> BouncePool::take(std::size_t bytes, MemoryKind kind) {
  const std::size_t wanted = size_class(bytes);
  const auto fits = [&](const std::shared_ptr<Memory>& one) { return one->kind() == kind && !is_small(one); };
  if (auto memory = take_returned(wanted, fits)) return memory;
  constexpr std::size_t kSlab = std::size_t{1} << 21;
  if (wanted > kSlab / 2) return device_->allocate(wanted, kind);
  const std::shared_ptr<Memory> slab = device_->allocate(kSlab, kind);
  const std::lock_guard lock(mutex_);
  for (std::size_t offset = wanted; offset < kSlab; offset += wanted) {
    returned_.emplace(wanted, ReturnedBuffer{std::make_shared<SlabPiece>(slab, offset, wanted), nullptr});
  }
  return std::make_shared<SlabPiece>(slab, 0, wanted);
}

std::shared_ptr<SmallMemory> BouncePool::take_small(std::size_t bytes) {
  const std::size_t wanted = size_class(bytes);
  if (const auto memory = take_returned(wanted, &is_small)) return std::dynamic_pointer_cast<SmallMemory>(memory);
  return device_->allocate_small(wanted);
}

void BouncePool::give_back(std::shared_ptr<Memory> memory, Stream stream) {
  if (guard_.in_child()) return;
  std::shared_ptr<Event> event = device_->point(stream);
  if (event == nullptr) return device_->retain(stream, give_back_later(std::move(memory)));
  const std::size_t bytes = memory->bytes();
  const std::lock_guard lock(mutex_);
  returned_.emplace(bytes, ReturnedBuffer{std::move(memory), std::move(event)});
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
  if (guard_.in_child()) return;
  const std::size_t bytes = memory->bytes();
  const std::lock_guard lock(mutex_);
  returned_.emplace(bytes, ReturnedBuffer{std::move(memory), nullptr});
}

}  // namespace onstream
