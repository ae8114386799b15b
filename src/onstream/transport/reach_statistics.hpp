// Counts of one rank's registration cache (reach.hpp), and its contents.
#pragma once

#include <cstdint>
#include <string>

#include "onstream/base/text.hpp"

namespace onstream {

struct ReachStatistics {
  // Look-ups, since the world was made.
  std::uint64_t hits = 0;         // answered from the cache
  std::uint64_t misses = 0;       // the peer was asked to map an allocation
  std::uint64_t failures = 0;     // ... and could not
  std::uint64_t unreachable = 0;  // of memory that cannot leave its process
  std::uint64_t stale = 0;        // allocations that were dropped, as they had been freed
  // Present registrations; segments are not counted.
  std::uint64_t exposed = 0;  // allocations of this rank, once for each peer that maps them
  std::uint64_t exposed_bytes = 0;
  std::uint64_t imported = 0;  // peers' allocations that this rank maps
  std::uint64_t imported_bytes = 0;
};

inline std::string describe(const ReachStatistics& it) {
  return concat("registrations: ", it.hits, " hits, ", it.misses, " misses, ", it.failures, " failures, ",
                it.unreachable, " of private memory, ", it.stale, " stale; ", it.exposed, " exposed (",
                human_bytes(it.exposed_bytes), "), ", it.imported, " imported (", human_bytes(it.imported_bytes), ")");
}

}  // namespace onstream
