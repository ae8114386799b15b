// A failure, told to a person: the faults of every rank and the story they make together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "onstream/error.hpp"

namespace onstream {

// Where a word lies.
struct WordPlace {
  std::uint64_t at = 0;             // its address in its rank's memory, or its offset in a segment
  std::uint64_t segment_bytes = 0;  // of that segment; 0: it lies in none, or is not known
};

// One op that did not end well, on one rank.
struct FaultReport {
  int rank = -1;  // where the op ran
  Status status = Status::ok;
  OpKind op = OpKind::none;
  std::uint32_t part = 0;  // of a collective: kInCheck, kInStage (device/kernel/wait.hpp); 0: all of it
  int peer = -1;
  int tag = -1;        // of a message, or the channel of a collective
  int plan_op = -1;    // of a plan: which
  int comparison = 0;  // of a wait for a word (device/kernel/compare.hpp)
  std::uint64_t bytes = 0;
  std::uint64_t extra = 0;  // truncated: bytes of the message; at its sender, of the receive, or `bytes`: unknown
  std::uint64_t plan = 0;   // 0: a message
  WordPlace word{};         // of a wait for a word
  int waiting_tag = -1;     // of a late receive: another tag on which a message of its peer waits
  std::uint64_t waiting_bytes = 0;  // of that message
  double timeout_s = 0;             // the deadline that a timeout passed; 0: not known
  std::array<char, 40> plan_name{};
  bool logged = false;  // a warning has told of it: a send that was over before its rank heard

  void set_plan_name(const std::string& name);  // as much of it as fits
};

// "rank 1: recv of 32 B from rank 0 with tag 3 passed its deadline of 60 s (timeout_s)".
std::string describe(const FaultReport& fault);

// An interrupt is the user's own doing, and often every rank's at once: it is logged at debug level only. After a
// deadline other ranks may have waited for each other, which they tell.
enum class Cause { failure, interrupt, deadline };

// Messages of which a send may end before its receive begins: of so many bytes at most, and on the first tags, where
// they spread (lane/spread.hpp), of more.
struct Ahead {
  std::size_t bytes = 0;
  int spread_tags = 0;
  std::size_t spread_bytes = 0;
};

// Why a world is broken. `faults` holds every rank's reports, this rank's first.
struct Failure {
  std::string reason;   // the first cause: "rank 2 (pid 71) died", "deadline passed", "aborted: ..."
  bool logged = false;  // this rank has logged the reason as an error; else the rank that told it, unless interrupted
  std::vector<FaultReport> faults;
  std::vector<int> dead;  // ranks that have died, as far as this rank has heard
  std::vector<int> left;  // ranks that had closed the world, or ended, before it failed
  Ahead ahead;
  std::string story;  // all of it for the screen, with the cycle of waits if there is one
};

}  // namespace onstream
