// Status: how an operation on a stream ended. A value, the same on the host and in kernels.
#pragma once

#include <cstdint>

namespace onstream {

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
