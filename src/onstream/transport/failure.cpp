#include "onstream/transport/failure.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/kernel/ll.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream {

static_assert(std::is_trivially_copyable_v<FaultReport>);

std::string pack_fault(const FaultReport& fault) { return {reinterpret_cast<const char*>(&fault), sizeof fault}; }

FaultReport unpack_fault(std::string_view bytes, int ranks) {
  FaultReport fault;
  if (bytes.size() != sizeof fault) fail(ErrorCode::system, "a rank's report of a fault has ", bytes.size(), " bytes");
  std::memcpy(&fault, bytes.data(), sizeof fault);
  const bool known = fault.status <= Status::misused && fault.op <= OpKind::neighbour_all_to_all_v;
  const bool of_the_world = fault.rank >= 0 && fault.rank < ranks && fault.peer >= -1 && fault.peer < ranks;
  if (!known || !of_the_world || fault.plan_name.back() != '\0') {
    fail(ErrorCode::system, "a rank's report of a fault holds what is none");
  }
  return fault;
}

namespace {

bool runs_ahead(const Ahead& ahead, const FaultReport& send) {
  return send.bytes <= (send.tag < ahead.spread_tags ? std::max(ahead.bytes, ahead.spread_bytes) : ahead.bytes);
}
std::string on_spread_lanes(const Ahead& ahead) {
  if (ahead.spread_tags == 0 || ahead.spread_bytes <= ahead.bytes) return "";
  return concat(" (", ahead.spread_bytes, " B on tags below ", ahead.spread_tags, ")");
}

bool is_message(const FaultReport& fault) {
  return fault.plan == 0 && (fault.op == OpKind::send || fault.op == OpKind::recv || fault.op == OpKind::probe);
}

bool ended_in_vain(const FaultReport& fault) {
  return fault.status == Status::timeout || fault.status == Status::aborted;
}

// A wait whose op is still behind other work of its own rank.
bool has_not_run(const FaultReport& fault) {
  return is_message(fault) && ended_in_vain(fault) && fault.extra == kNotRun;
}

}  // namespace

std::string text_of(const WordPlace& place) {
  if (place.segment_bytes > 0) return concat(" (at byte ", place.at, " of a segment of ", place.segment_bytes, " B)");
  if (place.at == 0) return "";
  return concat(" (at ", reinterpret_cast<const void*>(place.at), ")");
}

std::string what_of(const FaultReport& fault) {
  if (fault.op == OpKind::wait && fault.plan == 0) {
    if (fault.peer >= 0)
      return concat("wait for a word of ", fault.bytes, " B that rank ", fault.peer, "'s proxy is to clear");
    if (fault.bytes == 0) return "wait for what the program looks for";
    if (fault.bytes == sizeof(Line)) return concat("wait for a line with tag ", fault.extra, text_of(fault.word));
    return concat("wait for ", text_of(until_of(fault.comparison, fault.extra, fault.bytes)), text_of(fault.word));
  }
  if (fault.op == OpKind::barrier && fault.peer >= 0 && fault.status != Status::misused) {
    return concat("barrier number ", fault.extra, ", to which rank ", fault.peer, " did not come,");
  }
  if (is_collective(fault.op) && fault.tag < 0) return concat(name_of(fault.op), " of ", fault.bytes, " B");
  if (is_collective(fault.op)) {
    const bool waits = fault.peer >= 0 && fault.status != Status::misused;
    const std::string whom = waits ? concat(", waiting for rank ", fault.peer, ",") : "";
    const bool known = fault.part == 0 && fault.op != OpKind::all_to_all_v;  // there a part of each rank has a size
    const std::string size = known ? concat(" of ", fault.bytes, " B") : "";
    const char* const part = (fault.part & kInCheck) != 0 ? "its check, " : fault.part != 0 ? "a stage of it, " : "";
    return concat(name_of(fault.op), size, whom, " (", part, "number ", fault.extra, " on channel ", fault.tag, ")");
  }
  if (fault.op == OpKind::plan) return concat("plan '", fault.plan_name.data(), "'");
  if (has_not_run(fault)) {
    return concat("wait for a ", name_of(fault.op), fault.op == OpKind::recv ? " from rank " : " to rank ", fault.peer,
                  " with tag ", fault.tag, ", which a stream of its own has not come to,");
  }
  const bool comes = fault.op == OpKind::recv || fault.op == OpKind::get || fault.op == OpKind::probe;
  std::string text = name_of(fault.op);
  if (fault.op != OpKind::probe) text += concat(" of ", fault.bytes, " B");
  if (fault.peer >= 0) text += concat(comes ? " from rank " : " to rank ", fault.peer);
  if (fault.peer < 0 && comes && is_message(fault)) text += " from any rank";
  if (fault.tag >= 0) text += concat(" with tag ", fault.tag);
  if (fault.plan != 0) text += concat(" (op ", fault.plan_op, " of plan '", fault.plan_name.data(), "')");
  return text;
}

