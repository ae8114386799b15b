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
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/path.hpp"

namespace onstream {

class Fabric;
class Neighbourhood;
struct NeighbourGrid;
struct NeighbourGraph;
namespace plan {
class PlannedCall;
}
namespace collective {
class BlockBudget;
struct UserKernels;
}  // namespace collective
namespace lane {
class NetworkLanes;
}

// --- element types and reductions ---

// A pair (value and index of the same width, the value first) is for minloc and maxloc alone.
enum class ElementType : std::uint32_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,
  float8_e5m2,
  complex64,
  complex128,
  float32_int32,
  float64_int64,
  int32_int32,
  int64_int64,
};
constexpr int kElementTypes = 20;

// avg divides the sum by the number of ranks (integers: the sum as it wraps in their bits, towards zero, as NCCL does).
// premulsum multiplies every rank's input by that rank's own factor first. minloc and maxloc keep the lower index of
// equal values.
enum class ReduceOp : std::uint32_t { sum, prod, min, max, avg, band, bor, bxor, minloc, maxloc, premulsum };
constexpr int kReduceOps = 11;

const char* name_of(ElementType type);
const char* name_of(ReduceOp op);
std::size_t size_of(ElementType type);
// The type or op of that name, as above. Throws invalid_argument with those that exist.
ElementType element_type_of(std::string_view name);
ReduceOp reduce_op_of(std::string_view name);
// Whether `op` has a meaning for `type`: bits are for integers, order is not for complex numbers.
bool supports(ElementType type, ReduceOp op);
// Whether the bits of a result depend on the order in which inputs are added, or on where partial sums are rounded: of
// all that is floating point (sums are rounded; minima and maxima meet zeros of both signs and several NaNs).
bool order_matters(ElementType type);
// The type in which sums of `type` are made until they are rounded once: float32 for floating point of 16 and 8 bits,
// else, and where nothing is rounded, the type itself.
ElementType type_of_sums(ElementType type, ReduceOp op);

// --- calls ---

// A reduction of one's own: inout[i] = in[i] op inout[i] for `count` elements, where `in` is of lower ranks than inout.
// Any associative one will do: the ranks stay in order. Called by whichever thread the collective runs in.
using Combine = std::function<void(const void* in, void* inout, std::size_t count)>;

// The functions below make it, and Collective::run takes it.
//
// There is one function a kind; every rank of the team makes the same call, in the same order on each channel. `count`
// is in elements. In place: the same address as input and output where the result lies over the input (all_reduce,
// reduce, broadcast, all_to_all, scan), and input == output + rank * count where it lies beside (all_gather, gather) or
// is a part of it (reduce_scatter and scatter: output == input + rank * count). An all_gather_v at the receive offset
// of the rank; an all_to_all_v at the same address, with the same counts and offsets both ways. Any other overlap is
// refused.
struct CollectiveCall {
  OpKind kind = OpKind::none;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // see each kind
  ElementType type = ElementType::uint8;
  ReduceOp op = ReduceOp::sum;
  double factor = 1;            // premulsum of floating point and complex numbers
  std::int64_t int_factor = 1;  // premulsum of integers
  int root = 0;
  Combine combine;  // instead of type and op, on elements of so many bytes
  std::size_t element_bytes = 0;
  // Instead of type and op, too: a functor (user_op.hpp). Then `count` is in bytes, of whole elements.
  const collective::UserKernels* user_kernels = nullptr;
  std::vector<std::byte> user_state;  // its members; none: it has none
  std::uint64_t user_digest = 0;      // of which functor it is
  std::uint64_t stage_of = 0;         // the signature of the call that this is a stage of
  OpKind named = OpKind::none;        // in faults, where this is a part of another call; see name()
  // all_to_all_v and all_gather_v: for each rank of the team, in elements.
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> send_offsets;
  std::vector<std::size_t> receive_counts;
  std::vector<std::size_t> receive_offsets;

