// Rules as text, one a line:
//
//   onstream paths 1
//   message cuda copy from_bytes=67108864 base_us=16.5 bytes_per_us=385000
//   all_reduce cuda ll128 from_bytes=65536 to_bytes=1048576 base_us=3.1
//
// Operation (of a collective: its kind, or `collective` for all), link, path or algorithm; then the values that differ.
// A line about a transfer changes that rule; one about a collective adds a rule, which comes before those above it.
#include <algorithm>
#include <array>
#include <cmath>

#include "onstream/base/error.hpp"
#include "onstream/path/table.hpp"

namespace onstream::path {

namespace {

constexpr std::string_view kHeader = "onstream paths 1";

struct Field {
  const char* name;
  double Cost::* value;
};
constexpr std::array<Field, 10> kFields{{{"base_us", &Cost::base_us},
                                         {"bytes_per_us", &Cost::bytes_per_us},
                                         {"peer_us", &Cost::peer_us},
                                         {"round_us", &Cost::round_us},
                                         {"trip_us", &Cost::trip_us},
                                         {"trip_peer_us", &Cost::trip_peer_us},
                                         {"step_us", &Cost::step_us},
                                         {"sum_weight", &Cost::sum_weight},
                                         {"broadcast_weight", &Cost::broadcast_weight},
                                         {"one_shot_bytes", &Cost::one_shot_bytes}}};

// The start of the comment as which a file has a rule that it cannot change; empty for those that it can.
const char* comment_of(const Rule& rule) {
  if (rule.operation == Operation::collective) return "";
  if (rule.by_request) return "# by request: ";
  if ((rule.needs & kSpreadTag) != 0) return "# spread tags: ";
  return (rule.needs & kCrossMemory) != 0 ? "# attach_min_bytes: " : "";
}

class RulesReader {
 public:
  RulesReader(std::string_view name, std::vector<Rule>& rules) : name_(name), rules_(rules) {}

  void read(std::string_view text) {
    bool started = false;
    for (const std::string_view line : lines_of(text)) {
      ++number_;
      const std::string_view content = line.substr(0, line.find('#'));
      const std::vector<std::string_view> words = words_of(content);
      if (words.empty()) continue;
      if (started) {
        read_rule(words);
      } else {
        check(content.substr(0, content.find_last_not_of(" \t\r") + 1) == kHeader,
              concat("the first line is '", kHeader, "', not '", content, "'"));
        started = true;
      }
    }
    check(started, concat("the first line is '", kHeader, "'"));
  }

 private:
  void check(bool holds, const std::string& problem) const {
    require(holds, "path_file ", name_, ", line ", number_, ": ", problem);
  }

  void read_rule(const std::vector<std::string_view>& words) {
    check(words.size() >= 3, "a rule names operation, link, and path or algorithm");
    Rule& rule = rule_of(words);
    for (std::size_t i = 3; i < words.size(); ++i) set(rule, words[i]);
    check(rule.from_bytes <= rule.to_bytes, "from_bytes is larger than to_bytes");
    const bool collective = rule.operation == Operation::collective;
    check(!collective || rule.cost.measured(), "bytes_per_us of a collective is more than 0");
    check(collective || is_read(rule), concat("this rule takes no such bound: ", bounds_of(rule)));
  }

  // Whether the library looks at the rule's bounds: a message up to some size goes through the ring, whatever its
  // least.
  static bool is_read(const Rule& rule) {
    const bool through_ring = rule.path == Path::ll && rule.operation != Operation::plan;
    if (through_ring) return rule.from_bytes == 0;
    if (rule.operation != Operation::put) return true;
    return rule.to_bytes == kNoLimit && (rule.path == Path::copy || rule.from_bytes == 0);
  }
  static const char* bounds_of(const Rule& rule) {
    if (rule.operation != Operation::put) return "its lower one is 0";
    return rule.path == Path::copy ? "it has no upper one" : "the rule for copy has the one of puts";
  }

