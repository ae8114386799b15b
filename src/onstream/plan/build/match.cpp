#include "onstream/plan/build/match.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "onstream/base/error.hpp"
#include "onstream/layout/runs.hpp"

namespace onstream::plan {

namespace {

constexpr std::size_t kShownProblems = 16;

struct At {
  int rank;
  int op;
};

using Queue = std::tuple<int, int, int>;  // source, destination, tag

struct OpQueues {
  std::vector<At> sends;
  std::vector<At> recvs;
};

class Matcher {
 public:
  explicit Matcher(const std::vector<Statement>& statements) : statements_(statements) {}

  std::vector<Edge> run() {
    for (std::size_t rank = 0; rank < statements_.size(); ++rank) note_rank(static_cast<int>(rank));
    for (const auto& [queue, meeting] : meetings_) pair(meeting);
    for (std::string& problem : match_calls(statements_).problems) problems_.push_back(std::move(problem));
    if (!problems_.empty()) throw Error(ErrorCode::invalid_argument, story());
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) {
      return std::tie(a.source_rank, a.source_op) < std::tie(b.source_rank, b.source_op);
    });
    return edges_;
  }

 private:
  const StatedOp& op(At at) const {
    return statements_[static_cast<std::size_t>(at.rank)].ops[static_cast<std::size_t>(at.op)];
  }
  std::string told(At at) const { return concat("rank ", at.rank, " op ", at.op, ": ", describe(op(at))); }

  void note_rank(int rank) {
    const Statement& mine = statements_[static_cast<std::size_t>(rank)];
    if (mine.name != statements_[0].name) {
      problems_.push_back(concat("rank ", rank, " builds plan '", mine.name, "' while rank 0 builds plan '",
                                 statements_[0].name, "'; every rank builds the same plans in the same order"));
    }
    if (!mine.problems.empty()) problems_.push_back(mine.problems);
    for (std::size_t i = 0; i < mine.ops.size(); ++i) {
      const StatedOp& one = mine.ops[i];
      const At at{rank, static_cast<int>(i)};
      if (one.kind == OpKind::send) meetings_[{rank, one.peer, one.tag}].sends.push_back(at);
      if (one.kind == OpKind::recv) meetings_[{one.peer, rank, one.tag}].recvs.push_back(at);
    }
  }

  void pair(const OpQueues& meeting) {
    const std::size_t both = std::min(meeting.sends.size(), meeting.recvs.size());
    for (std::size_t i = 0; i < both; ++i) meet(meeting.sends[i], meeting.recvs[i]);
    for (std::size_t i = both; i < meeting.sends.size(); ++i) {
      const At at = meeting.sends[i];
      problems_.push_back(concat(told(at), " has no recv: rank ", op(at).peer, " receives ", meeting.recvs.size(),
                                 " of the ", meeting.sends.size(), " messages from rank ", at.rank, " with tag ",
                                 op(at).tag));
    }
    for (std::size_t i = both; i < meeting.recvs.size(); ++i) {
      const At at = meeting.recvs[i];
      problems_.push_back(concat(told(at), " has no send: rank ", op(at).peer, " sends ", meeting.sends.size(),
                                 " of the ", meeting.recvs.size(), " messages to rank ", at.rank, " with tag ",
                                 op(at).tag));
    }
  }

  void meet(At send, At recv) {
    const bool sizes_differ = op(send).bytes != op(recv).bytes;
    const std::string &sent = op(send).element, &received = op(recv).element;
    if (!sent.empty() && !received.empty() && sent != received) {
      problems_.push_back(
          concat(told(send), " meets ", told(recv), ": the one sends ", sent, ", the other receives ", received,
                 sizes_differ ? ", and their sizes differ"
                              : "; only bytes would travel, so view one as the other's type if that is meant"));
      return;
    }
    if (sizes_differ) {
      problems_.push_back(concat(told(send), " meets ", told(recv), ": their sizes differ"));
      return;
    }
    const Path source = op(send).path, destination = op(recv).path;
    if (source != Path::automatic && destination != Path::automatic && source != destination) {
      problems_.push_back(concat(told(send), " asks for path ", name_of(source), " but ", told(recv), " asks for path ",
                                 name_of(destination)));
      return;
    }
    edges_.push_back({send.rank, send.op, recv.rank, recv.op});
  }

