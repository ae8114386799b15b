#include "onstream/path/table.hpp"

#include <cerrno>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"

namespace onstream::path {

namespace {

std::size_t index_of(Operation operation) { return static_cast<std::size_t>(operation); }
std::size_t index_of(Link link) { return static_cast<std::size_t>(link); }
std::size_t index_of(Algorithm algorithm) { return static_cast<std::size_t>(algorithm); }

// FNV-1a, 64 bits.
std::uint64_t digest_of(std::string_view text) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (const char byte : text) digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return digest;
}

std::string contents(const std::string& name) {
  errno = 0;
  std::string text = contents_of(name);
  require(!text.empty(), "path_file ", name, ": ", errno == 0 ? "the file is empty" : error_text(errno));
  return text;
}

// A parameter that has another value than its default wins over the file.
void take_asked(const Parameters& parameters, std::vector<Rule>& rules) {
  const std::vector<Rule> defaults = built_in_rules(Parameters());
  const std::vector<Rule> asked = built_in_rules(parameters);
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    if (asked[i].from_bytes != defaults[i].from_bytes) {
      rules[i].from_bytes = asked[i].from_bytes;
      rules[i].from_parameter = asked[i].from_parameter;
    }
    if (asked[i].to_bytes != defaults[i].to_bytes) {
      rules[i].to_bytes = asked[i].to_bytes;
      rules[i].to_parameter = asked[i].to_parameter;
    }
  }
}

}  // namespace

Table::Table(const Parameters& parameters) : rules_(built_in_rules(Parameters())) {
  const std::string& file = parameters.path_file;
  if (file != "none") apply(contents(file), file, rules_);
  take_asked(parameters, rules_);
  index();
}

const Table& Table::built_in() {
  static const Table table{Parameters()};
  return table;
}

void Table::index() {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (rule.operation == Operation::collective) {
      std::vector<const Rule*>& list = collectives_[index_of(rule.link)][index_of(rule.algorithm)];
      list.insert(list.begin(), &rule);  // a file's rule comes behind the built-in one that it specialises
      continue;
    }
    RuleRange& range = ranges_[index_of(rule.operation)][index_of(rule.link)];
    if (range.count == 0) range.first = i;
    ++range.count;
  }
  digest_ = digest_of(text());
}

std::span<const Rule> Table::of(Operation operation, Link link) const {
  const RuleRange range = ranges_[index_of(operation)][index_of(link)];
  return std::span(rules_).subspan(range.first, range.count);
}

const Rule& Table::rule(Operation operation, Link link, Path path) const {
  for (const Rule& rule : of(operation, link)) {
    if (rule.path == path && (rule.needs & kSpreadTag) == 0) return rule;
  }
  fail(ErrorCode::invalid_argument, "path ", onstream::name_of(path), " has no rule for a ", name_of(operation),
       " on link ", name_of(link));
}

const Cost& Table::cost(OpKind kind, Link link, Algorithm algorithm, double bytes) const {
  for (const Rule* rule : collectives_[index_of(link)][index_of(algorithm)]) {
    const bool of_kind = rule->kind == OpKind::none || rule->kind == kind;
    if (of_kind && bytes >= static_cast<double>(rule->from_bytes) && bytes <= static_cast<double>(rule->to_bytes)) {
      return rule->cost;
    }
  }
  fail(ErrorCode::invalid_argument, "algorithm ", onstream::name_of(algorithm), " has no cost on link ", name_of(link));
}

std::string Table::text() const { return text_of(rules_); }

}  // namespace onstream::path
