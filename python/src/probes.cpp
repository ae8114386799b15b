// Matched messages, and waits for any of several requests. Each call waits without the GIL and interruptible.
#include "probes.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "errors.hpp"
#include "onstream/base/error.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace onstream::python {

namespace {

using WorldHandle = nb::handle_t<PyWorld>;

struct PyMatched {
  std::shared_ptr<Matched> matched;
};

PyMatched probe(PyWorld& self, int peer, int tag) {
  const auto world = self.open();
  const BlockingCall call(self.state());
  std::shared_ptr<Matched> found;
  const Status status =
      interruptible([&] { return world->match(peer, tag, found); }, [&] { abort_interrupted(*world, "probe"); });
  const FaultReport fault{.rank = world->rank(), .status = status, .op = OpKind::probe, .peer = peer, .tag = tag};
  raise_unless_ok(*world, fault);
  return {std::move(found)};
}

std::optional<PyMatched> iprobe(PyWorld& self, int peer, int tag) {
  const auto world = self.open();
  const BlockingCall call(self.state());
  auto found = interruptible([&] { return world->imatch(peer, tag); }, [&] { abort_interrupted(*world, "probe"); });
  if (found == nullptr) return std::nullopt;
  return PyMatched{std::move(found)};
}

void recv_matched(WorldHandle self, const PyMatched& matched, nb::handle array) {
  const auto& state = nb::cast<PyWorld&>(self).state();
  const auto world = state->open();
  const BlockingCall call(state);
  MessageBuffer buffer = message_buffer(array, Access::write, self);
  const Probed& message = matched.matched->message();
  const MessageOptions options{.tag = message.tag, .reported_by_wait = true};
  const auto start = [&] { return world->irecv(matched.matched, buffer.address, buffer.bytes, options); };
  auto request = interruptible(start, [&] { abort_interrupted(*world, "recv"); });
  PyRequest::Posted posted{
      .kind = OpKind::recv, .peer = message.peer, .tag = message.tag, .bytes = buffer.bytes, .stream = {}, .mine = {}};
  PyRequest(state, std::move(request), std::move(buffer.hold), std::move(posted)).wait_on_host();
}

// The requests of a list that its caller keeps.
class RequestList {
 public:
  RequestList(PyWorld& world, const nb::list& list) : world_(world.open()), call_(world.state()) {
    for (const nb::handle one : list) {
      python_.push_back(&nb::cast<PyRequest&>(one));
      requests_.push_back(python_.back()->request());
    }
  }

  // Calls into the library; an interrupt aborts the world.
  template <class Function>
  auto run(const Function& function) {
    return interruptible([&] { return function(*world_, std::span<const std::shared_ptr<Request>>(requests_)); },
                         [&] { abort_interrupted(*world_, "wait for one of several requests"); });
  }
  void take(std::size_t index, Status status) { python_[index]->take(*world_, status); }
  void raise_fault(std::size_t index) { python_[index]->raise_fault(*world_); }
  // Of one that has ended.
  void raise_any() {
    for (std::size_t i = 0; i < python_.size(); ++i) raise_fault(i);
  }
  std::size_t size() const { return python_.size(); }

 private:
  const std::shared_ptr<World> world_;
  const BlockingCall call_;
  std::vector<PyRequest*> python_;
  std::vector<std::shared_ptr<Request>> requests_;
};

std::size_t wait_any(PyWorld& self, const nb::list& list) {
  RequestList requests(self, list);
  Status status = Status::ok;
  const std::size_t index = requests.run([&](World& world, const auto& all) { return world.wait_any(all, status); });
  requests.take(index, status);
  requests.raise_fault(index);
  return index;
}

std::vector<std::size_t> wait_some(PyWorld& self, const nb::list& list) {
  RequestList requests(self, list);
  const auto ended = requests.run([](World& world, const auto& all) { return world.wait_some(all); });
  std::vector<std::size_t> indices;
  for (const auto& [index, status] : ended) {
    requests.take(index, status);
    indices.push_back(index);
  }
  for (const std::size_t index : indices) requests.raise_fault(index);
  return indices;
}

std::optional<std::size_t> test_any(PyWorld& self, const nb::list& list) {
  RequestList requests(self, list);
  const auto ended = requests.run([](World& world, const auto& all) { return world.test_any(all); });
  if (!ended) return std::nullopt;
  requests.take(ended->index, ended->status);
  requests.raise_fault(ended->index);
  return ended->index;
}

bool test_all(PyWorld& self, const nb::list& list) {
  RequestList requests(self, list);
  std::vector<Status> ends;
  const bool all = requests.run([&](World& world, const auto& every) {
    if (!world.test_all(every)) return false;
    for (const auto& one : every) ends.push_back(world.test(one));  // has ended: the same status again
    return true;
  });
  for (std::size_t i = 0; i < ends.size(); ++i) requests.take(i, ends[i]);
  if (all) requests.raise_any();
  return all;
}

}  // namespace

void bind_probes(nb::module_& m, nb::class_<PyWorld>& world) {
  nb::class_<PyMatched>(m, "Matched", "A message that World._probe() found and that nobody else receives.")
      .def_prop_ro("peer", [](const PyMatched& self) { return self.matched->message().peer; })
      .def_prop_ro("tag", [](const PyMatched& self) { return self.matched->message().tag; })
      .def_prop_ro("nbytes", [](const PyMatched& self) { return self.matched->message().bytes; });
  world.def("_probe", &probe, nb::arg("peer"), nb::arg("tag"))
      .def("_iprobe", &iprobe, nb::arg("peer"), nb::arg("tag"))
      .def("_recv_matched", &recv_matched, nb::arg("matched"), nb::arg("array"))
      .def("_wait_any", &wait_any, nb::arg("requests"), nb::sig("def _wait_any(self, requests: list[Request]) -> int"))
      .def("_wait_some", &wait_some, nb::arg("requests"),
           nb::sig("def _wait_some(self, requests: list[Request]) -> list[int]"))
      .def("_test_any", &test_any, nb::arg("requests"),
           nb::sig("def _test_any(self, requests: list[Request]) -> int | None"))
      .def("_test_all", &test_all, nb::arg("requests"),
           nb::sig("def _test_all(self, requests: list[Request]) -> bool"));
}

}  // namespace onstream::python
