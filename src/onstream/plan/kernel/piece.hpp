// A piece of a line: the bytes that one access moves where the layout leaves less than a whole line together.
// `access_width` bytes, which are 1, 2 or 4, at an address that they divide.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream::plan {

ONSTREAM_BODY std::uint64_t load_piece(const std::byte* from, std::uint32_t access_width) {
  if (access_width == 4) return *reinterpret_cast<const std::uint32_t*>(from);
  if (access_width == 2) return *reinterpret_cast<const std::uint16_t*>(from);
  return *reinterpret_cast<const std::uint8_t*>(from);
}

ONSTREAM_BODY void store_piece(std::byte* to, std::uint32_t access_width, std::uint64_t piece) {
  if (access_width == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = static_cast<std::uint32_t>(piece);
  } else if (access_width == 2) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(piece);
  } else {
    *reinterpret_cast<std::uint8_t*>(to) = static_cast<std::uint8_t>(piece);
  }
}

}  // namespace onstream::plan
