#include "onstream/transport/failure.hpp"

#include <map>
#include <set>

#include "onstream/base/text.hpp"

namespace onstream {

namespace {

std::string what_of(const FaultReport& fault) {
  if (fault.op == OpKind::wait && fault.plan == 0) {
    const std::string asked = fault.peer >= 0 ? concat(" that rank ", fault.peer, "'s helper is to clear") : "";
    return concat("wait for a word of ", fault.bytes, " B", asked, ", compared with ", fault.extra, ",");
  }
  const char* towards = fault.op == OpKind::recv || fault.op == OpKind::get ? " from rank " : " to rank ";
  std::string text = concat(name_of(fault.op), " of ", fault.bytes, " B");
  if (fault.peer >= 0) text += concat(towards, fault.peer);
  if (fault.plan != 0) return text + concat(" (op ", fault.lane, " of plan ", fault.plan, ")");
  return text + concat(" on lane ", fault.lane);
}

}  // namespace

std::string describe(const FaultReport& fault) {
  const std::string what = concat("rank ", fault.rank, ": ", what_of(fault));
  switch (fault.status) {
    case Status::truncated:
      if (fault.op == OpKind::recv) return concat(what, " is too small for its message of ", fault.extra, " B");
      return concat(what, " does not fit its receive");
    case Status::timeout: return what + " passed its deadline";
    case Status::aborted: return what + " was waiting when the world failed";
    case Status::misused:
      if (fault.op == OpKind::recv) {
        return concat(what, " exceeds the ", fault.extra,
                      " receives that one lane may have outstanding; wait for some, or raise lane_receives");
      }
      return what + " found its plan already running; launch it again only after the earlier launch";
    default: return concat(what, " ended with ", name_of(fault.status));
  }
}

std::string find_cycle(const std::vector<FaultReport>& faults) {
  std::map<int, const FaultReport*> waits;  // a rank's first unfinished wait: its stream was stuck there
  for (const FaultReport& fault : faults) {
    const bool waiting = fault.status == Status::timeout || fault.status == Status::aborted;
    if (waiting && fault.peer >= 0) waits.emplace(fault.rank, &fault);
  }
  for (const auto& [start, first] : waits) {
    std::string path;
    std::set<int> seen;
    int rank = start;
    while (waits.contains(rank) && seen.insert(rank).second) {
      const FaultReport& fault = *waits.at(rank);
      path += concat("rank ", rank, " ", what_of(fault), " -> ");
      rank = fault.peer;
    }
    if (rank == start && !seen.empty()) return path + concat("rank ", start);
  }
  return "";
}

}  // namespace onstream
