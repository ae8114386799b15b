// Path and Algorithm: how bytes travel for an op, and how a collective is done. docs/paths.md says how they are chosen.
#pragma once

#include <cstdint>
#include <string>

namespace onstream {

// How bytes travel for an op.
//
// ll: data and flag in one store. store: the sender's kernel writes into the destination. load: the receiver's kernel
// reads from the source. copy: the copy engine writes into the destination. stage: through a bounce buffer.
// memop: the copy engine between words that the streams themselves write and wait for, with no thread block; of plans.
// net: a network. automatic leaves it to the world's table of paths.
enum class Path : std::int32_t { automatic = 0, ll, store, load, copy, stage, net, memop };

const char* name_of(Path path);
Path path_from(const std::string& name);  // throws invalid_argument listing those that work

// How a collective is done.
//
// `ll`, `two_shot`, `ll128` and `simple` give the same bits, on every rank and for every size; automatic takes none but
// these four. The others may give other bits where the order of adding matters (order_matters).
enum class Algorithm : std::uint32_t {
  automatic,         // the cheapest by prediction
  ll,                // everything to everybody, as LL lines
  two_shot,          // all_reduce: parts to their owners and sums to all, as LL lines
  ll128,             // all_reduce, reduce_scatter, all_gather, all_to_all, broadcast: lines of 128 bytes with one flag
  simple,            // from buffer to buffer, or through the stage
  copy,              // moves only: by the copy engine, without any kernel; buffers that peers can address
  ring,              // round the ranks in both directions; sums in the order of the ring
  tree,              // up and down a binomial tree; sums in the order of the tree
  halving_doubling,  // halves of halves with partners, and back; sums by pairs
  hierarchical       // in stages: within groups of ranks, and across them; sums of the groups' sums
};
constexpr int kAlgorithms = 10;

const char* name_of(Algorithm algorithm);
Algorithm algorithm_of(const std::string& name);  // throws invalid_argument listing those that exist

}  // namespace onstream
