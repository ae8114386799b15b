#include "onstream/plan/build/route.hpp"

#include <algorithm>
#include <set>

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/plan/build/packing.hpp"
#include "onstream/plan/kernel/view.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::plan {

namespace {

constexpr std::uint64_t kFlagAlignment = 64;  // flags of two edges never share a cache line
constexpr std::uint64_t kFlagBytes = kMostParts * sizeof(std::uint64_t);
constexpr std::uint64_t kPlaceAlignment = 256;

const StatedOp& source_of(const std::vector<Statement>& statements, const Edge& edge) {
  return statements[static_cast<std::size_t>(edge.source_rank)].ops[static_cast<std::size_t>(edge.source_op)];
}
const StatedOp& destination_of(const std::vector<Statement>& statements, const Edge& edge) {
  return statements[static_cast<std::size_t>(edge.destination_rank)].ops[static_cast<std::size_t>(edge.destination_op)];
}

// Ordered pairs (waiter, other): in every launch, the waiter waits for something that the other does in that launch.
std::set<std::pair<int, int>> waits_of(const std::vector<Route>& routes) {
  std::set<std::pair<int, int>> waits;
  for (const Route& route : routes) {
    const int source = route.edge.source_rank, destination = route.edge.destination_rank;
    waits.insert({destination, source});
    if (route.choice.path != Path::ll) waits.insert({source, destination});
  }
  return waits;
}

}  // namespace

std::string pack(const std::vector<PeerExport>& peer_exports) {
  PackWriter writer;
  for (const PeerExport& one : peer_exports) {
    writer.number(one.route);
    writer.number(one.address);
    writer.number(static_cast<std::uint64_t>(one.exported));
    writer.text(one.why_not);
  }
  return writer.take();
}

std::vector<PeerExport> unpack_exports(std::string_view bytes) {
  PackReader reader(bytes);
  std::vector<PeerExport> peer_exports;
  while (!reader.empty()) {
    PeerExport one;
    one.route = reader.number<std::uint64_t>();
    one.address = reader.number<std::uint64_t>();
    one.exported = reader.number<std::uint64_t>() != 0;
    one.why_not = reader.text();
    peer_exports.push_back(std::move(one));
  }
  return peer_exports;
}

std::vector<Route> routes_of(const std::vector<Statement>& statements, const std::vector<Edge>& edges,
                             DeviceKind device) {
  std::vector<Route> routes;
  for (const Edge& edge : edges) {
    const StatedOp& source = source_of(statements, edge);
    const StatedOp& destination = destination_of(statements, edge);
    const WantedPath wanted = wanted_path(source, destination);
    Route route;
    route.edge = edge;
    route.source_layout = source.layout;
    route.destination_layout = destination.layout;
    path::Transfer& transfer = route.transfer;
    transfer.bytes = source.bytes;
    transfer.device = device;
    transfer.same_rank = route.local();
    transfer.wanted = wanted.path;
    transfer.wanted_by = wanted.by;
    transfer.source.kernel_access = source.kernel_access != 0;
    transfer.destination.kernel_access = destination.kernel_access != 0;
    const auto pieces = pieces_of(destination.layout, source.layout, path::kMaxPieces);
    transfer.pieces = pieces ? std::max<std::uint64_t>(1, pieces->size()) : 0;
    routes.push_back(route);
  }
  return routes;
}

void choose_paths(std::vector<Route>& routes, const std::vector<Statement>& statements, const path::Table& table) {
  std::string problems;
  for (Route& route : routes) {
    route.choice = choose(table, route.transfer);
    if (route.choice.path != Path::automatic) continue;
    const Edge& edge = route.edge;
    problems += concat("\n  rank ", edge.source_rank, " op ", edge.source_op, ": ",
                       describe(source_of(statements, edge)), " -> rank ", edge.destination_rank, " op ",
                       edge.destination_op, ": ", why(table, route.transfer, route.choice));
  }
  require(problems.empty(), "plan '", statements[0].name, "' cannot be built:", problems);
}

Room place(std::vector<Route>& routes, int ranks) {
  std::vector<std::uint64_t> used(static_cast<std::size_t>(ranks), announcement_offset(ranks));
  std::vector<std::uint64_t> words(static_cast<std::size_t>(ranks), 0);
  const auto take = [](std::uint64_t& end, std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t offset = (end + alignment - 1) / alignment * alignment;
    end = offset + bytes;
    return offset;
  };
  const std::set<std::pair<int, int>> waits = waits_of(routes);
  for (Route& route : routes) {
    if (route.local()) continue;
    const int source = route.edge.source_rank, destination = route.edge.destination_rank;
    const auto at_source = static_cast<std::size_t>(source), at_destination = static_cast<std::size_t>(destination);
    if (route.choice.path == Path::ll) {
      route.slot_lines = std::max<std::uint64_t>(1, (route.transfer.bytes + 7) / 8);
      route.slots_offset = take(used[at_destination], 2 * route.slot_lines * sizeof(Line), kPlaceAlignment);
      route.asks = !waits.contains({source, destination});
      continue;
    }
    if (route.choice.path == Path::memop) {
      route.ready_offset = take(words[at_source], kFlagBytes, kFlagAlignment);
      route.done_offset = take(words[at_destination], kFlagBytes, kFlagAlignment);
      continue;
    }
    route.flag_offset =
        take(used[route.choice.path == Path::load ? at_source : at_destination], kFlagBytes, kFlagAlignment);
    if (route.choice.path == Path::stage) {
      route.bounce_offset = take(used[at_destination], route.transfer.bytes, kPlaceAlignment);
    }
  }
  return {*std::max_element(used.begin(), used.end()), *std::max_element(words.begin(), words.end())};
}

}  // namespace onstream::plan
