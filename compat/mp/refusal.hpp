// A call that cannot be done: the code it returns, and why.
#pragma once

#include <cerrno>
#include <exception>
#include <string>

#include "mp/calls.h"
#include "onstream/base/text.hpp"

namespace onstream::mp {

class Refusal : public std::exception {
 public:
  Refusal(int code, std::string what) : code_(code), what_(std::move(what)) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  int code_;
  std::string what_;
};

// Throws unless `holds`; the call then returns `code`.
template <class... Parts>
void demand(bool holds, int code, const Parts&... parts) {
  if (!holds) throw Refusal(code, concat(parts...));
}

}  // namespace onstream::mp
