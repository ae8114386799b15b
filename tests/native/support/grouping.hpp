// A locale as many have it, which no machine needs to have installed: thousands are grouped, 12,345,678, and a comma
// stands before decimals.
#pragma once

#include <locale>
#include <string>

namespace onstream::test {

class Grouping : public std::numpunct<char> {
 protected:
  std::string do_grouping() const override { return "\3"; }
  char do_thousands_sep() const override { return ','; }
  char do_decimal_point() const override { return ','; }
};

inline std::locale grouping_locale() { return {std::locale::classic(), new Grouping}; }

}  // namespace onstream::test
