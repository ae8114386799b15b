// Rule: one way to do an operation over a link: the sizes that take it, its needs, and its predicted cost.
//
// The table (table.hpp) holds all rules of a world. Transfers (messages, plans, one-sided copies) take the first rule
// that claims their size and can carry them (choose.hpp). Collectives take the algorithm that costs least
// (collective/select/).
#pragma once

#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/path.hpp"

namespace onstream::path {

enum class Operation {
  message,  // send and receive, in the order of their stream or of the calling thread
  posted,   // isend and irecv: the other side may come later than the wait
  plan,     // a send and its receive within a plan
  put,      // a put, a get or a copy of one-sided operations
  collective,
};
constexpr int kOperations = 5;

// What joins the ranks of an operation: the memory of a host whose ranks have a core each, or share cores, or NVLink.
enum class Link { host, crowded_host, cuda };
constexpr int kLinks = 3;

const char* name_of(Operation operation);
const char* name_of(Link link);
Link link_of(DeviceKind device, bool crowded = false);

// Facts of a transfer without which a rule cannot carry it; combined by `|`.
enum Needs : unsigned {
  kNothing = 0,
  kSourceAccess = 1,         // kernels of the source's rank can access it
  kDestinationAccess = 2,    // kernels of the destination's rank can access it
  kSourceMapped = 4,         // the destination's rank can load from the source
  kDestinationMapped = 8,    // the source's rank can store to the destination
  kFewPieces = 16,           // contiguous pieces on both sides that the copy engine can take
  kOneSideCopies = 32,       // kernels can access both ends, or the pieces are few
  kFitsLl = 64,              // not more than the LL slots of a plan carry
  kSourceInGpuMemory = 128,  // where the copy engine and loads of a peer are fast
  kSpreadTag = 256,          // a tag through whose ring several blocks may send, of a message that does not wait there
  kThroughRing = 512,        // a message that may lie in its tag's ring until its receive comes
  kCrossMemory = 1024,       // the peer reaches the source by the system alone (cross-memory attach)
};

// A predicted time in microseconds. A transfer takes base_us + bytes / bytes_per_us. A collective adds the other terms
// as often as its algorithm has them (collective/select/cost.cpp).
struct Cost {
  double base_us = 0;           // at rest
  double bytes_per_us = 0;      // out of one rank; 0: nobody has measured this rule
  double peer_us = 0;           // for each other rank
  double round_us = 0;          // for more rounds, or more blocks, before the bandwidth shows
  double trip_us = 0;           // for a second trip, after which sums are back
  double trip_peer_us = 0;      // more for each other rank
  double step_us = 0;           // for each step from rank to rank
  double sum_weight = 1;        // a byte that is added takes this many times as long as one that is moved
  double broadcast_weight = 1;  // a byte of a broadcast takes this part, as the root alone sends
  double one_shot_bytes = 0;    // of more than these each rank does not add up all by itself

  bool measured() const { return bytes_per_us > 0; }
  double of_bytes(double bytes) const { return base_us + bytes / bytes_per_us; }
};

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

struct Rule {
  Operation operation = Operation::message;
  Link link = Link::host;
  Path path = Path::automatic;                 // of a transfer
  Algorithm algorithm = Algorithm::automatic;  // of a collective
  OpKind kind = OpKind::none;                  // of a collective; none: every kind
  std::uint64_t from_bytes = 0;
  std::uint64_t to_bytes = kNoLimit;
  const char* from_parameter = "";  // the parameter that sets the bound; "": none does
  const char* to_parameter = "";
  unsigned needs = kNothing;
  bool by_request = false;  // only where the call or a parameter names it
  Cost cost;

  bool claims(std::uint64_t bytes) const { return bytes >= from_bytes && bytes <= to_bytes; }
  const char* way() const;  // the name of its path or algorithm
};

}  // namespace onstream::path
