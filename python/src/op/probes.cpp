// Matched messages, and waits for any of several requests. Each call waits without the GIL and interruptible.
#include "probes.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "arrays/arguments.hpp"
#include "base/errors.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "op/requests.hpp"

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

// The requests of a list that its caller keeps. The library hears of none that is to or from null: it has ended.
class RequestList {
 public:
  RequestList(const char* call, PyWorld& world, const nb::list& list)
      : python_(requests_in(call, list)), world_(world.open()), call_(world.state()) {
    for (std::size_t i = 0; i < python_.size(); ++i) {
      if (python_[i]->is_null()) {
        nulls_.push_back(i);
      } else {
        requests_.push_back(python_[i]->request());
        places_.push_back(i);
      }
    }
  }

  // Calls into the library; an interrupt aborts the world.
  template <class Function>
  auto run(const Function& function) {
    return interruptible([&] { return function(*world_, std::span<const std::shared_ptr<Request>>(requests_)); },
                         [&] { abort_interrupted(*world_, "wait for one of several requests"); });
  }
  // The place in the list of the library's `index`, which has ended.
  std::size_t take(std::size_t index, Status status) {
    python_[places_[index]]->take(*world_, status);
    return places_[index];
  }
  void raise_fault(std::size_t place) { python_[place]->raise_fault(*world_); }
  // Of one that has ended.
  void raise_any() {
    for (std::size_t i = 0; i < python_.size(); ++i) raise_fault(i);
  }
  const std::vector<std::size_t>& nulls() const { return nulls_; }

 private:
  const std::vector<PyRequest*> python_;
  const std::shared_ptr<World> world_;
  const BlockingCall call_;
  std::vector<std::shared_ptr<Request>> requests_;
  std::vector<std::size_t> places_;
  std::vector<std::size_t> nulls_;
};

std::optional<std::size_t> first_ended(RequestList& requests) {
  const auto ended = requests.run([](World& world, const auto& all) { return world.test_any(all); });
  std::optional<std::size_t> first;
  if (ended) first = requests.take(ended->index, ended->status);
  if (!requests.nulls().empty()) first = std::min(first.value_or(requests.nulls().front()), requests.nulls().front());
  if (first) requests.raise_fault(*first);
  return first;
}

std::size_t wait_any(PyWorld& self, const nb::list& list) {
  RequestList requests("wait_any", self, list);
  if (!requests.nulls().empty()) return *first_ended(requests);
  Status status = Status::ok;
  const std::size_t index = requests.run([&](World& world, const auto& all) { return world.wait_any(all, status); });
  const std::size_t place = requests.take(index, status);
  requests.raise_fault(place);
  return place;
}

std::vector<std::size_t> wait_some(PyWorld& self, const nb::list& list) {
  RequestList requests("wait_some", self, list);
  const bool some_null = !requests.nulls().empty();
  const auto ended = requests.run([&](World& world, const auto& all) {
    std::vector<World::EndedRequest> found;
    if (!some_null) return world.wait_some(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Status status = world.test(all[i]);
      if (status != Status::pending) found.push_back({i, status});
    }
    return found;
  });
  std::vector<std::size_t> places = requests.nulls();
  for (const auto& [index, status] : ended) places.push_back(requests.take(index, status));
  std::ranges::sort(places);
  for (const std::size_t place : places) requests.raise_fault(place);
  return places;
}

std::optional<std::size_t> test_any(PyWorld& self, const nb::list& list) {
  RequestList requests("test_any", self, list);
  return first_ended(requests);
}

bool test_all(PyWorld& self, const nb::list& list) {
  RequestList requests("test_all", self, list);
  std::vector<Status> ends;
  const bool all = requests.run([&](World& world, const auto& every) {
    if (!world.test_all(every)) return false;
    for (const auto& one : every) ends.push_back(world.test(one));  // has ended: the same status again
    return true;
  });
  for (std::size_t i = 0; i < ends.size(); ++i) (void)requests.take(i, ends[i]);
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
