// The two ways a failure travels.
//
// Control path (set-up, building a plan, bad arguments): a call throws Error, whose text names the failure, the values
// and the remedy. Data path (anything that runs on a stream): a Status, a value, the same on the host and in kernels.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

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

// How an operation on a stream ended.
enum class [[nodiscard]] Status : std::uint64_t {
  ok = 0,
  pending,    // not finished yet (test() on a request)
  truncated,  // the message is larger than its receive; neither buffer is whole, later messages are intact
  unmapped,   // the buffer of one side was not there any more when it was copied; later messages are intact
  timeout,    // a wait passed the deadline
  aborted,    // the world failed or was aborted while the operation ran, or before
  misused,    // last; the operation found a state that only a wrong program makes (a plan launched twice at once, ...)
};

const char* name_of(Status status);
// Whether an operation that ended so leaves its world whole, though it failed itself.
constexpr bool fails_one_op(Status status) { return status == Status::truncated || status == Status::unmapped; }

// The kind of an operation, in a fault record and in messages to people.
enum class OpKind : std::uint32_t {
  none = 0,
  send,
  recv,
  probe,
  put,
  get,
  reduce,  // to one rank; a collective, as are those from barrier on
  signal,
  atomic,
  wait,
  plan,
  barrier,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  all_gather_v,
  all_to_all_v,
  scan,
  exclusive_scan,
  neighbour_all_gather,
  neighbour_all_to_all,
  neighbour_all_to_all_v,  // last
};

const char* name_of(OpKind kind);
constexpr bool is_collective(OpKind kind) { return kind == OpKind::reduce || kind >= OpKind::barrier; }

}  // namespace onstream
