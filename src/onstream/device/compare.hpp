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

// Without branches, as a kernel waits behind its first trip through this code, and jumps make that longer.
template <class Word>
ONSTREAM_BOTH bool compares(Compare compare, Sign sign, Word word, Word value) {
  constexpr Word kSignBit = Word{1} << (8 * sizeof(Word) - 1);
  constexpr unsigned kLess = 1, kEqual = 2, kGreater = 4;  // how the word may stand to the value
  constexpr unsigned kHolds[] = {
      kEqual, kLess | kGreater, kGreater,          kGreater | kEqual,
      kLess,  kLess | kEqual,   kGreater | kEqual, kLess | kGreater};  // when, by Compare, four bits each
  constexpr unsigned kTable = kHolds[0] | kHolds[1] << 4 | kHolds[2] << 8 | kHolds[3] << 12 | kHolds[4] << 16 |
                              kHolds[5] << 20 | kHolds[6] << 24 | kHolds[7] << 28;
  const bool counts = compare == Compare::reached;  // the difference is compared with 0, and so are the bits
  const bool masks = compare == Compare::any_bit;
  const auto left = static_cast<Word>(counts ? word - value : masks ? word & value : word);
  const Word right = counts || masks ? 0 : value;
  const Word flip = counts || sign == Sign::signed_word ? kSignBit : 0;
  const unsigned order = (left ^ flip) < (right ^ flip) ? kLess : left == right ? kEqual : kGreater;
  return (kTable >> (4 * static_cast<unsigned>(compare)) & order) != 0;
}

// Whether the word at an address compares now. Acquires: what was stored before the word is seen after it.
template <class Group>
ONSTREAM_BODY bool is_met(const Group& group, std::uint64_t address, unsigned width, Compare compare, Sign sign,
                          std::uint64_t value) {
  std::uint64_t word = 0;
  if (width == sizeof(std::uint64_t)) {
    word = group.load_acquire(reinterpret_cast<const std::uint64_t*>(address));
  } else {  // the upper halves of words of 8 bytes compare as words of 4
    word = std::uint64_t{group.load_acquire(reinterpret_cast<const std::uint32_t*>(address))} << 32;
    value <<= 32;
  }
  return compares(compare, sign, word, value);
}

}  // namespace onstream
