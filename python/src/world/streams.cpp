#include "streams.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/bind.hpp"
#include "base/gil.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/transport/fabric.hpp"
#include "op/requests.hpp"
#include "world/calls.hpp"

namespace onstream::python {

PyStream::PyStream(std::shared_ptr<Device> device, std::shared_ptr<WorldState> state)
    : device_(std::move(device)), state_(std::move(state)), stream_(device_->create_stream()) {
  if (state_ != nullptr) state_->streams.push_back(this);
}

namespace {

// A stream that a `with` block of this thread is capturing; `alive` expires with it, should another thread end both.
struct InCapture {
  PyStream* stream;
  std::weak_ptr<void> alive;
};

// The innermost last.
std::vector<InCapture>& captures() {
  thread_local std::vector<InCapture> streams;
  return streams;
}

void forget_capture(const PyStream* stream) {
  std::erase_if(captures(), [stream](const InCapture& one) { return one.stream == stream || one.alive.expired(); });
}

}  // namespace

PyStream::~PyStream() {
  if (state_ != nullptr) std::erase(state_->streams, this);
  alive_.reset();
  const GilRelease release;
  try {
    device().synchronize(stream_);
    device().destroy_stream(stream_);
  } catch (const Error&) {  // a destructor has nobody to tell; the world knows that its streams failed
  }
}

void PyStream::note(const std::shared_ptr<WorldState>& world) {
  used_ = true;
  if (world == state_) return;
  std::erase_if(others_, [&](const auto& known) { return known.expired() || known.lock() == world; });
  std::erase_if(world->guests, [this](const Guest& guest) { return guest.stream == this || guest.life.expired(); });
  world->guests.push_back({this, alive_});
  others_.push_back(world);
}

void PyStream::check_worlds() const {
  if (state_->world != nullptr) state_->check_waited();
  for (const auto& other : others_) {
    if (const auto state = other.lock(); state != nullptr && state->world != nullptr) state->check_waited();
  }
}

void PyStream::keep(Hold hold) {
  recent_.push_back(std::move(hold));
  if (recent_.size() < kBatch) return;
  seal();
  release_finished();
}

void PyStream::seal() {
  if (recent_.empty() || device().capturing(stream_)) return;
  Batch batch{nullptr, std::exchange(recent_, {})};
  try {
    const GilRelease release;  // a full queue may wait for a thread that needs the GIL
    batch.event = device().record(stream_);
  } catch (const Error&) {
    std::move(batch.holds.begin(), batch.holds.end(), std::back_inserter(recent_));
    throw;
  }
  batches_.push_back(std::move(batch));
}

void PyStream::release_finished() {
  while (!batches_.empty() && batches_.front().event->done()) {
    const Batch over = std::move(batches_.front());  // goes last: a released object may run Python
    batches_.pop_front();
  }
}

void PyStream::begin_capture() {
  seal();  // the arrays kept until now are not the graph's
  require(!device().capturing(stream_), "this stream is already being captured");
  device().begin_capture(stream_);
  used_ = false;
  captures().push_back({this, alive_});
}

std::shared_ptr<Graph> PyStream::end_capture() {
  forget_capture(this);
  return device().end_capture(stream_);
}

std::vector<Hold> PyStream::take_captured() { return std::exchange(recent_, {}); }

namespace {

std::optional<void*> foreign_handle(nb::handle given) {
  if (nb::hasattr(given, "__cuda_stream__")) {
    const nb::object pair = given.attr("__cuda_stream__")();
    return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(pair[1]));
  }
  for (const char* name : {"cuda_stream", "ptr"}) {  // torch's and cupy's names for the handle
    if (nb::hasattr(given, name)) return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(given.attr(name)));
  }
  if (PyLong_Check(given.ptr()) != 0 && PyBool_Check(given.ptr()) == 0)
    return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(given));
  return std::nullopt;
}

std::string device_text(const Device& device) {
  return device.kind() == DeviceKind::host ? "host" : concat("cuda:", device.index());
}

void synchronize(PyStream& self) {
  check_outside_call();
  const StreamWait wait(self.state(), self.stream());
  const bool was_open = self.state()->world != nullptr;
  Device& device = self.device();
  self.seal();  // other threads may enqueue more while this one waits
  poll_until([&] { return device.idle(self.stream()); }, self.state()->spin_us);
  self.release_finished();
  {
    const GilRelease release;
    device.synchronize(self.stream());
  }
  if (was_open) (void)self.state()->open();  // another thread has closed it meanwhile, perhaps with this stream's work
  self.check_worlds();
}

void end_capture(PyStream& self, PyGraph& graph) {
  graph.state = self.state();
  graph.home = &self;
  graph.home_life = self.life();
  graph.broken = "it could not be made";
  auto made = self.end_capture();
  graph.holds = self.take_captured();
  if (made->nodes() == 0 && !self.used()) {
    graph.broken = "it is empty";
    fail(ErrorCode::invalid_argument,
         "nothing was captured: no operation of the `with` block went to this stream. Without stream= operations of "
         "this world go to it, if the thread that opened the block starts them; stream='host' and other streams run at "
         "once");
  }
  graph.broken.clear();
  graph.graph = std::move(made);
}

// The `with` block raised: drops the work that it captured.
void drop_capture(PyStream& self, PyGraph& graph, const std::string& why) {
  graph.broken = "its capture ended by " + why;
  try {
    (void)self.end_capture();
  } catch (const Error&) {  // the block's own exception tells the cause
  }
  (void)self.take_captured();
}

