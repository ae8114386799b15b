#include "onstream/message/tickets.hpp"

#include <algorithm>

namespace onstream {

namespace {

constexpr std::size_t kChunk = 1024;

struct alignas(64) InDevice {
  lane::Crew crew;
  lane::Numbered numbered;
};

struct InPinned {
  std::uint64_t status;
  std::uint64_t received;
};

}  // namespace

Tickets::Tickets(std::shared_ptr<Device> device) : device_(std::move(device)) { grow(); }

void Tickets::grow() {
  auto in_device = device_->allocate(kChunk * sizeof(InDevice), MemoryKind::device);
  auto in_pinned = device_->allocate(kChunk * sizeof(InPinned), MemoryKind::pinned);
  for (std::size_t i = 0; i < kChunk; ++i) {
    auto* device_part = reinterpret_cast<InDevice*>(in_device->data()) + i;
    auto* pinned_part = reinterpret_cast<InPinned*>(in_pinned->data()) + i;
    free_.push_back({{&device_part->numbered, &pinned_part->status, &pinned_part->received, 0}, &device_part->crew});
  }
  memory_.push_back(std::move(in_device));
  memory_.push_back(std::move(in_pinned));
}

Tickets::Slot Tickets::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) reclaim();
  if (free_.empty()) grow();
  Slot slot = free_.back();
  free_.pop_back();
  slot.ticket.use += 1;
  HostGroup::store_relaxed(slot.ticket.received, 0);
  HostGroup::store_release(slot.ticket.status, static_cast<std::uint64_t>(Status::pending));
  return slot;
}

bool Tickets::free_again(const Busy& busy) {
  const bool settled = HostGroup::load_acquire(busy.slot.ticket.status) != static_cast<std::uint64_t>(Status::pending);
  return settled && (busy.last_wait == nullptr || busy.last_wait->done());
}

void Tickets::give_back(const Slot& slot, std::shared_ptr<Event> last_wait, std::shared_ptr<const void> with_it) {
  const std::lock_guard lock(mutex_);
  Busy busy{slot, std::move(last_wait), std::move(with_it)};
  if (free_again(busy)) {
    free_.push_back(slot);
  } else {
    busy_.push_back(std::move(busy));
  }
}

void Tickets::reclaim() {
  const auto first_free =
      std::partition(busy_.begin(), busy_.end(), [](const Busy& busy) { return !free_again(busy); });
  for (auto busy = first_free; busy != busy_.end(); ++busy) free_.push_back(busy->slot);
  busy_.erase(first_free, busy_.end());
}

}  // namespace onstream
