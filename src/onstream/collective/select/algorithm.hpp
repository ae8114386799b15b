// The algorithms of collectives: one list, each with the calls that it can do and its predicted cost.
//
// The prediction is a time at rest plus bytes over a bandwidth; the figures are of one machine of each kind, and only
// their order matters. An algorithm that cannot do a call says why; one whose choice is not only a matter of time is
// taken by its name alone.
#pragma once

#include <span>
#include <string>

#include "onstream/collective/call/call.hpp"
#include "onstream/device/device.hpp"

namespace onstream::collective {

// The calls that may ask the copy engine to move data (collective_engine): none; those with large data; all.
enum class EngineUse { off, large, on };

// The properties, apart from the call, on which a choice depends.
struct Machine {
  DeviceKind device = DeviceKind::host;
  int rank = 0;
  int size = 1;
  std::size_t slot_bytes = 0;                     // of data in one slot
  std::size_t ll128_bytes = 0;                    // of data in one slot of LL128 lines; 0: there are none
  int group = 0;                                  // ranks of a group (collective_group); 0: there are no groups
  std::uint64_t chain_bytes = ~std::uint64_t{0};  // collective_chain_bytes
  EngineUse engine = EngineUse::off;              // collective_engine
  bool crowded = false;                           // some host has more ranks than cores
};

struct AlgorithmRow {
  Algorithm algorithm;
  const char* what;
  // "" or why it cannot, apart from the conditions that all have in common.
  std::string (*why_not)(const CollectiveCall& call, const Machine& machine);
  double (*cost_us)(const CollectiveCall& call, const Machine& machine);
  const char* never_by_itself = "";  // why it is taken only by calls that ask for it
  const char* own_order = "";        // the order in which it adds, where that is not the ranks' own
};

// Whether a broadcast of so many bytes by direct goes from rank to rank (simple_move.hpp); chain_bytes is
// collective_chain_bytes.
bool goes_from_rank_to_rank(std::uint64_t bytes, std::uint64_t ranks, std::uint64_t chain_bytes);

// Whether a call by direct asks the copy engine, on a machine's rank, where everybody can address all buffers
// (simple_move.hpp, engine_sums.hpp).
bool asks_engine(const CollectiveCall& call, const Machine& machine);

// Whether a call by LL128 lines goes in two shots: an all_reduce so large that a second trip takes less time than each
// rank's extra sending and adding if every rank added up all of it (docs/decisions/0011).
bool ll128_in_two_shots(const CollectiveCall& call, const Machine& machine);

// Up to how many bytes along each of so many edges lines are predicted to be faster than buffer to buffer.
std::size_t most_by_lines(DeviceKind device, bool crowded, int edges);

std::span<const AlgorithmRow> algorithms();
// Whether it moves LL lines: then no rank needs to know where another's buffers are.
bool is_by_lines(Algorithm algorithm);
// "" or why this one cannot do the call: it never can, or not with the same bits as the others.
std::string why_not(const AlgorithmRow& row, const CollectiveCall& call, const Machine& machine);
// The one that the call names, or the cheapest that can. Throws invalid_argument with the reason.
const AlgorithmRow& choose(const CollectiveCall& call, const Machine& machine);
// All of them, with their costs or reasons; the chosen one first.
std::string explain(const CollectiveCall& call, const Machine& machine);

}  // namespace onstream::collective
