// Joining values into a message. Nothing here is on a data path.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>

namespace onstream {

// What a stream prints a value as: an integer of 8 bits is a number, which it would take for a character.
template <class Value>
decltype(auto) shown(const Value& value) {
  if constexpr (std::is_same_v<Value, std::uint8_t> || std::is_same_v<Value, std::int8_t>) {
    return int{value};
  } else {
    return (value);
  }
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << shown(parts));
  return out.str();
}

// " 1 2 3".
template <class Values>
std::string listed(const Values& values) {
  std::ostringstream out;
  for (const auto& value : values) out << ' ' << shown(value);
  return out.str();
}

// "8 B", "64 KiB", "1.5 MiB": bytes for people.
std::string human_bytes(std::uint64_t bytes);

}  // namespace onstream
