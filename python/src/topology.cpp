// Rings over a machine's description, for `onstream rings`.
#include "onstream/topology/rings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"

namespace onstream::python {

void bind_topology(nb::module_& m) {
  m.def(
      "describe_rings",
      [](const std::string& machine) {
        const topology::Machine read = topology::machine_from(machine);
        return topology::describe(read, topology::find_rings(read));
      },
      nb::arg("machine"), nb::call_guard<nb::gil_scoped_release>(),
      "The edge-disjoint rings of a machine, a line each; its description is in onstream/topology/machine.hpp.");
}

}  // namespace onstream::python
