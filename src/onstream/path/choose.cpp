#include "onstream/path/choose.hpp"

#include "onstream/base/error.hpp"

namespace onstream::path {

namespace {

std::span<const Rule> rules_for(const Table& table, const Transfer& transfer) {
  return table.of(transfer.operation, link_of(transfer.device));
}

bool has(unsigned needs, unsigned need) { return (needs & need) != 0; }

std::string text_of(unsigned need, const Transfer& t) {
  const char* const untouchable = "kernels cannot touch ";
  switch (need) {
    case kSourceAccess: return concat(untouchable, "the source");
    case kDestinationAccess: return concat(untouchable, "the destination");
    case kDestinationMapped: return concat("the sender cannot reach the destination: ", t.destination.why_not);
    case kSourceMapped: return concat("the receiver cannot reach the source: ", t.source.why_not);
    case kFewPieces: return concat("the layouts fall into more than ", kMaxPieces, " contiguous pieces");
    case kOneSideCopies:
      return concat(untouchable, "both ends, and the layouts fall into more than ", kMaxPieces, " contiguous pieces");
    case kFitsLl: return concat(human_bytes(t.bytes), " exceed the ", human_bytes(kLargestLl), " that ll carries");
    case kSourceInGpuMemory: return "the source is in the host's memory";
    case kSpreadTag: return "one block sends the messages of this tag";
    case kThroughRing: return "the message does not go through the ring of its tag";
    case kCrossMemory: return "the receiver has mapped the source";
    default: return "";
  }
}

// The path that the caller names: its rule with the fewest needs decides.
Choice choose_wanted(const Table& table, const Transfer& transfer) {
  Choice choice;
  for (const Rule& rule : rules_for(table, transfer)) {
    if (rule.path != transfer.wanted || has(rule.needs, kSpreadTag)) continue;
    choice.rule = &rule;
    if (unmet(rule, transfer) == 0) return {rule.path, Reason::asked, &rule};
  }
  return choice;
}

// The first rule that claims the size and can carry it.
Choice choose_claimed(const Table& table, const Transfer& transfer) {
  for (const Rule& rule : rules_for(table, transfer)) {
    if (rule.by_request || !rule.claims(transfer.bytes) || unmet(rule, transfer) != 0) continue;
    const bool bounded = rule.from_bytes > 0 || rule.to_bytes != kNoLimit;
    return {rule.path, bounded ? Reason::size : Reason::left, &rule};
  }
  return {};
}

// A transfer to oneself is a local copy; only the copy engine is another way to make it.
Choice choose_within_rank(const Table& table, Transfer transfer) {
  const bool by_engine = transfer.wanted == Path::copy || transfer.wanted == Path::memop;
  const bool touchable = transfer.source.kernel_access && transfer.destination.kernel_access;
  if (!by_engine && touchable) return {Path::store, Reason::own_rank, nullptr};
  if (!by_engine) transfer.wanted = Path::copy;
  Choice choice = choose_wanted(table, transfer);
  if (choice.path != Path::automatic && !touchable) choice.reason = Reason::own_rank_by_engine;
  return choice;
}

// "; not copy: ..." for the rules that claim the size, come before `end`, and cannot carry the transfer.
std::string obstacles(const Table& table, const Transfer& transfer, const Rule* end) {
  std::string text;
  for (const Rule& rule : rules_for(table, transfer)) {
    if (&rule == end) break;
    const unsigned need = unmet(rule, transfer);
    if (rule.by_request || need == 0 || need >= kSpreadTag || !rule.claims(transfer.bytes)) continue;
    text += concat(text.empty() ? "" : "; ", "not ", rule.way(), ": ", text_of(need, transfer));
  }
  return text;
}

std::string beyond_ll(const Table& table, const Transfer& transfer) {
  const Rule& ll = table.rule(transfer.operation, link_of(transfer.device), Path::ll);
  if (ll.claims(transfer.bytes)) return "";
  return concat(human_bytes(transfer.bytes), " > ", ll.to_parameter, ' ', human_bytes(ll.to_bytes));
}

std::string joined(const std::string& first, const std::string& second) {
  return concat(first, first.empty() || second.empty() ? "" : "; ", second);
}

std::string why_left(const Table& table, const Transfer& transfer, const Choice& choice) {
  const std::string against = obstacles(table, transfer, choice.rule);
  if (choice.path == Path::store && transfer.operation != Operation::put) {
    return joined(beyond_ll(table, transfer), against);
  }
  const End& source = transfer.source;
  const End& destination = transfer.destination;
  const bool same = !source.mapped && !destination.mapped && source.why_not == destination.why_not;
  if (choice.path == Path::stage && same && !source.why_not.empty()) return source.why_not;
  return against.empty() ? "the only way" : against;
}

std::string why_impossible(const Table& table, const Transfer& transfer, const Choice& choice) {
  if (transfer.wanted == Path::automatic && !transfer.same_rank) return obstacles(table, transfer, nullptr);
  std::string problem = transfer.wanted == Path::net ? "the ranks share a host" : "it has no rule here";
  if (choice.rule != nullptr) problem = text_of(unmet(*choice.rule, transfer), transfer);
  if (transfer.same_rank) return problem;
  return concat("path ", onstream::name_of(transfer.wanted), " (", transfer.wanted_by, ") cannot work: ", problem);
}

}  // namespace

unsigned unmet(const Rule& rule, const Transfer& t) {
  const unsigned needs = rule.needs;
  const bool touchable = t.source.kernel_access && t.destination.kernel_access;
  if (has(needs, kSourceAccess) && !t.source.kernel_access) return kSourceAccess;
  if (has(needs, kDestinationAccess) && !t.destination.kernel_access) return kDestinationAccess;
  if (has(needs, kDestinationMapped) && !t.destination.mapped && !t.same_rank) return kDestinationMapped;
  if (has(needs, kSourceMapped) && !t.source.mapped && !t.same_rank) return kSourceMapped;
  if (has(needs, kFewPieces) && t.pieces == 0) return kFewPieces;
  if (has(needs, kOneSideCopies) && !touchable && t.pieces == 0) return kOneSideCopies;
  if (has(needs, kFitsLl) && t.bytes > kLargestLl) return kFitsLl;
  if (has(needs, kSourceInGpuMemory) && !t.source.gpu_memory) return kSourceInGpuMemory;
  if (has(needs, kSpreadTag) && !t.spread_tag) return kSpreadTag;
  if (has(needs, kThroughRing) && !t.through_ring) return kThroughRing;
  if (has(needs, kCrossMemory) && !t.source.cross_memory) return kCrossMemory;
  return 0;
}

Choice choose(const Table& table, const Transfer& transfer) {
  if (transfer.same_rank) return choose_within_rank(table, transfer);
  if (transfer.wanted != Path::automatic) return choose_wanted(table, transfer);
  if (const Choice claimed = choose_claimed(table, transfer); claimed.path != Path::automatic) return claimed;
  // No rule that claims the size can carry it: one that would leave so few bytes to others.
  for (const Rule& rule : rules_for(table, transfer)) {
    const bool small_enough = transfer.bytes <= rule.to_bytes;
    if (!rule.by_request && small_enough && unmet(rule, transfer) == 0) return {rule.path, Reason::left, &rule};
  }
  return {};
}

bool needs_mapping(const Table& table, const Transfer& transfer) {
  if (transfer.same_rank || transfer.wanted == Path::ll || transfer.wanted == Path::stage) return false;
  if (transfer.wanted != Path::automatic) return true;
  return choose_claimed(table, transfer).path != Path::ll;
}

std::string why(const Table& table, const Transfer& transfer, const Choice& choice) {
  const std::string bytes = human_bytes(transfer.bytes);
  switch (choice.reason) {
    case Reason::size:
      if (choice.rule->to_bytes != kNoLimit) {
        return concat(bytes, " <= ", choice.rule->to_parameter, ' ', human_bytes(choice.rule->to_bytes));
      }
      return concat(bytes, " >= ", choice.rule->from_parameter, ' ', human_bytes(choice.rule->from_bytes));
    case Reason::asked: return transfer.wanted_by;
    case Reason::own_rank: return "both ends are of this rank";
    case Reason::own_rank_by_engine: return "both ends are of this rank, and kernels cannot touch both";
    case Reason::left: return why_left(table, transfer, choice);
    case Reason::impossible: return why_impossible(table, transfer, choice);
  }
  return "";
}

std::string explain(const Table& table, const Transfer& transfer) {
  constexpr int kDigits = 3;
  const Choice choice = choose(table, transfer);
  const auto bytes = static_cast<double>(transfer.bytes);
  std::string text = concat(name_of(transfer.operation), " of ", human_bytes(transfer.bytes), ": ",
                            choice.path == Path::automatic ? "no path" : onstream::name_of(choice.path), ", ",
                            why(table, transfer, choice));
  for (const Rule& rule : rules_for(table, transfer)) {
    const unsigned need = unmet(rule, transfer);
    text += concat("\n  ", rule.way(), has(rule.needs, kSpreadTag) ? " by several blocks: " : ": ");
    if (need != 0) {
      text += text_of(need, transfer);
      continue;
    }
    text +=
        rule.cost.measured() ? concat(general(rule.cost.of_bytes(bytes), kDigits), " us predicted") : "not measured";
    if (rule.by_request) text += "; only for those who ask for it";
    if (transfer.bytes < rule.from_bytes)
      text += concat("; from ", rule.from_parameter, ' ', human_bytes(rule.from_bytes));
    if (transfer.bytes > rule.to_bytes) text += concat("; up to ", rule.to_parameter, ' ', human_bytes(rule.to_bytes));
  }
  return text;
}

}  // namespace onstream::path
