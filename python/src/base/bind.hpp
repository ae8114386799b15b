// The parts of the module onstream._core. Each binds one noun; module.cpp calls them in this order.
#pragma once

#include <nanobind/nanobind.h>

namespace onstream {
void bind_tsunami(nanobind::module_& m);  // tsunami.cpp, for onstream.demo
}

namespace onstream::python {

namespace nb = nanobind;

void bind_errors(nb::module_& m);       // errors.cpp: Error and Status become Python exceptions
void bind_blocks(nb::module_& m);       // blocks.cpp: onstream's memory, and DLPack import
void bind_layouts(nb::module_& m);      // layouts.cpp: Layout
void bind_streams(nb::module_& m);      // streams.cpp: Stream, Graph
void bind_requests(nb::module_& m);     // requests.cpp: Request
void bind_calls(nb::module_& m);        // calls.cpp: Python functions in the order of streams
void bind_worlds(nb::module_& m);       // worlds.cpp: Launch, World, Segment, failures
void bind_one_sided(nb::module_& m);    // one_sided.cpp: one-sided ops on streams
void bind_contexts(nb::module_& m);     // contexts.cpp: one-sided ops of the host
void bind_heaps(nb::module_& m);        // heaps.cpp: pieces of symmetric memory
void bind_plans(nb::module_& m);        // plans.cpp: PlanBuilder, Plan, halo helpers
void bind_collectives(nb::module_& m);  // collectives.cpp: CollectiveCall, Team
void bind_topology(nb::module_& m);     // topology.cpp: rings
void bind_info(nb::module_& m);         // info.cpp: devices, parameters, launcher

}  // namespace onstream::python
