// Contexts for Python, and how a wait of theirs that did not end well is told.
#pragma once

#include <nanobind/nanobind.h>

#include "host_ops.hpp"
#include "world/worlds.hpp"

namespace onstream::python {

// Throws the world's failure, unless the wait ended well. With the GIL.
void raise_unless_met(WorldState& state, const World& world, Status status);

}  // namespace onstream::python
