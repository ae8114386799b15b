// An LL line: 8 bytes of data that prove their own arrival.
//
// Two words of 4 bytes data and 4 bytes flag. Each word is stored and loaded whole, so data and flag come together, and
// the reader needs neither fence nor second trip. Each protocol chooses the flag's count: laps of a ring
// (lane/memory/lane.hpp), launches of a plan (plan/kernel/body.hpp).
#pragma once

#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream {

constexpr std::uint64_t kLineData = 8;  // bytes of data in a line
constexpr int kLinesInFlight = 4;       // lines that one thread has under way

ONSTREAM_EITHER Line flag_line(std::uint64_t data, std::uint32_t flag) {
  const std::uint64_t high = static_cast<std::uint64_t>(flag) << 32;
  return {high | (data & 0xffffffffu), high | (data >> 32)};
}
ONSTREAM_EITHER bool has_flag(const Line& line, std::uint32_t flag) {
  return static_cast<std::uint32_t>(line.low >> 32) == flag && static_cast<std::uint32_t>(line.high >> 32) == flag;
}
ONSTREAM_EITHER std::uint64_t line_data(const Line& line) { return (line.low & 0xffffffffu) | line.high << 32; }

}  // namespace onstream
