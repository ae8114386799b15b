// Texts and the numbers in them, the same in every locale: words between ranks, files and reports go through here.
//
// No stream, and nothing else that asks the program's locale, C++'s or C's, which any library may set at any time: a
// rank that groups digits would not be understood by the others. Nothing here is on a data path.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace onstream {

// Appends a value. An integer of 8 bits is a number, a char a character, and a bool is 0 or 1.
template <std::integral Number>
void append(std::string& text, Number value) {
  if constexpr (std::same_as<Number, char> || std::same_as<Number, bool>) {
    text += std::same_as<Number, bool> ? static_cast<char>('0' + value) : static_cast<char>(value);
  } else {
    char digits[24];  // of any integer of 64 bits
    text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
}
inline void append(std::string& text, std::string_view value) { text += value; }
inline void append(std::string& text, const std::string& value) { text += value; }
inline void append(std::string& text, const char* value) { text += value == nullptr ? "(null)" : value; }
void append(std::string& text, double value);       // six digits, as %g
void append(std::string& text, const void* value);  // 0x7f00, or 0

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

// " 1 2 3".
template <class Values>
std::string listed(const Values& values) {
  std::string text;
  for (const auto& value : values) {
    text += ' ';
    append(text, value);
  }
  return text;
}

// As %.{digits}g and %.{digits}e.
std::string general(double value, int digits);
std::string scientific(double value, int digits);
// The fewest digits that number_in() reads back as the same number.
std::string shortest(double value);

// Whether these bytes are text in UTF-8.
bool is_utf8(std::string_view bytes);

// "8 B", "64 KiB", "1.5 MiB": bytes for people.
std::string human_bytes(std::uint64_t bytes);

// The parts of `text` between white space, and between line ends.
std::vector<std::string_view> words_of(std::string_view text);
std::vector<std::string_view> lines_of(std::string_view text);

// The whole text as a decimal number; nothing where it is none, or does not fit.
template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The system's words for an errno, and the resolver's for a result of getaddrinfo; untranslated.
std::string error_text(int error);
std::string resolver_text(int code);

}  // namespace onstream
