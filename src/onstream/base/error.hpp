// The two ways a failure travels.
//
// Control path (set-up, building a plan, bad arguments): throw Error, whose text names the failure, the values and the
// remedy. Data path (anything that runs on a stream): a Status, which is a value; see status.hpp.
#pragma once

#include <stdexcept>
#include <string>

#include "onstream/base/text.hpp"

namespace onstream {

enum class ErrorCode {
  invalid_argument,  // the caller's values cannot work
  unsupported,       // this machine or build lacks the feature asked for
  system,            // the operating system or the driver refused
  timeout,           // a deadline passed
  aborted,           // the world failed while, or before, the call ran
  closed,            // the object was destroyed or the peer said goodbye
  truncated,         // a message was larger than its receive (Status::truncated, told by a call that looks for faults)
  unmapped,          // a message's buffer was freed before it was copied (Status::unmapped, told in the same way)
};

const char* name_of(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const { return code_; }
  // Of a world that has failed, or that fails with it.
  bool of_failure() const { return code_ == ErrorCode::timeout || code_ == ErrorCode::aborted; }

 private:
  ErrorCode code_;
};

// Throws Error(code, parts joined). Usage: fail(ErrorCode::timeout, "rank ", r, " did not come within ", s, " s").
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

// Throws an invalid_argument Error with the joined parts unless `holds`.
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) fail(ErrorCode::invalid_argument, parts...);
}

// Throws a system Error that ends with errno's own text.
[[noreturn]] void fail_errno(const std::string& what);

}  // namespace onstream
