// The checks of a collective call on one rank, apart from those that look at memory.
//
// Each throws invalid_argument with the values, and changes nothing.
#pragma once

#include <vector>

#include "onstream/collective/call/call.hpp"

namespace onstream::collective {

// One rank's place in a team.
struct Place {
  const std::vector<int>& ranks;  // of the world, by their number in the team
  int rank;                       // in the team; -1: not in it
  int world_rank;

  int size() const { return static_cast<int>(ranks.size()); }
};

// All but where its buffers lie. A functor's kernels are the caller's to load.
void check_meaning(const CollectiveCall& call, const Place& place);
// This rank sends itself as much as it expects from itself.
void check_own_part(const CollectiveCall& call, const Place& place);
// Input of `in` bytes and output of `out` bytes lie apart, or as call.hpp allows.
void check_overlap(const CollectiveCall& call, const Place& place, std::size_t in, std::size_t out);

}  // namespace onstream::collective
