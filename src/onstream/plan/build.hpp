// Building a plan: state the ops, match, export, choose, place, lower, upload. Collective. Every step that can fail on
// one rank alone tells all ranks before any goes on, so that all of them throw the same text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onstream/plan/implementation.hpp"

namespace onstream {

struct PlanRequest {
  std::string name;
  Path path = Path::automatic;
  std::vector<Op> ops;
  std::vector<std::shared_ptr<const plan::PlannedCall>> calls;
  std::string problems;                       // errors that this rank already knows, one a line
  std::shared_ptr<lane::NetworkLanes> lanes;  // of a world of several hosts
};

std::unique_ptr<Plan::Implementation> build_plan(std::shared_ptr<Fabric> fabric, PlanRequest request);

}  // namespace onstream
