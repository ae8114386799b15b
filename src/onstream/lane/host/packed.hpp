// Packed messages: how the host device carries more than a few words in a lane's ring.
//
// Half of an LL line is flags, and between two cores every cache line of the ring costs its trip. The host's stores
// are seen in the order in which they are made, so there the header, stored last, proves all of its message: 48 bytes
// in its own unit and 56 in each further one. The first word of every unit is a flag in every lap all the same, and
// a line's is stored last and loaded first, so nothing that a message carries can be taken for a header. LL lines
// of a later lap may lie where any bytes were; so on the host their header is stored last, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

constexpr std::uint64_t kMostFlagged = 64;  // bytes; a packed message is larger
constexpr std::uint64_t kPackedFirst = kUnitBytes - sizeof(Line);
constexpr std::uint64_t kPackedEach = kUnitBytes - sizeof(std::uint64_t);

template <Group G>
ONSTREAM_BOTH bool is_packed(std::uint64_t bytes) {
  return G::kStoresInOrder && bytes > kMostFlagged;
}

// Units of a message that travels in the ring.
template <Group G>
ONSTREAM_BOTH std::uint64_t ring_units(std::uint64_t bytes) {
  if (!is_packed<G>(bytes)) return units_for(bytes);
  return 1 + (bytes - kPackedFirst + kPackedEach - 1) / kPackedEach;
}

// How many of the bytes left the next unit takes.
ONSTREAM_BODY std::size_t packed_part(std::ptrdiff_t left) {
  const auto bytes = static_cast<std::size_t>(left);
  return bytes < kPackedEach ? bytes : kPackedEach;
}

// There is room.
template <Group G>
ONSTREAM_BODY void pack(const G& group, const LaneView& lane, std::uint64_t head, std::uint64_t word,
                        const void* source, std::uint64_t bytes) {
  const auto* from = static_cast<const std::byte*>(source) + kPackedFirst;
  const std::byte* const end = static_cast<const std::byte*>(source) + bytes;
  for (std::uint64_t unit = head + 1; from < end; ++unit, from += kPackedEach) {
    const LinePlace place = place_of(lane, unit, 0);
    Line* const to = lane.peer_ring + place.index;
    group.store_relaxed(&to->low, flag_line(0, place.flag).low);
    group.copy_alone(&to->high, from, packed_part(end - from));
  }
  const LinePlace first = place_of(lane, head, 0);
  group.copy_alone(lane.peer_ring + first.index + 1, source, kPackedFirst);
  group.store_line(lane.peer_ring + first.index, flag_line(word, first.flag));
}

// Its header has been seen.
template <Group G>
ONSTREAM_BODY void unpack(const G& group, const LaneView& lane, std::uint64_t head, void* destination,
                          std::uint64_t bytes) {
  group.copy_alone(destination, lane.ring + place_of(lane, head, 0).index + 1, kPackedFirst);
  auto* to = static_cast<std::byte*>(destination) + kPackedFirst;
  const std::byte* const end = static_cast<std::byte*>(destination) + bytes;
  for (std::uint64_t unit = head + 1; to < end; ++unit, to += kPackedEach) {
    const Line* const from = lane.ring + place_of(lane, unit, 0).index;
    group.copy_alone(to, &from->high, packed_part(end - to));
  }
}

}  // namespace onstream::lane
