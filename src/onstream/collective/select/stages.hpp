// The stages of a hierarchical call, each with the algorithm that it takes.
#pragma once

#include <vector>

#include "onstream/collective/call/stages.hpp"
#include "onstream/collective/select/algorithm.hpp"

namespace onstream::collective {

struct Staged {
  Among among;
  CollectiveCall call;
  MachineTraits machine;
  const AlgorithmRow* row;
};
std::vector<Staged> stages_on(const CollectiveCall& call, const MachineTraits& machine);

}  // namespace onstream::collective
