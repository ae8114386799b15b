// The data that a collective without a reduction moves to and from each rank: which part of its buffers goes there, and
// which comes from there.
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

// The portion that `rank` exchanges with `peer`, in a call of a kind that moves.
Portion portion_of(const CollectiveCall& call, int rank, int peer);
// Whether the output of the call lies over data that it has still to send.
bool overwrites_itself(const CollectiveCall& call);

}  // namespace onstream::collective
