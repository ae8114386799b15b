// The data that a call moves along each edge of a neighbourhood: a pure function of the call and this rank's edges.
#pragma once

#include <cstddef>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/neighbour/edge_list.hpp"

namespace onstream::collective {

// At one end of an edge, in bytes.
struct EdgePart {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// There is a part for each place in the lists of edges, also where a grid ends.
struct Parts {
  std::vector<EdgePart> out;  // of the input
  std::vector<EdgePart> in;   // of the output
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  std::size_t most = 0;  // along one edge
};

// Throws invalid_argument if the call has not a count and an offset for each edge, or more than there are addresses.
Parts parts_of(const CollectiveCall& call, const EdgeList& edges);

}  // namespace onstream::collective
