#include "settings.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/foreign_variable.hpp"
#include "onstream/parameters.hpp"

namespace onstream::shmem {

namespace {

struct Variable {
  std::string name;
  std::string text;
};

// The first variable that is set, "SHMEM_" or "SMA_" with this ending.
std::optional<Variable> variable(std::string_view ending) {
  for (const std::string_view prefix : {"SHMEM_", "SMA_"}) {
    std::string name = concat(prefix, ending);
    if (auto text = foreign_variable(name)) return Variable{std::move(name), std::move(*text)};
  }
  return std::nullopt;
}

// "4096", "512M", "1.5g": bytes. Throws invalid_argument.
std::size_t bytes_from(const Variable& variable) {
  const std::string_view text = variable.text;
  constexpr std::string_view kUnits = "kmgt";
  constexpr double kMost = 1e15;
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(read.ptr - text.data()));
  const std::size_t power = unit.size() == 1 ? kUnits.find(static_cast<char>(unit[0] | ' ')) : std::string_view::npos;
  const bool known = unit.empty() || power != std::string_view::npos;
  const double bytes = unit.empty() ? number : std::ldexp(number, 10 * static_cast<int>(power + 1));
  require(read.ec == std::errc() && known && bytes >= 1 && bytes <= kMost, variable.name, " is '", text,
          "', but must be a number of bytes, which k, M, G or T may follow");
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.on_device = Parameters::from_environment().shmem_heap == "device";
  if (const auto size = variable("SYMMETRIC_SIZE")) settings.heap_bytes = bytes_from(*size);
  settings.prints_version = variable("VERSION").has_value();
  settings.prints_variables = variable("INFO").has_value();
  return settings;
}

}  // namespace onstream::shmem
