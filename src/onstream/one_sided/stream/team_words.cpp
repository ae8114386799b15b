#include "onstream/one_sided/stream/team_words.hpp"

#include <cstring>

namespace onstream::one_sided {

namespace {

constexpr std::size_t kSlotLine = 128;  // words of two slots share no cache line

std::uint64_t bit(int slot) { return std::uint64_t{1} << slot; }

std::size_t in_lines(std::size_t bytes) { return (bytes + kSlotLine - 1) / kSlotLine * kSlotLine; }

}  // namespace

TeamWords::TeamWords(Fabric& fabric)
    : size_(fabric.size()),
      rank_(fabric.rank()),
      slots_(static_cast<int>(fabric.parameters().teams)),
      flag_bytes_(in_lines((static_cast<std::size_t>(size_) + 1) * sizeof(std::uint64_t))),
      host_bytes_(flag_bytes_ + in_lines(static_cast<std::size_t>(size_) * kExchangeBytes)),
      free_(slots_ == 64 ? ~std::uint64_t{0} : bit(slots_) - 1),
      host_(fabric.segment(static_cast<std::size_t>(slots_) * host_bytes_ + flag_bytes_, MemoryKind::pinned)),
      device_(fabric.segment(static_cast<std::size_t>(slots_) * 2 * flag_bytes_, MemoryKind::device)),
      zeroes_(fabric.own_memory()->take(2 * flag_bytes_)) {}

TeamWords::Offer TeamWords::offer() const {
  const std::lock_guard lock(mutex_);
  return {free_, free_ | claimed_, changes_};
}

void TeamWords::begin_split(int parent) {
  const std::lock_guard lock(mutex_);
  splitting_ |= bit(parent);
}

void TeamWords::end_split(int parent) {
  const std::lock_guard lock(mutex_);
  splitting_ &= ~bit(parent);
}

bool TeamWords::claim(int slot, int parent) {
  const std::lock_guard lock(mutex_);
  const bool others_first = (splitting_ & (bit(parent) - 1)) != 0;
  if (others_first || (free_ & bit(slot)) == 0) return false;
  free_ &= ~bit(slot);
  claimed_ |= bit(slot);
  ++changes_;
  return true;
}

void TeamWords::keep(int slot) {
  const std::lock_guard lock(mutex_);
  claimed_ &= ~bit(slot);
  ++changes_;
}

void TeamWords::release(int slot) {
  if (guard_.in_child()) return;
  const std::lock_guard lock(mutex_);
  claimed_ &= ~bit(slot);
  free_ |= bit(slot);
  ++changes_;
}

std::uint64_t* TeamWords::flags(CallerKind kind, int slot, int rank) const {
  if (kind == CallerKind::world) slot = slots_;  // behind all others
  const auto index = static_cast<std::size_t>(slot);
  std::byte* const at = kind == CallerKind::host || kind == CallerKind::world
                            ? host_->peer(rank) + index * host_bytes_
                            : device_->peer(rank) + (2 * index + (kind == CallerKind::kernel)) * flag_bytes_;
  return reinterpret_cast<std::uint64_t*>(at);
}

std::uint64_t* TeamWords::exchanged(int slot, int rank, int member) const {
  std::byte* const slot_begin = host_->peer(rank) + static_cast<std::size_t>(slot) * host_bytes_;
  return reinterpret_cast<std::uint64_t*>(slot_begin + flag_bytes_ + static_cast<std::size_t>(member) * kExchangeBytes);
}

void TeamWords::zero(StreamPool& streams, int slot) {
  std::memset(flags(CallerKind::host, slot, rank_), 0, host_bytes_);
  streams.copy_now(flags(CallerKind::stream, slot, rank_), zeroes_.get(), 2 * flag_bytes_);
}

}  // namespace onstream::one_sided
