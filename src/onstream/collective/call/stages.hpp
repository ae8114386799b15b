// The stages of a hierarchical collective: calls within groups of ranks, and across them. Pure functions of the call,
// so that all ranks come to the same.
//
// Groups are ranks that follow each other. Where they are all of one size, equals (first, second, ... of each group)
// work across groups, each for its part. A last group that is smaller has no equals for all: then the first of each
// group alone, its leader, works across.
#pragma once

#include <string>
#include <vector>

#include "onstream/collective/call/call.hpp"

namespace onstream::collective {

// How a team's ranks are grouped, and where one of them is.
struct Groups {
  Groups(int team_size, int ranks_of_group, int its_rank)
      : size(team_size), each(ranks_of_group), rank(its_rank), group(its_rank / each), index(its_rank % each) {}
  int size;
  int each;   // of a group; the last may have less
  int rank;   // in the team
  int group;  // its number
  int index;  // in the group

  bool even() const { return size % each == 0; }
  int count() const { return (size + each - 1) / each; }
  int size_of_group(int number) const { return number + 1 < count() || even() ? each : size % each; }
  std::vector<int> within() const;  // ranks of this rank's group
  std::vector<int> across() const;  // its equals and itself; of uneven groups the leaders, or itself alone
};

enum class Among { group, across };

struct Stage {
  Among among;
  CollectiveCall call;
};

// The call whose stages `call` runs. Where sums are longer than results (type_of_sums), it is a call on sums alone,
// from `sums` and to it: the inputs are converted into `sums` before, and `sums` into results after it.
CollectiveCall in_sums(const CollectiveCall& call, std::byte* sums);
// The size of `sums`; 0: there is none, the stages are the call's own.
std::size_t sums_bytes(const CollectiveCall& call, const Groups& groups);
// The stages that this rank runs, one after the other. `scratch` holds scratch_bytes().
std::vector<Stage> stages_of(const CollectiveCall& call, const Groups& groups, std::byte* scratch);
std::size_t scratch_bytes(const CollectiveCall& call, const Groups& groups);
// "" or why a call has no stages.
std::string stages_why_not(const CollectiveCall& call, int size, int each);

}  // namespace onstream::collective
