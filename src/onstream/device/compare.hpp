// How a wait compares a word of 4 or 8 bytes with a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "onstream/device/group.hpp"
#include "onstream/device/wait.hpp"

namespace onstream {

// What a wait compares, the word on the left. `reached` counts: it holds from the value on, also across a wrap.
enum class Compare : std::uint8_t { eq, ne, gt, ge, lt, le, reached, any_bit };

const char* name_of(Compare compare);  // "eq", ..., "any_bit"

enum class Sign : std::uint8_t { unsigned_word, signed_word };
template <class T>
ONSTREAM_BOTH constexpr Sign sign_of() {
  return std::is_signed_v<T> ? Sign::signed_word : Sign::unsigned_word;
}

// What a wait waits for.
struct Until {
  Compare compare = Compare::reached;
  std::uint64_t value = 0;
  std::size_t width = 8;
  Sign sign = Sign::unsigned_word;
};
std::string text_of(const Until& until);       // "a word of 8 B to be at least 3"
std::string condition_of(const Until& until);  // "to be at least 3"

// How a fault tells a comparison, as its lane, and back.
ONSTREAM_BOTH std::uint64_t comparison_code(Compare compare, Sign sign) {
  return static_cast<std::uint64_t>(compare) << 1 | static_cast<std::uint64_t>(sign);
}
inline Until until_of(int comparison, std::uint64_t value, std::size_t width) {
  return {static_cast<Compare>(comparison >> 1), value, width, static_cast<Sign>(comparison & 1)};
}

// Of a wait for a word of `bytes` bytes at `word`; its lane is the comparison_code.
ONSTREAM_BODY Fault word_fault(std::int64_t peer, std::uint64_t bytes, std::uint64_t value, std::uint64_t comparison,
                               std::uint64_t word) {
  Fault fault;
  fault.op = static_cast<std::uint64_t>(OpKind::wait);
  fault.peer = static_cast<std::uint64_t>(peer);
  fault.lane = comparison;
  fault.bytes = bytes;
  fault.extra = value;
  fault.word = word;
  return fault;
}

template <class Number>
ONSTREAM_BOTH bool holds(Compare compare, Number word, Number value) {
  switch (compare) {
    case Compare::eq: return word == value;
    case Compare::ne: return word != value;
    case Compare::gt: return word > value;
    case Compare::ge: return word >= value;
    case Compare::lt: return word < value;
    case Compare::le: return word <= value;
    default: return (word & value) != 0;
  }
}

template <class Word, class Signed>
ONSTREAM_BOTH bool compares(Compare compare, Sign sign, Word word, Word value) {
  if (compare == Compare::reached) return static_cast<Signed>(word - value) >= 0;
  if (sign == Sign::unsigned_word) return holds<Word>(compare, word, value);
  return holds<Signed>(compare, static_cast<Signed>(word), static_cast<Signed>(value));
}

// Whether the word at an address compares now. Acquires: what was stored before the word is seen after it.
template <class Group>
ONSTREAM_BODY bool is_met(const Group& group, std::uint64_t address, unsigned width, Compare compare, Sign sign,
                          std::uint64_t value) {
  if (width == 4) {
    const std::uint32_t word = group.load_acquire(reinterpret_cast<const std::uint32_t*>(address));
    return compares<std::uint32_t, std::int32_t>(compare, sign, word, static_cast<std::uint32_t>(value));
  }
  const std::uint64_t word = group.load_acquire(reinterpret_cast<const std::uint64_t*>(address));
  return compares<std::uint64_t, std::int64_t>(compare, sign, word, value);
}

}  // namespace onstream
