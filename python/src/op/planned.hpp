// A collective for a plan: planned() of a Team or a Neighbourhood makes it, PlanBuilder.add() takes it.
#pragma once

#include <memory>

#include "onstream/plan/op/planned_call.hpp"

namespace onstream::python {

struct PyPlanned {
  std::shared_ptr<const plan::PlannedCall> call;
};

}  // namespace onstream::python
