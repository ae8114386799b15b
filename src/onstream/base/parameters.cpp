// Reading, checking and listing parameters.
//
// Everything is driven by parameter_table.inc and, for the allowed values, by parameter_rules.inc; no parameter has
// code of its own. Nothing here runs on a data path.
#include "onstream/parameters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "onstream/base/error.hpp"
#include "onstream/base/foreign_variable.hpp"

extern char** environ;

namespace onstream {
namespace {

enum class AllowedValues { any, power_of_two };

struct RangeRule {
  std::string_view name;
  double low;
  double high;
  AllowedValues shape;
};

constexpr std::array kRangeRules = {
#define ONSTREAM_RANGE(name, low, high, shape) RangeRule{#name, low, high, AllowedValues::shape},
#define ONSTREAM_CHOICE(name, words)
#include "onstream/base/parameter_rules.inc"
#undef ONSTREAM_RANGE
#undef ONSTREAM_CHOICE
};

struct ChoiceRule {
  std::string_view name;
  std::string_view choices;
};

constexpr std::array kChoiceRules = {
#define ONSTREAM_RANGE(name, low, high, shape)
#define ONSTREAM_CHOICE(name, words) ChoiceRule{#name, words},
#include "onstream/base/parameter_rules.inc"
#undef ONSTREAM_RANGE
#undef ONSTREAM_CHOICE
};

// Variables that start with ONSTREAM_ and are no parameters: the launcher's (bootstrap/launch.cpp), which may be
// misspelled too, and those of the Makefile and the tests. A trailing _ means any variable with that prefix.
constexpr std::array<std::string_view, 7> kLaunchVariables = {
    "ONSTREAM_RANK",    "ONSTREAM_SIZE", "ONSTREAM_LOCAL_RANK", "ONSTREAM_LOCAL_SIZE",
    "ONSTREAM_ADDRESS", "ONSTREAM_PORT", "ONSTREAM_SECRET"};
constexpr std::array<std::string_view, 6> kOtherVariables = {
    "ONSTREAM_WORLD_", "ONSTREAM_OFFLINE", "ONSTREAM_CUDA", "ONSTREAM_BUILD", "ONSTREAM_TEST_", "ONSTREAM_TRACEBACK"};

// Of other libraries, whose interfaces are in compat/, or whose settings we would choose (transport/net/ucx).
constexpr std::array<const char*, 18> kForeignVariables = {"SHMEM_SYMMETRIC_SIZE",
                                                           "SHMEM_VERSION",
                                                           "SHMEM_INFO",
                                                           "SHMEM_DEBUG",
                                                           "SMA_SYMMETRIC_SIZE",
                                                           "SMA_VERSION",
                                                           "SMA_INFO",
                                                           "SMA_DEBUG",
                                                           "UCX_TLS",
                                                           "UCX_NET_DEVICES",
                                                           "UCX_LOG_LEVEL",
                                                           "UCX_HANDLE_ERRORS",
                                                           "UCX_KEEPALIVE_INTERVAL",
                                                           "UCX_TCP_RX_SEG_SIZE",
                                                           "UCX_TCP_KEEPIDLE",
                                                           "UCX_TCP_KEEPINTVL",
                                                           "UCX_TCP_KEEPCNT",
                                                           "UCX_TCP_USER_TIMEOUT"};

constexpr std::string_view kPrefix = "ONSTREAM_";

// Calls visit(name, field, default, unit, doc) for each parameter, in table order.
template <class Self, class Visit>
void for_each(Self& self, const Visit& visit) {
  const Parameters defaults;
#define ONSTREAM_PARAMETER(name, type, default_value, unit, doc) visit(#name, self.name, defaults.name, unit, doc);
#include "onstream/parameter_table.inc"
#undef ONSTREAM_PARAMETER
}

std::string variable_of(std::string_view name) {
  std::string variable(kPrefix);
  for (const char c : name) variable += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  const Parameters defaults;
  for_each(defaults,
           [&](const char* name, const auto&, const auto&, const char*, const char*) { names.emplace_back(name); });
  return names;
}

// How many letters are left out, too many, wrong, or exchanged with their neighbour: to name the parameter that a
// misspelling meant.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  return *std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return distance(word, a) < distance(word, b);
  });
}

std::string to_text(const std::string& value) { return value; }
std::string to_text(std::int64_t value) { return concat(value); }
std::string to_text(double value) { return shortest(value); }

bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}

bool read(std::string_view text, double& value) {
  const auto number = number_in<double>(text);
  if (number) value = *number;
  return number && std::isfinite(*number);
}

// A whole number, which KiB, MiB or GiB may follow.
bool read(std::string_view text, std::int64_t& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc()) return false;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end.ptr - text.data()));
  const int shift = unit.empty() ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (shift < 0) return false;
  const std::int64_t scale = std::int64_t{1} << shift;
  if (value > INT64_MAX / scale || value < INT64_MIN / scale) return false;
  value *= scale;
  return true;
}

const char* wanted(const std::string&) { return "text"; }
const char* wanted(double) { return "a finite number"; }
const char* wanted(std::int64_t) { return "a whole number (KiB, MiB or GiB may follow)"; }

bool is_choice(std::string_view value, std::string_view choice) {
  constexpr std::size_t kMostDigits = 4;
  if (choice == "FILE" || choice == "NAMES") return !value.empty();
  for (const char c : choice) {
    const std::size_t digits = std::min(value.find_first_not_of("0123456789"), value.size());
    const std::size_t taken = c == 'N' ? digits : 1;
    if (taken == 0 || taken > kMostDigits || taken > value.size() || (c != 'N' && value.front() != c)) return false;
    value.remove_prefix(taken);
  }
  return value.empty();
}

