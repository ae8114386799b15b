// A collective call: the functions below make it, and Collective::run takes it.
//
// There is one function a kind; every rank of the team makes the same call, in the same order on each channel. `count`
// is in elements. In place: the same address as input and output where the result lies over the input (all_reduce,
// reduce, broadcast, all_to_all, scan), and input == output + rank * count where it lies beside (all_gather, gather) or
// is a part of it (reduce_scatter and scatter: output == input + rank * count). An all_gather_v at the receive offset
// of the rank; an all_to_all_v at the same address, with the same counts and offsets both ways. Any other overlap is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onstream/base/status.hpp"
#include "onstream/collective/call/types.hpp"
#include "onstream/path/algorithm.hpp"

namespace onstream {

// A reduction of one's own: inout[i] = in[i] op inout[i] for `count` elements, where `in` is of lower ranks than inout.
// Any associative one will do: the ranks stay in order. Called by whichever thread the collective runs in.
using Combine = std::function<void(const void* in, void* inout, std::size_t count)>;

namespace collective {
struct UserKernels;
}

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
  const collective::UserKernels* own = nullptr;
  std::vector<std::byte> own_state;  // its members; none: it has none
  std::uint64_t own_digest = 0;      // of which functor it is
  std::uint64_t stage_of = 0;        // the signature of the call that this is a stage of
  OpKind named = OpKind::none;       // in faults, where this is a part of another call; see name()
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

// The name, in faults, of a part of a call: kInCheck or kInStage (device/kernel/wait.hpp).
OpKind part_of(OpKind kind, std::uint32_t part);
bool has_root(OpKind kind);
bool has_op(OpKind kind);
bool is_v(OpKind kind);  // counts differ from rank to rank
// A number, with lowest bit 0, for the arguments that all ranks must pass alike: kind, type, algorithm, reduction,
// root, counts. If two calls differ in one of these alone (counts: by less than 2048), bits 1 to 11 always differ; else
// some bit does. `blocks` is the grid of a kernel that has as many blocks on every rank; calls that differ in it alone
// differ in another bit.
std::uint64_t signature_of(const CollectiveCall& call, Algorithm algorithm = Algorithm::simple, int blocks = 0);

bool is_of_neighbours(OpKind kind);  // for a Neighbourhood alone

// So many elements of so many bytes, for each of so many ranks, in bytes; the end of those behind an offset. Throw
// invalid_argument, with the values, for more than there are addresses.
std::size_t bytes_of(OpKind kind, std::size_t elements, std::size_t element_bytes, std::size_t ranks = 1);
std::size_t end_of(OpKind kind, std::size_t offset, std::size_t elements);
// The numbers of two parts that overlap, the one that begins first before the other; none if all lie apart. A part of
// no elements lies nowhere.
std::optional<std::pair<std::size_t, std::size_t>> overlapping(const std::vector<std::size_t>& offsets,
                                                               const std::vector<std::size_t>& counts);

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
// Calls of a neighbourhood (neighbourhood.hpp): the same `count` elements for each destination, or `count` for each,
// one after the other; the output has `count` of each source. neighbour_all_to_all_v has a count and an offset for
// each, to be filled in.
CollectiveCall neighbour_all_gather(const Vector& vector);
CollectiveCall neighbour_all_to_all(const Vector& vector);
CollectiveCall neighbour_all_to_all_v(const Vector& vector);

}  // namespace collective
}  // namespace onstream
