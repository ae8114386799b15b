#include "onstream/bootstrap/launch_parse.hpp"

#include <charconv>

#include "onstream/base/error.hpp"

namespace onstream {
namespace {

// Takes a number from the front of `rest`.
int take_number(std::string_view& rest, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  require(error == std::errc() && value >= 0, "Slurm's task counts '", whole, "' cannot be read");
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

}  // namespace

int slurm_tasks_on_node(std::string_view text, int node) {
  std::string_view rest = text;
  while (true) {
    const int tasks = take_number(rest, text);
    int repeated = 1;
    if (rest.starts_with("(x")) {
      rest.remove_prefix(2);
      repeated = take_number(rest, text);
      require(rest.starts_with(')'), "Slurm's task counts '", text, "' cannot be read");
      rest.remove_prefix(1);
    }
    if (node < repeated) return tasks;
    node -= repeated;
    require(rest.starts_with(','), "Slurm's task counts '", text, "' have no entry for this host");
    rest.remove_prefix(1);
  }
}

std::string slurm_first_host(std::string_view text) {
  const std::size_t open = text.find_first_of("[,");
  if (open == std::string_view::npos || text[open] == ',') return std::string(text.substr(0, open));
  const std::size_t close = text.find(']', open);
  require(close != std::string_view::npos, "Slurm's list of hosts '", text, "' cannot be read");
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  const std::string_view after = text.substr(close + 1);
  std::string host(text.substr(0, open));
  host += inside.substr(0, inside.find_first_of("-,"));
  host += after.substr(0, after.find(','));
  return host;
}

ProcessStat parse_process_stat(const std::string& text) {
  // The name stands in parentheses and may hold any character, parentheses too.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  constexpr std::size_t kParent = 1;      // field 4 of proc(5), the first behind the name being 3
  constexpr std::size_t kStartTime = 19;  // field 22
  const std::vector<std::string_view> fields = words_of(std::string_view(text).substr(close + 1));
  if (fields.size() <= kStartTime) return {};
  const auto parent = number_in<int>(fields[kParent]);
  if (!parent) return {};
  stat.parent = *parent;
  stat.start_time = fields[kStartTime];
  return stat;
}

}  // namespace onstream