  std::string story() const {
    std::string text = concat("plan '", statements_[0].name, "' cannot be built:");
    const std::size_t shown = std::min(problems_.size(), kShownProblems);
    for (std::size_t i = 0; i < shown; ++i) text += "\n  " + problems_[i];
    if (shown < problems_.size()) text += concat("\n  and ", problems_.size() - shown, " more");
    return text;
  }

  const std::vector<Statement>& statements_;
  std::map<Queue, OpQueues> meetings_;
  std::vector<Edge> edges_;
  std::vector<std::string> problems_;
};

struct Destination {
  std::size_t rank;  // whose op
  std::size_t op;
  const Landing* landing;

  std::int64_t begin() const { return landing->address + extent_of(landing->layout).begin; }
  std::int64_t end() const { return landing->address + extent_of(landing->layout).end; }
};

// Or the largest number there is.
std::uint64_t sum_or_most(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// In the order of their addresses.
std::vector<Destination> destinations_in(const std::vector<Statement>& statements, int rank) {
  std::vector<Destination> all;
  for (std::size_t whose = 0; whose < statements.size(); ++whose) {
    const std::vector<StatedOp>& ops = statements[whose].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].landing.rank == rank && ops[i].bytes > 0) all.push_back({whose, i, &ops[i].landing});
    }
  }
  std::ranges::sort(all, {}, &Destination::begin);
  return all;
}

}  // namespace

std::string describe(const StatedOp& op) {
  const bool comes = op.kind == OpKind::recv || op.kind == OpKind::get;
  std::string text = concat(name_of(op.kind), " of ", op.bytes, " B ", comes ? "from" : "to", " rank ", op.peer);
  if (op.kind == OpKind::send || op.kind == OpKind::recv) text += concat(" with tag ", op.tag);
  if (!op.note.empty()) text += concat(" (", op.note, ")");
  return text;
}

std::vector<Edge> match(const std::vector<Statement>& statements) { return Matcher(statements).run(); }

WantedPath wanted_path(const StatedOp& source, const StatedOp& destination) {
  const StatedOp& speaker = source.path != Path::automatic ? source : destination;
  return {speaker.path, speaker.wanted_by};
}

Overlaps find_overlaps(const std::vector<Statement>& statements, int rank) {
  const std::vector<Destination> all = destinations_in(statements, rank);
  const auto told = [&](int i) {
    const Destination& one = all[static_cast<std::size_t>(i)];
    return concat("rank ", one.rank, " op ", one.op, ": ", describe(statements[one.rank].ops[one.op]));
  };
  Overlaps found;
  // Only where the intervals of some touch is anything listed.
  for (std::size_t first = 0; first < all.size();) {
    std::size_t next = first;
    std::uint64_t count = 0;
    for (std::int64_t end = all[first].end(); next < all.size() && (next == first || all[next].begin() < end); ++next) {
      end = std::max(end, all[next].end());
      count = sum_or_most(count, run_count(all[next].landing->layout));
    }
    if (next - first > 1 && count > kMaxListedRuns) found.unlisted = sum_or_most(found.unlisted, count);
    if (next - first > 1 && count <= kMaxListedRuns) {
      std::vector<Run> runs;
      for (std::size_t i = first; i < next; ++i) {
        append_runs(all[i].landing->layout, all[i].landing->address, static_cast<int>(i), runs);
      }
      if (const auto pair = find_overlap(runs)) {
        found.story = concat(told(pair->first), " and ", told(pair->second), " overlap in rank ", rank, "'s memory");
        return found;
      }
    }
    first = next;
  }
  return found;
}

}  // namespace onstream::plan