namespace {

// For another rank.
bool is_waiting(const FaultReport& fault) { return ended_in_vain(fault) && fault.peer >= 0 && !has_not_run(fault); }

// A rank's first unfinished wait: its stream was stuck there.
std::map<int, const FaultReport*> first_waits(const std::vector<FaultReport>& faults) {
  std::map<int, const FaultReport*> waits;
  for (const FaultReport& fault : faults) {
    if (is_waiting(fault)) waits.emplace(fault.rank, &fault);
  }
  return waits;
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

// How to go on, in words that hold for every language of onstream's own interface.
std::string advice(const Failure& failure, bool reported_already) {
  if (!failure.dead.empty()) {
    return concat("to go on without ", list(failure.dead),
                  ", every other rank closes this world and makes a new one from its launch without the dead "
                  "(docs/failure.md)");
  }
  const std::string left = failure.left.empty() ? ""
                                                : concat("; if ", list(failure.left),
                                                         " ended, from its launch without who ended (docs/failure.md)");
  return (reported_already ? "the world has failed with it; to go on, every rank closes it and makes a new one"
                           : "to go on, every rank closes this world and makes a new one") +
         left;
}

}  // namespace

void FaultReport::set_plan_name(const std::string& name) {
  plan_name = {};
  std::copy_n(name.begin(), std::min(name.size(), plan_name.size() - 1), plan_name.begin());
}

std::string described_late(const std::string& what, double timeout_s) {
  if (timeout_s <= 0) return what + " passed its deadline";
  return concat(what, " passed its deadline of ", timeout_s, " s (timeout_s)");
}

namespace {

// The fault, without advice.
std::string briefly(const FaultReport& fault) {
  const std::string what = concat("rank ", fault.rank, ": ", what_of(fault));
  switch (fault.status) {
    case Status::truncated:
      if (fault.op == OpKind::recv && fault.extra < fault.bytes) {
        return concat(what, ", by a layout, takes no shorter message, and its one has ", fault.extra, " B");
      }
      if (fault.op == OpKind::recv) return concat(what, " is too small for its message of ", fault.extra, " B");
      return concat(what, " does not fit its receive",
                    fault.extra != fault.bytes ? concat(" of ", fault.extra, " B") : "");
    case Status::unmapped:
      return concat(what, " could not be copied: the buffer of one side was freed, or never was mapped whole; it must ",
                    "live until the operation is done (a posted one: until its wait)");
    case Status::timeout: return described_late(what, fault.timeout_s);
    case Status::aborted: return what + " was waiting when the world failed";
    case Status::misused:
      if (fault.op == OpKind::recv) {
        return concat(what, " exceeds the ", fault.extra,
                      " receives that one tag may have outstanding; wait for some, or raise tag_receives");
      }
      if (fault.op == OpKind::all_to_all_v && fault.tag < 0) {
        return concat(what, " found that rank ", fault.peer, " expects ", fault.extra,
                      " B of it; what one rank sends to another is as much as that one receives");
      }
      if (is_collective(fault.op) && fault.tag < 0) {
        return concat(what, " found that rank ", fault.peer, ", at the other end of the edge, gives ", fault.extra,
                      " B; both ends of an edge give the same");
      }
      if (is_collective(fault.op) && fault.peer >= 0) {
        return concat(what, " found that rank ", fault.peer,
                      " calls another collective, or the same with another count, type, reduction, root or algorithm, "
                      "or captured others more often, here or before");
      }
      if (is_collective(fault.op)) {
        return concat(what, " found another collective of its channel running; collectives that run at once need ",
                      "channels of their own");
      }
      return what + " was launched while it ran; launch it again only after the earlier launch";
    default: return concat(what, " ended with ", name_of(fault.status));
  }
}

// The advice that every rank that tells of such a fault would repeat.
std::string rule_of(const FaultReport& fault) {
  const bool differs = fault.status == Status::misused && is_collective(fault.op) && fault.tag >= 0 && fault.peer >= 0;
  return differs ? "; all ranks call the same, and parameter collective_check=on (ONSTREAM_COLLECTIVE_CHECK=on) tells "
                   "who calls what"
                 : "";
}

}  // namespace

std::string describe(const FaultReport& fault) { return briefly(fault) + rule_of(fault); }

std::string find_cycle(const std::vector<FaultReport>& faults) {
  const auto waits = first_waits(faults);
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

namespace {

// A send and a receive of two ranks that wait for each other on unlike tags. Whether they were meant for each other,
// or only come in an order that cannot end, the program alone knows.
std::vector<std::string> differing_lanes(const Failure& failure) {
  const auto waits = first_waits(failure.faults);
  std::vector<std::string> lines;
  for (const auto& [rank, sent] : waits) {
    const auto other = waits.find(sent->peer);
    if (sent->op != OpKind::send || !is_message(*sent) || other == waits.end()) continue;
    const FaultReport& received = *other->second;
    if (received.op == OpKind::send || !is_message(received) || received.peer != rank) continue;
    if (received.tag == sent->tag) continue;
    lines.push_back(concat("rank ", rank, " sends with tag ", sent->tag, ", rank ", sent->peer, " receives with tag ",
                           received.tag, ": if these two are meant for each other, their tags must be the same"));
  }
  return lines;
}

bool is_gone(const Failure& failure, int rank) { return contains(failure.dead, rank) || contains(failure.left, rank); }

constexpr const char* kComputesLonger = "; if a rank computes longer than timeout_s, raise that";

// Names the partners missing from messages that passed their deadline, where no line so far says why.
std::vector<std::string> missing_partners(const Failure& failure) {
  const auto waits = first_waits(failure.faults);
  std::vector<std::string> lines;
  for (const FaultReport& late : failure.faults) {
    if (late.status != Status::timeout || !is_message(late)) continue;
    if (has_not_run(late)) {
      lines.push_back(concat("look at what is before that ", name_of(late.op), " on the stream of rank ", late.rank,
                             ": it did not end in time"));
      continue;
    }
    if (late.waiting_tag >= 0) continue;  // waiting_elsewhere() tells
    if (late.peer < 0) {
      lines.push_back(concat("no message with tag ", late.tag, " came to rank ", late.rank,
                             " from any rank: check that one sends to it, and on this tag", kComputesLonger));
      continue;
    }
    if (late.peer == late.rank || is_gone(failure, late.peer)) continue;
    const bool sends = late.op == OpKind::send;
    const std::string between =
        sends ? concat("it took no whole message of rank ", late.rank, " with tag ", late.tag)
              : concat("no whole message came from it to rank ", late.rank, " with tag ", late.tag);
    const auto other = waits.find(late.peer);
    if (other == waits.end()) {
      lines.push_back(concat("rank ", late.peer, " tells of no wait of its own, and ", between, ": check that it ",
                             sends ? "receives" : "sends", ", and on this tag", kComputesLonger,
                             sends && runs_ahead(failure.ahead, late)
                                 ? "; small messages wait once what went ahead of its receives fills the tag's ring"
                                 : ""));
    } else if (other->second->peer != late.rank) {
      lines.push_back(concat("rank ", late.peer, " waited in ", what_of(*other->second), ", and ", between));
    }
  }
  return lines;
}

// Receives that passed their deadline while a message of the same rank waited on another tag.
std::vector<std::string> waiting_elsewhere(const Failure& failure) {
  std::vector<std::string> lines;
  for (const FaultReport& late : failure.faults) {
    if (late.waiting_tag < 0) continue;
    lines.push_back(concat("a message of ", late.waiting_bytes, " B from rank ", late.peer, " to rank ", late.rank,
                           " waits on tag ", late.waiting_tag, ", and rank ", late.rank, " receives with tag ",
                           late.tag, ": if these two are meant for each other, their tags must be the same"));
  }
  return lines;
}

// For plans that passed their deadline: names ranks whose part seems not to run.
std::vector<std::string> missing_launches(const Failure& failure) {
  const auto waits = first_waits(failure.faults);
  std::vector<std::string> lines;
  for (const FaultReport& late : failure.faults) {
    if (late.status != Status::timeout || late.plan == 0 || !is_waiting(late) || late.peer == late.rank) continue;
    if (waits.contains(late.peer) || is_gone(failure, late.peer)) continue;
    lines.push_back(concat("rank ", late.peer, " tells of no wait of its own: check that it launches plan '",
                           late.plan_name.data(), "' as often as rank ", late.rank, kComputesLonger));
  }
  return lines;
}

// The ranks of a cycle of waits by messages are all alive and well: their program has to change.
std::string advice_on_cycle(const Failure& failure) {
  const auto waits = first_waits(failure.faults);
  if (!std::all_of(waits.begin(), waits.end(), [](const auto& wait) { return is_message(*wait.second); })) return "";
  const auto sends = [](const auto& wait) { return wait.second->op == OpKind::send; };
  if (std::none_of(waits.begin(), waits.end(), sends)) return "each of them receives first: one has to send first";
  return concat("post the receive before the send (irecv), or use sendrecv: a send of more than ", failure.ahead.bytes,
                " B", on_spread_lanes(failure.ahead), " waits for its receive");
}

// The places to change, or look at, in a program whose ranks wait for each other.
std::vector<std::string> advice_on_waits(const Failure& failure) {
  const std::string cycle = find_cycle(failure.faults);
  if (cycle.empty()) {
    std::vector<std::string> lines = waiting_elsewhere(failure);
    for (std::string& line : missing_partners(failure)) lines.push_back(std::move(line));
    for (std::string& line : missing_launches(failure)) lines.push_back(std::move(line));
    return lines;
  }
  std::vector<std::string> lines{"these waits form a cycle: " + cycle};
  std::vector<std::string> hints = differing_lanes(failure);
  if (hints.empty()) hints = waiting_elsewhere(failure);
  for (std::string& hint : hints) lines.push_back(std::move(hint));
  if (std::string way_out = advice_on_cycle(failure); !way_out.empty()) lines.push_back(std::move(way_out));
  return lines;
}

}  // namespace

std::string facts_of(const Failure& failure, const std::string& reported) {
  std::vector<std::string> lines;
  if (failure.reason != reported) lines.push_back("the world has failed: " + failure.reason);
  std::set<std::string> known{reported, failure.reason};
  const auto is_reported = [&](const std::string& rule) {
    const auto says = [&](const std::string& text) { return text.ends_with(rule); };
    return says(reported) || std::ranges::any_of(lines, says);
  };
  for (const FaultReport& fault : failure.faults) {
    if (!known.insert(describe(fault)).second) continue;
    lines.push_back("  " + (is_reported(rule_of(fault)) ? briefly(fault) : describe(fault)));
  }
  for (const int rank : failure.left) {
    const auto waited_for = [rank](const FaultReport& fault) { return is_waiting(fault) && fault.peer == rank; };
    if (std::any_of(failure.faults.begin(), failure.faults.end(), waited_for)) {
      lines.push_back(concat("  rank ", rank, " had left the world before: its program closed it, or ended"));
    }
  }
  for (const std::string& line : advice_on_waits(failure)) {
    if (known.insert(line).second) lines.push_back("  " + line);  // several receives of one tag lack the same sends
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::string unlogged_facts_of(const Failure& failure) {
  return facts_of(failure, failure.logged ? failure.reason : "");
}

std::string story_of(const Failure& failure, const std::string& reported) {
  const std::string facts = facts_of(failure, reported);
  return facts + (facts.empty() ? "" : "\n") + advice(failure, failure.reason == reported);
}

void fail_named(DidNot what_happened, int rank, std::string_view what, const Error& error) {
  const char* verb = what_happened == DidNot::start ? "start" : "end";
  fail(error.code(), "rank ", rank, ": ", what, " did not ", verb, ": ", error.what());
}

std::optional<int> unheard(const Failure& failure, int rank) {
  const auto waits = first_waits(failure.faults);
  if (!waits.contains(rank)) return std::nullopt;  // it waits for nobody
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const auto found = waits.find(rank);
    if (found == waits.end()) {
      if (is_gone(failure, rank)) return std::nullopt;
      return rank;
    }
    rank = found->second->peer;
  }
  return std::nullopt;
}

}  // namespace onstream
