// The algorithms of collectives: one list, each with the calls that it can do and its predicted cost.
//
// cost.hpp predicts, refusal.hpp says why one cannot do a call. One whose choice is not only a matter of time is taken
// by its name alone.
#pragma once

#include <span>
#include <string>

#include "onstream/collective/select/refusal.hpp"

namespace onstream::collective {

struct AlgorithmRow {
  Algorithm algorithm;
  const char* what;
  // Apart from the conditions that all have in common.
  Refusal (*refuses)(const CollectiveCall& call, const MachineTraits& machine);
  double (*cost_us)(const CollectiveCall& call, const MachineTraits& machine);
  const char* never_by_itself = "";  // why it is taken only by calls that ask for it
  const char* own_order = "";        // the order in which it adds, where that is not the ranks' own
};

// Whether a broadcast of so many bytes by simple goes from rank to rank (simple_move.hpp); chain_bytes is
// collective_chain_bytes.
bool goes_from_rank_to_rank(std::uint64_t bytes, std::uint64_t ranks, std::uint64_t chain_bytes);

// Whether a call by simple asks the copy engine, on a machine's rank, where everybody can address all buffers
// (simple_move.hpp, engine_sums.hpp).
bool asks_engine(const CollectiveCall& call, const MachineTraits& machine);

std::span<const AlgorithmRow> algorithms();
// Whether it moves LL lines: then no rank needs to know where another's buffers are.
bool is_by_lines(Algorithm algorithm);
// Why this one cannot do the call: it never can, or not with the same bits as the others. why_not() in words.
Refusal refusal_of(const AlgorithmRow& row, const CollectiveCall& call, const MachineTraits& machine);
std::string why_not(const AlgorithmRow& row, const CollectiveCall& call, const MachineTraits& machine);
// The one that the call names, or the cheapest that can. Throws invalid_argument with the reason.
const AlgorithmRow& choose(const CollectiveCall& call, const MachineTraits& machine);
// All of them, with their costs or reasons; the chosen one first.
std::string explain(const CollectiveCall& call, const MachineTraits& machine);

}  // namespace onstream::collective