  int channel = 0;  // collectives of one channel run one after the other, those of different ones may run at once
  Algorithm algorithm = Algorithm::automatic;
  // Refuses each algorithm that adds in another order than that of the ranks, where that changes bits (order_matters).
  // An algorithm that the library chooses never does so.
  bool deterministic = false;

  OpKind name() const { return named == OpKind::none ? kind : named; }  // in faults
  // The size of this rank's buffers, in bytes. Throws invalid_argument, where all counts are the same on every rank, if
  // it is larger than the address space.
  std::size_t input_bytes(int rank, int size) const;
  std::size_t output_bytes(int rank, int size) const;
};

namespace collective {

// The arguments of most collectives.
struct Vector {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ElementType type = ElementType::uint8;
};

// `count` elements of every rank, reduced, for every rank; for the root; up to each rank; below each rank (the first
// rank's output stays as it is).
CollectiveCall all_reduce(const Vector& vector, ReduceOp op = ReduceOp::sum);
CollectiveCall reduce(const Vector& vector, ReduceOp op, int root);
CollectiveCall scan(const Vector& vector, ReduceOp op = ReduceOp::sum);
CollectiveCall exclusive_scan(const Vector& vector, ReduceOp op = ReduceOp::sum);
// `count` elements of the result for each rank; the input has size times as many.
CollectiveCall reduce_scatter(const Vector& vector, ReduceOp op = ReduceOp::sum);
// `count` elements of the root for all; only the root's input matters.
CollectiveCall broadcast(const Vector& vector, int root);
// `count` elements of each rank; the output has size times as many.
CollectiveCall all_gather(const Vector& vector);
CollectiveCall gather(const Vector& vector, int root);
// `count` elements for each rank; the input has size times as many, and so has the output of all_to_all.
CollectiveCall scatter(const Vector& vector, int root);
CollectiveCall all_to_all(const Vector& vector);
CollectiveCall barrier();
// Any reduction above by a function, the same on every rank; type and op of the call do not matter. On the host device
// alone. An exception from the function fails the world. For cuda too there is reduced_with (user_op.hpp), which takes
// a functor.
CollectiveCall reduced_by(CollectiveCall call, std::size_t element_bytes, Combine combine);
// Calls of a neighbourhood: the same `count` elements for each destination, or `count` for each, one after the other;
// the output has `count` of each source. neighbour_all_to_all_v has a count and an offset for each, to be filled in.
CollectiveCall neighbour_all_gather(const Vector& vector);
CollectiveCall neighbour_all_to_all(const Vector& vector);
CollectiveCall neighbour_all_to_all_v(const Vector& vector);

}  // namespace collective

// --- teams ---

class Collective {
 public:
  // The team of all ranks. Not collective by itself, except where `lanes` say that the world spans hosts.
  Collective(std::shared_ptr<Fabric> fabric, std::shared_ptr<lane::NetworkLanes> lanes);
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

  // Makes the neighbourhood of a grid or graph. Collective over the world: each rank calls it on
  // its own team.
  std::shared_ptr<Neighbourhood> neighbourhood(const NeighbourGrid& grid) const;
  std::shared_ptr<Neighbourhood> neighbourhood(const NeighbourGraph& graph) const;

  std::size_t device_bytes() const;  // of the channels that there are

 private:
  class Implementation;
  class PlannedCollective;
  class CompiledCall;
  explicit Collective(std::shared_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;  // plans share it
};

// --- neighbourhoods ---

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
// Ordering on streams, memory, waits and errors are those of a Collective.

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
  // Collective over the world; `ranks` are the team's, `lanes` those of a world of several hosts. Throws
  // invalid_argument on every rank if some argument of some rank cannot be, or an edge is not named by both its ends,
  // and says which.
  Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& room,
                std::shared_ptr<lane::NetworkLanes> lanes, const std::vector<int>& ranks, const NeighbourGrid& grid);
  Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& room,
                std::shared_ptr<lane::NetworkLanes> lanes, const std::vector<int>& ranks, const NeighbourGraph& graph);
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
  class PlannedExchange;
  std::shared_ptr<Implementation> implementation_;  // plans share it
};

}  // namespace onstream