void launch(nb::handle_t<PyGraph> handle, nb::handle stream) {
  const auto& self = nb::cast<const PyGraph&>(handle);
  require(self.broken.empty(), "this graph cannot be launched: ", self.broken, "; capture it again");
  require(self.graph != nullptr, "this graph is still being captured: launch it after its `with` block");
  const auto world = self.state->open();  // the graph's kernels use the world's memory
  Device& device = world->device();
  StreamChoice choice = choose_op_stream(stream, std::nullopt, self.state);
  if (stream.is_none() && !choice.stream) {
    require(!self.home_life.expired(),
            "the stream that this graph was captured on is gone: keep it, or name another: graph.launch(stream)");
    choice = {self.home->stream(), self.home, Keeper::stream};
  }
  require(choice.stream.has_value(), "a graph runs on a stream: graph.launch() or graph.launch(stream), not 'host'");
  {
    const GilRelease release;
    world->fabric()->check([] { return std::string("the launch of a graph"); });
    device.launch(self.graph, *choice.stream);
  }
  self.state->keep(choice, Hold(nb::borrow(handle)));
}

}  // namespace

std::optional<Natural> natural_from(const NaturalArgument& told) {
  if (!told) return std::nullopt;
  return Natural{Stream{reinterpret_cast<void*>(told->first)}, told->second};
}

namespace {

StreamChoice choose_ours(PyStream& mine, const std::shared_ptr<WorldState>& world) {
  mine.note(world);
  return {mine.stream(), &mine, Keeper::stream};
}

}  // namespace

StreamChoice choose_stream(nb::handle given, std::optional<Natural> natural, const std::shared_ptr<WorldState>& world) {
  if (given.is_none()) {
    if (!natural) return {};
    return {natural->stream, nullptr, natural->ordered ? Keeper::library : Keeper::world};
  }
  const Device& device = world->open()->device();
  if (nb::isinstance<PyStream>(given)) {
    auto* mine = nb::cast<PyStream*>(given);
    const Device& theirs = mine->device();
    require(theirs.kind() == device.kind() && theirs.index() == device.index(), "the stream belongs to ",
            device_text(theirs), ", but the world's device is ", device_text(device));
    return choose_ours(*mine, world);
  }
  if (nb::isinstance<nb::str>(given)) {
    const auto text = nb::cast<std::string>(given);
    require(text == "host", "stream='", text, "' means nothing; give a stream, or 'host' to wait on the host");
    return {};
  }
  const auto handle = foreign_handle(given);
  if (!handle) {
    throw nb::type_error(concat("stream= takes a Stream of World.stream(), a torch or cupy stream, an object with "
                                "__cuda_stream__, a CUDA stream's address, or 'host', not a ",
                                nb::type_name(given.type()).c_str())
                             .c_str());
  }
  require(device.kind() == DeviceKind::cuda,
          "a CUDA stream was given, but the world's device is host; use World.stream()");
  return {Stream{*handle}, nullptr, Keeper::world};
}

StreamChoice choose_op_stream(nb::handle given, std::optional<Natural> natural,
                              const std::shared_ptr<WorldState>& world) {
  if (given.is_none()) {
    const auto& mine = captures();
    const auto found = std::find_if(mine.rbegin(), mine.rend(), [&](const InCapture& one) {
      return !one.alive.expired() && one.stream->state() == world;
    });
    if (found != mine.rend()) return choose_ours(*found->stream, world);
  }
  return choose_stream(given, natural, world);
}

void bind_streams(nb::module_& m) {
  m.def(
      "captures",
      [] {
        std::erase_if(captures(), [](const InCapture& one) { return one.alive.expired(); });
        return !captures().empty();
      },
      "Whether this thread is inside a capture().");
  nb::class_<PyStream>(m, "Stream", "A queue of work on a world's device. Made by World.stream().")
      .def("synchronize", &synchronize,
           "Blocks until all work enqueued so far has finished; then raises if the world has failed\n"
           "or a message did not end well: this world, or another one whose work is on the stream. Ctrl-C works.")
      .def_prop_ro(
          "idle",
          [](const PyStream& self) {
            const GilRelease release;  // asking a GPU may wait
            return self.device().idle(self.stream());
          },
          "Whether all enqueued work has finished.")
      .def_prop_ro(
          "handle", [](const PyStream& self) { return reinterpret_cast<std::uintptr_t>(self.stream().handle); },
          "The device's own handle: a cudaStream_t on cuda.")
      .def("__repr__",
           [](const PyStream& self) {
             const Device& device = self.device();
             return concat("<Stream on ", device_text(device),
                           device.capturing(self.stream()) ? ", being captured" : "", ">");
           })
      .def("__cuda_stream__",
           [](const PyStream& self) {
             require(self.device().kind() == DeviceKind::cuda, "a stream of the host device is no CUDA stream");
             return std::pair(0, reinterpret_cast<std::uintptr_t>(self.stream().handle));
           })
      .def("_begin_capture", &PyStream::begin_capture)
      .def("_end_capture", &end_capture, nb::arg("graph"))
      .def("_drop_capture", &drop_capture, nb::arg("graph"), nb::arg("why"));
  nb::class_<PyGraph>(m, "Graph", "Captured work of one stream, launched any number of times. Made by World.capture().")
      .def(nb::init<>())
      .def("launch", &launch, nb::arg("stream") = nb::none(),
           "Enqueues everything that was captured, on the stream that it was captured on if none is given. Does not\n"
           "block. Raises if the world has failed.");
}

}  // namespace onstream::python
