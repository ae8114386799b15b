#include "onstream/path.hpp"

#include <array>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

constexpr std::array<const char*, kAlgorithms> kNames{
    "auto", "ll", "two_shot", "ll128", "simple", "copy", "ring", "tree", "halving_doubling", "hierarchical"};

}  // namespace

const char* name_of(Algorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  require(index < kNames.size(), "algorithm number ", index, " does not exist");
  return kNames[index];
}

Algorithm algorithm_of(const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Algorithm>(i);
  }
  std::string known;
  for (const char* const one : kNames) known += concat(known.empty() ? "" : ", ", one);
  fail(ErrorCode::invalid_argument, "there is no algorithm '", name, "' for collectives; there are ", known);
}

}  // namespace onstream
