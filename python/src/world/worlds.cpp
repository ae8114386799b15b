#include "worlds.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "arrays/arguments.hpp"
#include "base/bind.hpp"
#include "base/errors.hpp"
#include "base/gil.hpp"
#include "base/waiting.hpp"
#include "one_sided/segments.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/exit_status.hpp"
#include "onstream/transport/fabric.hpp"
#include "op/messages.hpp"
#include "op/probes.hpp"
#include "world/calls.hpp"

namespace onstream::python {

namespace {

// A call of another thread may outlast close(), and be the last owner: the world's end waits without the GIL there too.
std::shared_ptr<World> ending_without_gil(std::shared_ptr<World> world) {
  World* const it = world.get();
  auto end = [held = std::move(world)](World*) mutable {
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return held.reset();
    const GilRelease release;
    held.reset();
  };
  return {it, std::move(end)};
}

// The Error of the world's work that no call has told of; null if there is none, or no world.
std::exception_ptr unreported_of(const std::shared_ptr<World>& world, const std::vector<Stream>& waited,
                                 const std::vector<std::shared_ptr<Event>>& besides) {
  try {
    if (world != nullptr) world->finish(waited, besides);
  } catch (const Error&) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

PyWorld::PyWorld(const Launch& launch, const Parameters& parameters)
    : launch_(launch), state_(std::make_shared<WorldState>()) {
  state_->world =
      ending_without_gil(run_interruptible([launch, parameters] { return World::create(launch, parameters); }, [] {}));
  state_->spin_us = parameters.host_spin_us;
}

PyWorld::~PyWorld() {
  if (state_->guard.in_child()) return;
  if (closed()) return;
  auto end = take_world();
  const auto besides = stream_ends();
  const std::exception_ptr unreported = [&] {
    const GilRelease release;
    const std::exception_ptr found = unreported_of(state_->left.lock(), {}, besides);
    end();
    return found;
  }();
  forget_buffers();
  if (unreported == nullptr) return;
  try {
    std::rethrow_exception(unreported);
  } catch (const Error& error) {  // nobody catches a destructor's exception
    nb::error_scope whatever_is_raised;
    set_error(error);
    PyErr_WriteUnraisable(nullptr);
    end_with_failure();
  }
}

void PyWorld::close() {
  if (closed()) return;
  check_outside_call();
  auto end = take_world();  // from here on no call begins
  const auto besides = stream_ends();
  const std::exception_ptr unreported = run_interruptible(
      [world = state_->left, waited = state_->waited, besides] { return unreported_of(world.lock(), waited, besides); },
      [] {});
  end_calls();
  run_interruptible(std::move(end), [] {});
  forget_buffers();
  if (unreported != nullptr) std::rethrow_exception(unreported);
}

// Points behind the work on streams, also launches of graphs. A stream that a thread synchronizes tells of its own.
std::vector<std::shared_ptr<Event>> PyWorld::stream_ends() {
  const auto world = state_->left.lock();
  if (world == nullptr) return {};
  std::vector<nb::object> kept = state_->streams_in_use();
  std::erase_if(kept, [this](const nb::object& one) {
    const Stream stream = nb::cast<const PyStream&>(one).stream();
    return std::ranges::any_of(state_->waited, [stream](Stream other) { return other.handle == stream.handle; });
  });
  try {
    return state_->ends_of(world->device(), kept);
  } catch (const Error&) {  // of a device that has failed; finish() tells
    return {};
  }
}

// Threads may be inside calls, this one too, by a signal handler: their waits end. Those of others are left before the
// world goes.
void PyWorld::end_calls() {
  constexpr double kLimitS = 10;   // for those that do not look whether they shall end, as a reduction in Python
  constexpr double kStreamsS = 1;  // for streams that threads wait for, which tell how their work ended
  for (const Deadline limit(kStreamsS); !state_->waited.empty() && !limit.passed();) {
    const GilRelease release;
    Backoff(0).pause();
  }
  if (state_->callers.empty()) return;
  if (const auto world = state_->left.lock()) {
    const GilRelease release;
    world->leave();
  }
  const Deadline limit(kLimitS);
  for (Backoff backoff(0); state_->used_by_others() && !limit.passed();) {
    const GilRelease release;
    backoff.pause();
  }
}

// Other ranks may use them until the world has gone, which a call that has not ended yet keeps; then the state does.
void PyWorld::forget_buffers() {
  if (state_->left.expired()) state_->forget_buffers();
}

std::function<void()> PyWorld::take_world() {
  state_->left = state_->world;
  state_->ending = state_->world->points();
  return [world = std::exchange(state_->world, nullptr), closables = std::exchange(state_->closables, {})]() mutable {
    for (const auto& weak : closables) {
      if (const auto closable = weak.lock()) closable->close();
    }
    world.reset();
  };
}

std::string PyWorld::device() const {
  const Device& device = open()->device();
  return device.kind() == DeviceKind::host ? "host" : concat("cuda:", device.index());
}

MemoryKind kind_from(const std::string& name) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host}) {
    if (name == name_of(kind)) return kind;
  }
  fail(ErrorCode::invalid_argument, "kind='", name, "' is none of device, pinned, managed, host");
}

