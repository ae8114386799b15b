// A library that changes the locale of the program that loads it, as many do: at once where STAND_IN_LOCALE is "all" or
// this rank's number, or when group_digits() is called.
#include "support/grouping.hpp"

#include <cstdlib>
#include <string_view>

extern "C" [[gnu::visibility("default")]] void group_digits() {
  std::locale::global(onstream::test::grouping_locale());
}

namespace {

struct AtLoad {
  AtLoad() {
    const char* const who = std::getenv("STAND_IN_LOCALE");
    const char* const rank = std::getenv("ONSTREAM_RANK");
    if (who == nullptr) return;
    if (std::string_view(who) == "all" || (rank != nullptr && std::string_view(who) == rank)) group_digits();
  }
} const at_load;

}  // namespace
