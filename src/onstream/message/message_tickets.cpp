#include "onstream/message/message_tickets.hpp"

#include <algorithm>

#include "onstream/device/host/group.hpp"

namespace onstream {

namespace {

constexpr std::size_t kChunk = 1024;
constexpr std::size_t kLeastLook = 64;  // requests, or 1 MiB
constexpr std::size_t kHeldEach = 16 * 1024;

struct alignas(64) InDevice {
  lane::BlockTeam crew;
  lane::Numbered numbered;
};

struct InPinned {
  std::uint64_t status;
  std::uint64_t received;
};

}  // namespace

MessageTickets::MessageTickets(std::shared_ptr<Device> device, std::shared_ptr<OwnMemory> own_memory)
    : device_(std::move(device)), own_memory_(std::move(own_memory)), enough_(kLeastLook) {
  grow();
}

void MessageTickets::grow() {
  auto in_device = own_memory_->take(kChunk * sizeof(InDevice));
  auto in_pinned = device_->allocate(kChunk * sizeof(InPinned), MemoryKind::pinned);
  for (std::size_t i = 0; i < kChunk; ++i) {
    auto* device_part = reinterpret_cast<InDevice*>(in_device.get()) + i;
    auto* pinned_part = reinterpret_cast<InPinned*>(in_pinned->data()) + i;
    free_.push_back({{&device_part->numbered, &pinned_part->status, &pinned_part->received, 0}, &device_part->crew});
  }
  memory_.push_back(std::move(in_device));
  memory_.push_back(std::move(in_pinned));
}

MessageTickets::TicketSlot MessageTickets::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) reclaim();
  if (free_.empty()) grow();
  TicketSlot slot = free_.back();
  free_.pop_back();
  slot.ticket.use = (slot.ticket.use & ~lane::kOwed) + 1;
  HostGroup::store_relaxed(slot.ticket.received, 0);
  return slot;
}

void MessageTickets::open(const TicketSlot& slot) {
  HostGroup::store_release(slot.ticket.status, static_cast<std::uint64_t>(Status::pending));
}

void MessageTickets::close(const TicketSlot& slot) {
  HostGroup::store_release(slot.ticket.status, static_cast<std::uint64_t>(Status::aborted));
}

bool MessageTickets::settled(const Left& left) {
  return HostGroup::load_acquire(left.slot.ticket.status) != static_cast<std::uint64_t>(Status::pending);
}

bool MessageTickets::free_again(const Left& left) {
  return settled(left) && (left.last_wait == nullptr || ended(*left.last_wait));
}

std::size_t MessageTickets::weight(const Left& left) { return left.sent_on ? 1 + left.held_bytes / kHeldEach : 0; }

void MessageTickets::give_back(Left left) {
  if (guard_.in_child()) return;
  const std::lock_guard lock(mutex_);
  if (free_again(left)) {
    free_.push_back(left.slot);
  } else {
    if (!settled(left)) unasked_.fetch_add(weight(left), std::memory_order_relaxed);
    busy_.push_back(std::move(left));
  }
}

void MessageTickets::reclaim() {
  const auto first_free =
      std::partition(busy_.begin(), busy_.end(), [](const Left& left) { return !free_again(left); });
  for (auto left = first_free; left != busy_.end(); ++left) free_.push_back(left->slot);
  busy_.erase(first_free, busy_.end());
}

// As much must come anew as was open the last time, so that each is looked for a few times at most.
void MessageTickets::settle_unasked(const Look& look) {
  const std::lock_guard lock(mutex_);
  reclaim();
  std::vector<Left*> open;
  std::size_t open_weight = 0;
  for (Left& left : busy_) {
    if (!left.sent_on || settled(left) || (left.last_wait != nullptr && !ended(*left.last_wait))) continue;
    open.push_back(&left);
    open_weight += weight(left);
  }
  if (!open.empty()) {
    const std::shared_ptr<Event> behind = look({open.data(), open.size()});
    for (Left* left : open) left->last_wait = behind;
    if (behind == nullptr) reclaim();
  }
  unasked_.store(0, std::memory_order_relaxed);
  enough_.store(std::max(kLeastLook, open_weight), std::memory_order_relaxed);
}

}  // namespace onstream
