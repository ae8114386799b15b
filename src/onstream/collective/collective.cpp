#include "onstream/collective.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream/collective/implementation.hpp"
#include "onstream/collective/kernel/kernels.hpp"

namespace onstream {

namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return ranks;
}

std::vector<int> numbers_in(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string_view word : words_of(text)) numbers.push_back(number_in<int>(word).value());
  return numbers;
}

// Collective over the world. Throws on every rank alike unless all members of each team name it alike: if one rank
// alone threw, the others would meet its next call instead. Gives the teams of all ranks.
std::vector<std::vector<int>> require_teams_agree(Fabric& fabric, std::span<const int> ranks, int channels) {
  fabric.require_same("a team has as many channels on every rank, but", "asks for", concat(channels));
  require(channels >= 1, "team: at least one channel, not ", channels);
  std::string mine;
  for (const int rank : ranks) mine += concat(mine.empty() ? "" : " ", rank);
  const std::vector<std::string> stated = fabric.all_gather("the ranks of a team", mine);
  std::vector<std::vector<int>> teams;
  for (int rank = 0; rank < fabric.size(); ++rank) {
    const std::string& theirs = stated[static_cast<std::size_t>(rank)];
    const std::vector<int> members = numbers_in(theirs);
    const std::set<int> different(members.begin(), members.end());
    require(different.size() == members.size(), "team: rank ", rank, " names ranks ", theirs,
            ", of which one is named twice");
    for (const int member : members) {
      require(member >= 0 && member < fabric.size(), "team: rank ", rank, " names rank ", member, ", but rank ", member,
              " does not exist; the world has ranks 0 to ", fabric.size() - 1);
    }
    require(members.empty() || different.contains(rank), "team: rank ", rank, " names ranks ", theirs,
            ", and is not among them; a rank of no team names none");
    for (const int member : members) {
      const std::string& named = stated[static_cast<std::size_t>(member)];
      require(named == theirs, "team: rank ", rank, " names ranks ", theirs, ", and rank ", member, " names ",
              named.empty() ? "none" : named, "; all members of a team name the same ranks in the same order");
    }
    teams.push_back(members);
  }
  return teams;
}

}  // namespace

Collective::Collective(std::shared_ptr<Fabric> fabric, std::shared_ptr<lane::NetworkLanes> lanes) {
  for (const Kernel* kernel : collective::all_kernels()) fabric->device()->load(*kernel);
  const int size = fabric->size();
  const auto channels = static_cast<int>(fabric->parameters().collective_channels);
  implementation_ = std::make_shared<Implementation>(std::move(fabric), std::make_shared<collective::BlockBudget>(),
                                                     all_ranks(size), std::move(lanes), channels);
}
Collective::Collective(std::shared_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Collective::~Collective() = default;

int Collective::rank() const { return implementation_->rank(); }
int Collective::size() const { return implementation_->size(); }
const std::vector<int>& Collective::ranks() const { return implementation_->ranks(); }

void Collective::run(const CollectiveCall& call, Stream stream) { implementation_->run(call, stream); }
void Collective::run(const CollectiveCall& call) { implementation_->run(call); }
void Collective::check(const CollectiveCall& call) const { implementation_->check_alone(call); }
void Collective::load(const collective::UserKernels& kernels) { implementation_->load(kernels); }
std::string Collective::explain(const CollectiveCall& call) const { return implementation_->explain(call); }
std::size_t Collective::device_bytes() const { return implementation_->device_bytes(); }

std::shared_ptr<Neighbourhood> Collective::neighbourhood(const NeighbourGrid& grid) const {
  return std::make_shared<Neighbourhood>(implementation_->fabric(), *implementation_->budget(),
                                         implementation_->lanes(), ranks(), grid);
}
std::shared_ptr<Neighbourhood> Collective::neighbourhood(const NeighbourGraph& graph) const {
  return std::make_shared<Neighbourhood>(implementation_->fabric(), *implementation_->budget(),
                                         implementation_->lanes(), ranks(), graph);
}

std::shared_ptr<Collective> Collective::among(std::span<const int> ranks, int channels) const {
  const std::shared_ptr<Fabric>& fabric = implementation_->fabric();
  const std::vector<std::vector<int>> teams = require_teams_agree(*fabric, ranks, channels);
  // Channels within hosts are made by all ranks of the world together, so also by those of teams that need none.
  const bool within_a_host = implementation_->lanes() == nullptr || std::ranges::any_of(teams, [&](const auto& team) {
                               return !team.empty() && !collective::NetworkCollectives::spans_hosts(*fabric, team);
                             });
  auto implementation =
      std::make_shared<Implementation>(fabric, implementation_->budget(), std::vector<int>(ranks.begin(), ranks.end()),
                                       implementation_->lanes(), channels);
  if (within_a_host) implementation->make_channels(channels);
  if (!within_a_host) implementation->number_channels(channels);
  return std::shared_ptr<Collective>(new Collective(std::move(implementation)));
}

}  // namespace onstream
