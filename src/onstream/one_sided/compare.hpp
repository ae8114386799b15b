// How a wait compares a word with a value.
#pragma once

#include <cstdint>

#include "onstream/device/group.hpp"

namespace onstream::one_sided {

// What a wait compares, the word on the left. `reached` counts: it holds from the value on, also across a wrap.
enum class Compare : std::uint8_t { eq, ne, gt, ge, lt, le, reached, any_bit };

enum class Sign : std::uint8_t { unsigned_word, signed_word };

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

}  // namespace onstream::one_sided

namespace onstream {
using one_sided::Compare;
using one_sided::Sign;
}  // namespace onstream
