// Communicators ended: finalized, destroyed, aborted, revoked. None of these waits for other ranks' calls, only for
// this rank's own work, and that is bounded by the deadline.
#include "group.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/group.hpp"

using namespace onstream;
using namespace onstream::nccl;

namespace {

// Of the work that calls have enqueued; graphs are the program's own affair.
void drain(ncclComm& comm) {
  World& world = *comm.world;
  const double limit_s = world.fabric()->parameters().timeout_s;
  const Deadline deadline(limit_s);
  for (std::uint32_t round = 0; !world.unfinished().empty(); ++round) {
    world.fabric()->check();
    if (deadline.passed()) {
      refuse(ncclSystemError, "work of the communicator has not finished within ", limit_s,
             " s (timeout_s), nor has what is before it on its streams");
    }
    HostGroup::pause(round);
  }
}

void demand_not_destroyed(const ncclComm& comm) {
  if (comm.state.load(std::memory_order_acquire) == State::destroyed) refuse_state(comm);
}

void join_start(ncclComm& comm) {
  if (comm.starter.joinable()) comm.starter.join();
}

}  // namespace

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand_no_ops(comm);
    {
      const Inside inside(comm);
      drain(comm);
    }
    comm.state.store(State::finalized, std::memory_order_release);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    if (handle == nullptr) return ncclSuccess;
    ncclComm& comm = known(handle);
    demand_not_destroyed(comm);
    demand_no_ops(comm);
    empty(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    if (handle == nullptr) return ncclSuccess;
    ncclComm& comm = known(handle);
    demand_not_destroyed(comm);
    join_start(comm);
    abort(comm, "ncclCommAbort");
    empty(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand(flags == NCCL_REVOKE_DEFAULT, "the flags ", flags, " are not NCCL_REVOKE_DEFAULT");
    demand_no_ops(comm);
    abort(comm, "ncclCommRevoke");
    comm.state.store(State::revoked, std::memory_order_release);
    return ncclSuccess;
  });
}

ONSTREAM_NCCL_TWIN(ncclCommFinalize);
ONSTREAM_NCCL_TWIN(ncclCommDestroy);
ONSTREAM_NCCL_TWIN(ncclCommAbort);
ONSTREAM_NCCL_TWIN(ncclCommRevoke);
