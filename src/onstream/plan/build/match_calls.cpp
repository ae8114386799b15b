// Calls of a plan meet when all ranks that take part have come to them. A round in which nobody gets on ends it: done,
// or stuck.
#include <algorithm>
#include <map>
#include <utility>

#include "onstream/base/text.hpp"
#include "onstream/plan/build/match.hpp"

namespace onstream::plan {

namespace {

class Calls {
 public:
  explicit Calls(const std::vector<Statement>& statements) : statements_(statements), next_(statements.size(), 0) {}

  MatchedCalls run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) moved = pass(rank) || moved;
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) tell_stuck(rank);
    return {std::move(met_), std::move(problems_)};
  }

 private:
  // Null: no more.
  const StatedCall* at(std::size_t rank) const {
    const auto& calls = statements_[rank].calls;
    return next_[rank] < calls.size() ? &calls[next_[rank]] : nullptr;
  }
  bool is_team_of(const StatedCall& call, std::size_t rank) const {
    const auto once = [&](std::int32_t one) {
      return one >= 0 && static_cast<std::size_t>(one) < next_.size() && std::ranges::count(call.ranks, one) == 1;
    };
    const bool among_them = std::ranges::count(call.ranks, static_cast<std::int32_t>(rank)) == 1;
    return among_them && std::ranges::all_of(call.ranks, once);
  }
  // The first rank that takes part in the call and has not come to it; -1: all have.
  std::int32_t missing(const StatedCall& call) const {
    for (const std::int32_t rank : call.ranks) {
      const StatedCall* const theirs = at(static_cast<std::size_t>(rank));
      if (theirs == nullptr || theirs->team != call.team || theirs->ranks != call.ranks ||
          theirs->words != call.words) {
        return rank;
      }
    }
    return -1;
  }

  bool pass(std::size_t rank) {
    const StatedCall* const call = at(rank);
    if (call == nullptr || !is_team_of(*call, rank) || missing(*call) >= 0) return false;
    compare_bytes(*call);
    met_.push_back(call->ranks);
    for (const std::int32_t member : call->ranks) ++next_[static_cast<std::size_t>(member)];
    return true;
  }

  using Bytes = std::vector<std::uint64_t>;
  struct BytesBetween {
    Bytes given;
    Bytes expected;
  };

  void compare_bytes(const StatedCall& call) {
    std::map<std::pair<std::int64_t, std::int64_t>, BytesBetween> pairs;  // by giver and taker
    for (const std::int32_t rank : call.ranks) {
      const StatedCall& stated = *at(static_cast<std::size_t>(rank));
      for (const StatedPart& part : stated.gives) pairs[{rank, part.rank}].given.push_back(part.bytes);
      for (const StatedPart& part : stated.takes) pairs[{part.rank, rank}].expected.push_back(part.bytes);
    }
    for (const auto& [ranks, between] : pairs) {
      if (between.given == between.expected) continue;
      problems_.push_back(concat(call.words, ": rank ", ranks.first, " gives rank ", ranks.second, " ",
                                 told(between.given), ", which expects ", told(between.expected)));
    }
  }

  static std::string told(const Bytes& parts) {
    if (parts.empty()) return "nothing";
    return listed(parts).substr(1) + " B";
  }

  std::string told(std::size_t rank) const {
    const std::string text = concat(at(rank)->words, " of ranks", listed(at(rank)->ranks));
    return at(rank)->team == 0 ? text : text + concat(" (team ", at(rank)->team, ")");
  }

  void tell_stuck(std::size_t rank) {
    if (at(rank) == nullptr) return;
    std::string text = concat("rank ", rank, " collective ", next_[rank], ": ", told(rank));
    if (!is_team_of(*at(rank), rank)) {
      text += " names ranks that cannot be a team of it";
    } else {
      const auto other = static_cast<std::size_t>(missing(*at(rank)));
      text += at(other) == nullptr
                  ? concat(": rank ", other, " has none that is left to meet it")
                  : concat(" does not meet rank ", other, " collective ", next_[other], ": ", told(other));
    }
    problems_.push_back(std::move(text));
  }

  const std::vector<Statement>& statements_;
  std::vector<std::size_t> next_;  // of each rank
  std::vector<std::vector<std::int32_t>> met_;
  std::vector<std::string> problems_;
};

}  // namespace

MatchedCalls match_calls(const std::vector<Statement>& statements) { return Calls(statements).run(); }

}  // namespace onstream::plan
