// Collectives for onstream/collectives.py, which reads arrays and hands their numbers down.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arrays/arguments.hpp"
#include "base/bind.hpp"
#include "base/gil.hpp"
#include "base/slot.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/call/call.hpp"
#include "onstream/transport/fabric.hpp"
#include "planned.hpp"
#include "world/streams.hpp"
#include "world/worlds.hpp"

namespace onstream::python {
namespace {

std::unordered_map<std::string_view, OpKind> kinds_by_name() {
  std::unordered_map<std::string_view, OpKind> kinds;
  for (auto kind = OpKind::none; kind <= OpKind::neighbour_all_to_all_v;
       kind = static_cast<OpKind>(static_cast<std::uint64_t>(kind) + 1)) {
    if (is_collective(kind)) kinds.emplace(name_of(kind), kind);
  }
  return kinds;
}

OpKind kind_from(const std::string& name) {
  static const std::unordered_map<std::string_view, OpKind> kinds = kinds_by_name();
  const auto found = kinds.find(name);
  require(found != kinds.end(), "there is no collective '", name, "'");
  return found->second;
}

struct PyCall {
  PyCall(const std::string& kind, std::uintptr_t input, std::uintptr_t output, std::size_t count,
         const std::string& type) {
    call.kind = kind_from(kind);
    call.input = reinterpret_cast<const void*>(input);
    call.output = reinterpret_cast<void*>(output);
    call.count = count;
    call.type = element_type_of(type);
  }
  CollectiveCall call;
};

void set_options(PyCall& self, const std::string& op, int root, int channel, const std::string& algorithm) {
  self.call.op = reduce_op_of(op);
  self.call.root = root;
  self.call.channel = channel;
  self.call.algorithm = algorithm_of(algorithm);
}

void set_counts(PyCall& self, std::vector<std::size_t> send_counts, std::vector<std::size_t> send_offsets,
                std::vector<std::size_t> receive_counts, std::vector<std::size_t> receive_offsets) {
  self.call.send_counts = std::move(send_counts);
  self.call.send_offsets = std::move(send_offsets);
  self.call.receive_counts = std::move(receive_counts);
  self.call.receive_offsets = std::move(receive_offsets);
}

// Where it was raised, as " (file.py:7)"; nothing if the package itself did.
std::string place_of(const nb::python_error& error) {
  nb::object at = nb::borrow(error.traceback());
  if (!at.is_valid() || at.is_none()) return "";
  while (!at.attr("tb_next").is_none()) at = at.attr("tb_next");
  const std::string file = nb::str(at.attr("tb_frame").attr("f_code").attr("co_filename")).c_str();
  if (file.ends_with("onstream/collectives.py")) return "";
  return concat(" (", file, ":", nb::cast<int>(at.attr("tb_lineno")), ")");
}

// A function of Python's. The reducing thread calls it with addresses and a count, also once the caller is gone.
Combine combine_of(nb::object function) {
  const auto let_go = [](nb::object* held) {
    if (Py_IsInitialized() == 0) return;
    const GilAcquire acquire;
    delete held;
  };
  std::shared_ptr<nb::object> held(new nb::object(std::move(function)), let_go);
  return [held](const void* in, void* inout, std::size_t count) {
    const GilAcquire acquire;
    try {
      or_stand_still(
          [&] { (*held)(reinterpret_cast<std::uintptr_t>(in), reinterpret_cast<std::uintptr_t>(inout), count); });
    } catch (nb::python_error& error) {
      const std::string text =
          concat(nb::str(error.type().attr("__name__")).c_str(), ": ", nb::str(error.value()).c_str(), place_of(error));
      if (!error.matches(PyExc_Exception)) InterruptGuard::take(error);
      throw std::runtime_error(text);  // the error itself would need the GIL where it is caught
    }
  };
}

using TeamSlot = Slot<std::shared_ptr<Collective>>;
using NeighbourhoodSlot = Slot<std::shared_ptr<Neighbourhood>>;

// runner() gives the caller a share of the object that runs a call, a team's collectives or a neighbourhood: another
// thread may close the world meanwhile.
struct PyTeam {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<TeamSlot> slot;  // null: of all ranks, which is the world's own
  int channels = 0;                // of a team that is not the world; the one behind them is for meet()

