// The choice of a transfer's path, and its explanation.
//
// Pure functions of the table and of facts that both ends know, so that every rank comes to the same answer.
#pragma once

#include <cstdint>
#include <string>

#include "onstream/path/table.hpp"

namespace onstream::path {

// One end of a transfer.
struct End {
  bool kernel_access = true;  // its own rank's kernels may touch the memory, or the plan's substitute for it
  bool mapped = false;        // the other rank may load and store it
  bool gpu_memory = true;     // not in the host's
  bool cross_memory = false;  // the other rank reaches it by cross-memory attach
  std::string why_not;        // when not mapped
};

struct Transfer {
  Operation operation = Operation::plan;
  std::uint64_t bytes = 0;
  DeviceKind device = DeviceKind::host;
  bool same_rank = false;
  Path wanted = Path::automatic;
  std::string wanted_by;  // "set by use_path", "set by the parameter path"
  End source;
  End destination;
  std::uint64_t pieces = 1;  // contiguous on both sides; 0: more than kMaxPieces
  // Of a message: it may go through the ring of its tag, or by several blocks there.
  bool through_ring = true;
  bool spread_tag = false;
};

// The copy engine takes one command a piece; more than these cost more than any kernel.
constexpr std::uint64_t kMaxPieces = 256;
// The ring slots of path ll take four bytes a byte.
constexpr std::uint64_t kLargestLl = std::uint64_t{16} << 20;

enum class Reason {
  size,                // the rule claims the size
  asked,               // the call or a parameter names the path
  own_rank,            // both ends are of this rank
  own_rank_by_engine,  // and kernels cannot touch both
  left,                // no rule that comes before it can carry the transfer
  impossible           // no path can, or the one that is asked for cannot
};

struct Choice {
  Path path = Path::automatic;  // automatic: impossible
  Reason reason = Reason::impossible;
  const Rule* rule = nullptr;  // for size and left
};

// The unmet need of this rule; 0: the rule can carry the transfer.
unsigned unmet(const Rule& rule, const Transfer& transfer);
Choice choose(const Table& table, const Transfer& transfer);
// True if choose() needs to know whether the ends have peer mappings.
bool needs_mapping(const Table& table, const Transfer& transfer);

// "2 KiB <= ll_max_bytes 8 KiB", "set by use_path", or why nothing can carry it.
std::string why(const Table& table, const Transfer& transfer, const Choice& choice);
// The choice and, for each rule, its predicted time or the reason against it; one line each.
std::string explain(const Table& table, const Transfer& transfer);

}  // namespace onstream::path
