// Matched messages, and waits for any of several requests, of World. onstream/messages.py makes them
// comfortable.
#pragma once

#include <nanobind/nanobind.h>

#include "world/worlds.hpp"

namespace onstream::python {

void bind_probes(nb::module_& m, nb::class_<PyWorld>& world);

}  // namespace onstream::python
