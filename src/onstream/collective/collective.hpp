// Collective ops of a team of ranks: all of a world's ranks (World::collective()), or some.
//
//   world.collective().run(collective::all_reduce({input, output, count, ElementType::float64}), stream);
//
// A call is ordered on its stream, captured or not; or the host waits for it. Every rank of the team makes the same
// calls in the same order on each channel. Collectives of one channel run one after the other: outside of captures, one
// that is enqueued on another stream than the one before waits for it. Collectives that shall run at once (on several
// streams, or in graphs that are launched at once) need a channel each.
//
// A channel's memory is made by its first collective: that call waits for the other ranks' hosts. The same holds for
// the first collective with a buffer, which peers then map. All later calls enqueue and return.
//
// Buffers may be any that kernels can access, and must live until the collective is done. A Collective may go before
// that, and does not wait for it: the world's end does. Errors: arguments that cannot work throw Error. A rank that
// does not come fails the world at the deadline, as everywhere: the fault names the collective, and the rank that it
// waited for.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/device/device.hpp"

namespace onstream {

namespace plan {
class PlannedCall;
}
class Fabric;
class Neighbourhood;
struct NeighbourGrid;
struct NeighbourGraph;

class Collective {
 public:
  // The team of all ranks. Not collective by itself.
  explicit Collective(std::shared_ptr<Fabric> fabric);
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  // This rank's number in the team; -1: not in it. How many they are, and which of the world's.
  int rank() const;
  int size() const;
  const std::vector<int>& ranks() const;

  void run(const CollectiveCall& call, Stream stream);
  // Returns when this rank's part is done. Throws the story if the world failed meanwhile: timeout where this rank's
  // own deadline passed, else aborted.
  void run(const CollectiveCall& call);
  // Throws the error that run() would throw for its arguments; enqueues nothing, and meets nobody.
  void check(const CollectiveCall& call) const;
  // For PlanBuilder::add: checked now, prepared where a plan is built with it, enqueued by each launch of the plan.
  std::shared_ptr<const plan::PlannedCall> planned(const CollectiveCall& call) const;
  // Loads the kernels of a functor of yours: load<F>(collective) of user_op.hpp.
  void load(const collective::UserKernels& kernels);
  // Which algorithm the call takes and why, and the predicted cost of the others.
  std::string explain(const CollectiveCall& call) const;

  // The collectives among some ranks. Collective over the world: every rank names the world's ranks of its own team, in
  // the order in which they shall be numbered (a Team's members()), or none. Teams need not have anything to do with
  // each other. All channels are made now.
  std::shared_ptr<Collective> among(std::span<const int> ranks, int channels = 1) const;

  // Makes the neighbourhood of a grid or graph, see neighbourhood.hpp. Collective over the world: each rank calls it on
  // its own team.
  std::shared_ptr<Neighbourhood> neighbourhood(const NeighbourGrid& grid) const;
  std::shared_ptr<Neighbourhood> neighbourhood(const NeighbourGraph& graph) const;

  std::size_t device_bytes() const;  // of the channels that there are

 private:
  class Implementation;
  class Planned;
  class CompiledCall;
  explicit Collective(std::shared_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;  // plans share it
};

}  // namespace onstream
