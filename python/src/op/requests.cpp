#include "requests.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "arrays/arguments.hpp"
#include "base/bind.hpp"
#include "base/errors.hpp"
#include "base/gil.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/lifetime/streams.hpp"
#include "onstream/message/message.hpp"
#include "onstream/message/request.hpp"
#include "onstream/transport/fabric.hpp"
#include "world/calls.hpp"

namespace onstream::python {

std::shared_ptr<World> WorldState::open() const {
  guard.check("this world");
  check_outside_call();
  if (world == nullptr) fail(ErrorCode::closed, "this world is closed; make a new one with onstream.init()");
  return world;
}

bool WorldState::used_by_others() const {
  return std::ranges::any_of(callers, [me = std::this_thread::get_id()](const auto& caller) { return caller != me; });
}

namespace {

// On a device or world that has failed no op is over; the next op tells the failure.
bool is_over(const Lent& one) {
  try {
    return one.passed != nullptr ? one.passed->done() : one.graph.expired();
  } catch (const Error&) {
    return false;
  }
}

bool is_over(World& world, const Abandoned& one) {
  const GilRelease release;  // asking a GPU may wait
  try {
    return world.test(one.request) != Status::pending;
  } catch (const Error&) {
    return false;
  }
}

// Lets go of a receive from any rank that has no message yet, so that it takes none. False, and it stays: it has one,
// or another thread looks for one just now. Its buffer must live until this returns.
bool cancel(std::shared_ptr<Request>& request) {
  if (!request->from_any.load(std::memory_order_acquire)) return false;
  const std::weak_ptr<Request> rest = request;
  request.reset();
  request = rest.lock();
  return request == nullptr;
}

}  // namespace

void WorldState::keep(const StreamChoice& choice, Hold hold) {
  if (choice.mine != nullptr) return choice.mine->keep(std::move(hold));
  if (choice.keeper == Keeper::library || world == nullptr) return;
  Lent item{nullptr, {}, std::move(hold)};
  {
    const auto mine = world;
    const GilRelease release;
    Device& device = mine->device();
    if (device.capturing(*choice.stream)) {
      const auto token = std::make_shared<const int>();
      device.retain(*choice.stream, token);
      item.graph = token;
    } else {
      item.passed = device.record(*choice.stream);
    }
  }
  lent.push_back(std::move(item));
  if (lent.size() >= lent_enough) reap_lent();
}

// As many must come anew as were left, so that each is looked at a few times at most.
void WorldState::reap_lent() {
  constexpr std::size_t kFew = 8;
  std::vector<Lent> open;
  std::vector<Lent> over;  // goes last: a released object may run Python
  for (Lent& one : std::exchange(lent, {})) (is_over(one) ? over : open).push_back(std::move(one));
  lent = std::move(open);
  lent_enough = std::max(kFew, 2 * lent.size());
}

std::vector<nb::object> WorldState::streams_in_use() {
  std::vector<nb::object> kept;  // one may go meanwhile in another thread
  for (PyStream* stream : streams) kept.push_back(nb::find(*stream));
  std::erase_if(guests, [](const Guest& guest) { return guest.life.expired(); });
  for (const Guest& guest : guests) kept.push_back(nb::find(*guest.stream));
  return kept;
}

std::vector<std::shared_ptr<Event>> WorldState::ends_of(Device& device, const std::vector<nb::object>& kept) const {
  std::vector<std::shared_ptr<Event>> ends;
  for (const Lent& one : lent) {
    if (one.passed != nullptr) ends.push_back(one.passed);
  }
  for (const nb::object& one : kept) {
    const Stream stream = nb::cast<const PyStream&>(one).stream();
    const GilRelease release;  // a full queue may wait for a thread that needs the GIL
    if (const auto end = device.point(stream)) ends.push_back(end);
  }
  return ends;
}

void WorldState::synchronize() {
  const auto mine = open();
  Device& device = mine->device();
  const std::vector<nb::object> kept = streams_in_use();
  for (const nb::object& one : kept) nb::cast<PyStream&>(one).seal();
  std::vector<std::shared_ptr<Event>> ends = ends_of(device, kept);
  const auto others = mine->points();
  ends.insert(ends.end(), others.begin(), others.end());
  poll_until(
      [&] {
        std::erase_if(ends, [](const auto& end) { return end->done(); });
        return ends.empty() && device.idle(Stream{});
      },
      spin_us);
  for (const nb::object& one : kept) nb::cast<PyStream&>(one).release_finished();
  reap_lent();
}

void WorldState::reap() {
  const auto mine = open();
  std::vector<Abandoned> over;
  for (Abandoned& one : std::exchange(abandoned, {})) {
    const bool ended = cancel(one.request) || (!one.request->from_any.load() && is_over(*mine, one));
    (ended ? over : abandoned).push_back(std::move(one));
  }
}

void WorldState::forget_buffers() {
  const auto over = std::pair(std::exchange(abandoned, {}), std::exchange(lent, {}));
  ending.clear();
}

void WorldState::check() {
  open()->fabric()->check();
  raise_faults(open()->take_faults());
}

void WorldState::check_waited() {
  open()->fabric()->check_waited();
  raise_faults(open()->take_faults());
}

void WorldState::add(const std::shared_ptr<Closable>& closable) {
  if (world == nullptr) {  // another thread has closed it since this was made
    const GilRelease release;
    return closable->close();
  }
  std::erase_if(closables, [](const auto& known) { return known.expired(); });
  closables.push_back(closable);
}

namespace {

// A new stream may have to wait for running kernels, and those for other threads of this process.
StreamPool::StreamLease leased(const World& world) {
  const GilRelease release;
  return world.fabric()->streams()->lease();
}

}  // namespace

void WorldState::run_and_wait(const std::function<void(Stream)>& enqueue, const std::function<void()>& on_interrupt) {
  const auto mine = open();
  Device& device = mine->device();
  const StreamPool::StreamLease lease = leased(*mine);
  const Stream stream = lease.get();
  try {
    interruptible(
        [&] {
          enqueue(stream);
          return true;
        },
        [] {});
    poll_until([&] { return device.idle(stream); }, spin_us);
  } catch (const nb::python_error&) {
    on_interrupt();
    throw;
  }
}

namespace {

// Raises how a message ended that failed its world. A message that failed itself alone is left in `cut`; its world
// tells of it no more.
void tell_message_fault(const World& world, const FaultReport& fault, std::vector<FaultReport>& cut) {
  if (!fails_one_op(fault.status)) return raise_unless_ok(world, fault);
  cut.push_back(world.fabric()->reported(fault).value_or(fault));
}

std::string text_of(OpKind kind, std::size_t bytes, int peer, int tag) {
  const MessageOptions options{.tag = tag};
  return kind == OpKind::recv ? onstream::text_of(Incoming{nullptr, bytes, peer, options})
                              : onstream::text_of(Outgoing{nullptr, bytes, peer, options});
}

}  // namespace

void raise_message_fault(const World& world, const FaultReport& fault) {
  std::vector<FaultReport> cut;
  tell_message_fault(world, fault, cut);
  raise_faults(cut);
}

void abort_interrupted(World& world, const std::string& what) {
  world.abort(concat("rank ", world.rank(), " was interrupted during a ", what), Cause::interrupt);
}

PyRequest::PyRequest(std::shared_ptr<WorldState> state, std::shared_ptr<Request> request, Hold hold, Posted posted)
    : state_(std::move(state)), request_(std::move(request)), hold_(std::move(hold)), posted_(std::move(posted)) {}

PyRequest::PyRequest(std::shared_ptr<WorldState> state, Posted posted)
    : state_(std::move(state)), posted_(std::move(posted)), waited_(true), status_(Status::ok) {}

PyRequest::~PyRequest() {
  if (request_ == nullptr || waited_) return;
  const bool open = state_->world != nullptr;
  if (open ? state_->world->captured(request_) : state_->left.expired()) return;
  if (cancel(request_)) return;
  state_->abandoned.push_back({std::move(request_), std::move(hold_)});
}

void PyRequest::finish(World& world, Status status) {
  status_ = status;
  waited_ = true;
  received_ = posted_.kind == OpKind::recv ? world.received(request_) : posted_.bytes;
  if (posted_.peer == kAnySource) posted_.peer = world.source(request_);
  hold_ = Hold();
}

FaultReport PyRequest::report(const World& world) const {
  return {.rank = world.rank(),
          .status = status_,
          .op = posted_.kind,
          .peer = posted_.peer,
          .tag = posted_.tag,
          .bytes = posted_.bytes,
          .extra = received_,
          .plan = 0};
}

void PyRequest::raise_fault(const World& world) {
  std::vector<FaultReport> cut;
  tell_fault(world, cut);
  raise_faults(cut);
}

void PyRequest::tell_fault(const World& world, std::vector<FaultReport>& cut) {
  const FaultReport mine = report(world);
  if (fails_one_op(status_) && std::exchange(raised_, true)) return cut.push_back(mine);
  tell_message_fault(world, mine, cut);
}

void PyRequest::wait_on_host() {
  end_on_host();
  raise_fault(*state_->open());
}

void PyRequest::end_on_host() {
  const auto world = state_->open();
  if (status_ == Status::pending) {
    const BlockingCall call(state_);
    const auto on_interrupt = [&] {
      abort_interrupted(*world, text_of(posted_.kind, posted_.bytes, posted_.peer, posted_.tag));
    };
    if (world->device().kind() == DeviceKind::host || posted_.peer == kAnySource) {
      finish(*world, interruptible([&] { return world->wait(request_); }, on_interrupt));
    } else {
      state_->run_and_wait([&](Stream stream) { world->wait(request_, stream); }, on_interrupt);
      const Status status = [&] {
        const GilRelease release;
        return world->wait(request_);  // has ended: only collects
      }();
      finish(*world, status);
    }
  }
}

void PyRequest::wait(nb::handle given) {
  if (end(given)) raise_fault(*state_->open());
}

bool PyRequest::end(nb::handle given) {
  const auto world = state_->open();
  StreamChoice choice = given.is_none() ? posted_.choice() : choose_stream(given, std::nullopt, state_);
  if (!choice.stream) {
    end_on_host();
    return true;
  }
  if (waited_) return false;
  {
    const GilRelease release;
    world->wait(request_, *choice.stream);
  }
  waited_ = true;
  state_->keep(choice, std::exchange(hold_, Hold()));
  return false;
}

bool PyRequest::done() {
  if (status_ != Status::pending) return true;
  const auto world = state_->open();
  const Status status = [&, request = request_] {
    const GilRelease release;  // asking a GPU may wait
    return world->test(request);
  }();
  if (status != Status::pending) finish(*world, status);
  return status != Status::pending;
}

bool PyRequest::test() {
  const auto world = state_->open();
  if (!done()) return false;
  raise_fault(*world);
  return true;
}

double PyRequest::timeout_s() const { return state_->open()->fabric()->parameters().timeout_s; }

std::size_t PyRequest::received() const {
  if (status_ == Status::pending && waited_ && posted_.kind == OpKind::recv) {
    return state_->open()->received(request_);  // a stream waited, and may have come to its end
  }
  require(status_ != Status::pending, "how many bytes came is known once wait() on the host, or test(), has returned");
  return received_;
}

std::string PyRequest::text() const {
  if (is_null()) {
    const char* const what = posted_.kind == OpKind::recv ? "recv from" : "send to";
    return concat(what, " null with tag ", posted_.tag, ", which is no message");
  }
  const std::string what = text_of(posted_.kind, posted_.bytes, posted_.peer, posted_.tag);
  if (status_ == Status::pending) return what + (waited_ ? ", its wait is on a stream" : ", not waited for");
  const bool shorter = status_ == Status::ok && received_ != posted_.bytes;
  return concat(what, ", ended: ", name_of(status_), shorter ? concat(", ", received_, " B came") : "");
}

std::vector<PyRequest*> requests_in(const char* call, const nb::list& list) {
  std::vector<PyRequest*> every;
  every.reserve(list.size());
  for (const nb::handle one : list) {
    PyRequest* request = nullptr;
    if (!nb::try_cast(one, request) || request == nullptr) {
      throw nb::type_error(concat(call, ": request ", every.size(), " is ", nb::repr(one).c_str(), " of type ",
                                  nb::str(one.type().attr("__name__")).c_str(),
                                  ", but must be a Request of isend() or irecv()")
                               .c_str());
    }
    every.push_back(request);
  }
  return every;
}

namespace {

// The list keeps them alive.
void wait_all(const nb::list& requests, nb::handle stream) {
  const std::vector<PyRequest*> every = requests_in("wait_all", requests);
  std::exception_ptr failure;
  // Receives first: a peer's wait for its send may end only once they have fetched its data.
  for (const OpKind kind : {OpKind::recv, OpKind::send}) {
    for (PyRequest* request : every) {
      if (request->posted().kind != kind) continue;
      try {
        request->end(stream);
      } catch (const Error&) {  // of the world, not of this message
        if (failure == nullptr) failure = std::current_exception();
      }
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
  for (PyRequest* request : every) request->wait(stream);
}

}  // namespace

void bind_requests(nb::module_& m) {
  m.def("wait_all", &wait_all, nb::arg("requests"), nb::arg("stream").none(), "Use World.wait_all().");
  nb::class_<PyRequest>(m, "Request", "A message on its way. Made by World.isend() and World.irecv().")
      .def(
          "wait", &PyRequest::wait, nb::arg("stream") = nb::none(),
          "Completes the message where it was posted. Posted without a stream (host arrays): blocks until it has "
          "ended,\n"
          "as MPI_Wait does, and raises if it ended badly. Posted on a stream: enqueues the wait there and returns at\n"
          "once, also for host arrays; the data is there for later work of that stream, and for the host after\n"
          "stream.synchronize(). wait(stream) enqueues it on another stream; wait('host') blocks in any case.\n"
          "Waiting again is allowed: it returns, or raises, the same once more.")
      .def("test", &PyRequest::test, "Whether the message has ended; raises if it ended badly. Does not block.")
      .def("done", &PyRequest::done,
           "Whether the message has ended, well or badly: wait() and test() then raise the error. Does not block.")
      .def(
          "__await__",
          [](const nb::object& self) { return nb::module_::import_("onstream.awaiting").attr("of_request")(self); },
          nb::sig("def __await__(self) -> collections.abc.Generator[object, None, int]"),
          "`await request`: the message's bytes, once it has ended. Other tasks of the event loop run meanwhile.\n"
          "Raises as wait(), and TimeoutError after timeout_s. A task that is cancelled, or whose asyncio.timeout()\n"
          "passes, leaves the request as it is, under way: await it again, or wait().")
      .def_prop_ro("_timeout_s", &PyRequest::timeout_s)
      .def_prop_ro("received", &PyRequest::received, "Bytes of the message that came, once it has ended.")
      .def_prop_ro(
          "peer",
          [](const PyRequest& self) { return self.is_null() ? nb::object(null()) : nb::cast(self.posted().peer); },
          nb::sig("def peer(self) -> int"),
          "Of an irecv from any_source the sender, once wait() on the host, or test(), has returned.")
      .def_prop_ro("tag", [](const PyRequest& self) { return self.posted().tag; })
      .def_prop_ro(
          "nbytes", [](const PyRequest& self) { return self.posted().bytes; }, "Size of the buffer.")
      .def("__repr__", [](const PyRequest& self) { return concat("<Request: ", self.text(), ">"); });
}

}  // namespace onstream::python
