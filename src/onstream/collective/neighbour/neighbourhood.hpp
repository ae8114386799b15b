// Neighbourhoods: a graph of the ranks that exchange data, made once, and the collectives along its edges.
//
//   const auto hood = world.collective().neighbourhood(NeighbourGrid{{4, 2}, {true, false}});
//   hood->run(collective::neighbour_all_to_all({input, output, count, ElementType::float64}), stream);
//
// A grid has MPI's order: for each dimension the lower neighbour, then the upper one; ranks are numbered with the last
// dimension the fastest. Where a grid that is not periodic ends there is no neighbour (-1): its place in the buffers
// stays as it is. The lower neighbour receives this rank's data as from its upper one, also where both are the same
// rank, or this one. In a graph the n-th edge that a rank names to another is the n-th that the other names from it.
//
// Collectives of a neighbourhood run one after the other; those of different ones, and of channels, may run at once.
// All of the team call the same, in the same order; an end of an edge waits for its other end alone. Both give the same
// number of bytes for it: else the world fails, naming both ranks and numbers; with parameter collective_check the
// whole team refuses the call before it runs (edge_checking.hpp), and nothing fails; only a rank whose own arguments
// cannot work throws alone, and the others then wait for it to the deadline. A plan's build compares the same, and then
// refuses it on every rank. Input and output must not overlap.
// Ordering on streams, memory, waits and errors are as in collective.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/device/device.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace plan {
class PlannedCall;
}
namespace collective {
class BlockBudget;
}

struct NeighbourGrid {
  std::vector<int> dims;       // their product is the team's size
  std::vector<bool> periodic;  // empty: none
};

// This rank's edges, by ranks of the team.
struct NeighbourGraph {
  std::vector<int> sources;
  std::vector<int> destinations;
};

class Neighbourhood {
 public:
  // Collective over the world; `ranks` are the team's. Throws invalid_argument on every rank if some argument of some
  // rank cannot be, or an edge is not named by both its ends, and says which.
  Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& budget, const std::vector<int>& ranks,
                const NeighbourGrid& grid);
  Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& budget, const std::vector<int>& ranks,
                const NeighbourGraph& graph);
  ~Neighbourhood();
  Neighbourhood(const Neighbourhood&) = delete;
  Neighbourhood& operator=(const Neighbourhood&) = delete;

  // The ranks in the order of the buffers; -1 where a grid ends.
  const std::vector<int>& sources() const;
  const std::vector<int>& destinations() const;

  void run(const CollectiveCall& call, Stream stream);
  // Returns when this rank's part is done. Throws the story if the world failed meanwhile: timeout where this rank's
  // own deadline passed, else aborted.
  void run(const CollectiveCall& call);
  // For PlanBuilder::add, as Collective::planned().
  std::shared_ptr<const plan::PlannedCall> planned(const CollectiveCall& call) const;
  std::size_t device_bytes() const;

 private:
  class Implementation;
  class Planned;
  std::shared_ptr<Implementation> implementation_;  // plans share it
};

}  // namespace onstream
