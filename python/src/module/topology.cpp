// Rings over a machine's description, for `onstream rings` and onstream/topology.py.
#include "onstream/topology/rings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/bind.hpp"
#include "base/gil.hpp"

namespace onstream::python {
namespace {

// As bytes: a file's comments may be in any encoding.
topology::Machine machine_of(const nb::bytes& description) {
  return topology::machine_from(std::string_view(description.c_str(), description.size()));
}

}  // namespace

void bind_topology(nb::module_& m) {
  m.def(
      "describe_rings",
      [](const nb::bytes& machine) {
        const topology::Machine read = machine_of(machine);
        const GilRelease release;
        return topology::describe(read, topology::find_rings(read));
      },
      nb::arg("machine"),
      "The edge-disjoint rings of a machine, a line each; its description is in onstream/topology/machine.hpp.");
  m.def(
      "find_rings",
      [](const nb::bytes& machine) {
        const topology::Machine read = machine_of(machine);
        const GilRelease release;
        std::vector<std::vector<int>> gpus;
        for (topology::Ring& ring : topology::find_rings(read).all) {
          gpus.push_back(std::move(ring.gpus));
        }
        return gpus;
      },
      nb::arg("machine"), "The same as data: the GPUs of each in its order.");
}

}  // namespace onstream::python
