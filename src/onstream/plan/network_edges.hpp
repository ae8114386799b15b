// The edges of a plan between ranks of different hosts, which network_ops.hpp runs: which they are, and this rank's
// ends.
#pragma once

#include <string>
#include <vector>

#include "onstream/plan/build/match.hpp"
#include "onstream/plan/network_ops.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::plan {

// Takes them out of `edges`. The order of both stays.
std::vector<Edge> take_network_edges(std::vector<Edge>& edges, const Fabric& fabric);

// Throws unsupported, the same on every rank, if one of them asks for a path that only one host has.
void check_network_paths(const std::vector<Edge>& network_edges, const std::vector<Statement>& statements);

// This rank's ends, in the order of the edges.
std::vector<NetworkOps::Move> network_moves(const std::vector<Edge>& network_edges, int rank,
                                            const std::vector<Op>& ops);

}  // namespace onstream::plan
