// Routes: the path of every matched send and receive of a plan, and where its slots, flags and bounce buffers lie.
//
// All of it is a pure function of the statements and the peer mappings, so every rank knows every other's layout of the
// plan's segment without asking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onstream/path/choose.hpp"
#include "onstream/plan/build/match.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::plan {

struct Route {
  Edge edge;
  path::Transfer transfer;
  path::Choice choice;
  std::uint64_t destination_address = 0;  // as the source's rank sees it, when exported
  std::uint64_t source_address = 0;       // as the destination's rank sees it, when exported
  LayoutView destination_layout;
  LayoutView source_layout;
  std::uint64_t slots_offset = 0;  // ll: two slots in the receiver's segment
  std::uint64_t slot_lines = 0;
  std::uint64_t bounce_offset = 0;  // stage: in the receiver's segment
  std::uint64_t flag_offset = 0;    // in the segment of the end that waits for the move
  std::uint64_t ready_offset = 0;   // memop: in the source's words, where the receiver says that it is ready
  std::uint64_t done_offset = 0;    // memop: in the destination's words
  bool asks = false;                // ll: the sender waits for the receiver's announcement

  bool local() const { return edge.source_rank == edge.destination_rank; }
};

// One rank's account of its end of a route, by index of the route: where the other end sees it, or why it does not.
struct PeerExport {
  std::uint64_t route = 0;
  std::uint64_t address = 0;
  bool exported = false;
  std::string why_not;
};
std::string pack(const std::vector<PeerExport>& peer_exports);
std::vector<PeerExport> unpack_exports(std::string_view bytes);

std::vector<Route> routes_of(const std::vector<Statement>& statements, const std::vector<Edge>& edges,
                             DeviceKind device);

// Chooses all paths. Throws invalid_argument naming both ends of every route that has none.
void choose_paths(std::vector<Route>& routes, const std::vector<Statement>& statements, const path::Table& table);

// The symmetric memory that the plan needs, the same for every rank.
struct Room {
  std::uint64_t bytes = 0;       // of device memory
  std::uint64_t word_bytes = 0;  // of pinned memory, for path memop; may be 0
};
// Fills the offsets and `asks`.
Room place(std::vector<Route>& routes, int ranks);

// The word in a rank's segment where `announcer` announces its launches.
constexpr std::uint64_t announcement_offset(int announcer) { return static_cast<std::uint64_t>(announcer) * 64; }

}  // namespace onstream::plan
