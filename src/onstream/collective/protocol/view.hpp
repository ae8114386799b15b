// The memory of a channel, which the kernels of collectives share, and the epochs in which they use it.
//
// A channel is a queue: its collectives run one after the other, on every rank of the team in the same order. Each has
// a number, the epoch, that the kernels count themselves in device memory, so that a captured launch means the same at
// every replay. Every block has its own copy of the count and advances it (a smaller grid advances those of the absent
// blocks too), so that no block waits for another.
//
// Each rank's part of the symmetric memory holds, for every rank that writes there and twice (used alternately, by the
// parity of the epoch): a slot of LL lines (device/kernel/ll.hpp), one of LL128 lines (ll128.hpp), whose flags nothing
// but flags ever lies on, and a post, which says where that rank's buffers are; and once: words that tell how far that
// rank is, and a stage for data of buffers that peers cannot address.
//
// When may a writer store into a slot in epoch e? Its reader must be through with e - 2, so it must have started e - 1.
// If everybody heard from everybody in e - 1, that is known. If not (a broadcast), the kernels of e - 1 announced their
// start, and the writer of e waits for the announcement.
//
// A flag is the epoch's low 20 bits, 11 bits of the call's signature and a one. The two words of a line carry different
// bits of the signature: the lines of another call are never taken for this one's, and a thread that waits in vain sees
// from the flags there that the call is another. The signature includes a digest of all earlier calls of the channel:
// ranks that only send do not see data sent to them, so the next call finds a broadcast from two roots. A flag may come
// again after 2^20 epochs. So every 2^19 epochs the reader clears the lines that it has read, after the last of its own
// reads, in two epochs that follow each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/ll.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/error.hpp"

