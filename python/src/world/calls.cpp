// Python functions among the work of a stream, also in graphs, which call them again at each launch.
//
// The stream's thread takes the GIL for the function, so nothing that enqueues work, or waits for it, holds the GIL
// meanwhile. The stream, or the graph that captured the call, keeps the function. One that raises fails the world, as
// later work of the stream builds on it; in a world that has failed none is called.
#include "calls.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/bind.hpp"
#include "base/errors.hpp"
#include "base/gil.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/transport/fabric.hpp"
#include "op/requests.hpp"
#include "world/worlds.hpp"

namespace onstream::python {

namespace {

constinit thread_local bool inside_call = false;

// The mesh tells a failure within milliseconds, and nobody answers.
constexpr std::chrono::milliseconds kHeard{250};

struct StreamCall {
  nb::object function;
  std::string name;
  std::weak_ptr<WorldState> state;

  // Also of a world that is being closed, which waits for its streams.
  std::shared_ptr<World> world() const {
    const auto shared = state.lock();
    if (shared == nullptr) return nullptr;
    return shared->world != nullptr ? shared->world : shared->left.lock();
  }
  bool wanted() const {
    const auto mine = world();
    return mine != nullptr && HostGroup::load_acquire(mine->fabric()->wait_view().abort) == 0;
  }
  void fail(const std::string& text) const {
    const auto mine = world();
    if (mine == nullptr) return;
    const GilRelease release;
    mine->fabric()->abort_untold(
        concat("on rank ", mine->rank(), " the function ", name, " of World.call() raised ", text));
    // Later work of this stream could end other ranks' waits well, before these hear of the failure.
    std::this_thread::sleep_for(kHeard);
  }
};

std::string told_by(const nb::python_error& error) {
  std::string text = concat(nb::str(error.type().attr("__name__")).c_str(), ": ", nb::str(error.value()).c_str());
  nb::object at = nb::borrow(error.traceback());
  if (!at.is_valid() || at.is_none()) return text;
  while (!at.attr("tb_next").is_none()) at = at.attr("tb_next");
  const std::string file = nb::str(at.attr("tb_frame").attr("f_code").attr("co_filename")).c_str();
  return concat(text, " (", file, ":", nb::cast<int>(at.attr("tb_lineno")), ")");
}

// An exception may not be able to tell its own text.
std::string text_of(const nb::python_error& error) {
  try {
    return told_by(error);
  } catch (const nb::python_error&) {
    return "an exception whose text cannot be had";
  }
}

void run(const StreamCall& call) {
  if (!call.wanted()) return;
  inside_call = true;
  try {
    or_stand_still([&] { call.function(); });
    inside_call = false;
  } catch (nb::python_error& error) {
    inside_call = false;
    const std::string text = text_of(error);
    if (!error.matches(PyExc_Exception)) InterruptGuard::take(error);
    call.fail(text);
  }
}

void run_in_stream(void* call) {
  if (Py_IsInitialized() == 0) return;
  const GilAcquire acquire;
  run(*static_cast<const StreamCall*>(call));
}

void enqueue(const PyWorld& self, nb::object function, std::string name, nb::handle stream) {
  const auto world = self.open();
  const StreamChoice choice = choose_op_stream(stream, std::nullopt, self.state());
  require(
      choice.stream.has_value(), "call: ", name,
      " runs in the order of a stream: give stream=, or call it inside a capture(); without a stream the program calls "
      "it itself");
  auto made = std::make_unique<StreamCall>(StreamCall{std::move(function), std::move(name), self.state()});
  StreamCall* const call = made.get();
  nb::object kept = nb::capsule(call, [](void* held) noexcept { delete static_cast<StreamCall*>(held); });
  (void)made.release();  // the capsule's now
  {
    const GilRelease release;  // a full queue may wait for a thread that needs the GIL
    world->fabric()->check([] { return std::string("a call of a function"); });
    world->device().call(&run_in_stream, call, *choice.stream);
  }
  self.state()->keep(choice, Hold(std::move(kept)));
}

// Work of the stream from now on runs behind what the arrays' library has enqueued.
void follow(PyStream& self, const NaturalArgument& natural) {
  const auto other = natural_from(natural);
  if (!other) return;
  const GilRelease release;
  self.device().wait(self.stream(), self.device().record(other->stream));
}

}  // namespace

void check_outside_call() {
  if (!inside_call) return;
  fail(
      ErrorCode::unsupported,
      "a function of World.call() runs inside a stream, and cannot call onstream there; enqueue the op behind the call "
      "instead");
}

void bind_calls(nb::module_& m) {
  m.def("call_in_stream", &enqueue, nb::arg("world"), nb::arg("function"), nb::arg("name"), nb::arg("stream").none(),
        "Use World.call().");
  m.def("follow", &follow, nb::arg("stream"), nb::arg("natural").none(),
        "Later work of the stream runs behind that of the arrays' library.");
}

}  // namespace onstream::python
