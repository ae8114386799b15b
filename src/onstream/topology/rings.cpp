#include "onstream/topology/rings.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <random>

#include "onstream/base/error.hpp"

namespace onstream::topology {

namespace {

using Counts = std::vector<std::vector<int>>;  // [from][to]: links that are left
using Cycle = std::vector<int>;

std::size_t at(int node) { return static_cast<std::size_t>(node); }

Counts counts_of(const Machine& machine) {
  const std::size_t nodes = at(machine.nodes());
  Counts counts(nodes, std::vector<int>(nodes, 0));
  for (const MachineLink& link : machine.links)
    counts[at(link.a)][at(link.b)] = counts[at(link.b)][at(link.a)] = link.count;
  return counts;
}

// --- GPUs joined directly ---

// One Hamiltonian cycle over links that are left, or nothing within the bounded number of rotations.
class Rotations {
 public:
  Rotations(const Counts& counts, int gpus, std::mt19937& random) : counts_(counts), gpus_(gpus), random_(random) {}

  std::optional<Cycle> find() {
    Cycle path{static_cast<int>(random_() % static_cast<unsigned>(gpus_))};
    std::vector<char> on_path(at(gpus_), 0);
    on_path[at(path[0])] = 1;
    const int limit = 60 * gpus_ + 200;
    for (int step = 0; step < limit; ++step) {
      const int end = path.back();
      const bool whole = static_cast<int>(path.size()) == gpus_;
      if (whole && joined(end, path.front())) return path;
      std::vector<int> fresh;
      std::vector<std::size_t> turns;  // where the path may be turned round: end is joined to there
      for (int next = 0; next < gpus_; ++next) {
        if (next != end && joined(end, next) && on_path[at(next)] == 0) fresh.push_back(next);
      }
      if (!fresh.empty()) {
        path.push_back(scarcest(fresh, on_path));
        on_path[at(path.back())] = 1;
        continue;
      }
      for (std::size_t i = 0; i + 2 < path.size(); ++i) {
        if (joined(end, path[i])) turns.push_back(i);
      }
      if (turns.empty()) return std::nullopt;
      const std::size_t turn = turns[random_() % turns.size()];
      std::reverse(path.begin() + static_cast<std::ptrdiff_t>(turn) + 1, path.end());
    }
    return std::nullopt;
  }

 private:
  bool joined(int a, int b) const { return counts_[at(a)][at(b)] > 0; }

  // The GPU of `fresh` with the fewest ways on.
  int scarcest(const std::vector<int>& fresh, const std::vector<char>& on_path) {
    int best = fresh[0];
    int least = std::numeric_limits<int>::max();
    const std::size_t first = random_() % fresh.size();
    for (std::size_t k = 0; k < fresh.size(); ++k) {
      const int node = fresh[(first + k) % fresh.size()];
      int ways = 0;
      for (int next = 0; next < gpus_; ++next) ways += joined(node, next) && on_path[at(next)] == 0 ? 1 : 0;
      if (ways < least) {
        least = ways;
        best = node;
      }
    }
    return best;
  }

  const Counts& counts_;
  int gpus_;
  std::mt19937& random_;
};

void take(Counts& counts, const Cycle& cycle) {
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::size_t a = at(cycle[i]);
    const std::size_t b = at(cycle[(i + 1) % cycle.size()]);
    --counts[a][b];
    --counts[b][a];
  }
}

std::vector<Cycle> direct_cycles(const Machine& machine, int bound) {
  constexpr int kTries = 4000;
  constexpr int kAgain = 6;  // searches for one more cycle before the others are given up
  const Counts all = counts_of(machine);
  std::vector<Cycle> best;
  for (unsigned tries = 0; tries < kTries && static_cast<int>(best.size()) < bound; ++tries) {
    std::mt19937 random(tries);
    Counts left = all;
    std::vector<Cycle> cycles;
    int failures = 0;
    while (static_cast<int>(cycles.size()) < bound && failures < kAgain) {
      const auto cycle = Rotations(left, machine.gpus, random).find();
      if (!cycle) {
        ++failures;
        continue;
      }
      take(left, *cycle);
      cycles.push_back(*cycle);
    }
    if (cycles.size() > best.size()) best = cycles;
  }
  return best;
}

// --- through switches ---

// A ring at a time, GPU by GPU, each by the shortest way that is left; goes back where there is none.
class ThroughSwitches {
 public:
  ThroughSwitches(const Machine& machine, Counts& counts) : machine_(machine), counts_(counts) {}

