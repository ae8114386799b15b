// A piece of a line: what one access moves where the layout leaves less than a whole line together. `grain` bytes,
// which are 1, 2 or 4, at an address that they divide.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream::plan {

ONSTREAM_BODY std::uint64_t load_piece(const std::byte* from, std::uint32_t grain) {
  if (grain == 4) return *reinterpret_cast<const std::uint32_t*>(from);
  if (grain == 2) return *reinterpret_cast<const std::uint16_t*>(from);
  return *reinterpret_cast<const std::uint8_t*>(from);
}

ONSTREAM_BODY void store_piece(std::byte* to, std::uint32_t grain, std::uint64_t piece) {
  if (grain == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = static_cast<std::uint32_t>(piece);
  } else if (grain == 2) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(piece);
  } else {
    *reinterpret_cast<std::uint8_t*>(to) = static_cast<std::uint8_t>(piece);
  }
}

}  // namespace onstream::plan
