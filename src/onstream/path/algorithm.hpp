// Algorithm: how a collective is done.
#pragma once

#include <cstdint>
#include <string>

namespace onstream {

// `ll`, `two_shot`, `ll128` and `simple` give the same bits, on every rank and for every size; automatic takes none but
// these four. The others may give other bits where the order of adding matters (order_matters in types.hpp).
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
