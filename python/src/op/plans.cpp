// Plans for onstream/plans.py, which reads arrays and hands their numbers down.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays/elements.hpp"
#include "base/bind.hpp"
#include "base/gil.hpp"
#include "base/slot.hpp"
#include "base/waiting.hpp"
#include "one_sided/host_ops.hpp"
#include "one_sided/segments.hpp"
#include "onstream/base/error.hpp"
#include "onstream/halo.hpp"
#include "onstream/transport/fabric.hpp"
#include "planned.hpp"
#include "world/streams.hpp"
#include "world/worlds.hpp"

namespace onstream::python {
namespace {

using PlanSlot = Slot<std::shared_ptr<Plan>>;
using BuilderSlot = Slot<PlanBuilder>;

struct PyPlan;
void run(PyPlan& self);

struct PyPlan {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<PlanSlot> slot;
  nb::object arrays;  // that the plan was built over: a stream or a graph that keeps the plan keeps them

  std::shared_ptr<Plan> plan() const {
    state->open();
    return slot->with([](const std::shared_ptr<Plan>& plan) { return plan; });
  }
  void launch(nb::handle stream, const NaturalArgument& natural) {
    const auto world = state->open();
    const StreamChoice choice = choose_op_stream(stream, natural_from(natural), state);
    if (!choice.stream) return run(*this);
    {
      const auto mine = plan();
      const GilRelease release;
      mine->launch(*choice.stream);
    }
    state->keep(choice, Hold(nb::find(*this)));
  }
};

// Launches and waits for the run's end. Ctrl-C aborts the world: peers may be writing to the arrays.
void run(PyPlan& self) {
  const BlockingCall call(self.state);
  const auto world = self.state->open();
  const auto plan = self.plan();
  const auto on_interrupt = [&] {
    world->abort(concat("rank ", world->rank(), " was interrupted in plan '", plan->name(), "'"), Cause::interrupt);
  };
  if (plan->runs_here()) {
    interruptible(
        [&] {
          plan->run();
          return true;
        },
        on_interrupt);
  } else {
    self.state->run_and_wait([&](Stream stream) { plan->launch(stream); }, on_interrupt);
  }
  self.state->check_waited();
}

struct PyBuilder {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<BuilderSlot> slot;

