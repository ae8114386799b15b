// Communicators ended: finalized, destroyed, aborted, revoked. None of these waits for other ranks' calls, only for
// this rank's own work, and that is bounded by the deadline; but ncclCommDestroy waits for a start in the background,
// and for a split of it there until its ranks have met, also bounded by the deadline.
#include <optional>

#include "group.hpp"
#include "onstream/base/error.hpp"

using namespace onstream;
using namespace onstream::nccl;

namespace {

// Waits for the work that calls have enqueued (graphs are the program's own affair), and throws its error unless a call
// has told of it.
void check_work(ncclComm& comm) { comm.world->finish(); }

// The error of check_work() as a value, for a communicator that goes in any case.
std::optional<Refusal> last_words(ncclComm& comm) {
  if (comm.state.load(std::memory_order_acquire) != State::ready) return std::nullopt;
  try {
    inside_of(comm, [&] { check_work(comm); });
  } catch (const Refusal& refusal) {
    return refusal;
  }
  return std::nullopt;
}

void demand_not_destroyed(const ncclComm& comm) {
  if (comm.state.load(std::memory_order_acquire) == State::destroyed) refuse_state(comm);
}

// From ready, unless another thread ended it meanwhile.
void leave_ready(ncclComm& comm, State next) {
  State before = State::ready;
  if (!comm.state.compare_exchange_strong(before, next, std::memory_order_seq_cst)) refuse_state(comm);
}

}  // namespace

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand_no_ops(comm);
    {
      const Inside inside(comm);
      check_work(comm);
    }
    leave_ready(comm, State::finalized);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    if (handle == nullptr) return ncclSuccess;
    ncclComm& comm = known(handle);
    demand_not_destroyed(comm);
    demand_no_ops(comm);
    if (std::thread starter = starter_of(comm); starter.joinable()) starter.join();
    const std::optional<Refusal> failed = last_words(comm);
    if (!empty(comm)) refuse_state(comm);
    if (failed) throw *failed;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    if (handle == nullptr) return ncclSuccess;
    ncclComm& comm = known(handle);
    demand_not_destroyed(comm);
    abort(comm, "ncclCommAbort");
    if (!empty(comm)) refuse_state(comm);
    // A start that still waits for other ranks finds out when they have come, or the deadline has.
    if (std::thread starter = starter_of(comm); starter.joinable()) starter.detach();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand(flags == NCCL_REVOKE_DEFAULT, "the flags ", flags, " are not NCCL_REVOKE_DEFAULT");
    demand_no_ops(comm);
    abort(comm, "ncclCommRevoke");
    leave_ready(comm, State::revoked);
    return ncclSuccess;
  });
}

ONSTREAM_NCCL_TWIN(ncclCommFinalize);
ONSTREAM_NCCL_TWIN(ncclCommDestroy);
ONSTREAM_NCCL_TWIN(ncclCommAbort);
ONSTREAM_NCCL_TWIN(ncclCommRevoke);