  void check_channel(const CollectiveCall& call) const {
    require(slot == nullptr || (call.channel >= 0 && call.channel < channels), "channel ", call.channel,
            " does not exist; there are ", channels, " of this team");
  }
  std::shared_ptr<Collective> runner() const {
    auto world = state->open();
    if (slot != nullptr) return slot->with([](const std::shared_ptr<Collective>& team) { return team; });
    Collective* const all = &world->collective();
    return {std::move(world), all};
  }
};

struct PyNeighbourhood {
  std::shared_ptr<WorldState> state;
  std::shared_ptr<NeighbourhoodSlot> slot;

  void check_channel(const CollectiveCall&) const {}
  std::shared_ptr<Neighbourhood> runner() const {
    (void)state->open();
    return slot->with([](const std::shared_ptr<Neighbourhood>& hood) { return hood; });
  }
};

PyTeam world_team(PyWorld& world) { return {world.state(), nullptr, 0}; }

PyTeam make_team(PyWorld& world, const std::vector<int>& ranks, int channels) {
  require(channels >= 1, "team: at least one channel, not ", channels);
  const auto mine = world.open();
  const auto make = [mine, ranks, channels] {
    // Here, as the caller counts them.
    mine->fabric()->require_same("a team has as many channels on every rank, but", "asks for", concat(channels));
    return mine->collective().among(ranks, channels + 1);
  };
  auto slot = std::make_shared<TeamSlot>(run_together(world.state(), "team", make), "team");
  world.state()->add(slot);
  return {world.state(), std::move(slot), channels};
}

template <class Make>
PyNeighbourhood keep_neighbourhood(const PyTeam& team, const Make& make) {
  auto slot = std::make_shared<NeighbourhoodSlot>(
      run_together(team.state, "neighbourhood", [members = team.runner(), make] { return make(*members); }),
      "neighbourhood");
  team.state->add(slot);
  return {team.state, std::move(slot)};
}

PyNeighbourhood make_grid(const PyTeam& team, const std::vector<int>& dims, const std::vector<bool>& periodic) {
  return keep_neighbourhood(team,
                            [=](const Collective& all) { return all.neighbourhood(NeighbourGrid{dims, periodic}); });
}

PyNeighbourhood make_graph(const PyTeam& team, const std::vector<int>& sources, const std::vector<int>& destinations) {
  return keep_neighbourhood(
      team, [=](const Collective& all) { return all.neighbourhood(NeighbourGraph{sources, destinations}); });
}

// Ctrl-C aborts the world: peers may be writing to the arrays.
void abort_for_interrupt(World& world, const CollectiveCall& call) {
  world.abort(concat("rank ", world.rank(), " was interrupted in a collective ", name_of(call.kind)));
}

// The holds on a call's arrays.
using Holds = std::array<Hold, 2>;

template <class Self>
void run_blocking(const Self& self, const CollectiveCall& call) {
  const BlockingCall blocking(self.state);
  const auto world = self.state->open();
  const auto runner = self.runner();
  const auto on_interrupt = [&] { abort_for_interrupt(*world, call); };
  if (world->device().kind() == DeviceKind::host) {
    interruptible(
        [&] {
          runner->run(call);
          return true;
        },
        on_interrupt);
  } else {
    self.state->run_and_wait([&](Stream stream) { runner->run(call, stream); }, on_interrupt);
  }
  self.state->check_waited();
}

template <class Self>
void run_call(const Self& self, const CollectiveCall& call, Holds holds, nb::handle stream,
              const std::optional<Natural>& natural) {
  const auto world = self.state->open();
  self.check_channel(call);
  const StreamChoice choice = choose_op_stream(stream, natural, self.state);
  if (!choice.stream) return run_blocking(self, call);
  const BlockingCall blocking(self.state);
  const auto runner = self.runner();
  const auto keep = [&] {
    for (Hold& hold : holds) {
      if (hold) self.state->keep(choice, std::move(hold));
    }
  };
  // Most calls enqueue and return; the first of a channel and those by copy wait for the other ranks' hosts.
  interruptible(
      [&] {
        runner->run(call, *choice.stream);
        return true;
      },
      [&] {
        abort_for_interrupt(*world, call);
        keep();  // the call may have enqueued its work all the same
      });
  keep();
}

template <class Self>
void run(const Self& self, const PyCall& call, nb::object arrays, nb::handle stream, const NaturalArgument& natural) {
  run_call(self, call.call, {Hold(std::move(arrays))}, stream, natural_from(natural));
}

// Whether the ranks compare their calls before these run.
template <class Self>
bool checks(const Self& self) {
  return self.state->open()->fabric()->parameters().collective_check == "on";
}

struct PlainCall {
  CollectiveCall call;
  Holds holds;
};

// A call of plain arrays as collectives.py would make it; nothing where that has something to say, or to find out.
std::optional<PlainCall> plain_call(OpKind kind, nb::handle array, nb::handle out, std::size_t size) {
  const bool in_place = out.is_none();
  if (in_place && (kind == OpKind::all_gather || kind == OpKind::reduce_scatter)) return std::nullopt;
  auto source = plain_elements(array, in_place ? Access::write : Access::read);
  if (!source) return std::nullopt;
  auto beside = in_place ? std::nullopt : plain_elements(out, Access::write);
  if (!in_place && !beside) return std::nullopt;
  const PlainElements& target = in_place ? *source : *beside;
  CollectiveCall call;
  call.kind = kind;
  call.input = source->address;
  call.output = target.address;
  if (collective::has_op(kind)) {
    const std::size_t parts = kind == OpKind::reduce_scatter ? size : 1;
    call.type = source->type;
    call.count = target.count();
    if (target.type != source->type || target.bytes * parts != source->bytes) return std::nullopt;
  } else {
    if (target.type != source->type) return std::nullopt;
    call.type = ElementType::uint8;
    call.count = kind == OpKind::all_to_all ? source->bytes / size : source->bytes;
    if (kind == OpKind::all_gather && target.bytes != source->bytes * size) return std::nullopt;
    const bool dealt = target.bytes == source->bytes && source->count() % size == 0;
    if (kind == OpKind::all_to_all && !dealt) return std::nullopt;
  }
  return PlainCall{std::move(call), {std::move(source->hold), in_place ? Hold() : std::move(beside->hold)}};
}

// Runs the most common calls, of plain host arrays and without options, at a tenth of the cost. False: the caller reads
// the arrays, which other calls and all refusals need.
bool run_plain(const PyTeam& self, const std::string& kind, nb::handle array, nb::handle out, nb::handle op,
               nb::handle root, nb::handle channel, nb::handle algorithm, nb::handle stream) {
  std::string reduction;  // else a function
  std::string wanted;
  if (!nb::try_cast(op, reduction) || reduction == "premulsum" || !nb::try_cast(algorithm, wanted)) return false;
  if (checks(self)) return false;
  auto plain = plain_call(kind_from(kind), array, out, static_cast<std::size_t>(self.runner()->size()));
  if (!plain) return false;
  CollectiveCall& call = plain->call;
  if (!integer_from(root, call.root) || !integer_from(channel, call.channel)) return false;
  call.op = reduce_op_of(reduction);
  call.algorithm = algorithm_of(wanted);
  run_call(self, call, std::move(plain->holds), stream, std::nullopt);
  return true;
}

// A list or tuple of integers that are not negative, times `item`; false: anything else, or too large.
bool sizes_from(nb::handle numbers, std::size_t item, std::vector<std::size_t>& sizes) {
  if (PyList_CheckExact(numbers.ptr()) == 0 && PyTuple_CheckExact(numbers.ptr()) == 0) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(numbers.ptr());
  sizes.resize(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const number = PySequence_Fast_GET_ITEM(numbers.ptr(), i);
    if (PyLong_CheckExact(number) == 0) return false;
    const Py_ssize_t value = PyLong_AsSsize_t(number);
    if (value < 0) {
      PyErr_Clear();
      return false;
    }
    if (__builtin_mul_overflow(static_cast<std::size_t>(value), item, &sizes[static_cast<std::size_t>(i)]))
      return false;
  }
  return true;
}

// The offsets that were given, or those of parts that follow each other; false: such as sizes_from() refuses, or parts
// that reach beyond `bytes`.
bool offsets_from(nb::handle numbers, std::size_t item, const std::vector<std::size_t>& sizes, std::size_t bytes,
                  std::vector<std::size_t>& offsets) {
  if (!numbers.is_none()) {
    if (!sizes_from(numbers, item, offsets) || offsets.size() != sizes.size()) return false;
  } else {
    offsets.resize(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), std::size_t{0});
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > bytes || offsets[i] > bytes - sizes[i]) return false;
  }
  return true;
}