namespace onstream::collective {

constexpr int kMostRanks = 64;    // of a team: sets of ranks are words
constexpr int kMostBlocks = 128;  // of a kernel
constexpr int kPostLines = 4;
constexpr int kChunks = 4;         // of a rank's share of sums that travel by the copy engine
constexpr int kFlagCallBits = 12;  // of a flag, the lowest; that one is always set, so that no flag is 0
constexpr std::uint64_t kHistory = std::uint64_t{1} << 48;
constexpr std::uint64_t kCleanEvery = std::uint64_t{1} << 19;
static_assert(kCleanEvery << kFlagCallBits < std::uint64_t{1} << 32, "what is cleared is older than a flag's return");

constexpr std::uint64_t kStripeData = 240;  // the data of two LL128 lines
constexpr std::uint64_t kLl128Lines = 8;    // lines of 16 bytes that are as long as an LL128 line
constexpr std::uint64_t kStripeLines = 2 * kLl128Lines;

// The lines of a post, see rendezvous.hpp.
enum class PostLine : int { input, output, factor, call };

// One host thread works for all of a group.
template <Group G>
constexpr bool kSerial = G::kCrossMemory;

// A block's count of epochs.
struct EpochCount {
  // Epochs that are over, times 2; plus 1 if everybody heard from everybody in the last one; and from kHistory on a
  // digest of the calls in all of them.
  std::uint64_t word = 0;
  std::uint64_t failed = 0;  // not 0: a wait failed, nothing is moved any more
};

// Whether everybody hears from everybody in a collective.
enum class Hears { everyone, some };

// A block's knowledge of its epoch before the stream's earlier work is over. take_epoch (session.hpp) sees to it that
// the word is in memory by then, and the next epoch's as soon as the next kernel may come.
struct Early {
  std::uint64_t word = 0;
  std::uint64_t signature = 0;  // of the call, and of all before it on this channel
  std::uint64_t flags = 0;      // the two of a line, the lower one first
};

// A rank's own, in its device's memory.
struct ChannelState {
  EpochCount epochs[kMostBlocks];
  std::uint64_t steps[kMostBlocks];    // meetings (Session::meet) that a block has had with the same block of all ranks
  std::uint64_t running = 0;           // not 0 while a collective of this channel runs
  std::uint64_t cleaned = 0;           // blocks that have come to the clearing
  std::uint64_t summed[kChunks] = {};  // blocks that have added up their part of a chunk (engine_sums.hpp)
};

// The stripes of LL128 lines: in a slot of so many lines of 16 bytes; for so much data; and for one rank's part of a
// vector.
ONSTREAM_BOTH std::uint64_t stripes_in(std::uint64_t lines) { return lines / kStripeLines; }
ONSTREAM_BOTH std::uint64_t stripes_for(std::uint64_t bytes) { return (bytes + kStripeData - 1) / kStripeData; }
ONSTREAM_BOTH std::uint64_t stripes_of_part(std::uint64_t bytes, std::uint64_t ranks) {
  return (stripes_for(bytes) + ranks - 1) / ranks;
}

// Where things lie in a rank's part, in bytes. Slots come first.
struct PartLayout {
  std::uint64_t posts = 0;
  std::uint64_t words = 0;    // of Session::meet: one a block and rank
  std::uint64_t started = 0;  // one a rank: the epoch and 32 bits of the signature
  std::uint64_t chunks = 0;   // two a rank, of engine_sums.hpp
  std::uint64_t ll128 = 0;    // slots of LL128 lines
  std::uint64_t stage = 0;
  std::uint64_t bytes = 0;  // of all
};

inline PartLayout places_of(int size, std::uint64_t slot_lines, std::uint64_t ll128_lines, std::uint64_t stage_bytes) {
  const auto ranks = static_cast<std::uint64_t>(size);
  PartLayout places;
  places.posts = 2 * ranks * slot_lines * sizeof(Line);
  places.words = places.posts + 2 * ranks * kPostLines * sizeof(Line);
  places.started = places.words + kMostBlocks * ranks * sizeof(std::uint64_t);
  places.chunks = places.started + ranks * sizeof(std::uint64_t);
  places.ll128 = (places.chunks + 2 * ranks * sizeof(std::uint64_t) + 127) / 128 * 128;
  places.stage = places.ll128 + 2 * ranks * ll128_lines * sizeof(Line);
  places.bytes = places.stage + stage_bytes;
  return places;
}

// A channel, as kernels see it.
struct ChannelView {
  ChannelState* state = nullptr;
  const std::uint64_t* parts = nullptr;  // each rank's part, as this rank addresses it
  std::uint32_t rank = 0;                // in the team
  std::uint32_t size = 1;
  std::uint32_t slot_lines = 0;   // of one slot
  std::uint32_t ll128_lines = 0;  // of one slot of LL128 lines, in lines of 16 bytes: whole stripes (ll128.hpp)
  std::uint32_t channel = 0;
  std::uint32_t late = 0;  // not 0: the epoch is taken behind all earlier work of the stream (runner.cpp)
  std::uint64_t stage_bytes = 0;
  PartLayout places;
  const std::int32_t* worlds = nullptr;  // each rank's number in the world
  ChannelState* kin[2] = {};             // of channels whose collectives are stages of one: they fail together
  WaitView wait;
};

// The senders and receivers of a collective.
enum class Flow : std::uint32_t {
  all,        // everybody to everybody
  to_root,    // everybody to the root
  from_root,  // the root to everybody
  upward      // everybody to all higher ranks
};

ONSTREAM_BOTH std::uint64_t below(std::uint32_t rank) {
  return rank >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << rank) - 1;
}
ONSTREAM_BOTH std::uint64_t only(std::uint32_t rank) { return std::uint64_t{1} << rank; }
ONSTREAM_BOTH bool has(std::uint64_t set, std::uint32_t rank) { return (set >> rank & 1) != 0; }
// For callers that look at kCount ranks at a time: the last of them may be past those that a set can hold.
template <int kCount>
ONSTREAM_BOTH bool has_among(std::uint64_t set, std::uint32_t rank) {
  return (64 % kCount == 0 || rank < 64) && has(set, rank);
}

