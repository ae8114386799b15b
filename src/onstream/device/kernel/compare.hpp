// How a wait compares a word of 4 or 8 bytes with a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "onstream/device.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream {

template <class T>
ONSTREAM_BOTH constexpr Sign sign_of() {
  return std::is_signed_v<T> ? Sign::signed_word : Sign::unsigned_word;
}

// A comparison as the tag of a fault, and back.
ONSTREAM_BOTH std::uint64_t comparison_code(Compare compare, Sign sign) {
  return static_cast<std::uint64_t>(compare) << 1 | static_cast<std::uint64_t>(sign);
}
inline Until until_of(int comparison, std::uint64_t value, std::size_t width) {
  return {static_cast<Compare>(comparison >> 1), value, width, static_cast<Sign>(comparison & 1)};
}

// The fault of a wait for a word of `bytes` bytes at `word`; its tag is the comparison_code.
ONSTREAM_BODY Fault word_fault(std::int64_t peer, std::uint64_t bytes, std::uint64_t value, std::uint64_t comparison,
                               std::uint64_t word) {
  Fault fault;
  fault.op = static_cast<std::uint64_t>(OpKind::wait);
  fault.peer = static_cast<std::uint64_t>(peer);
  fault.tag = comparison;
  fault.bytes = bytes;
  fault.extra = value;
  fault.word = word;
  return fault;
}

// The words for which a comparison holds, so that a wait that polls has three instructions to decide: those whose bits
// in `mask`, in the upper bytes of 8, lie `span` or less behind `first`, also around the wrap.
struct WordRange {
  std::uint64_t mask = 0;
  std::uint64_t first = 0;
  std::uint64_t span = 0;

  ONSTREAM_BOTH bool has(std::uint64_t word) const { return (word & mask) - first <= span; }
};

ONSTREAM_BOTH constexpr std::uint64_t raised(std::uint64_t word, std::size_t width) { return word << (64 - 8 * width); }

ONSTREAM_BOTH WordRange range_of(Compare compare, Sign sign, std::uint64_t word, std::size_t width) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  const std::uint64_t one = raised(1, width);
  const std::uint64_t value = raised(word, width);
  const std::uint64_t lowest = sign == Sign::signed_word ? kHalf : 0;
  const std::uint64_t highest = lowest - one;
  const WordRange never = {0, one, 0};
  switch (compare) {
    case Compare::eq: return {kAll, value, 0};
    case Compare::ne: return {kAll, value + one, 0 - 2 * one};
    case Compare::gt: return value == highest ? never : WordRange{kAll, value + one, highest - value - one};
    case Compare::ge: return {kAll, value, highest - value};
    case Compare::lt: return value == lowest ? never : WordRange{kAll, lowest, value - one - lowest};
    case Compare::le: return {kAll, lowest, value - lowest};
    case Compare::reached: return {kAll, value, kHalf - one};
    default: return {value, one, 0 - 2 * one};  // any_bit
  }
}

template <class Word>
ONSTREAM_BOTH bool compares(Compare compare, Sign sign, Word word, Word value) {
  static_assert(std::is_unsigned_v<Word>);
  return range_of(compare, sign, value, sizeof(Word)).has(raised(word, sizeof(Word)));
}

// Whether the word of 4 or 8 bytes at an address compares now. Acquires: stores before the word's are seen after it.
template <Group G>
ONSTREAM_BODY bool is_met(const G& group, std::uint64_t address, unsigned width, const WordRange& range) {
  if (width == sizeof(std::uint64_t))
    return range.has(group.load_acquire(reinterpret_cast<const std::uint64_t*>(address)));
  return range.has(raised(group.load_acquire(reinterpret_cast<const std::uint32_t*>(address)), sizeof(std::uint32_t)));
}

}  // namespace onstream
