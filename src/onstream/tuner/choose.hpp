// Which path a transfer of a plan takes, and why.
//
// Pure functions of facts that both ends know, so that every rank comes to the same answer. The thresholds are
// parameters.
#pragma once

#include <cstdint>
#include <string>

#include "onstream/base/parameters.hpp"
#include "onstream/device/device.hpp"
#include "onstream/tuner/path.hpp"

namespace onstream {

// One end of a transfer.
struct End {
  bool kernel_access = true;  // its own rank's kernels may touch the memory, or the plan's substitute for it
  bool exposed = false;       // the other rank may load and store it
  std::string why_not;        // when not exposed
};

struct Transfer {
  std::uint64_t bytes = 0;
  DeviceKind device = DeviceKind::host;
  bool same_rank = false;
  Path wanted = Path::automatic;
  std::string wanted_by;  // "set by use_path", "set by the parameter path"
  End source;
  End destination;
  std::uint64_t pieces = 0;  // contiguous on both sides; 0: more than kMaxPieces
};

// The copy engine takes one command a piece; more than these cost more than any kernel.
constexpr std::uint64_t kMaxPieces = 256;
// The ring slots of path ll take four bytes a byte.
constexpr std::uint64_t kLargestLl = std::uint64_t{16} << 20;

struct Choice {
  Path path = Path::automatic;  // automatic: the wanted path cannot work
  std::string why;              // why this path, or why the wanted one cannot work
};

// True if choose() needs to know whether the ends have peer mappings.
bool needs_exposure(const Transfer& transfer, const Parameters& parameters);
Choice choose(const Transfer& transfer, const Parameters& parameters);

}  // namespace onstream
