// The words that the bench programs read, and how: every misread word is answered with its name, value and range.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/parameters.hpp"

namespace onstream::bench {

int count_from(const std::string& option, const std::string& value, int least, int most);

// Parameters that a program was given, as NAME=VALUE each, the device among them.
using Settings = std::vector<std::pair<std::string, std::string>>;
// Those of the environment, with these on top; an empty device leaves it as it is.
Parameters parameters_from(const std::string& device, const Settings& settings);

// The options of a program. Each call states one; read() takes the program's words in their order.
class Options {
 public:
  using Take = std::function<void(const std::string& value)>;

  Options& value(const std::string& name, Take take);
  Options& flag(const std::string& name, std::function<void()> take);
  Options& text(const std::string& name, std::string& into);
  Options& count(const std::string& name, int& into, int least, int most);
  Options& memory(const std::string& name, MemoryKind& into);
  Options& setting(const std::string& name, Settings& into);
  // Words that are no options; without this there are none.
  Options& others(Take take);

  // Throws invalid_argument for an option without its value, and for an unknown one, with all that there are.
  void read(int argc, char** argv) const;

 private:
  struct One {
    std::string name;
    bool has_value;
    Take take;
  };
  const One& find(const std::string& word) const;
  std::vector<One> all_;
  Take others_;
};

// Ten digits, as three would hide differences between medians of nanoseconds: "1.234567890e-06".
std::string seconds_text(double seconds);
// A JSON list of them.
std::string seconds_list(const std::vector<double>& seconds);
// A JSON string literal.
std::string quoted(const std::string& text);

}  // namespace onstream::bench
