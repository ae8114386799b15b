// The words that the bench programs read, and how: every misread word is answered with its name, value and range.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "onstream/device/device.hpp"

namespace onstream::bench {

int count_from(const std::string& option, const std::string& value, int least, int most);
MemoryKind memory_from(const std::string& option, const std::string& name);
// NAME=VALUE of a parameter.
std::pair<std::string, std::string> setting_from(const std::string& text);

// A program's options one after the other: next() is the word, value() what follows it.
class Words {
 public:
  Words(int argc, char** argv) : words_(argv + 1, argv + argc) {}
  bool more() const { return at_ < words_.size(); }
  const std::string& next() { return words_[at_++]; }
  // Throws invalid_argument naming the option that has none.
  const std::string& value();

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

// Three significant digits would hide what medians of nanoseconds tell: "1.234567890e-06".
std::string seconds_text(double seconds);
// A JSON list of them.
std::string seconds_list(const std::vector<double>& seconds);
// A JSON string literal.
std::string quoted(const std::string& text);

}  // namespace onstream::bench
