#include "onstream/base/text.hpp"

#include <locale.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace onstream {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";

std::string printed(double value, std::chars_format format, int digits) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, digits).ptr;
  return {text.data(), end};
}

// Never freed: threads make texts while the process ends.
locale_t classic() {
  static const locale_t made = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return made;
}

// The bits of a continuation byte, -1 for any other byte.
int continued(char byte) {
  const auto bits = static_cast<unsigned char>(byte);
  return (bits & 0xC0U) == 0x80U ? static_cast<int>(bits & 0x3FU) : -1;
}

}  // namespace

void append(std::string& text, double value) {
  constexpr int kDigits = 6;
  text += general(value, kDigits);
}

void append(std::string& text, const void* value) {
  if (value == nullptr) {
    text += '0';
    return;
  }
  std::array<char, 2 * sizeof value> digits{};
  constexpr int kHexadecimal = 16;
  const auto number = reinterpret_cast<std::uintptr_t>(value);
  text += "0x";
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number, kHexadecimal).ptr);
}

std::string general(double value, int digits) { return printed(value, std::chars_format::general, digits); }

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string scientific(double value, int digits) { return printed(value, std::chars_format::scientific, digits); }

bool is_utf8(std::string_view bytes) {
  constexpr std::array<int, 4> kLeast = {0, 0x80, 0x800, 0x10000};  // by how many bytes follow: a longer form is none
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes.front());
    const std::size_t more = first < 0x80        ? 0
                             : first >> 5U == 6  ? 1
                             : first >> 4U == 14 ? 2
                             : first >> 3U == 30 ? 3
                                                 : 4;
    if (more >= bytes.size() || more == 4) return false;
    int code = more == 0 ? first : static_cast<int>(first & (0x3FU >> more));
    for (std::size_t i = 1; i <= more; ++i) {
      const int bits = continued(bytes[i]);
      if (bits < 0) return false;
      code = code << 6 | bits;
    }
    if (code < kLeast.at(more) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    bytes.remove_prefix(more + 1);
  }
  return true;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr int kDigits = 4;
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return concat(general(value, kDigits), ' ', kUnits.at(unit));
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return words;
    const std::size_t end = std::min(text.find_first_of(kSpace), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string error_text(int error) { return ::strerror_l(error, classic()); }

std::string resolver_text(int code) {
  const locale_t before = ::uselocale(classic());  // of this thread
  std::string text = ::gai_strerror(code);
  ::uselocale(before);
  return text;
}

}  // namespace onstream