struct CountArguments {
  nb::handle send, receive, send_offsets, receive_offsets;  // None: there are none
};

bool set_plain_counts(CollectiveCall& call, const CountArguments& counts, const PlainElements& from,
                      const PlainElements& to) {
  return sizes_from(counts.send, from.item_bytes, call.send_counts) &&
         sizes_from(counts.receive, to.item_bytes, call.receive_counts) &&
         offsets_from(counts.send_offsets, from.item_bytes, call.send_counts, from.bytes, call.send_offsets) &&
         offsets_from(counts.receive_offsets, to.item_bytes, call.receive_counts, to.bytes, call.receive_offsets);
}

// Runs an exchange of plain host arrays along edges, as run_plain() does that of a team.
bool run_plain_edges(const PyNeighbourhood& self, const std::string& name, nb::handle array, nb::handle out,
                     nb::handle send_counts, nb::handle receive_counts, nb::handle send_offsets,
                     nb::handle receive_offsets, nb::handle algorithm, nb::handle stream) {
  std::string wanted;
  if (!nb::try_cast(algorithm, wanted) || checks(self)) return false;
  auto from = plain_elements(array, Access::read);
  auto to = from ? plain_elements(out, Access::write) : std::nullopt;
  if (!to || from->type != to->type) return false;
  CollectiveCall call;
  call.kind = kind_from(name);
  call.input = from->address;
  call.output = to->address;
  call.algorithm = algorithm_of(wanted);
  const auto runner = self.runner();
  const std::size_t sources = runner->sources().size();
  const std::size_t destinations = runner->destinations().size();
  if (call.kind == OpKind::neighbour_all_to_all_v) {
    if (!set_plain_counts(call, {send_counts, receive_counts, send_offsets, receive_offsets}, *from, *to)) return false;
  } else {
    const std::size_t parts = call.kind == OpKind::neighbour_all_gather ? 1 : destinations;
    if (parts == 0 || from->count() % parts != 0) return false;
    call.count = from->bytes / parts;
    if (to->bytes != call.count * sources) return false;
  }
  run_call(self, call, {std::move(from->hold), std::move(to->hold)}, stream, std::nullopt);
  return true;
}

