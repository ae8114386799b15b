// Teams for Python: sets of ranks that meet, on streams and as hosts.
#pragma once

#include <nanobind/nanobind.h>

#include "worlds.hpp"

namespace onstream::python {

// The class Team, and World.team.
void bind_teams(nb::module_& m, nb::class_<PyWorld>& world);

}  // namespace onstream::python
