// What went wrong, told to a person: the faults of every rank and the story they make together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onstream/base/status.hpp"

namespace onstream {

// One op that did not end well, on one rank.
struct FaultReport {
  int rank = -1;  // where the op ran
  Status status = Status::ok;
  OpKind op = OpKind::none;
  int peer = -1;
  int lane = -1;
  std::uint64_t bytes = 0;
  std::uint64_t extra = 0;  // truncated: bytes of the message
  std::uint64_t plan = 0;   // 0: a message
};

// "rank 1: recv of 32 B from rank 0 on lane 3 passed its deadline".
std::string describe(const FaultReport& fault);
// "recv of 32 B from rank 0 on lane 3".
std::string what_of(const FaultReport& fault);

// Why a world is broken. `faults` holds what every rank reported, its own first.
struct Failure {
  std::string reason;  // the first cause: "rank 2 (pid 71) died", "deadline passed", "aborted: ..."
  std::vector<FaultReport> faults;
  std::string story;  // all of it for the screen, with the cycle of waits if there is one
};

// The ranks and ops of a cycle of waits among timed-out or aborted faults, "rank 0 send to 1 -> rank 1 send to 0", or
// "".
std::string find_cycle(const std::vector<FaultReport>& faults);

}  // namespace onstream
