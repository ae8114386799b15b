#include "onstream/base/text.hpp"

#include <array>
#include <iomanip>

namespace onstream {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream out;
  out << std::setprecision(4) << value << ' ' << kUnits.at(unit);
  return out.str();
}

}  // namespace onstream
