// send(), recv(), sendrecv(), isend() and irecv() of World.
#pragma once

#include <nanobind/nanobind.h>

#include "world/worlds.hpp"

namespace onstream::python {

void bind_messages(nb::class_<PyWorld>& world);

}  // namespace onstream::python
