#include "onstream/one_sided/stream/team_words.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

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
      host_part_bytes_(static_cast<std::size_t>(slots_) * host_bytes_ + flag_bytes_),
      device_part_bytes_(static_cast<std::size_t>(slots_) * 2 * flag_bytes_),
      remote_(remote_of(fabric)),  // before any rank is past the segments, and sends
      host_(fabric.segment(host_part_bytes_, MemoryKind::pinned)),
      device_(fabric.segment(device_part_bytes_, MemoryKind::device)),
      zeroes_(fabric.own_memory()->take(2 * flag_bytes_)) {}

// The network stores to the segments as long as there are remote flags. A child has no network.
TeamWords::~TeamWords() { guard_.in_child() ? static_cast<void>(remote_.release()) : remote_.reset(); }

std::unique_ptr<RemoteFlags> TeamWords::remote_of(const Fabric& fabric) const {
  if (fabric.network() == nullptr) return nullptr;
  return std::make_unique<RemoteFlags>(fabric,
                                       RemoteFlags::Counts{kKinds, slots_, host_part_bytes_ + device_part_bytes_},
                                       [this](RemoteFlags::FlagsPlace place, int rank) { return find(place, rank); });
}

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
  if (remote_ != nullptr) remote_->forget(slot);
  const std::lock_guard lock(mutex_);
  claimed_ &= ~bit(slot);
  free_ |= bit(slot);
  ++changes_;
}

std::uint64_t* TeamWords::flags(CallerKind kind, int slot, int rank) const {
  if (kind == CallerKind::world) slot = slots_;  // behind all others
  const auto index = static_cast<std::size_t>(slot);
  std::byte* const at = kind == CallerKind::host || kind == CallerKind::world
                            ? host_part(rank) + index * host_bytes_
                            : device_part(rank) + (2 * index + (kind == CallerKind::kernel)) * flag_bytes_;
  return reinterpret_cast<std::uint64_t*>(at);
}

std::uint64_t* TeamWords::exchanged(int slot, int rank, int member) const {
  std::byte* const slot_begin = host_part(rank) + static_cast<std::size_t>(slot) * host_bytes_;
  return reinterpret_cast<std::uint64_t*>(slot_begin + flag_bytes_ + static_cast<std::size_t>(member) * kExchangeBytes);
}

void TeamWords::zero(StreamPool& streams, int slot) {
  std::memset(flags(CallerKind::host, slot, rank_), 0, host_bytes_);
  streams.copy_now(flags(CallerKind::stream, slot, rank_), zeroes_.get(), 2 * flag_bytes_);
}

void TeamWords::install(int slot, std::uint64_t generation) {
  if (remote_ != nullptr) remote_->install(slot, generation);
}

void TeamWords::watch(int slot, const std::vector<int>& members) {
  if (remote_ == nullptr) return;
  std::vector<RemoteFlags::FlagsPlace> places;
  for (const CallerKind kind : {CallerKind::host, CallerKind::stream, CallerKind::kernel, CallerKind::world}) {
    if (kind == CallerKind::world && slot != 0) continue;
    places.push_back({static_cast<std::uint16_t>(kind), static_cast<std::uint16_t>(slot)});
  }
  std::vector<int> others;
  std::ranges::copy_if(members, std::back_inserter(others), [&](int member) { return !host_->direct(member); });
  remote_->watch(places, others, static_cast<int>(std::ranges::find(members, rank_) - members.begin()));
}

std::byte* TeamWords::host_part(int rank) const {
  return host_->direct(rank) ? host_->peer(rank) : remote_->stand_in(rank);
}
std::byte* TeamWords::device_part(int rank) const {
  return device_->direct(rank) ? device_->peer(rank) : remote_->stand_in(rank) + host_part_bytes_;
}

RemoteFlags::FlagsMemory TeamWords::find(RemoteFlags::FlagsPlace place, int rank) const {
  const auto kind = static_cast<CallerKind>(place.kind);
  return {flags(kind, place.slot, rank), kind == CallerKind::host ? exchanged(place.slot, rank, 0) : nullptr};
}

}  // namespace onstream::one_sided