void check_value(std::string_view name, const std::string& value, const std::string& label) {
  for (const ChoiceRule& rule : kChoiceRules) {
    if (rule.name != name) continue;
    std::string_view rest = rule.choices;
    while (!rest.empty()) {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      if (is_choice(value, rest.substr(0, space))) return;
      rest.remove_prefix(std::min(space + 1, rest.size()));
    }
    fail(ErrorCode::invalid_argument, label, " is '", value, "', but must be one of: ", rule.choices);
  }
}

template <class Number>
void check_value(std::string_view name, Number value, const std::string& label) {
  for (const RangeRule& rule : kRangeRules) {
    if (rule.name != name) continue;
    const double number = static_cast<double>(value);
    require(number >= rule.low && number <= rule.high, label, " is ", to_text(value), ", but must be between ",
            to_text(rule.low), " and ", to_text(rule.high));
    const auto bits = static_cast<std::int64_t>(value);
    require(rule.shape == AllowedValues::any || (bits & (bits - 1)) == 0, label, " is ", to_text(value),
            ", but must be a power of two");
  }
}

// Reads and checks `text` into the field called `name`; returns its place in the table. `label` is how the caller knows
// it.
std::size_t assign(Parameters& parameters, std::string_view name, std::string_view text, const std::string& label) {
  std::size_t found = 0;
  std::size_t index = 0;
  for_each(parameters, [&](const char* each, auto& field, const auto&, const char*, const char*) {
    if (name == each) {
      auto value = field;
      require(read(text, value), label, " is '", text, "', but must be ", wanted(value));
      check_value(name, value, label);
      field = value;
      found = index;
    }
    ++index;
  });
  return found;
}

bool is_other_variable(std::string_view variable) {
  return std::any_of(kOtherVariables.begin(), kOtherVariables.end(), [&](std::string_view other) {
    return other.ends_with('_') ? variable.starts_with(other) : variable == other;
  });
}

// Whether a word is so near a known one that it is a misspelling of it: one letter in four of the known one is wrong,
// one at least and three at most.
bool misspells(std::string_view variable, std::string_view known) {
  const std::size_t letters = known.size() - kPrefix.size();
  return distance(variable, known) <= std::clamp<std::size_t>(letters / 4, 1, 3);
}

// The variables that name no parameter and are not near one, sorted: others set them, such as a module system
// (ONSTREAM_ROOT) or Kubernetes (ONSTREAM_SERVICE_HOST). Throws for a misspelling.
std::vector<std::string> variables_of_others(const std::vector<std::string>& names) {
  std::vector<std::string> known(kLaunchVariables.begin(), kLaunchVariables.end());
  for (const std::string& name : names) known.push_back(variable_of(name));
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view whole(*entry);
    const std::string_view variable = whole.substr(0, whole.find('='));
    if (!variable.starts_with(kPrefix) || is_other_variable(variable)) continue;
    if (std::find(known.begin(), known.end(), variable) != known.end()) continue;
    const std::string meant = nearest(variable, known);
    require(!misspells(variable, meant), "the environment variable ", variable,
            " is not one that onstream knows; did you mean ", meant,
            "? Unset or rename it (`onstream info --parameters` lists them all).");
    unknown.emplace_back(variable);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

}  // namespace

Parameters Parameters::from_environment() {
  Parameters parameters;
  const std::vector<std::string> names = all_names();
  parameters.unknown_variables_ = variables_of_others(names);
  for (const std::string& name : names) {
    const std::string variable = variable_of(name);
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr) continue;
    const std::size_t index = assign(parameters, name, text, "the environment variable " + variable);
    parameters.set_by_.resize(names.size());
    parameters.set_by_[index] = "environment";
  }
  return parameters;
}

void Parameters::set(std::string_view name, std::string_view value) {
  const std::vector<std::string> names = all_names();
  require(std::find(names.begin(), names.end(), name) != names.end(), "there is no parameter called '", name,
          "'; did you mean ", nearest(name, names), "? (`onstream info --parameters` lists them all)");
  const std::size_t index = assign(*this, name, value, "the parameter " + std::string(name));
  set_by_.resize(names.size());
  set_by_[index] = "call";
}

void Parameters::validate() const {
  for_each(*this, [](const char* name, const auto& value, const auto&, const char*, const char*) {
    check_value(name, value, "the parameter " + std::string(name));
  });
}

std::vector<ParameterRow> Parameters::rows() const {
  std::vector<ParameterRow> rows;
  for_each(*this,
           [&](const char* name, const auto& value, const auto& default_value, const char* unit, const char* doc) {
             const std::string recorded = rows.size() < set_by_.size() ? set_by_[rows.size()] : "";
             // A field assigned directly leaves no record, but its value tells.
             const std::string set_by = !recorded.empty() ? recorded : value == default_value ? "default" : "call";
             rows.push_back({name, variable_of(name), to_text(value), to_text(default_value), unit, doc, set_by});
           });
  return rows;
}

std::optional<std::string> foreign_variable(std::string_view name) {
  const auto* const known = std::find(kForeignVariables.begin(), kForeignVariables.end(), name);
  require(known != kForeignVariables.end(), "the variable ", name, " is not one that onstream reads");
  const char* const text = std::getenv(*known);
  if (text == nullptr) return std::nullopt;
  return std::string(text);
}

}  // namespace onstream
