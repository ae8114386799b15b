// Table: the rules of a world, the one place that decides how bytes travel.
//
// Built-in rules, with the bounds that parameters give; then the changes of a file (parameter path_file); then again
// the parameters that the program or the environment sets to another value than the default. text() writes the format
// that the file has. Immutable once built; the same on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/parameters.hpp"
#include "onstream/path/rule.hpp"

namespace onstream::path {

class Table {
 public:
  // Throws invalid_argument for a file that cannot be read, or that has a line that is no rule, naming file and line.
  explicit Table(const Parameters& parameters);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  static const Table& built_in();  // with the default parameters

  std::span<const Rule> rules() const { return rules_; }
  // The rules of transfers of one operation over one link, in the order in which they are tried.
  std::span<const Rule> of(Operation operation, Link link) const;
  // The first of them that has this path. There is one for each path that the operation has on the link.
  const Rule& rule(Operation operation, Link link, Path path) const;
  // The most specific rule's, for a collective in which a rank has `bytes` for each other.
  const Cost& cost(OpKind kind, Link link, Algorithm algorithm, double bytes) const;

  std::string text() const;                         // one line a rule, as the file has them
  std::uint64_t digest() const { return digest_; }  // of text(), so that ranks can compare

 private:
  struct RuleRange {  // of rules_
    std::size_t first = 0;
    std::size_t count = 0;
  };
  void index();

  std::vector<Rule> rules_;
  std::array<std::array<RuleRange, kLinks>, kOperations> ranges_{};
  std::array<std::array<std::vector<const Rule*>, kAlgorithms>, kLinks> collectives_;  // most specific first
  std::uint64_t digest_ = 0;
};

// The rules as the library brings them, with the parameters' bounds.
std::vector<Rule> built_in_rules(const Parameters& parameters);
// Applies the lines of a file's text to the rules. `name` is the file's, for errors.
void apply(std::string_view text, std::string_view name, std::vector<Rule>& rules);
std::string text_of(std::span<const Rule> rules);

}  // namespace onstream::path
