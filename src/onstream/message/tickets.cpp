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

bool settled(const Tickets::Slot& slot) {
  return HostGroup::load_acquire(slot.ticket.status) != static_cast<std::uint64_t>(Status::pending);
}

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

void Tickets::give_back(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  (settled(slot) ? free_ : unsettled_).push_back(slot);
}

void Tickets::reclaim() {
  const auto first_free =
      std::partition(unsettled_.begin(), unsettled_.end(), [](const Slot& slot) { return !settled(slot); });
  free_.insert(free_.end(), first_free, unsettled_.end());
  unsettled_.erase(first_free, unsettled_.end());
}

}  // namespace onstream
