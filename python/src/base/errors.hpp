// How failures of the library reach Python: Error by its code, Status with the words of a FaultReport.
#pragma once

#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/error.hpp"
#include "onstream/world.hpp"

namespace onstream::python {

// Returns if the status is ok, else throws the exception of that status, with the fault described and, when the world
// has failed, its story. With the GIL.
void raise_unless_ok(const World& world, const FaultReport& fault);

// Leaves the exception of an Error set, or instead the one that a pending signal raises. With the GIL.
void set_error(const Error& error);

// Throws the exception of the first fault's status, with all faults described, or returns if there are none.
void raise_faults(const std::vector<FaultReport>& faults);

}  // namespace onstream::python
