// Contexts for onstream/contexts.py: one-sided ops that the host issues.
//
// A context has a lock of its own, because another thread may close the world meanwhile; ops take it without the GIL.
#include "contexts.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "base/gil.hpp"
#include "base/slot.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/one_sided.hpp"
#include "segments.hpp"

namespace onstream::python {

namespace {

using ContextSlot = Slot<std::unique_ptr<Context>>;
constexpr std::size_t kMostKept = 1024;  // arrays of `later` ops; one more waits for all of them

class PyContext {
 public:
  explicit PyContext(std::shared_ptr<WorldState> state)
      : state_(std::move(state)),
        slot_(std::make_shared<ContextSlot>(std::make_unique<Context>(state_->open()->one_sided()), "context")) {
    state_->add(slot_);
  }
  ~PyContext() {
    if (slot_ == nullptr) return;
    const GilRelease release;
    slot_->close();
  }
  PyContext(PyContext&&) = default;

  // Runs function(context) without the GIL; a Ctrl-C meanwhile ends the world, whose peers may be using the arrays.
  template <class Function>
  auto run(const Function& function) const {
    const BlockingCall call(state_);
    const auto world = state_->open();
    return interruptible([&] { return slot_->with([&](auto& context) { return function(*context); }); },
                         [&] { abort_interrupted(*world, "one-sided op"); });
  }
  template <class Function>
  void perform(const Function& function) const {
    (void)run([&](Context& context) {
      function(context);
      return true;
    });
  }
  // Runs a wait as run() does, and raises unless it is met.
  template <class Function>
  void await(const Function& function) const {
    const BlockingCall call(state_);
    const auto world = state_->open();
    const Status status =
        interruptible([&] { return slot_->with([&](auto& context) { return function(*context); }); }, [] {});
    raise_unless_met(*state_, *world, status);
  }

  void put(const Elements& to, const Elements& source, int rank, nb::object owner, std::optional<std::uintptr_t> word,
           std::uint64_t value, const std::string& op, bool later) {
    std::optional<Told> told;
    if (word) told = Told{*word, value, signal_op_from(op)};
    const Done done = later ? Done::later : Done::now;
    make_room(done);
    OneSided& core = state_->open()->one_sided();
    perform([&](Context& context) {
      if (told) require_told(core, *told, rank);
      put_by(context, to, source, rank, told, done);
    });
    if (later) kept_.emplace_back(std::move(owner));
  }
  void get(const Elements& to, const Elements& source, int rank, nb::object owner, bool later) {
    const Done done = later ? Done::later : Done::now;
    make_room(done);
    perform([&](Context& context) { get_by(context, to, source, rank, done); });
    if (later) kept_.emplace_back(std::move(owner));
  }
  void quiet() {
    perform([](Context& context) { context.quiet(); });
    kept_.clear();
  }
  void fence() const {
    perform([](Context& context) { context.fence(); });
  }

 private:
  void make_room(Done done) {
    if (done == Done::later && kept_.size() >= kMostKept) quiet();
  }

  std::shared_ptr<WorldState> state_;
  std::shared_ptr<ContextSlot> slot_;
  std::vector<Hold> kept_;  // arrays that ops use until quiet()
};

PyContext make_context(PyWorld& world) { return PyContext(world.state()); }

void signal(const PyContext& self, const Elements& word, int rank, std::uint64_t value, const std::string& op) {
  const SignalOp what = signal_op_from(op);
  self.perform([&](Context& context) { signal_by(context, word, value, what, rank); });
}

void wait_all(const PyContext& self, const Elements& words, const std::string& compare, std::uint64_t value,
              const std::vector<int>& left_out) {
  const Condition condition{compare_from(compare), value};
  self.await([&](Context& context) { return wait_all_by(context, {words, left_out}, condition); });
}

std::size_t wait_any(const PyContext& self, const Elements& words, const std::string& compare, std::uint64_t value,
                     const std::vector<int>& left_out) {
  const Condition condition{compare_from(compare), value};
  std::size_t found = 0;
  self.await([&](Context& context) { return wait_any_by(context, {words, left_out}, condition, &found); });
  return found;
}

std::vector<std::size_t> wait_some(const PyContext& self, const Elements& words, const std::string& compare,
                                   std::uint64_t value, const std::vector<int>& left_out) {
  const Condition condition{compare_from(compare), value};
  std::vector<std::size_t> found;
  self.await([&](Context& context) { return wait_some_by(context, {words, left_out}, condition, &found); });
  return found;
}

std::size_t test_any(const PyContext& self, const Elements& words, const std::string& compare, std::uint64_t value,
                     const std::vector<int>& left_out) {
  const Condition condition{compare_from(compare), value};
  return self.run([&](Context& context) { return test_any_by(context, {words, left_out}, condition); });
}

std::vector<std::size_t> test_some(const PyContext& self, const Elements& words, const std::string& compare,
                                   std::uint64_t value, const std::vector<int>& left_out) {
  const Condition condition{compare_from(compare), value};
  return self.run([&](Context& context) { return test_some_by(context, {words, left_out}, condition); });
}

std::uint64_t atomic(const PyContext& self, const std::string& op, const Elements& word, int rank, std::uint64_t value,
                     std::uint64_t expected) {
  const Change change{atomic_op_from(op), value, expected};
  return self.run([&](Context& context) { return atomic_by(context, word, change, rank); });
}

}  // namespace

void raise_unless_met(WorldState& state, const World& world, Status status) {
  if (status == Status::ok) return;
  state.check_waited();
  fail(ErrorCode::aborted, "rank ", world.rank(), ": a wait for words ended as ", name_of(status));
}

void bind_contexts(nb::module_& m) {
  nb::class_<PyContext>(m, "Context", "One-sided ops that the host issues. Use World.context().")
      .def("put", &PyContext::put, nb::arg("to"), nb::arg("source"), nb::arg("rank"), nb::arg("owner"),
           nb::arg("word").none(), nb::arg("value"), nb::arg("op"), nb::arg("later"))
      .def("get", &PyContext::get, nb::arg("to"), nb::arg("source"), nb::arg("rank"), nb::arg("owner"),
           nb::arg("later"))
      .def("signal", &signal, nb::arg("word"), nb::arg("rank"), nb::arg("value"), nb::arg("op"))
      .def("wait_all", &wait_all, nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"))
      .def("wait_any", &wait_any, nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"),
           "The index; the number of words if all are left out.")
      .def("wait_some", &wait_some, nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"))
      .def("test_any", &test_any, nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"),
           "The index; the number of words if none compares.")
      .def("test_some", &test_some, nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"))
      .def("atomic", &atomic, nb::arg("op"), nb::arg("word"), nb::arg("rank"), nb::arg("value"), nb::arg("expected"))
      .def("fence", &PyContext::fence)
      .def("quiet", &PyContext::quiet);
  m.def("make_context", &make_context, nb::arg("world"));
}

}  // namespace onstream::python