  // The last rule so named: for a transfer the one to be changed, for a collective the new one.
  Rule& rule_of(const std::vector<std::string_view>& words) {
    const bool transfer = std::ranges::any_of(rules_, [&](const Rule& rule) {
      return rule.operation != Operation::collective && words[0] == name_of(rule.operation);
    });
    for (auto rule = rules_.begin(); rule != rules_.end(); ++rule) {
      if (words[1] != name_of(rule->link) || words[2] != rule->way()) continue;
      const bool can_change = *comment_of(*rule) == 0;
      if (transfer && words[0] == name_of(rule->operation) && can_change) return *rule;
      if (!transfer && rule->operation == Operation::collective) return specialised(*rule, words[0]);
    }
    check(false, concat("there is no rule ", words[0], ' ', words[1], ' ', words[2]));
    return rules_.front();
  }

  Rule& specialised(Rule rule, std::string_view kind) {
    rule.kind = kind_of(kind);
    return rules_.emplace_back(rule);
  }

  OpKind kind_of(std::string_view word) const {
    if (word == name_of(Operation::collective)) return OpKind::none;
    for (auto number = std::uint32_t{0}; number <= static_cast<std::uint32_t>(OpKind::neighbour_all_to_all_v);
         ++number) {
      const auto kind = static_cast<OpKind>(number);
      if (is_collective(kind) && word == onstream::name_of(kind)) return kind;
    }
    check(false, concat("there is no operation '", word, "'"));
    return OpKind::none;
  }

  void set(Rule& rule, std::string_view word) const {
    const std::size_t equals = word.find('=');
    check(equals != std::string_view::npos, concat("'", word, "' is not name=value"));
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (name == "from_bytes" || name == "to_bytes") {
      const auto bytes = number_in<std::uint64_t>(value);
      check(bytes.has_value(), concat("'", word, "': a whole number of bytes is expected"));
      (name == "from_bytes" ? rule.from_bytes : rule.to_bytes) = *bytes;
      (name == "from_bytes" ? rule.from_parameter : rule.to_parameter) = "path_file";
      return;
    }
    const auto field = std::ranges::find(kFields, name, &Field::name);
    check(field != kFields.end(), concat("there is no value '", name, "' of a rule"));
    constexpr double kMost = 1e18;
    const auto number = number_in<double>(value);
    const bool fits = number && !std::signbit(*number) && *number < kMost;  // NaN is not less
    check(fits, concat("'", word, "': a number from 0 up is expected"));
    rule.cost.*(field->value) = *number;
  }

  std::string_view name_;
  std::vector<Rule>& rules_;
  int number_ = 0;
};

}  // namespace

void apply(std::string_view text, std::string_view name, std::vector<Rule>& rules) {
  RulesReader(name, rules).read(text);
}

std::string text_of(std::span<const Rule> rules) {
  const std::vector<Rule> built_in = built_in_rules(Parameters());
  std::string text(kHeader);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Rule& rule = rules[i];
    const char* const kind = rule.kind == OpKind::none ? name_of(rule.operation) : onstream::name_of(rule.kind);
    text += concat('\n', comment_of(rule), kind, ' ', name_of(rule.link), ' ', rule.way());
    const bool added = i >= built_in.size();
    const Rule& before = added ? rule : built_in[i];
    if (added || rule.from_bytes > 0 || before.from_bytes > 0) text += concat(" from_bytes=", rule.from_bytes);
    if (added || rule.to_bytes != kNoLimit || before.to_bytes != kNoLimit) text += concat(" to_bytes=", rule.to_bytes);
    for (const Field& field : kFields) {
      const double value = rule.cost.*(field.value);
      const bool told = value != Cost().*(field.value) || value != before.cost.*(field.value);
      if (added || told) text += concat(' ', field.name, '=', shortest(value));
    }
  }
  return text + "\n";
}

}  // namespace onstream::path