namespace {

std::map<std::string, std::uint64_t> statistics_of(const PyWorld& world) {
  const World::Statistics all = world.open()->statistics();
  const PeerMappingStatistics& peers = all.peer_mapping;
  return {{"registration_hits", peers.hits},         {"registration_misses", peers.misses},
          {"registration_failures", peers.failures}, {"registrations_refused", peers.unreachable},
          {"registrations_stale", peers.stale},      {"exported", peers.exported},
          {"exported_bytes", peers.exported_bytes},  {"imported", peers.imported},
          {"imported_bytes", peers.imported_bytes},  {"message_bytes", all.message_bytes},
          {"segment_bytes", all.segment_bytes}};
}

// --- memory ---

Block allocate(PyWorld& self, std::size_t bytes, const std::string& kind_name) {
  const auto world = self.open();
  const MemoryKind kind = kind_from(kind_name);
  const std::shared_ptr<Device>& device = world->fabric()->device();
  auto memory = [&] {
    const GilRelease release;
    // One byte for an empty array: an allocation of nothing has no address.
    return world->allocate(std::max<std::size_t>(bytes, 1), kind);
  }();
  std::byte* address = memory->data();
  return {owner_in_order(std::move(memory), kind, device, self.state()), address, bytes, cpu_can_touch(*device, kind),
          device->index()};
}

std::string place_of(PyWorld& self, std::uintptr_t address) {
  const auto world = self.open();
  const MemoryInfo info = world->device().inspect(reinterpret_cast<const void*>(address));
  return info.kind == MemoryKind::device ? concat("cuda:", info.device_index) : name_of(info.kind);
}

// --- the job ---

void synchronize(PyWorld& self, nb::handle stream) {
  const auto world = self.open();
  if (stream.is_none()) {
    self.state()->synchronize();
    return self.state()->check_waited();
  }
  const StreamChoice choice = choose_stream(stream, std::nullopt, self.state());
  require(choice.stream.has_value(), "synchronize() takes a stream, or nothing for all that the world has used");
  const StreamWait wait(self.state(), *choice.stream);
  if (choice.mine != nullptr) choice.mine->seal();  // other threads may enqueue more while this one waits
  poll_until([&] { return world->device().idle(*choice.stream); }, world->fabric()->parameters().host_spin_us);
  if (choice.mine != nullptr) choice.mine->release_finished();
  {
    const GilRelease release;
    world->device().synchronize(*choice.stream);
  }
  self.state()->check_waited();
}

void barrier(PyWorld& self, nb::handle stream) {
  const auto world = self.open();
  const StreamChoice choice = choose_stream(stream, std::nullopt, self.state());
  if (choice.stream) {
    world->fabric()->check([] { return std::string("a barrier"); });
    return world->team()->barrier(*choice.stream);
  }
  const BlockingCall blocking(self.state());
  interruptible(
      [&] {
        world->barrier();
        return true;
      },
      [&] { abort_interrupted(*world, "barrier"); });
}

std::vector<std::string> all_gather(PyWorld& self, const std::string& topic, const std::string& mine) {
  const auto world = self.open();
  return run_together(self.state(), "exchange",
                      [world, topic, mine] { return world->fabric()->all_gather(topic, mine); });
}

void bind_launch(nb::module_& m) {
  nb::class_<Launch>(m, "Launch", "This process's rank in the job, and where the job meets.")
      .def(
          "__init__",
          [](Launch* self, int rank, int size, int port, const std::string& secret, const std::string& address,
             std::optional<int> local_rank, std::optional<int> local_size) {
            new (self) Launch{.rank = rank,
                              .size = size,
                              .local_rank = local_rank.value_or(rank),
                              .local_size = local_size.value_or(size),
                              .address = address,
                              .port = port,
                              .secret = secret,
                              .generation = "",
                              .launcher = "threads"};
          },
          nb::arg("rank"), nb::arg("size"), nb::arg("port"), nb::arg("secret"), nb::arg("address") = "127.0.0.1",
          nb::kw_only(), nb::arg("local_rank") = nb::none(), nb::arg("local_size") = nb::none(),
          "The ranks of a job meet at `address`, a host with `port`, or unix:NAME for ranks of one host. Each names "
          "its\n"
          "number among the ranks of its host, and how many they are; without: all ranks are on one host.")
      .def_ro("rank", &Launch::rank)
      .def_ro("size", &Launch::size)
      .def_ro("local_rank", &Launch::local_rank)
      .def_ro("local_size", &Launch::local_size)
      .def_ro("address", &Launch::address)
      .def_ro("port", &Launch::port)
      .def(
          "without",
          [](const Launch& self, const nb::iterable& ranks) {
            std::vector<int> absent;
            for (const nb::handle rank : ranks) {
              absent.push_back(0);
              if (!integer_from(rank, absent.back())) {
                throw nb::type_error(concat("a rank is ", nb::cast<std::string>(nb::repr(rank)), " of type ",
                                            nb::type_name(rank.type()).c_str(), ", but must be an integer")
                                         .c_str());
              }
            }
            return self.without(absent);
          },
          nb::arg("ranks"), nb::sig("def without(self, ranks: collections.abc.Iterable[int]) -> Launch"),
          "The launch of the same job without ranks that have died, for a new world of the others. They are numbered\n"
          "anew, in their old order; each must name the same ranks.")
      .def_ro("launcher", &Launch::launcher)
      .def("__repr__", [](const Launch& self) {
        const std::string port = self.port > 0 ? concat(":", self.port) : "";
        return concat("<Launch: rank ", self.rank, " of ", self.size, ", by ", self.launcher, ", meets at ",
                      self.address, port, ">");
      });
  m.def("launch_from_environment", &launch_from_environment,
        "This process's Launch, as its launcher (onstream run, torchrun, mpirun, srun) tells it.");
}

void bind_failures(nb::module_& m) {
  nb::class_<FaultReport>(m, "Fault", "One operation that did not end well, on one rank.")
      .def_ro("rank", &FaultReport::rank, "Where the operation ran.")
      .def_prop_ro("status", [](const FaultReport& fault) { return name_of(fault.status); })
      .def_prop_ro("op", [](const FaultReport& fault) { return name_of(fault.op); })
      .def_ro("peer", &FaultReport::peer)
      .def_ro("tag", &FaultReport::tag, "Of a message, or the channel of a collective.")
      .def_prop_ro(
          "plan", [](const FaultReport& fault) { return std::string(fault.plan_name.data()); },
          "The plan's name; '' if it was none of a plan.")
      .def_ro("plan_op", &FaultReport::plan_op, "Which of the plan's operations, in the order added; else -1.")
      .def_ro("nbytes", &FaultReport::bytes)
      .def("__str__", [](const FaultReport& fault) { return describe(fault); })
      .def("__repr__", [](const FaultReport& fault) { return concat("<Fault: ", describe(fault), ">"); });
  nb::class_<Failure>(m, "Failure", "Why a world is broken.")
      .def_ro("reason", &Failure::reason, "The first cause.")
      .def_ro("faults", &Failure::faults, "The reports of every rank, this rank's own first.")
      .def_ro("dead", &Failure::dead, "Ranks that have died, as far as this rank has heard.")
      .def_ro("left", &Failure::left, "Ranks that had closed the world, or ended, before it failed.")
      .def_ro("story", &Failure::story, "All of it, for the screen.")
      .def("__str__", [](const Failure& failure) { return failure.story; })
      .def("__repr__", [](const Failure& failure) { return concat("<Failure: ", failure.reason, ">"); });
}

}  // namespace

