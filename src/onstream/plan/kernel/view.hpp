// The plan as its kernel sees it: tables in device memory, plain data, made once at build by lower.cpp.
//
// An op becomes one or two tasks. Movers (pack, move) only wait for peers to have started their launch; finishers
// (unpack, await) wait for the peers' movers. Blocks with movers have lower numbers than blocks with finishers only;
// see body.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/atomics.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/error.hpp"
#include "onstream/layout.hpp"

namespace onstream::plan {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

// One a plan. Launches of a plan run one after the other, so nothing here needs more than relaxed order between them.
struct PlanState {
  std::uint64_t failed = 0;   // not 0: a wait failed, nothing is moved any more
  std::uint64_t running = 0;  // not 0 while a launch runs
};

// One a block: launches that it has finished; the running one is this + 1. Each block advances its own, so no block
// waits for another to end.
using Epoch = std::uint64_t;

// One an op.
struct OpState {
  std::uint64_t reported = 0;  // not 0: a fault was left
  std::uint64_t ready_ns = 0;  // when the running launch's wait ended
  std::uint64_t wait_ns = 0;   // since reset_times()
  std::uint64_t move_ns = 0;
};

constexpr std::uint64_t kMostParts = 128;    // of a move
constexpr std::uint64_t kPartsOfFlag = 256;  // a flag is epoch * kPartsOfFlag + how many parts there are

struct Task {
  std::uint32_t op = 0;  // index in the plan
  std::uint32_t parts = 1;
  OpKind kind = OpKind::none;
  std::int32_t peer = -1;
  std::uint32_t access_width = 1;  // bytes of one access
  std::uint32_t chain = kNone;     // puts: whose signals follow
  std::uint32_t pulls = 0;         // move: not 0: the source is the peer's
  std::uint64_t bytes = 0;
  std::byte* to = nullptr;    // move, unpack, await of a staged receive; null: nothing to copy
  std::byte* from = nullptr;  // move, pack, await of a staged receive
  LayoutView to_layout;
  LayoutView from_layout;
  const std::uint64_t* started = nullptr;  // move, pack: wait until the peer's launch number is here; null: no need
  std::uint64_t* flag = nullptr;           // move: kMostParts flags, one for each part; await: the same; or the word
  Line* slots = nullptr;                   // pack, unpack: two slots
  std::uint64_t slot_lines = 0;            // of one slot
  std::uint64_t base = 0;                  // await of a counter: until it reached base + value * epoch
  std::uint64_t value = 1;                 // ... or the value that a word is compared with
  std::uint32_t width = 0;                 // of the word to compare; 0: a counter
  Compare compare = Compare::reached;
  Sign sign = Sign::unsigned_word;
};

// Lines [begin, end) of a pack or unpack task for a team of threads; or part `begin` of a move or await task for a
// block.
struct WorkItem {
  std::uint32_t task;
  std::uint32_t begin;
  std::uint32_t end;
};

// One line of a pack or unpack task, for the plans that brief.hpp runs: where its data lies, and its place in the slot.
struct alignas(16) Row {
  std::byte* local = nullptr;  // the first piece of its data
  Line* slot = nullptr;        // in launches of even number
  const std::uint64_t* started = nullptr;
  std::int64_t stride = 0;         // bytes from one piece to the next
  std::uint32_t odd_slot = 0;      // lines from there to the slot of launches of odd number
  std::uint32_t task = 0;          // index
  std::uint16_t pieces = 0;        // 0: a line without data
  std::uint16_t access_width = 1;  // bytes of a piece
  std::uint32_t times = 0;         // the first line of op times - 1; 0: none
};

struct ItemSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // one past
};

struct Block {
  ItemSpan packs;  // of items
  ItemSpan moves;
  ItemSpan unpacks;
  ItemSpan awaits;
  std::uint32_t moves_wait = 0;   // some move waits for its peer
  std::uint32_t awaits_copy = 0;  // some await copies
};

// The puts of one peer, and the signals and atomics that follow them.
struct PutChain {
  std::uint64_t* done = nullptr;  // parts put in the running launch
  std::uint64_t parts = 0;
  ItemSpan signals;
};

// A signal, or an atomic.
struct SignalView {
  std::uint64_t* counter = nullptr;  // or another word
  std::uint64_t value = 0;
  std::uint32_t width = 0;  // of the word, in bytes; 0: a counter, to be added to
  AtomicOp op = AtomicOp::add;
  std::uint64_t expected = 0;
  std::uint64_t old = 0;  // where an atomic's old value goes, or 0
};

// The whole plan, for one launch. By value to the kernel, which fetches its arguments by cache lines: the fields that
// every launch needs come first.
struct PlanView {
  PlanState* state = nullptr;
  Epoch* epochs = nullptr;  // of the blocks
  const Block* blocks = nullptr;
  const WorkItem* items = nullptr;
  const Task* tasks = nullptr;
  OpState* ops = nullptr;
  std::uint32_t first_block = 0;  // of `blocks`, for block 0 of this grid
  std::uint32_t begins = 1;       // this kernel is the launch's first
  std::uint32_t ends = 1;         // ... and last
  std::uint32_t announce_count = 0;
  std::uint32_t announce_release = 0;  // some peer loads from here: release earlier kernels' stores
  std::uint32_t lone_signals = 0;      // signals[0, lone_signals) follow no put

  std::uint64_t* const* announce = nullptr;  // words in peers' memory that get the epoch when a launch starts
  const PutChain* chains = nullptr;
  const SignalView* signals = nullptr;
  std::uint64_t number = 0;  // of the plan, in faults
  WaitView wait;
};

}  // namespace onstream::plan
