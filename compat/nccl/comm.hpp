// A communicator: a World of its own, and the state that NCCL's calls keep beside it.
//
// A handle is the object's address, so a call finds it at the price of two loads. Objects are never freed, only
// emptied: a handle that was destroyed is noticed, for as long as the process lives, at about 400 bytes a communicator.
// Calls on one communicator come from one thread at a time, as NCCL has it, except ncclCommGetAsyncError, ncclCommAbort
// and ncclGetLastError: a thread that uses the world is Inside or Looking, and its end waits for that.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "config.hpp"
#include "guarded.hpp"
#include "onstream/collective.hpp"
#include "onstream/world.hpp"

namespace onstream::nccl {

// Whether the hosts of all ranks meet at collectives, so that a call waits for the other ranks'.
enum class Hosts { apart, meet };

enum class State { starting, ready, failed, finalized, revoked, destroyed };

// An op that ncclRedOpCreatePreMulSum made.
struct Scaling {
  ncclRedOp_t number;
  ElementType type;
  double factor;
  std::int64_t int_factor;
};

constexpr std::uint64_t kMagic = 0x6f6e636f6d6d3031;

}  // namespace onstream::nccl

struct ncclComm {
  std::uint64_t magic = onstream::nccl::kMagic;
  std::atomic<onstream::nccl::State> state = onstream::nccl::State::starting;
  int rank = 0;
  int size = 1;
  int device = 0;  // its number among GPUs; 0 on the host device
  bool on_host = true;
  onstream::nccl::Options options;
  std::shared_ptr<onstream::World> world;      // while it is ready, finalized or revoked
  onstream::Collective* collective = nullptr;  // the world's
  onstream::nccl::Hosts hosts = onstream::nccl::Hosts::apart;
  std::string place;            // where its ranks met, the same on all of them and of no other communicator
  std::uint64_t serial = 0;     // of this process's communicators
  std::uint64_t splits = 0;     // of this one that began, ever; the same on every rank
  std::uint64_t shrinks = 0;    // of this one, ever; only ranks that stay count them
  std::atomic<int> inside = 0;  // threads that use the world

  std::mutex mutex;                               // guards the members below
  std::vector<onstream::nccl::Scaling> scalings;  // alive
  std::uint32_t scalings_made = 0;
  std::set<const void*> registered;   // handles of buffers and windows
  ncclResult_t result = ncclSuccess;  // why it failed
  std::string story;
  std::thread starter;  // of one that does not block, until somebody joins it or lets it go

  void* last_stream = nullptr;  // of messages that were enqueued eagerly
  bool has_messages = false;
};

namespace onstream::nccl {

// A new object, starting.
ncclComm& make_comm(int rank, int size, const Options& options);
// Writes a handle that another thread may look at already, to abort a start that takes too long.
inline void publish(ncclComm_t* out, ncclComm_t handle) {
  std::atomic_ref<ncclComm_t>(*out).store(handle, std::memory_order_release);
}
// Throws ncclInvalidArgument for null and for a handle of no communicator.
ncclComm& known(ncclComm_t comm);
// Throws for one that is not in this state, saying in which it is.
[[noreturn]] void refuse_state(const ncclComm& comm);

// One that calls may use now.
inline ncclComm& ready(ncclComm_t comm) {
  if (comm == nullptr || comm->magic != kMagic || comm->state.load(std::memory_order_acquire) != State::ready)
      [[unlikely]] {
    refuse_state(known(comm));
  }
  return *comm;
}

// While one lives the world that it gives does: null where there is none yet, or none any more.
class Looking {
 public:
  explicit Looking(ncclComm& comm) : comm_(comm) {
    comm_.inside.fetch_add(1, std::memory_order_seq_cst);  // pairs with empty(): one sees the other
    const State state = comm_.state.load(std::memory_order_seq_cst);
    if (state != State::starting && state != State::destroyed) world_ = comm_.world.get();
  }
  ~Looking() { comm_.inside.fetch_sub(1, std::memory_order_release); }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  World* world() const { return world_; }

 private:
  ncclComm& comm_;
  World* world_ = nullptr;
};

// While one lives the communicator's world does, and was ready.
class Inside {
 public:
  explicit Inside(ncclComm& comm) : comm_(comm) {
    comm_.inside.fetch_add(1, std::memory_order_seq_cst);  // pairs with empty(): one sees the other
    if (comm_.state.load(std::memory_order_seq_cst) == State::ready) [[likely]]
      return;
    comm_.inside.fetch_sub(1, std::memory_order_release);
    refuse_state(comm_);
  }
  ~Inside() { comm_.inside.fetch_sub(1, std::memory_order_release); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ncclComm& comm_;
};

// An error of the communicator's world becomes a code while the world is still there, for any caller. Only for threads
// that are Inside.
template <class Function>
auto in_codes_of(ncclComm& comm, const Function& function) {
  try {
    return function();
  } catch (const Error&) {
    throw refusal_of(std::current_exception(), &comm);
  }
}

template <class Function>
auto inside_of(ncclComm& comm, const Function& function) {
  const Inside inside(comm);
  return in_codes_of(comm, function);
}

// The onstream stream that a program's handle means.
Stream stream_of(const ncclComm& comm, CUstream_st* stream);

// Makes the world, and the memory of its collectives. Blocks until all ranks have come. Throws; also if the
// communicator was destroyed meanwhile, whose world goes again then.
void start(ncclComm& comm, const Launch& launch);
// It did not start. False if it was destroyed before.
bool set_failed(ncclComm& comm, const Refusal& why);
// Takes the thread that starts it, if there is one.
std::thread starter_of(ncclComm& comm);
// Destroys it. Lets the world go, which waits for its work, bounded, and for threads inside; the world of a
// communicator that is still starting is let go by the starting thread. False if it was destroyed before.
bool empty(ncclComm& comm);
// Makes all that waits in the world end. Nothing where there is none.
void abort(ncclComm& comm, const char* why);

// The world's state: ncclSuccess while it is whole, and after messages that did not end well, once, their error. The
// text is kept in `story`.
ncclResult_t async_result(ncclComm& comm);
// The calls' answer once its world has failed, `late` by this rank's own deadline; nothing while it is whole, or gone.
std::optional<Refusal> refusal_of_failure(ncclComm& comm, bool late);

}  // namespace onstream::nccl
