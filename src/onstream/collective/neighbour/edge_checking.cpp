#include "onstream/collective/neighbour/edge_checking.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/collective/check/checking.hpp"

namespace onstream::collective {

namespace {

// The call along all edges of one pair of ranks, in one direction, in words. Two of them fit one Say.
std::string words_along(const CollectiveCall& call, const std::vector<std::size_t>& counts) {
  constexpr std::size_t kMost = 60;
  // The counts come before the algorithm, as a reader looks for them.
  const bool typed = std::ranges::any_of(counts, [](std::size_t count) { return count != 0; });
  std::string words = concat(typed ? what_of(call) : name_of(call.kind), ":", listed(counts));
  if (call.algorithm != Algorithm::automatic) words += concat(" by ", name_of(call.algorithm));
  if (words.size() <= kMost) return words;
  constexpr std::size_t kDigits = 1'000'000;  // the part that is cut off still counts
  const std::string digest = concat("... #", std::hash<std::string>{}(words) % kDigits);
  return words.substr(0, kMost - digest.size()) + digest;
}

// Elements of each edge with `peer`, in the sender's order; nothing: there is no such edge.
std::vector<std::size_t> sent_to(const CollectiveCall& call, const EdgeList& edges, int peer) {
  std::vector<std::size_t> counts;
  for (const std::size_t k : edges.out_as_sent()) {
    if (edges.out[k].rank != peer) continue;
    counts.push_back(call.kind == OpKind::neighbour_all_to_all_v ? call.send_counts[k] : call.count);
  }
  return counts;
}
std::vector<std::size_t> expected_of(const CollectiveCall& call, const EdgeList& edges, int peer) {
  std::vector<std::size_t> counts;
  for (const std::size_t j : edges.in_as_sent()) {
    if (edges.in[j].rank != peer) continue;
    counts.push_back(call.kind == OpKind::neighbour_all_to_all_v ? call.receive_counts[j] : call.count);
  }
  return counts;
}

}  // namespace

EdgeChecking::EdgeChecking(Fabric& fabric, std::vector<int> ranks)
    : ranks_(std::move(ranks)),
      agreement_(fabric.segment(Agreement::bytes(fabric.size()), MemoryKind::pinned), fabric.rank(), fabric.size()) {}

void EdgeChecking::check(Fabric& fabric, const CollectiveCall& call, const EdgeList& edges) {
  const std::lock_guard lock(mutex_);
  const Named name{call.kind, call.count * size_of(call.type), call.channel, ++number_};
  std::vector<Say> mine(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const std::vector<std::size_t> counts = sent_to(call, edges, ranks_[i]);
    if (!counts.empty()) mine[i].set_trouble(words_along(call, counts));
  }
  std::vector<Say> says = agreement_.exchange(fabric, ranks_, mine, name);
  std::string found;  // the first edge whose ends differ
  for (std::size_t i = 0; i < ranks_.size() && found.empty(); ++i) {
    const std::vector<std::size_t> counts = expected_of(call, edges, ranks_[i]);
    if (counts.empty()) continue;
    const std::string expected = words_along(call, counts);
    if (expected == says[i].trouble.data()) continue;
    found =
        concat("rank ", ranks_[i], " sends ", says[i].trouble.data(), "; rank ", fabric.rank(), " expects ", expected);
  }
  for (Say& say : mine) say.set_trouble(found);
  says = agreement_.exchange(fabric, ranks_, mine, name);
  std::string told;
  for (const Say& say : says) {
    if (say.trouble[0] != 0) told += concat("\n  ", say.trouble.data());
  }
  require(told.empty(), "the two ends of an edge do not call the same:", told);
}

}  // namespace onstream::collective
