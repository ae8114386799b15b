// Matching: the statements of all ranks about one plan, and which send meets which receive.
//
// A Statement is one rank's list of ops, exchanged at build. match() is a pure function of all statements, so every
// rank comes to the same edges, or to the same error text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/plan.hpp"
#include "onstream/plan/op/planned_call.hpp"

namespace onstream::plan {

// Where an op writes data: in whose memory, and at which address there. Words of signals and atomics are no data.
struct Landing {
  std::int32_t rank = -1;  // -1: nowhere
  std::int64_t address = 0;
  LayoutView layout;
};

struct StatedOp {
  OpKind kind = OpKind::none;
  std::int32_t peer = -1;
  std::int32_t tag = 0;
  std::int32_t kernel_access = 1;  // to the local memory, by this rank's kernels
  Path path = Path::automatic;
  LayoutView layout;
  std::uint64_t bytes = 0;
  Landing landing;
  std::string wanted_by;  // the setter of path, in words
  std::string element;    // name of the element type; "" if not told
  std::string note;
};

struct Statement {
  std::string name;          // of the plan
  std::uint64_t number = 0;  // the rank's proposal for the plan's number
  std::string device;        // identifies the device, to see which ranks share one
  std::string problems;      // errors that this rank alone found
  std::vector<StatedOp> ops;
  std::vector<StatedCall> calls;  // in the order in which they run
};

std::string pack(const Statement& statement);
// Throws system for bytes that no pack() made.
Statement unpack(std::string_view bytes);

// A matched send and receive. Ranks may be equal.
struct Edge {
  int source_rank = 0;
  int source_op = 0;
  int destination_rank = 0;
  int destination_op = 0;
};

// Statements by rank. Edges come in the order of source rank, then its ops. Throws invalid_argument with every problem
// of every rank, one a line, naming both sides.
std::vector<Edge> match(const std::vector<Statement>& statements);
// Its part for calls: each call of a rank must find its equal on all ranks that take part, in an order in which the
// calls can run.
struct MatchedCalls {
  std::vector<std::vector<std::int32_t>> ranks;  // ranks of the first, the second, ... call of such an order
  std::vector<std::string> problems;
};
MatchedCalls match_calls(const std::vector<Statement>& statements);

// "send of 64 B to rank 1 with tag 3 (halo axis 0+)".
std::string describe(const StatedOp& op);

// Which path this rank and its peer asked for together; throws nothing: two that differ are a problem of match().
struct WantedPath {
  Path path = Path::automatic;
  std::string by;
};
WantedPath wanted_path(const StatedOp& source, const StatedOp& destination);

// Whether two ops of any ranks write the same byte of one rank's memory. Ops of a launch run at once, so which of them
// would win is not said.
struct Overlaps {
  std::string story;           // names both, or is ""
  std::uint64_t unlisted = 0;  // runs of destinations side by side that were too many to look at (kMaxListedRuns)
};
Overlaps find_overlaps(const std::vector<Statement>& statements, int rank);

}  // namespace onstream::plan
