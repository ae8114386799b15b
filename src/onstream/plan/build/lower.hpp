// Lowering: one rank's routes, puts, signals and waits become the tables that the kernel runs (view.hpp), and the
// copies that the copy engine makes around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "onstream/plan.hpp"
#include "onstream/plan/build/route.hpp"
#include "onstream/plan/kernel/view.hpp"
#include "onstream/plan/op/words.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::plan {

struct CopyCommand {
  void* to;
  const void* from;
  std::uint64_t bytes;
};

// Contiguous memory in the place of an op's buffer that kernels cannot touch: kernels touch it instead. Plain host
// memory is copied to and from it by a host function of the stream, as cudaMemcpyAsync of pageable memory would make
// the caller wait for the stream.
struct StandIn {
  std::byte* data = nullptr;  // null: the op needs none
  bool plain = false;         // for plain host memory: data is pinned
};

struct Program {
  std::vector<Task> tasks;
  std::vector<WorkItem> items;
  std::vector<Block> blocks;
  std::vector<PutChain> chains;  // done: filled in with the tables
  std::vector<SignalView> signals;
  std::vector<std::uint64_t*> announce;
  std::uint32_t announce_release = 0;
  std::uint32_t lone_signals = 0;
  std::vector<CopyCommand> host_before;  // by the host, from plain memory
  std::vector<CopyCommand> before;       // local, into the sources' stand-ins
  std::vector<CopyCommand> middle;       // to peers, between the two kernels of a launch
  std::vector<CopyCommand> after;        // local, out of bounce buffers
  std::vector<CopyCommand> host_after;   // by the host, to plain memory
  PlanWords words;                       // around the middle copies
  std::vector<Row> pack_rows;            // of a brief program
  std::vector<Row> unpack_rows;
  int pack_blocks = 0;
  bool brief = false;  // brief.hpp runs it; items and blocks are of no use
  bool two_kernels = false;
  bool no_kernel = false;  // the stream does it all
  int mover_blocks = 0;    // of the launch's first kernel, or of its only one with all blocks
  int threads = 1;
};

struct Lowering {
  int rank = 0;
  const std::vector<Op>* ops = nullptr;
  const std::vector<PlanOp>* planned = nullptr;  // puts: the path that build() chose
  const std::vector<Route>* routes = nullptr;
  const std::vector<std::uint64_t>* counter_bases = nullptr;  // waits: the counter's value at build, by op
  const std::vector<StandIn>* stand_ins = nullptr;            // by op
  Segment* segment = nullptr;
  Segment* words = nullptr;  // of path memop; null if no route takes it
  std::uint64_t number = 0;  // of the plan
  std::uint64_t block_bytes = 1;
  int most_blocks = 1;
  DeviceKind device = DeviceKind::host;
};

Program lower(const Lowering& lowering);

}  // namespace onstream::plan