void bind_worlds(nb::module_& m) {
  bind_launch(m);
  m.def("_end_with_failure", &end_with_failure, "The process, which is ending, ends with exit status 1.");
  bind_failures(m);
  nb::class_<PyWorld> world(m, "World", "The ranks of a job and all they share. Use onstream.World, which adds arrays.",
                            nb::dynamic_attr(), nb::is_weak_referenceable());
  world
      .def(
          "__init__",
          [](PyWorld* self, const Launch* launch, const std::map<std::string, std::string>& parameters) {
            Parameters mine = Parameters::from_environment();
            for (const auto& [name, value] : parameters) mine.set(name, value);
            new (self) PyWorld(launch != nullptr ? *launch : launch_from_environment(), mine);
          },
          nb::arg("launch").none(), nb::arg("parameters"))
      .def_prop_ro(
          "rank", [](const PyWorld& self) { return self.launch().rank; },
          "This rank's number, 0 to size - 1. Also once closed.")
      .def_prop_ro(
          "size", [](const PyWorld& self) { return self.launch().size; },
          "How many ranks the job has. Also once closed.")
      .def_prop_ro("launch", &PyWorld::launch, "This rank's place in the job, from its launcher. Also once closed.")
      .def_prop_ro("device", &PyWorld::device, "Where this rank's work runs: \"host\", or \"cuda:N\".")
      .def_prop_ro("closed", &PyWorld::closed, "Also in a forked child, which makes a world of its own.")
      .def(
          "close", &PyWorld::close,
          "Waits for the work enqueued through this world, then leaves it; then raises the error of that work which no "
          "call\n"
          "has told yet. Calls of other threads that still wait behind that work end with ClosedError. Idempotent; "
          "not\n"
          "collective.")
      .def("allocate", &allocate, nb::arg("nbytes"), nb::kw_only(), nb::arg("kind") = "device",
           "Zeroed memory, which peers reach directly unless it is plain host memory. World.empty() gives it as an "
           "array.")
      .def("place_of", &place_of, nb::arg("address"), "Where an address lies: cuda:N, pinned, managed or host.")
      .def(
          "stream", [](const PyWorld& self) { return new PyStream(self.open()->fabric()->device(), self.state()); },
          nb::rv_policy::take_ownership, "A new stream of this world's device.")
      .def("barrier", &barrier, nb::kw_only(), nb::arg("stream") = nb::none(),
           "Blocks until every rank's host has come here. With a stream it does not block: the stream goes on once "
           "every\n"
           "rank's stream has come, and sees what each had stored before; may be captured. Collective.")
      .def(
          "synchronize", &synchronize, nb::arg("stream") = nb::none(),
          "Blocks until the stream's work has finished, then raises if the world has failed or a message did not end\n"
          "well. Without a stream: the work so far of all streams of the world, of others that it has enqueued on, and "
          "of\n"
          "the device's default stream.")
      .def(
          "abort",
          [](const PyWorld& self, const std::string& reason, bool interrupt) {
            const auto mine = self.open();
            const GilRelease release;
            mine->abort(reason, interrupt ? Cause::interrupt : Cause::failure);
          },
          nb::arg("reason"), nb::kw_only(), nb::arg("interrupt") = false,
          "Ends the world on every rank: streams drain. An interrupt by the user is logged at debug level only.")
      .def(
          "check", [](const PyWorld& self) { self.state()->check(); },
          "Raises the world's failure, or the oldest fault of a message that nobody has been told of yet.")
      .def(
          "failure", [](const PyWorld& self) { return self.open()->failure(); }, "Why the world failed, or None.")
      .def(
          "take_faults", [](const PyWorld& self) { return self.state()->open()->take_faults(); },
          "Faults that did not fail the world (truncated, unmapped), oldest first; each is given once.")
      .def(
          "describe", [](const PyWorld& self) { return self.open()->describe(); },
          "Ranks, devices, memory held, registrations.")
      .def(
          "paths", [](const PyWorld& self) { return self.open()->paths(); },
          "The rules by which this world takes paths and algorithms, one a line, in the format of path_file.")
      .def("statistics", &statistics_of,
           "The library's counters and memory. registration_...: how look-ups of buffers for peers ended "
           "(refused:\n"
           "memory that cannot leave its process; stale: freed since). exported: this rank's memory that peers map; "
           "imported:\n"
           "peers' memory that this rank maps. message_bytes, segment_bytes: device memory of the library's own.")
      .def("_all_gather", &all_gather, nb::arg("topic"), nb::arg("mine"));
  bind_messages(world);
  bind_probes(m, world);
  bind_segments(m, world);
}

}  // namespace onstream::python