  template <class Function>
  void add(const Function& function) const {
    state->open();
    slot->with(function);
  }
  PyPlan build(nb::object arrays) {
    PlanBuilder mine = slot->with([](PlanBuilder& builder) { return builder; });
    auto made = std::make_shared<PlanSlot>(
        run_together(state, "build", [mine = std::move(mine)]() mutable { return mine.build(); }), "plan");
    state->add(made);
    return {state, std::move(made), std::move(arrays)};
  }
};

PyBuilder make_builder(PyWorld& world, const std::string& name) {
  auto slot = std::make_shared<BuilderSlot>(world.open()->plan(name), "plan");
  world.state()->add(slot);
  return {world.state(), std::move(slot)};
}

void add_halo_to(PyBuilder& self, const Elements& array, const std::vector<std::int64_t>& ghost,
                 const std::vector<int>& grid, const std::vector<bool>& periodic, bool corners, int tag) {
  const HaloSpec spec{.shape = array.shape,
                      .strides_bytes = array.strides,
                      .element_bytes = array.item_bytes,
                      .ghost = ghost,
                      .grid = grid,
                      .periodic = periodic,
                      .corners = corners,
                      .tag = tag,
                      .element = array.dtype};
  const auto fabric = self.state->open()->fabric();
  self.add([&](PlanBuilder& builder) { add_halo(builder, *fabric, array.pointer(), spec); });
}

void bind_builder(nb::module_& m) {
  nb::class_<Elements>(m, "Elements", "Where the elements of an array lie.")
      .def(nb::init<std::uintptr_t, std::size_t, std::vector<std::int64_t>, std::vector<std::int64_t>, std::string>(),
           nb::arg("address"), nb::arg("item_bytes"), nb::arg("shape"), nb::arg("strides"), nb::arg("dtype"))
      .def_ro("address", &Elements::address)
      .def_ro("item_bytes", &Elements::item_bytes)
      .def_ro("dtype", &Elements::dtype)
      .def_prop_ro("count", &Elements::count);
  nb::class_<PyBuilder>(m, "PlanBuilder", "Collects the operations of a plan. Use World.plan().")
      .def(
          "send",
          [](PyBuilder& self, const Elements& source, int peer, int tag, const std::string& note) {
            self.add([&](PlanBuilder& builder) {
              builder.send(source.pointer(), source.layout(), peer, tag, note).of(source.dtype);
            });
          },
          nb::arg("source"), nb::arg("peer"), nb::arg("tag"), nb::arg("note"))
      .def(
          "recv",
          [](PyBuilder& self, const Elements& destination, int peer, int tag, const std::string& note) {
            self.add([&](PlanBuilder& builder) {
              builder.recv(destination.pointer(), destination.layout(), peer, tag, note).of(destination.dtype);
            });
          },
          nb::arg("destination"), nb::arg("peer"), nb::arg("tag"), nb::arg("note"))
      .def(
          "put",
          [](PyBuilder& self, const Elements& remote, const Elements& source, int peer, const std::string& note) {
            self.add([&](PlanBuilder& builder) {
              builder.put(remote.pointer(), remote.layout(), source.pointer(), source.layout(), peer, note);
            });
          },
          nb::arg("remote"), nb::arg("source"), nb::arg("peer"), nb::arg("note"))
      .def(
          "get",
          [](PyBuilder& self, const Elements& destination, const Elements& remote, int peer, const std::string& note) {
            self.add([&](PlanBuilder& builder) {
              builder.get(destination.pointer(), destination.layout(), remote.pointer(), remote.layout(), peer, note);
            });
          },
          nb::arg("destination"), nb::arg("remote"), nb::arg("peer"), nb::arg("note"))
      .def(
          "signal",
          [](PyBuilder& self, const std::string& op, const Elements& word, std::uint64_t value, int peer,
             const std::string& note) {
            const SignalOp what = signal_op_from(op);
            self.add(
                [&](PlanBuilder& builder) { builder.signal(what, word.pointer(), word.bytes(), value, peer, note); });
          },
          nb::arg("op"), nb::arg("word"), nb::arg("value"), nb::arg("peer"), nb::arg("note"))
      .def(
          "atomic",
          [](PyBuilder& self, const std::string& op, const Elements& word, std::uint64_t value, int peer,
             std::uintptr_t old, std::uint64_t expected, const std::string& note) {
            const AtomicOp what = atomic_op_from(op);
            require_atomic(word, what);
            self.add([&](PlanBuilder& builder) {
              builder.atomic(what, word.pointer(), word.bytes(), value, peer, reinterpret_cast<void*>(old), expected,
                             note);
            });
          },
          nb::arg("op"), nb::arg("word"), nb::arg("value"), nb::arg("peer"), nb::arg("old"), nb::arg("expected"),
          nb::arg("note"))
      .def(
          "wait",
          [](PyBuilder& self, std::uintptr_t counter, std::uint64_t value, const std::string& note) {
            self.add(
                [&](PlanBuilder& builder) { builder.wait(reinterpret_cast<std::uint64_t*>(counter), value, note); });
          },
          nb::arg("counter"), nb::arg("value"), nb::arg("note"))
      .def(
          "wait_until",
          [](PyBuilder& self, const Elements& word, const std::string& compare, std::uint64_t value,
             const std::string& note) {
            const Condition condition{compare_from(compare), value};
            require_words("a wait of a plan", word);
            require(word.count() == 1, "a wait of a plan: one word, not ", word.count(),
                    "; give each a wait of its own");
            self.add([&](PlanBuilder& builder) { builder.wait(word.pointer(), until_of(word, condition), note); });
          },
          nb::arg("word"), nb::arg("compare"), nb::arg("value"), nb::arg("note"))
      .def("halo", &add_halo_to, nb::arg("array"), nb::arg("ghost"), nb::arg("grid"), nb::arg("periodic"),
           nb::arg("corners"), nb::arg("tag"))
      .def(
          "refuse",
          [](PyBuilder& self, const std::string& why) { self.add([&](PlanBuilder& builder) { builder.refuse(why); }); },
          nb::arg("why"), "Lets build() raise on every rank.")
      .def(
          "add",
          [](PyBuilder& self, const PyPlanned& planned) {
            self.add([&](PlanBuilder& builder) { builder.add(planned.call); });
          },
          nb::arg("call"))
      .def(
          "use_path",
          [](PyBuilder& self, const std::string& path) {
            const Path chosen = path == "auto" ? Path::automatic : path_from(path);
            self.add([&](PlanBuilder& builder) { builder.use_path(chosen); });
          },
          nb::arg("path"))
      .def("build", &PyBuilder::build, nb::arg("arrays"),
           "Collective: matches, validates and compiles. Ctrl-C works. The plan keeps `arrays` alive.");
  m.def("plan_builder", &make_builder, nb::arg("world"), nb::arg("name"));
}

}  // namespace

void bind_plans(nb::module_& m) {
  nb::class_<OpTime>(m, "OpTime", "Where the time of one operation of a plan went, on the device's clock.")
      .def_ro("what", &OpTime::what)
      .def_ro("wait_ns", &OpTime::wait_ns, "Waiting for the peer, over all launches.")
      .def_ro("move_ns", &OpTime::move_ns, "Moving bytes, over all launches.")
      .def_ro("launches", &OpTime::launches)
      .def("__repr__", [](const OpTime& time) {
        return concat("<OpTime: ", time.what, ": waited ", time.wait_ns, " ns, moved ", time.move_ns, " ns in ",
                      time.launches, time.launches == 1 ? " launch>" : " launches>");
      });
  nb::class_<PlanOp>(m, "PlanOp", "One operation of a plan, and how its bytes travel.")
      .def_prop_ro("kind", [](const PlanOp& row) { return name_of(row.op.kind); })
      .def_prop_ro("peer", [](const PlanOp& row) { return row.op.peer; })
      .def_prop_ro("tag", [](const PlanOp& row) { return row.op.tag; })
      .def_prop_ro("nbytes", [](const PlanOp& row) { return row.op.layout.bytes(); })
      .def_prop_ro("layout", [](const PlanOp& row) { return row.op.layout.describe(); })
      .def_prop_ro("note", [](const PlanOp& row) { return row.op.note; })
      .def_prop_ro("path", [](const PlanOp& row) { return name_of(row.path); })
      .def_ro("why", &PlanOp::why);
  nb::class_<PyPlan>(m, "Plan", "Operations compiled once and launched many times. Use World.plan() or World.halo().")
      .def("launch", &PyPlan::launch, nb::arg("stream").none(), nb::arg("natural").none(),
           "On a stream, or, with 'host', blocking. None: on the stream that this thread captures, on `natural`, or "
           "blocking.")
      .def("explain", [](const PyPlan& self) { return self.plan()->explain(); })
      .def("times", [](const PyPlan& self) { return self.plan()->times(); })
      .def("reset_times", [](PyPlan& self) { self.plan()->reset_times(); })
      .def_prop_ro("name", [](const PyPlan& self) { return self.plan()->name(); })
      .def_prop_ro("ops", [](const PyPlan& self) { return self.plan()->ops(); })
      .def_prop_ro("kernels_per_launch", [](const PyPlan& self) { return self.plan()->kernels_per_launch(); });
  bind_builder(m);
  m.def("choose_grid", &choose_grid, nb::arg("size"), nb::arg("shape"),
        "Ranks per dimension for `size` ranks over a global array of `shape`, minimising the cells exchanged.");
  m.def("coordinates_of", &coordinates_of, nb::arg("rank"), nb::arg("grid"), "A rank's place in a grid of ranks.");
  m.def("rank_at", &rank_at, nb::arg("coordinates"), nb::arg("grid"), nb::arg("periodic"),
        "The rank at a place of a grid; -1 outside a non-periodic one.");
}

}  // namespace onstream::python
