// Every call's handling of an error: a result code for the caller, a text for ncclGetLastError, and, within a group, a
// note, so that ncclGroupEnd tells it again and starts nothing.
#pragma once

#include <exception>
#include <string>

#include "onstream/base/text.hpp"
#include "onstream_nccl/calls.h"

// Makes the twin of a call.
#define ONSTREAM_NCCL_TWIN(name) extern "C" __attribute__((alias(#name))) decltype(name) p##name

namespace onstream::nccl {

// A call that cannot be done: the code it returns, and why.
class Refusal : public std::exception {
 public:
  Refusal(ncclResult_t code, std::string what, bool of_failure = false)
      : code_(code), of_failure_(of_failure), what_(std::move(what)) {}
  ncclResult_t code() const { return code_; }
  bool of_failure() const { return of_failure_; }  // of the world's, which is logged where it fails
  const char* what() const noexcept override { return what_.c_str(); }
  Refusal under(const std::string& heading) const { return {code_, heading + what_, of_failure_}; }

 private:
  ncclResult_t code_;
  bool of_failure_;
  std::string what_;
};

template <class... Parts>
[[noreturn]] void refuse(ncclResult_t code, const Parts&... parts) {
  throw Refusal(code, concat(parts...));
}

// Refuses with ncclInvalidArgument unless `holds`.
template <class... Parts>
void demand(bool holds, const Parts&... parts) {
  if (!holds) [[unlikely]]
    refuse(ncclInvalidArgument, parts...);
}

// For a catch block: keeps and notes the error of `call`. `comm` may be null.
ncclResult_t told(const char* call, ncclComm_t comm) noexcept;
// As above, for a result that was found out elsewhere.
ncclResult_t told(const char* call, const Refusal& refusal) noexcept;
// The code of an exception, and its text.
Refusal refusal_of(const std::exception_ptr& error, ncclComm_t comm);

// The text that ncclGetLastError gives this thread from now on, and threads that have met no error themselves.
void keep(const char* text);
const char* last_error();

template <class Function>
ncclResult_t guarded(const char* call, ncclComm_t comm, const Function& function) noexcept {
  try {
    return function();
  } catch (...) {
    return told(call, comm);
  }
}

}  // namespace onstream::nccl
