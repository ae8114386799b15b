// Questions about a CollectiveCall (onstream/collective.hpp), for the library itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "onstream/collective.hpp"

namespace onstream::collective {

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

}  // namespace onstream::collective
