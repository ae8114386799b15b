#include "group.hpp"
#include "onstream/collective.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/one_sided.hpp"

namespace onstream::shmem {

Group::Group(Runtime& shmem, TeamHandle& team)
    : shmem_(shmem),
      members_(team.team->members()),
      rank_(team.rank()),
      team_(team.team),
      collective_(team.collective),
      context_(&shmem.collectives_of(team)) {}

Group::Group(Runtime& shmem, const ActiveSet& set) : shmem_(shmem) {
  constexpr int kMostLog = 30;
  require(set.log_stride >= 0 && set.log_stride <= kMostLog && set.size >= 1 && set.start >= 0, "an active set of ",
          set.size, " PEs from ", set.start, " on, 2 to the ", set.log_stride, " apart");
  for (int i = 0; i < set.size; ++i) {
    const std::int64_t pe = set.start + (static_cast<std::int64_t>(i) << set.log_stride);
    require(pe < shmem.size(), "the active set has PE ", pe, "; there are PEs 0 to ", shmem.size() - 1);
    if (pe == shmem.rank()) rank_ = i;
    set_.push_back(static_cast<int>(pe));
  }
  require(rank_ >= 0, "PE ", shmem.rank(), " is not in the active set of ", set.size, " PEs from ", set.start,
          " on, 2 to the ", set.log_stride, " apart");
  members_ = set_;
  context_ = &shmem.collectives_of(shmem.world_team());
  if (is_world()) {
    team_ = shmem.world_team().team;
    collective_ = shmem.world_team().collective;
    return;
  }
  require(set.sync != nullptr, "the pSync of an active set is a null pointer");
  sync_ = shmem.place(set.sync);
}

void Group::meet() {
  context_->quiet();
  if (team_ != nullptr) return team_->sync();
  meet_by_words();
}

// The first member counts arrivals in its first word, and tells the others by their second one. Both are as they were
// when it is over, so the same words may be used at once again.
void Group::meet_by_words() {
  if (size() == 1) return;
  const long others = size() - 1;
  if (rank_ != 0) {
    context_->fetch_inc(sync_, world_rank(0));
    demand_ok(shmem_, context_->wait(sync_ + 1, Compare::eq, 1L));
    context_->set(sync_ + 1, SHMEM_SYNC_VALUE, shmem_.rank());
    return;
  }
  demand_ok(shmem_, context_->wait(sync_, Compare::eq, others));
  context_->set(sync_, SHMEM_SYNC_VALUE, shmem_.rank());
  HostGroup::fence();
  for (int member = 1; member < size(); ++member) context_->set(sync_ + 1, 1L, world_rank(member));
}

// Offsets in symmetric memory are the same on every PE, so all see the same overlap and choose alike. The library would
// not: whether it takes an overlap for a collective in place depends on the rank.
bool Group::in_library(Range dest, Range source) const {
  const auto* const to = static_cast<const std::byte*>(dest.begin);
  const auto* const from = static_cast<const std::byte*>(source.begin);
  const bool apart = to + dest.bytes <= from || from + source.bytes <= to;
  const bool in_place = to == from && dest.bytes == source.bytes;
  return collective_ != nullptr && (apart || in_place) && shmem_.in_library(dest.begin, source.begin);
}

void Group::run(CollectiveCall call) {
  call.output = shmem_.place(call.output);
  call.input = shmem_.place(call.input);
  context_->quiet();
  collective_->run(call);
}

std::vector<std::uint64_t> Group::exchange(std::uint64_t mine) {
  std::vector<std::uint64_t> all;
  if (team_ != nullptr) {
    for (const Team::Words& words : team_->exchange({mine, 0, 0, 0})) all.push_back(words[0]);
    return all;
  }
  for (int member = 0; member < size(); ++member) {
    context_->set(shmem_.box() + shmem_.rank(), mine, world_rank(member));
  }
  meet();
  for (int member = 0; member < size(); ++member) {
    all.push_back(HostGroup::load_acquire(shmem_.box() + world_rank(member)));
  }
  meet();  // all have read before anyone writes again
  return all;
}

}  // namespace onstream::shmem
