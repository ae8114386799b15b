// Refusal: why a call refuses its task, as the code that it returns and the story that ape_last_error() tells; and the
// handling common to all calls.
#pragma once

#include <exception>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream_am.h"

namespace onstream::am {

class Refusal : public std::exception {
 public:
  Refusal(int code, std::string text) : code_(code), text_(std::move(text)) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int code_;
  std::string text_;
};

template <class... Parts>
[[noreturn]] void refuse(int code, const Parts&... parts) {
  throw Refusal(code, concat(parts...));
}

template <class... Parts>
void accept_if(bool holds, int code, const Parts&... parts) {
  if (!holds) [[unlikely]]
    refuse(code, parts...);
}

// Keeps the story for ape_last_error(). Called within a catch block.
int told(const char* call) noexcept;

// Runs a call; returns its answer, or the error's code.
template <class Function>
int guarded(const char* call, const Function& function) noexcept {
  try {
    return function();
  } catch (...) {
    return told(call);
  }
}

}  // namespace onstream::am
