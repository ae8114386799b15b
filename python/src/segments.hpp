// Segments for Python: symmetric memory and the one-sided ops on it.
#pragma once

#include <nanobind/nanobind.h>

#include "worlds.hpp"

namespace onstream::python {

// The class SegmentBlocks, and World._segment.
void bind_segments(nb::module_& m, nb::class_<PyWorld>& world);

}  // namespace onstream::python