// Sets of ranks, this one not among them.
ONSTREAM_BOTH std::uint64_t receivers(Flow flow, std::uint32_t rank, std::uint32_t size, std::uint32_t root) {
  const std::uint64_t others = below(size) & ~only(rank);
  switch (flow) {
    case Flow::all: return others;
    case Flow::to_root: return rank == root ? 0 : only(root);
    case Flow::from_root: return rank == root ? others : 0;
    default: return others & ~below(rank);
  }
}
ONSTREAM_BOTH std::uint64_t senders(Flow flow, std::uint32_t rank, std::uint32_t size, std::uint32_t root) {
  const std::uint64_t others = below(size) & ~only(rank);
  switch (flow) {
    case Flow::all: return others;
    case Flow::to_root: return rank == root ? others : 0;
    case Flow::from_root: return rank == root ? 0 : only(root);
    default: return below(rank);
  }
}

// The k-th after this one, of all in a circle: everybody begins with another.
ONSTREAM_EITHER std::uint32_t rank_after(const ChannelView& view, std::uint32_t k) {
  return view.rank + k < view.size ? view.rank + k : view.rank + k - view.size;
}

ONSTREAM_EITHER std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

ONSTREAM_EITHER std::uint64_t epoch_after(std::uint64_t word) { return (word % kHistory >> 1) + 1; }
// The word of an epoch behind a collective.
ONSTREAM_EITHER std::uint64_t epoch_after(std::uint64_t word, std::uint64_t signature, Hears hears) {
  const std::uint64_t history = (word / kHistory * 0x9e35 ^ signature >> 1) * kHistory;
  return history | epoch_after(word) << 1 | (hears == Hears::everyone ? 1 : 0);
}

// The 16 bits of history in an epoch's word, where they get into both words of a flag.
ONSTREAM_EITHER std::uint64_t history_in_flags(std::uint64_t word) {
  constexpr std::uint64_t kCall = (1u << kFlagCallBits) - 2;
  return (word >> 47 & kCall) | (word >> 52 & kCall) << 32;
}

// The flags of the two words of a line.
struct Flag {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

// The flag of any call of that epoch.
ONSTREAM_EITHER std::uint32_t flag_of(std::uint64_t epoch) {
  return static_cast<std::uint32_t>(epoch) << kFlagCallBits | 1u;
}
ONSTREAM_EITHER Flag flag_of(std::uint64_t epoch, std::uint64_t signature) {
  constexpr std::uint32_t kCall = (1u << kFlagCallBits) - 2;
  const std::uint32_t flag = flag_of(epoch);
  return {flag | (static_cast<std::uint32_t>(signature) & kCall),
          flag | (static_cast<std::uint32_t>(signature >> 32) & kCall)};
}

using onstream::flag_line;
using onstream::has_flag;
ONSTREAM_EITHER Line flag_line(std::uint64_t data, const Flag& flag) {
  return {static_cast<std::uint64_t>(flag.low) << 32 | (data & 0xffffffffu),
          static_cast<std::uint64_t>(flag.high) << 32 | (data >> 32)};
}
ONSTREAM_EITHER bool has_flag(const Line& line, const Flag& flag) {
  return static_cast<std::uint32_t>(line.low >> 32) == flag.low &&
         static_cast<std::uint32_t>(line.high >> 32) == flag.high;
}
// Whether a word of the line was written in the same epoch by another call.
ONSTREAM_EITHER bool is_other_call(const Line& line, const Flag& mine) {
  const auto differs = [](std::uint64_t word, std::uint32_t flag) {
    const auto there = static_cast<std::uint32_t>(word >> 32);
    return (there & 1) != 0 && there >> kFlagCallBits == flag >> kFlagCallBits && there != flag;
  };
  return differs(line.low, mine.low) || differs(line.high, mine.high);
}

// Counters only grow; the difference survives a wrap.
ONSTREAM_EITHER bool reached(std::uint64_t counter, std::uint64_t target) {
  return static_cast<std::int64_t>(counter - target) >= 0;
}

// The name of a collective in faults, and the signature that tells it from others.
struct Name {
  ONSTREAM_EITHER Name(OpKind what, std::uint64_t how_much, std::uint64_t call)
      : kind(what), bytes(how_much), signature(call) {}
  OpKind kind;
  std::uint64_t bytes;
  std::uint64_t signature;  // call.hpp
};

}  // namespace onstream::collective
