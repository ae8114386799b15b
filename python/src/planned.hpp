// A collective for a plan: what planned() of a Team or a Neighbourhood gives and PlanBuilder.add() takes.
#pragma once

#include <memory>

#include "onstream/plan/op/planned_call.hpp"

namespace onstream::python {

struct PyPlanned {
  std::shared_ptr<const plan::PlannedCall> call;
};

}  // namespace onstream::python
