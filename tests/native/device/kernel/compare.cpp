// How waits compare words (device/kernel/compare.hpp).
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/host/group.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

bool is(Compare compare, Sign sign, std::uint32_t word, std::uint32_t value) {
  return compares<std::uint32_t>(compare, sign, word, value);
}

CASE(words_are_compared_as_asked) {
  const Sign u = Sign::unsigned_word;
  const Sign s = Sign::signed_word;
  const std::uint32_t minus_one = ~0U;
  CHECK(is(Compare::eq, u, 5, 5) && !is(Compare::eq, u, 5, 6));
  CHECK(is(Compare::ne, u, 5, 6) && !is(Compare::ne, s, 5, 5));
  CHECK(is(Compare::gt, u, minus_one, 1) && !is(Compare::gt, s, minus_one, 1));
  CHECK(is(Compare::ge, u, 5, 5) && is(Compare::ge, s, 1, minus_one) && !is(Compare::ge, u, 1, minus_one));
  CHECK(is(Compare::lt, s, minus_one, 1) && !is(Compare::lt, u, minus_one, 1));
  CHECK(is(Compare::le, u, 5, 5) && !is(Compare::le, u, 6, 5));
  CHECK(is(Compare::reached, u, 2, minus_one) && !is(Compare::reached, u, minus_one, 2));
  CHECK(is(Compare::any_bit, u, 6, 2) && !is(Compare::any_bit, u, 6, 9));
  const auto wide = [](Compare compare, Sign sign, std::uint64_t word, std::uint64_t value) {
    return compares<std::uint64_t>(compare, sign, word, value);
  };
  CHECK(wide(Compare::gt, u, 1ULL << 40, 1) && wide(Compare::lt, s, ~0ULL, 0) && wide(Compare::reached, u, 1, ~0ULL));
}

// Compares by the language's own operators.
template <class Word>
bool should_hold(Compare compare, Sign sign, Word word, Word value) {
  using Signed = std::make_signed_t<Word>;
  const auto by = [compare](auto a, auto b) {
    switch (compare) {
      case Compare::eq: return a == b;
      case Compare::ne: return a != b;
      case Compare::gt: return a > b;
      case Compare::ge: return a >= b;
      case Compare::lt: return a < b;
      default: return a <= b;
    }
  };
  if (compare == Compare::reached) return static_cast<Signed>(static_cast<Word>(word - value)) >= 0;
  if (compare == Compare::any_bit) return (word & value) != 0;
  return sign == Sign::signed_word ? by(static_cast<Signed>(word), static_cast<Signed>(value)) : by(word, value);
}

template <class Word>
void compare_all() {
  constexpr auto kTop = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  const std::vector<Word> words = {0,
                                   1,
                                   2,
                                   5,
                                   6,
                                   7,
                                   static_cast<Word>(kTop - 1),
                                   kTop,
                                   static_cast<Word>(kTop + 1),
                                   static_cast<Word>(~Word{0} - 1),
                                   static_cast<Word>(~Word{0})};
  for (const Compare compare : {Compare::eq, Compare::ne, Compare::gt, Compare::ge, Compare::lt, Compare::le,
                                Compare::reached, Compare::any_bit}) {
    for (const Sign sign : {Sign::unsigned_word, Sign::signed_word}) {
      for (const Word word : words) {
        for (const Word value : words) {
          const bool should = should_hold(compare, sign, word, value);
          CHECK(compares(compare, sign, word, value) == should);
          if constexpr (sizeof(Word) < 4) continue;
          const auto at = reinterpret_cast<std::uint64_t>(&word);
          CHECK(is_met(HostGroup(0, 1), at, sizeof(Word), range_of(compare, sign, value, sizeof(Word))) == should);
        }
      }
    }
  }
}

CASE(every_comparison_is_what_its_operator_says) {
  compare_all<std::uint8_t>();
  compare_all<std::uint16_t>();
  compare_all<std::uint32_t>();
  compare_all<std::uint64_t>();
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
