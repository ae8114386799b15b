#include "onstream/plan/network_edges.hpp"

#include "onstream/base/error.hpp"

namespace onstream::plan {

std::vector<Edge> take_network_edges(std::vector<Edge>& edges, const Fabric& fabric) {
  std::vector<Edge> between;
  std::erase_if(edges, [&](const Edge& edge) {
    const bool leaves = fabric.host_of(edge.source_rank) != fabric.host_of(edge.destination_rank);
    if (leaves) between.push_back(edge);
    return leaves;
  });
  return between;
}

void check_network_paths(const std::vector<Edge>& network_edges, const std::vector<Statement>& statements) {
  const auto stated = [&](int rank, int op) -> const StatedOp& {
    return statements[static_cast<std::size_t>(rank)].ops[static_cast<std::size_t>(op)];
  };
  std::string problems;
  for (const Edge& edge : network_edges) {
    const StatedOp& source = stated(edge.source_rank, edge.source_op);
    const WantedPath wanted = wanted_path(source, stated(edge.destination_rank, edge.destination_op));
    if (wanted.path == Path::automatic || wanted.path == Path::net) continue;
    problems += concat("\n  rank ", edge.source_rank, " op ", edge.source_op, ": ", describe(source), ": path ",
                       name_of(wanted.path), " (", wanted.by, ") needs one host, and rank ", edge.destination_rank,
                       " is on another; leave the path out, or ask for net");
  }
  if (problems.empty()) return;
  fail(ErrorCode::unsupported, "plan '", statements[0].name, "' cannot be built:", problems);
}

std::vector<NetworkOps::Move> network_moves(const std::vector<Edge>& network_edges, int rank,
                                            const std::vector<Op>& ops) {
  std::vector<NetworkOps::Move> moves;
  for (const Edge& edge : network_edges) {
    const bool sends = edge.source_rank == rank;
    if (!sends && edge.destination_rank != rank) continue;
    const int index = sends ? edge.source_op : edge.destination_op;
    const Op& op = ops[static_cast<std::size_t>(index)];
    moves.push_back({static_cast<std::uint32_t>(index), op.kind, op.peer, static_cast<std::byte*>(op.address),
                     op.layout.view(), op.layout.bytes()});
  }
  return moves;
}

}  // namespace onstream::plan
