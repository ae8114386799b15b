#include "comm.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/collective/call/call.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/transport/failure.hpp"

// The stream behind the default stream of the stand-in for the CUDA runtime (compat/standin), if the program uses it.
extern "C" __attribute__((weak)) void* onstream_standin_default_stream(void);

namespace onstream::nccl {

namespace {

struct Comms {
  std::mutex mutex;
  std::deque<ncclComm> all;
};

Comms& comms() {
  static auto* const of_process = new Comms;  // never destroyed: programs may end with communicators alive
  return *of_process;
}

const char* words_for(State state) {
  switch (state) {
    case State::starting: return "is still starting; ask ncclCommGetAsyncError until it is not ncclInProgress any more";
    case State::finalized: return "was finalized";
    case State::revoked: return "was revoked";
    case State::destroyed: return "was destroyed";
    default: return "has failed";
  }
}

std::string name_of(const ncclComm& comm) {
  return concat("the communicator ", comm.options.name, comm.options.name.empty() ? "" : " ", "of rank ", comm.rank,
                " of ", comm.size);
}

// The differences from a world's usual parameters: one tag with room for many small messages, and this rank's own GPU.
Parameters parameters_of(const ncclComm& comm) {
  Parameters parameters = Parameters::from_environment();
  const auto prefer = [&](const char* name, const std::string& value) {
    for (const ParameterRow& row : parameters.rows()) {
      if (row.name == name && row.set_by == "default") return parameters.set(name, value);
    }
  };
  prefer("tags", "1");
  prefer("tag_bytes", "262144");
  if (comm.options.most_blocks) {
    const auto most = std::min<std::int64_t>(parameters.collective_blocks, *comm.options.most_blocks);
    parameters.set("collective_blocks", concat(most));
  }
  parameters.set("device", comm.on_host ? "host" : concat("cuda:", comm.device));
  return parameters;
}

// By the other algorithms they have met when the communicator has started.
Hosts hosts_of(const Parameters& parameters) {
  const bool meet =
      parameters.collective_check == "on" || algorithm_of(parameters.collective_algorithm) == Algorithm::copy;
  return meet ? Hosts::meet : Hosts::apart;
}

}  // namespace

ncclComm& make_comm(int rank, int size, const Options& options) {
  const std::optional<int> gpu = current_gpu();
  const std::lock_guard lock(comms().mutex);
  ncclComm& comm = comms().all.emplace_back();
  comm.rank = rank;
  comm.size = size;
  comm.options = options;
  comm.on_host = !gpu.has_value();
  comm.device = gpu.value_or(0);
  comm.serial = comms().all.size();
  return comm;
}

ncclComm& known(ncclComm_t comm) {
  demand(comm != nullptr, "the communicator is null");
  demand(comm->magic == kMagic, "the communicator at ", static_cast<const void*>(comm), " is none");
  return *comm;
}

void refuse_state(const ncclComm& comm) {
  const State state = comm.state.load(std::memory_order_acquire);
  const ncclResult_t code = state == State::starting || state == State::destroyed ? ncclInvalidArgument
                            : state == State::failed                              ? comm.result
                                                                                  : ncclInvalidUsage;
  refuse(code, name_of(comm), " ", words_for(state), state == State::failed ? concat(": ", comm.story) : "");
}

Stream stream_of(const ncclComm& comm, CUstream_st* stream) {
  if (stream == nullptr && comm.on_host && onstream_standin_default_stream != nullptr) {
    return {onstream_standin_default_stream()};
  }
  return {stream};
}

void start(ncclComm& comm, const Launch& launch) {
  const std::shared_ptr<World> world = World::create(launch, parameters_of(comm));
  world->collective().run(collective::barrier());  // makes the channel, for which the hosts of all ranks wait
  comm.hosts = hosts_of(world->fabric()->parameters());
  comm.place = launch.address;
  comm.collective = &world->collective();
  comm.world = world;
  State before = State::starting;
  const bool is_ready = comm.state.compare_exchange_strong(before, State::ready, std::memory_order_seq_cst);
  if (is_ready) return;  // pairs with ready()
  // It was destroyed meanwhile. Nobody else looks at its world then, so that goes here.
  comm.collective = nullptr;
  comm.world.reset();
  refuse_state(comm);
}

bool set_failed(ncclComm& comm, const Refusal& why) {
  const std::lock_guard lock(comm.mutex);
  comm.result = why.code();
  comm.story = why.what();
  State before = State::starting;
  return comm.state.compare_exchange_strong(before, State::failed, std::memory_order_seq_cst);
}

std::thread starter_of(ncclComm& comm) {
  const std::lock_guard lock(comm.mutex);
  return std::exchange(comm.starter, {});
}

bool empty(ncclComm& comm) {
  const State before = comm.state.exchange(State::destroyed, std::memory_order_seq_cst);  // pairs with Inside
  if (before == State::starting || before == State::destroyed) return before == State::starting;
  for (std::uint32_t round = 0; comm.inside.load(std::memory_order_seq_cst) > 0; ++round) HostGroup::pause(round);
  comm.collective = nullptr;
  comm.world.reset();
  const std::lock_guard lock(comm.mutex);
  comm.scalings.clear();
  comm.registered.clear();
  return true;
}

void abort(ncclComm& comm, const char* why) {
  const Looking looking(comm);
  if (looking.world() == nullptr) return;
  looking.world()->abort(concat("rank ", comm.rank, " called ", why), Cause::interrupt);
}

std::optional<Refusal> refusal_of_failure(ncclComm& comm, bool late) {
  const Looking looking(comm);
  const std::optional<Failure> failure = looking.world() == nullptr ? std::nullopt : looking.world()->failure();
  if (!failure) return std::nullopt;
  const auto is_late = [](const FaultReport& fault) { return fault.status == Status::timeout; };
  const bool timed_out = late || (failure->dead.empty() && std::ranges::any_of(failure->faults, is_late));
  const char* const go_on = failure->dead.empty()
                                ? "ncclCommAbort, on every rank, and a new communicator"
                                : "ncclCommShrink with NCCL_SHRINK_ABORT, on every other rank, without the dead";
  return Refusal(timed_out ? ncclSystemError : ncclRemoteError, concat(facts_of(*failure), "\nto go on: ", go_on),
                 true);
}

ncclResult_t async_result(ncclComm& comm) {
  switch (comm.state.load(std::memory_order_acquire)) {
    case State::starting: return ncclInProgress;
    case State::finalized:
    case State::revoked: return ncclSuccess;
    case State::failed: return comm.result;
    case State::destroyed: refuse_state(comm);
    case State::ready: break;
  }
  const Inside inside(comm);  // also while the error is looked at
  try {
    comm.world->check();
    return ncclSuccess;
  } catch (const Error&) {
    const Refusal why = refusal_of(std::current_exception(), &comm);
    if (why.code() == ncclInvalidUsage) return told("ncclCommGetAsyncError", why);
    keep(why.what());  // for programs that ask without the communicator
    const std::lock_guard lock(comm.mutex);
    comm.story = why.what();
    return why.code();
  }
}

}  // namespace onstream::nccl