// The hosts of a team meet; its streams play no part.
void meet(const PyTeam& self) {
  CollectiveCall call = collective::barrier();
  call.channel = self.channels;
  run_blocking(self, call);
}

template <class Self>
PyPlanned planned(const Self& self, const PyCall& call) {
  self.check_channel(call.call);
  return {self.runner()->planned(call.call)};
}

}  // namespace

void bind_collectives(nb::module_& m) {
  nb::class_<PyCall>(m, "CollectiveCall", "A collective as the library takes it. Use World.all_reduce() and so on.")
      .def(nb::init<const std::string&, std::uintptr_t, std::uintptr_t, std::size_t, const std::string&>(),
           nb::arg("kind"), nb::arg("input"), nb::arg("output"), nb::arg("count"), nb::arg("type"))
      .def_prop_ro("kind", [](const PyCall& self) { return std::string(name_of(self.call.kind)); })
      .def("set_options", &set_options, nb::arg("op"), nb::arg("root"), nb::arg("channel"), nb::arg("algorithm"))
      .def(
          "set_deterministic", [](PyCall& self) { self.call.deterministic = true; },
          "Refuses algorithms that add in another order than that of the ranks.")
      .def(
          "set_factor",
          [](PyCall& self, double factor, std::int64_t int_factor) {
            self.call.factor = factor;
            self.call.int_factor = int_factor;
          },
          nb::arg("factor"), nb::arg("int_factor"))
      .def(
          "set_combine",
          [](PyCall& self, std::size_t element_bytes, nb::object function) {
            self.call = collective::reduced_by(std::move(self.call), element_bytes, combine_of(std::move(function)));
          },
          nb::arg("element_bytes"), nb::arg("function"))
      .def("set_counts", &set_counts, nb::arg("send_counts"), nb::arg("send_offsets"), nb::arg("receive_counts"),
           nb::arg("receive_offsets"));
  nb::class_<PyPlanned>(m, "PlannedCall", "A collective for a plan. Use PlanBuilder.collectives().");
  nb::class_<PyTeam>(m, "Team", "The ranks that do collectives together. Use World.team(), or World itself.")
      .def_prop_ro("rank", [](const PyTeam& self) { return self.runner()->rank(); })
      .def_prop_ro("size", [](const PyTeam& self) { return self.runner()->size(); })
      .def_prop_ro("ranks", [](const PyTeam& self) { return self.runner()->ranks(); })
      .def_prop_ro("checks", &checks<PyTeam>, "Whether all ranks compare every call before it runs.")
      .def("run", &run<PyTeam>, nb::arg("call"), nb::arg("arrays"), nb::arg("stream").none(), nb::arg("natural").none(),
           "On a stream, or, with 'host', blocking. None: on the stream that this thread captures, on `natural`, or "
           "blocking.")
      .def("run_plain", &run_plain, nb::arg("kind"), nb::arg("array").none(), nb::arg("out").none(),
           nb::arg("op").none(), nb::arg("root").none(), nb::arg("channel").none(), nb::arg("algorithm").none(),
           nb::arg("stream").none(),
           "Runs a call of contiguous host arrays of numbers. False, and nothing is done, where arrays or options need "
           "a closer look.")
      .def("meet", &meet, "Blocks until the hosts of all ranks of the team have come; enqueued work does not matter.")
      .def("planned", &planned<PyTeam>, nb::arg("call"), "For PlanBuilder.add.")
      .def(
          "explain",
          [](const PyTeam& self, const PyCall& call) {
            self.check_channel(call.call);
            return self.runner()->explain(call.call);
          },
          nb::arg("call"));
  nb::class_<PyNeighbourhood>(m, "Neighbourhood", "The edges along which ranks exchange. Use World.neighbourhood().")
      .def_prop_ro("sources", [](const PyNeighbourhood& self) { return self.runner()->sources(); })
      .def_prop_ro("destinations", [](const PyNeighbourhood& self) { return self.runner()->destinations(); })
      .def_prop_ro("checks", &checks<PyNeighbourhood>,
                   "Whether both ends of an edge compare every call before it runs.")
      .def("run", &run<PyNeighbourhood>, nb::arg("call"), nb::arg("arrays"), nb::arg("stream").none(),
           nb::arg("natural").none(), "As Team.run.")
      .def("run_plain", &run_plain_edges, nb::arg("kind"), nb::arg("array").none(), nb::arg("out").none(),
           nb::arg("send_counts").none(), nb::arg("receive_counts").none(), nb::arg("send_offsets").none(),
           nb::arg("receive_offsets").none(), nb::arg("algorithm").none(), nb::arg("stream").none(),
           "As Team.run_plain.")
      .def("planned", &planned<PyNeighbourhood>, nb::arg("call"), "For PlanBuilder.add.");
  m.def("make_grid_neighbourhood", &make_grid, nb::arg("team"), nb::arg("dims"), nb::arg("periodic"),
        "Collective over the world.");
  m.def("make_graph_neighbourhood", &make_graph, nb::arg("team"), nb::arg("sources"), nb::arg("destinations"),
        "Collective over the world.");
  m.def("world_team", &world_team, nb::arg("world"), "The team of all ranks.");
  m.def("make_team", &make_team, nb::arg("world"), nb::arg("ranks"), nb::arg("channels"), "Collective over the world.");
}

}  // namespace onstream::python
