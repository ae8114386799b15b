// The text that a test's body writes to standard error: less than a pipe holds.
#pragma once

#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"

namespace onstream::test {

inline std::string standard_error_of(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail_errno("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const Fd saved(::dup(STDERR_FILENO));
  ::dup2(write_end.get(), STDERR_FILENO);
  body();
  ::dup2(saved.get(), STDERR_FILENO);
  write_end.reset();
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n = 0; (n = ::read(read_end.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  return text;
}

}  // namespace onstream::test
