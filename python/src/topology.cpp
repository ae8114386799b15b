// Rings over a machine's description, for `onstream rings` and onstream/topology.py.
#include "onstream/topology/rings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bind.hpp"
#include "gil.hpp"

namespace onstream::python {

void bind_topology(nb::module_& m) {
  m.def(
      "describe_rings",
      [](const std::string& machine) {
        const topology::Machine read = topology::machine_from(machine);
        return topology::describe(read, topology::find_rings(read));
      },
      nb::arg("machine"), nb::call_guard<GilRelease>(),
      "The edge-disjoint rings of a machine, a line each; its description is in onstream/topology/machine.hpp.");
  m.def(
      "find_rings",
      [](const std::string& machine) {
        std::vector<std::vector<int>> gpus;
        for (topology::Ring& ring : topology::find_rings(topology::machine_from(machine)).all) {
          gpus.push_back(std::move(ring.gpus));
        }
        return gpus;
      },
      nb::arg("machine"), nb::call_guard<GilRelease>(), "The same as data: the GPUs of each in its order.");
}

}  // namespace onstream::python
