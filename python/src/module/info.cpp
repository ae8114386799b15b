// The devices and parameters for `onstream info`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/bind.hpp"
#include "onstream/base/text.hpp"
#include "onstream/device.hpp"
#include "onstream/parameters.hpp"
#include "onstream/path/table.hpp"

namespace onstream::python {

void bind_info(nb::module_& m) {
  nb::class_<DeviceRow>(m, "DeviceRow", "A device of this machine.")
      .def_prop_ro("kind", [](const DeviceRow& row) { return name_of(row.kind); })
      .def_ro("index", &DeviceRow::index)
      .def_ro("name", &DeviceRow::name)
      .def_ro("memory_bytes", &DeviceRow::memory_bytes)
      .def("__repr__", [](const DeviceRow& row) {
        const std::string place = row.kind == DeviceKind::host ? "host" : concat("cuda:", row.index);
        return concat("<DeviceRow: ", place, ", ", row.name, ", ", human_bytes(row.memory_bytes), ">");
      });
  nb::class_<ParameterRow>(m, "ParameterRow", "One parameter: its value, and the source that set it.")
      .def_ro("name", &ParameterRow::name)
      .def_ro("variable", &ParameterRow::variable, "The environment variable that sets it.")
      .def_ro("value", &ParameterRow::value)
      .def_ro("default_value", &ParameterRow::default_value)
      .def_ro("unit", &ParameterRow::unit)
      .def_ro("doc", &ParameterRow::doc)
      .def_ro("set_by", &ParameterRow::set_by)
      .def("__repr__", [](const ParameterRow& row) {
        return concat("<ParameterRow: ", row.name, "=", row.value, " (", row.set_by, ")>");
      });
  m.def("devices", &list_devices, "Every device of this machine, GPUs first.");
  m.def(
      "small_copies",
      [](const std::string& kind) {
        const SmallCopies it = small_copies_of(kind == "host" ? DeviceKind::host : DeviceKind::cuda);
        return std::make_pair(it.how, it.why);
      },
      nb::arg("kind"), "How small copies from the CPU to kernels work on devices of a kind, and why.");
  m.def("no_cuda_reason", &no_cuda_reason, "Why there are no cuda devices; empty if there are some.");
  m.def("no_attach_reason", &no_attach_reason,
        "Why no process of this machine can copy from another's plain memory; empty if it may work.");
  m.def(
      "paths", [] { return path::Table(Parameters::from_environment()).text(); },
      "The rules by which paths and algorithms are taken, with the parameters of this environment; docs/paths.md has\n"
      "the format, which parameter path_file reads.");
  m.def(
      "parameters", [] { return Parameters::from_environment().rows(); },
      "Every parameter with its value in this environment.");
}

}  // namespace onstream::python
