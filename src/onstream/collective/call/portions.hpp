// What a collective that only moves has to do with each rank: which part of its buffers goes there, and which comes
// from there.
#pragma once

#include <cstdint>

#include "onstream/collective/call/call.hpp"

namespace onstream::collective {

// Between this rank and one other, itself too. Offsets are in this rank's own buffers.
struct Portion {
  std::uint64_t send_offset = 0;
  std::uint64_t send_bytes = 0;
  std::uint64_t receive_offset = 0;
  std::uint64_t receive_bytes = 0;
};

// Of a call of a kind that moves, on `rank`, with `peer`.
Portion portion_of(const CollectiveCall& call, int rank, int peer);
// Whether its output lies over what it has still to send.
bool overwrites_itself(const CollectiveCall& call);

}  // namespace onstream::collective
