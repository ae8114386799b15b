// The tsunami of apps/tsunami, as onstream.demo uses it: arrays in, arrays out.
#include "tsunami.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bind.hpp"
#include "base/gil.hpp"
#include "onstream/base/error.hpp"
#include "onstream/plan.hpp"
#include "world/worlds.hpp"

namespace onstream {

namespace {

namespace nb = nanobind;

using In = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy, double>;

std::vector<double> values_of(const In& array) { return {array.data(), array.data() + array.size()}; }

// Hands the values over to a numpy array of this shape; None for no values.
std::optional<Out> array_of(std::vector<double> values, const std::vector<std::size_t>& shape) {
  if (values.empty()) return std::nullopt;
  auto kept = std::make_unique<std::vector<double>>(std::move(values));
  double* data = kept->data();
  nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return Out(data, shape.size(), shape.data(), owner);
}

struct PyTsunami {
  tsunami::Tsunami solver;
  std::size_t rows;
  std::size_t columns;
};

void construct(PyTsunami* self, const python::PyWorld& world, const In& depth_m, const In& elevation_m,
               const In& width_m, const In& face_width_m, double height_m, double time_step_s, double gravity,
               std::int64_t rows, std::int64_t columns, std::vector<std::int64_t> gauges, std::int64_t steps,
               bool capture) {
  tsunami::Problem problem;
  problem.rows = rows;
  problem.columns = columns;
  problem.height_m = height_m;
  problem.time_step_s = time_step_s;
  problem.gravity = gravity;
  problem.width_m = values_of(width_m);
  problem.face_width_m = values_of(face_width_m);
  problem.depth_m = values_of(depth_m);
  problem.elevation_m = values_of(elevation_m);
  problem.gauges = std::move(gauges);
  problem.steps = steps;
  problem.replay = capture ? tsunami::Replay::captured : tsunami::Replay::eager;
  const auto open = world.open();
  const python::GilRelease release;
  new (self) PyTsunami{{open, problem}, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
}

std::optional<Out> gather(PyTsunami& self, const std::string& field) {
  require(field == "elevation" || field == "highest", "field='", field, "' is none of elevation, highest");
  std::vector<double> values;
  {
    const python::GilRelease release;
    values = self.solver.gather(field == "highest" ? tsunami::Field::highest : tsunami::Field::elevation);
  }
  return array_of(std::move(values), {self.rows, self.columns});
}

std::optional<Out> gauge(PyTsunami& self, std::size_t index) {
  std::vector<double> values;
  {
    const python::GilRelease release;
    values = self.solver.gauge(index);
  }
  const std::size_t count = values.size();
  return array_of(std::move(values), {count});
}

nb::dict times(const PyTsunami& self) {
  tsunami::StepTimes times;
  {
    const python::GilRelease release;
    times = self.solver.times();
  }
  nb::dict out;
  out["steps"] = times.steps;
  out["compute_ns"] = times.compute_ns;
  out["wait_ns"] = times.wait_ns;
  out["exchange_move_ns"] = times.exchange_move_ns;
  out["exchange_wait_ns"] = times.exchange_wait_ns;
  return out;
}

nb::list exchanges(const PyTsunami& self) {
  nb::list rows;
  for (const PlanOp& planned : self.solver.exchanges()) {
    nb::dict row;
    row["kind"] = name_of(planned.op.kind);
    row["peer"] = planned.op.peer;
    row["note"] = planned.op.note;
    row["bytes"] = planned.op.layout.bytes();
    row["layout"] = planned.op.layout.describe();
    row["path"] = name_of(planned.path);
    row["why"] = planned.why;
    rows.append(row);
  }
  return rows;
}

nb::tuple block_of(int rank, int ranks, std::int64_t rows, std::int64_t columns) {
  const std::vector<int> grid = tsunami::rank_grid(ranks, rows, columns);
  const tsunami::Block block = tsunami::block_of(rank, grid, rows, columns);
  return nb::make_tuple(block.first_row, block.last_row, block.first_column, block.last_column);
}

}  // namespace

void bind_tsunami(nb::module_& m) {
  m.def("tsunami_grid", &tsunami::rank_grid, nb::arg("ranks"), nb::arg("rows"), nb::arg("columns"),
        "Ranks per dimension.");
  m.def("tsunami_block", &block_of, nb::arg("rank"), nb::arg("ranks"), nb::arg("rows"), nb::arg("columns"),
        "First row, last row, first column and last column (one past) that a rank owns.");
  nb::class_<PyTsunami>(m, "Tsunami", "One rank's part of a wave over a sea. Collective over the world's ranks.")
      .def("__init__", &construct, nb::arg("world"), nb::kw_only(), nb::arg("depth_m"), nb::arg("elevation_m"),
           nb::arg("width_m"), nb::arg("face_width_m"), nb::arg("height_m"), nb::arg("time_step_s"), nb::arg("gravity"),
           nb::arg("rows"), nb::arg("columns"), nb::arg("gauges"), nb::arg("steps"), nb::arg("capture"))
      .def(
          "run", [](PyTsunami& self, std::int64_t steps) { self.solver.run(steps); }, nb::arg("steps"),
          nb::call_guard<python::GilRelease>(), "Advances by so many steps and waits for them.")
      .def("gather", &gather, nb::arg("field") = "elevation",
           "Rank 0: the whole sea's elevation or highest; else None.")
      .def("gauge", &gauge, nb::arg("index"), "Rank 0: a gauge's elevation after every step; else None.")
      .def("times", &times, "Where this rank's time went since reset_times().")
      .def(
          "reset_times", [](PyTsunami& self) { self.solver.reset_times(); }, nb::call_guard<python::GilRelease>())
      .def(
          "explain", [](const PyTsunami& self) { return self.solver.explain(); }, "The halo plan's table.")
      .def("exchanges", &exchanges, "The halo plan's operations: kind, peer, note, bytes, layout, path, why.")
      .def_prop_ro("grid", [](const PyTsunami& self) { return self.solver.grid(); }, "Ranks per dimension.");
}

}  // namespace onstream
