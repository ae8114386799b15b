#include "segments.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>

#include "arrays/arguments.hpp"
#include "arrays/blocks.hpp"
#include "base/errors.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::python {

Compare compare_from(const std::string& name) {
  static constexpr std::pair<const char*, Compare> kNames[] = {{"eq", Compare::eq}, {"ne", Compare::ne},
                                                               {"gt", Compare::gt}, {"ge", Compare::ge},
                                                               {"lt", Compare::lt}, {"le", Compare::le}};
  for (const auto& [word, compare] : kNames) {
    if (name == word) return compare;
  }
  fail(ErrorCode::invalid_argument, "compare='", name, "' is none of eq, ne, gt, ge, lt, le");
}

SignalOp signal_op_from(const std::string& name) {
  if (name == "add") return SignalOp::add;
  if (name == "set") return SignalOp::set;
  fail(ErrorCode::invalid_argument, "op='", name, "' is none of add, set");
}

std::byte* PySegment::at(std::size_t offset, std::size_t bytes) const {
  const std::size_t all = segment->bytes();
  require(offset <= all && bytes <= all - offset, bytes, " B at offset ", offset, " are not within the ", all,
          " B of the segment");
  return segment->local() + offset;
}

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);  // signals are words of 8 bytes

// On a stream, or with the host waiting.
void run(const PySegment& self, const Batch& batch, const StreamChoice& choice, std::optional<Hold> hold) {
  const auto world = self.open();
  if (choice.stream) {
    return enqueue_and_keep(
        *self.state, choice, [&] { world->one_sided().run(batch, *choice.stream); }, Hold(nb::find(self)),
        hold ? std::move(*hold) : Hold());
  }
  const BlockingCall call(self.state);
  const auto wait_for_it = [&] {
    world->one_sided().run(batch);
    return true;
  };
  interruptible(wait_for_it, [&] { abort_interrupted(*world, "one-sided op"); });
}

StreamChoice choose(const PySegment& self, nb::handle stream, std::optional<Natural> natural) {
  return choose_op_stream(stream, natural, self.state);
}

void put(PySegment& self, nb::handle array, int rank, std::size_t offset, std::optional<std::size_t> signal,
         std::uint64_t value, const std::string& op, nb::handle stream) {
  MessageBuffer buffer = message_buffer(array, Access::read, self.owner());
  Batch batch(self.open()->one_sided());
  batch.put(self.remote(offset, buffer.bytes, rank), buffer.address, buffer.bytes);
  if (signal) batch.signal({self.remote(*signal, kWord, rank), signal_op_from(op), value, kWord});
  run(self, batch, choose(self, stream, buffer.natural), std::move(buffer.hold));
}

void get(PySegment& self, nb::handle array, int rank, std::size_t offset, nb::handle stream) {
  MessageBuffer buffer = message_buffer(array, Access::write, self.owner());
  Batch batch(self.open()->one_sided());
  batch.get(buffer.address, self.remote(offset, buffer.bytes, rank), buffer.bytes);
  run(self, batch, choose(self, stream, buffer.natural), std::move(buffer.hold));
}

void signal(PySegment& self, int rank, std::size_t offset, std::uint64_t value, const std::string& op,
            nb::handle stream) {
  Batch batch(self.open()->one_sided());
  batch.signal({self.remote(offset, kWord, rank), signal_op_from(op), value, kWord});
  run(self, batch, choose(self, stream, std::nullopt), std::nullopt);
}

void wait(PySegment& self, std::size_t offset, std::uint64_t value, const std::string& compare, nb::handle stream) {
  const auto world = self.open();
  const void* const word = self.at(offset, kWord);
  const Until until{compare_from(compare), value, kWord, Sign::unsigned_word};
  const StreamChoice choice = choose(self, stream, std::nullopt);
  if (choice.stream) {
    return enqueue_and_keep(
        *self.state, choice, [&] { world->one_sided().wait(word, until, *choice.stream); }, Hold(nb::find(self)));
  }
  const BlockingCall call(self.state);
  const Status status = interruptible([&] { return world->one_sided().wait(word, until); }, [] {});
  if (status == Status::ok) return;
  self.state->check_waited();
  fail(ErrorCode::aborted, "rank ", world->rank(), ": a wait for a word of a segment ended as ", name_of(status));
}

void free_segment(PySegment& self) {
  const auto world = self.open();
  run_together(self.state, "free", [world, segment = self.segment] { world->free(segment); });
}

PySegment make_segment(nb::handle_t<PyWorld> handle, std::size_t bytes, const std::string& kind_name) {
  auto& self = nb::cast<PyWorld&>(handle);
  const auto world = self.open();
  const MemoryKind kind = kind_from(kind_name);
  auto segment = run_together(self.state(), "segment", [world, bytes, kind] { return world->segment(bytes, kind); });
  return PySegment::over(nb::weakref(handle), self.state(), world->fabric()->device(), std::move(segment), kind);
}

}  // namespace

void bind_segments(nb::module_& m, nb::class_<PyWorld>& world) {
  nb::class_<PySegment>(m, "SegmentBlocks", "A segment's parts, one a rank, and the one-sided ops on them.")
      .def("local", &PySegment::local)
      .def("peer", &PySegment::peer, nb::arg("rank"))
      .def(
          "direct", [](const PySegment& self, int rank) { return self.segment->direct(rank); }, nb::arg("rank"))
      .def(
          "why_not", [](const PySegment& self, int rank) { return self.segment->why_not(rank); }, nb::arg("rank"))
      .def_prop_ro("nbytes", [](const PySegment& self) { return self.segment->bytes(); })
      .def_prop_ro("kind", [](const PySegment& self) { return name_of(self.kind); })
      .def("put", &put, nb::arg("array"), nb::arg("rank"), nb::arg("offset"), nb::arg("signal").none(),
           nb::arg("value"), nb::arg("op"), nb::arg("stream").none())
      .def("get", &get, nb::arg("array"), nb::arg("rank"), nb::arg("offset"), nb::arg("stream").none())
      .def("signal", &signal, nb::arg("rank"), nb::arg("offset"), nb::arg("value"), nb::arg("op"),
           nb::arg("stream").none())
      .def("wait", &wait, nb::arg("offset"), nb::arg("value"), nb::arg("compare"), nb::arg("stream").none())
      .def(
          "address_of",
          [](const PySegment& self, std::size_t offset, std::size_t bytes) {
            return reinterpret_cast<std::uintptr_t>(self.at(offset, bytes));
          },
          nb::arg("offset"), nb::arg("nbytes"), "This rank's own address of a piece.")
      .def("free", &free_segment);
  world.def("_segment", &make_segment, nb::arg("nbytes"), nb::arg("kind"));
}

}  // namespace onstream::python
