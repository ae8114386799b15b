// One-sided ops for onstream/symmetric.py, on streams or with the host waiting, on places and words by their addresses.
//
// Without a stream a context does the op; they are kept for the next one, because on a GPU each has a stream of its
// own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/bind.hpp"
#include "base/waiting.hpp"
#include "contexts.hpp"
#include "onstream/base/error.hpp"
#include "onstream/one_sided.hpp"
#include "segments.hpp"

namespace onstream::python {

namespace {

// Contexts that no op uses now. Ends with its world; one that an op has then goes when the op is over, with the share
// of the world that the op holds.
class Idle : public Closable {
 public:
  std::unique_ptr<Context> take(World& world) {
    {
      const std::lock_guard lock(mutex_);
      if (!contexts_.empty()) {
        auto context = std::move(contexts_.back());
        contexts_.pop_back();
        return context;
      }
    }
    return std::make_unique<Context>(world.one_sided());
  }
  void give(std::unique_ptr<Context> context) {
    const std::lock_guard lock(mutex_);
    if (!closed_) contexts_.push_back(std::move(context));
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    contexts_.clear();
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::unique_ptr<Context>> contexts_;
};

struct PyOneSided {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<Idle> idle;

  // on_stream(one-sided core, stream) enqueues; on_host(context) blocks, and its result is returned.
  template <class OnStream, class OnHost>
  auto run(nb::handle stream, const NaturalArgument& natural, nb::object owners, const OnStream& on_stream,
           const OnHost& on_host) const -> std::optional<std::invoke_result_t<const OnHost&, Context&>> {
    const auto world = state->open();
    const StreamChoice choice = choose_op_stream(stream, natural_from(natural), state);
    if (choice.stream) {
      enqueue_and_keep(*state, choice, [&] { on_stream(world->one_sided(), *choice.stream); }, Hold(std::move(owners)));
      return std::nullopt;
    }
    const BlockingCall call(state);
    auto context = idle->take(*world);
    auto result = interruptible([&] { return on_host(*context); }, [&] { abort_interrupted(*world, "one-sided op"); });
    idle->give(std::move(context));
    return result;
  }
};

PyOneSided one_sided_of(PyWorld& world) {
  auto idle = std::make_shared<Idle>();
  world.state()->add(idle);
  return {world.state(), std::move(idle)};
}

void put(const PyOneSided& self, const Elements& to, const Elements& source, int rank,
         std::optional<std::uintptr_t> word, std::uint64_t value, const std::string& op, nb::handle stream,
         const NaturalArgument& natural, nb::object owners) {
  require_equal("put", to, source);
  std::optional<Told> told;
  if (word) told = Told{*word, value, signal_op_from(op)};
  const auto on_stream = [&](OneSided& core, Stream on) {
    const Remote place = core.symmetric(to.pointer(), rank);
    if (told) require_told(core, *told, rank);
    const auto behind = [&] { return signal_of(core, *told, rank); };
    if (!is_contiguous(to) || !is_contiguous(source)) {
      core.put(place, to.layout(), source.pointer(), source.layout(), on);
      if (told) core.signal(behind(), on);
    } else if (told) {
      core.put_signal(place, source.pointer(), source.bytes(), behind(), on);
    } else {
      core.put(place, source.pointer(), source.bytes(), on);
    }
  };
  OneSided& here = self.state->open()->one_sided();
  self.run(stream, natural, std::move(owners), on_stream, [&](Context& context) {
    if (told) require_told(here, *told, rank);
    put_by(context, to, source, rank, told, Done::now);
    return true;
  });
}

void get(const PyOneSided& self, const Elements& to, const Elements& source, int rank, nb::handle stream,
         const NaturalArgument& natural, nb::object owners) {
  require_equal("get", to, source);
  const auto on_stream = [&](OneSided& core, Stream on) {
    const Remote place = core.symmetric(source.pointer(), rank);
    if (!is_contiguous(to) || !is_contiguous(source)) {
      core.get(to.pointer(), to.layout(), place, source.layout(), on);
    } else {
      core.get(to.pointer(), place, to.bytes(), on);
    }
  };
  self.run(stream, natural, std::move(owners), on_stream, [&](Context& context) {
    get_by(context, to, source, rank, Done::now);
    return true;
  });
}

void signal(const PyOneSided& self, const Elements& word, int rank, std::uint64_t value, const std::string& op,
            nb::handle stream, nb::object owners) {
  const SignalOp what = signal_op_from(op);
  const auto on_stream = [&](OneSided& core, Stream on) {
    core.signal({core.symmetric(word.pointer(), rank), what, value, word.item_bytes}, on);
  };
  self.run(stream, std::nullopt, std::move(owners), on_stream, [&](Context& context) {
    signal_by(context, word, value, what, rank);
    return true;
  });
}

// Which of many words a wait waits for, and where a stream leaves the answer.
struct Many {
  std::string which;  // "all", "any", "some"
  std::uintptr_t found = 0;
  std::uintptr_t indices = 0;
  std::uintptr_t left_out = 0;  // for a stream; the host has a list
};

using Found = std::vector<std::size_t>;

// Returns the indices that the host found: of all words that compare, or of the one; nothing on a stream.
std::optional<Found> wait(const PyOneSided& self, const Many& many, const Elements& words, const std::string& compare,
                          std::uint64_t value, const std::vector<int>& left_out, nb::handle stream, nb::object owners) {
  const Condition condition{compare_from(compare), value};
  require_words("a wait", words);
  const auto on_stream = [&](OneSided& core, Stream on) {
    require(left_out.empty() || many.left_out != 0,
            "a wait on a stream: leave_out is an array of int32 that kernels access, one for each word");
    const WordRow row{words.pointer(), words.count(), reinterpret_cast<const int*>(many.left_out)};
    auto* const found = reinterpret_cast<std::uint64_t*>(many.found);
    const Until until = until_of(words, condition);
    if (many.which == "any") return core.wait_any(row, until, found, on);
    if (many.which == "some") {
      return core.wait_some(row, until, reinterpret_cast<std::uint64_t*>(many.indices), found, on);
    }
    if (row.count == 1 && row.left_out == nullptr) return core.wait(row.first, until, on);
    core.wait_all(row, until, on);
  };
  Found found;
  const auto on_host = [&](Context& context) {
    require(many.found == 0 && many.indices == 0,
            "a wait of the host returns what it finds: found= and indices= are for waits on a stream");
    require(many.left_out == 0 || !left_out.empty() || words.count() == 0,
            "a wait of the host: leave_out lies in a GPU's memory; give a list, or a stream");
    const Words looked_at{words, left_out};
    if (many.which == "all") return wait_all_by(context, looked_at, condition);
    if (many.which == "some") return wait_some_by(context, looked_at, condition, &found);
    found.resize(1);
    return wait_any_by(context, looked_at, condition, found.data());
  };
  const auto status = self.run(stream, std::nullopt, std::move(owners), on_stream, on_host);
  if (!status) return std::nullopt;
  raise_unless_met(*self.state, *self.state->open(), *status);
  return found;
}

// The old value; on a stream it goes to `old`, or nowhere.
std::optional<std::uint64_t> atomic(const PyOneSided& self, const std::string& op, const Elements& word, int rank,
                                    std::uint64_t value, std::uint64_t expected, std::uintptr_t old, nb::handle stream,
                                    nb::object owners) {
  const Change change{atomic_op_from(op), value, expected};
  require_atomic(word, change.op);
  const auto on_stream = [&](OneSided& core, Stream on) {
    core.atomic(change.op, core.symmetric(word.pointer(), rank), word.item_bytes, value, reinterpret_cast<void*>(old),
                expected, on);
  };
  return self.run(stream, std::nullopt, std::move(owners), on_stream, [&](Context& context) {
    require(old == 0, "an atomic of the host returns the old value: old= is for atomics on a stream");
    return atomic_by(context, word, change, rank);
  });
}

}  // namespace

void bind_one_sided(nb::module_& m) {
  nb::class_<Many>(m, "Many", "Which of many words a wait waits for, and where a stream leaves the answer.")
      .def(
          "__init__",
          [](Many* self, const std::string& which, std::uintptr_t found, std::uintptr_t indices,
             std::uintptr_t left_out) { new (self) Many{which, found, indices, left_out}; },
          nb::arg("which"), nb::arg("found") = 0, nb::arg("indices") = 0, nb::arg("left_out") = 0);
  nb::class_<PyOneSided>(m, "OneSided", "One-sided ops by address, on streams or blocking. Use SymmetricArray.")
      .def("put", &put, nb::arg("to"), nb::arg("source"), nb::arg("rank"), nb::arg("word").none(), nb::arg("value"),
           nb::arg("op"), nb::arg("stream").none(), nb::arg("natural").none(), nb::arg("owners"))
      .def("get", &get, nb::arg("to"), nb::arg("source"), nb::arg("rank"), nb::arg("stream").none(),
           nb::arg("natural").none(), nb::arg("owners"))
      .def("signal", &signal, nb::arg("word"), nb::arg("rank"), nb::arg("value"), nb::arg("op"),
           nb::arg("stream").none(), nb::arg("owners"))
      .def("wait", &wait, nb::arg("many"), nb::arg("words"), nb::arg("compare"), nb::arg("value"), nb::arg("left_out"),
           nb::arg("stream").none(), nb::arg("owners"),
           "The indices that the host found, or of `any` the one (the number of words if all are left out).")
      .def("atomic", &atomic, nb::arg("op"), nb::arg("word"), nb::arg("rank"), nb::arg("value"), nb::arg("expected"),
           nb::arg("old"), nb::arg("stream").none(), nb::arg("owners"), "The old value, or None on a stream.");
  m.def("one_sided_of", &one_sided_of, nb::arg("world"));
}

}  // namespace onstream::python
