#include "options.hpp"

#include <array>
#include <charconv>
#include <cstdio>

#include "onstream/base/error.hpp"

namespace onstream::bench {

int count_from(const std::string& option, const std::string& value, int least, int most) {
  int result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  require(whole && result >= least && result <= most, option, " is '", value, "', not a number from ", least, " to ",
          most);
  return result;
}

MemoryKind memory_from(const std::string& option, const std::string& name) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host}) {
    if (name == name_of(kind)) return kind;
  }
  fail(ErrorCode::invalid_argument, option, " is '", name, "'; there are device, pinned, managed, host");
}

std::pair<std::string, std::string> setting_from(const std::string& text) {
  const std::size_t split = text.find('=');
  require(split != std::string::npos && split > 0, "--set takes NAME=VALUE, not '", text, "'");
  return {text.substr(0, split), text.substr(split + 1)};
}

const std::string& Words::value() {
  require(more(), words_[at_ - 1], " needs a value");
  return words_[at_++];
}

std::string seconds_text(double seconds) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.9e", seconds);
  return digits.data();
}

std::string seconds_list(const std::vector<double>& seconds) {
  std::string list;
  for (const double one : seconds) list += (list.empty() ? "" : ",") + seconds_text(one);
  return "[" + list + "]";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

}  // namespace onstream::bench
