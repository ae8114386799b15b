// Checking (parameter collective_check) for a neighbourhood: before a collective runs along its edges, the two ends of
// each edge compare their calls and numbers of elements, and the whole team refuses it if any two do not agree. Nothing
// is enqueued then, and nothing is broken.
//
// The hosts of the team wait for each other at every call. A captured call is checked when it is captured.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onstream/collective/enqueue/agreement.hpp"
#include "onstream/collective/neighbour/edge_list.hpp"

namespace onstream::collective {

class EdgeChecking {
 public:
  // Collective over the world; `ranks` are the team's.
  EdgeChecking(Fabric& fabric, std::vector<int> ranks);
  // Throws invalid_argument, the same on every rank of the team, naming both ends of an edge and the call of each.
  void check(Fabric& fabric, const CollectiveCall& call, const EdgeList& edges);

 private:
  std::mutex mutex_;
  std::vector<int> ranks_;
  Agreement agreement_;
  std::uint64_t number_ = 0;
};

}  // namespace onstream::collective
