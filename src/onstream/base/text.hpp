// Joining values into a message. Nothing here is on a data path.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace onstream {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// " 1 2 3".
template <class Values>
std::string listed(const Values& values) {
  std::ostringstream out;
  for (const auto& value : values) out << ' ' << value;
  return out.str();
}

// "8 B", "64 KiB", "1.5 MiB": bytes for people.
std::string human_bytes(std::uint64_t bytes);

}  // namespace onstream