  std::optional<Ring> find() {
    steps_ = 0;
    visited_.assign(at(machine_.gpus), 0);
    visited_[0] = 1;
    ring_ = Ring{{0}, {0}};
    if (!extend()) return std::nullopt;
    return ring_;
  }

 private:
  static constexpr int kMostSteps = 200'000;

  bool extend() {
    if (++steps_ > kMostSteps) return false;
    const int end = ring_.gpus.back();
    const bool last = static_cast<int>(ring_.gpus.size()) == machine_.gpus;
    for (const Cycle& way : ways_from(end)) {
      const int target = way.back();
      if (last ? target != 0 : visited_[at(target)] != 0) continue;
      use(way, -1);
      const std::size_t length = ring_.nodes.size();
      ring_.nodes.insert(ring_.nodes.end(), way.begin() + 1, way.end() - (last ? 1 : 0));
      if (last) return true;
      visited_[at(target)] = 1;
      ring_.gpus.push_back(target);
      if (extend()) return true;
      ring_.gpus.pop_back();
      visited_[at(target)] = 0;
      ring_.nodes.resize(length);
      use(way, 1);
    }
    return false;
  }

  void use(const Cycle& way, int change) {
    for (std::size_t i = 0; i + 1 < way.size(); ++i) counts_[at(way[i])][at(way[i + 1])] += change;
  }

  // The shortest way to every GPU that passes through switches alone, the nearest first.
  std::vector<Cycle> ways_from(int start) const {
    std::vector<int> before(at(machine_.nodes()), -1);
    std::vector<Cycle> ways;
    std::queue<int> open;
    open.push(start);
    before[at(start)] = start;
    while (!open.empty()) {
      const int node = open.front();
      open.pop();
      for (int next = 0; next < machine_.nodes(); ++next) {
        if (before[at(next)] >= 0 || counts_[at(node)][at(next)] <= 0) continue;
        before[at(next)] = node;
        if (next >= machine_.gpus) {
          open.push(next);
          continue;
        }
        Cycle way{next};
        while (way.back() != start) way.push_back(before[at(way.back())]);
        std::reverse(way.begin(), way.end());
        ways.push_back(way);
      }
    }
    return ways;
  }

  const Machine& machine_;
  Counts& counts_;
  Ring ring_;
  std::vector<char> visited_;
  int steps_ = 0;
};

}  // namespace

Rings find_rings(const Machine& machine) {
  require(machine.gpus >= 2, "a ring needs at least 2 GPUs, this machine has ", machine.gpus);
  std::vector<int> links(at(machine.gpus), 0);
  for (const MachineLink& link : machine.links) {
    if (link.a < machine.gpus) links[at(link.a)] += link.count;
    if (link.b < machine.gpus) links[at(link.b)] += link.count;
  }
  Rings rings;
  rings.bound = *std::ranges::min_element(links);
  if (machine.switches.empty() && machine.gpus > 2) {
    for (const Cycle& cycle : direct_cycles(machine, rings.bound / 2)) {
      rings.all.push_back({cycle, cycle});
      rings.all.push_back({{cycle.rbegin(), cycle.rend()}, {cycle.rbegin(), cycle.rend()}});
    }
    return rings;
  }
  Counts counts = counts_of(machine);
  while (static_cast<int>(rings.all.size()) < rings.bound) {
    const auto ring = ThroughSwitches(machine, counts).find();
    if (!ring) break;
    rings.all.push_back(*ring);
  }
  return rings;
}

std::string describe(const Machine& machine, const Rings& rings) {
  std::string text = concat(rings.all.size(), rings.all.size() == 1 ? " ring of " : " rings of ", machine.gpus,
                            " GPUs (at most ", rings.bound, ")");
  for (const Ring& ring : rings.all) {
    text += "\n ";
    for (const int node : ring.nodes) text += concat(" ", machine.name_of(node));
  }
  return text;
}

}  // namespace onstream::topology
