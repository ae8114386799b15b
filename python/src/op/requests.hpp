// The state that a world, its requests and its plans share in Python, and the request itself.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arrays/holds.hpp"
#include "base/gil.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/world.hpp"
#include "world/streams.hpp"

namespace onstream::python {

namespace nb = nanobind;

// A buffer that an unfinished message still uses although its request is gone (garbage, or Ctrl-C during a wait).
struct Abandoned {
  std::shared_ptr<Request> request;
  Hold hold;
};

// The arrays of an op on another library's stream, until the stream, or the graph that captured the op, is past it.
struct Lent {
  std::shared_ptr<Event> passed;
  std::weak_ptr<const void> graph;
  Hold hold;
};

// A stream of another world that ops of this one are on.
struct Guest {
  PyStream* stream;
  std::weak_ptr<void> life;
};

// A part of the C++ library that ends with its world, even while Python still holds it.
class Closable {
 public:
  virtual ~Closable() = default;
  virtual void close() = 0;
};

// The state that all Python objects of one world share. Used with the GIL.
struct WorldState {
  std::shared_ptr<World> world;  // empty once closed
  ForkGuard guard;
  double spin_us = 0;  // parameter host_spin_us
  std::vector<Abandoned> abandoned;
  std::vector<Lent> lent;
  std::size_t lent_enough = 0;                 // until those that are over are looked for
  std::vector<std::shared_ptr<Event>> ending;  // points of a world that is being closed
  std::vector<PyStream*> streams;              // those of World.stream() that live
  std::vector<Guest> guests;
  std::vector<std::weak_ptr<Closable>> closables;  // parts that would keep the world's connections open
  std::weak_ptr<World> left;                       // once closed: the world, until that has gone
  std::vector<std::thread::id> callers;            // threads inside calls that may block (BlockingCall)
  std::vector<Stream> waited;                      // streams that threads synchronize (StreamWait)

  // The open world. Throws closed, also in a forked child, and unsupported inside a function of World.call().
  std::shared_ptr<World> open() const;
  // Throws aborted with the story if the world has failed, or the exception of the faults since the last look.
  void check();
  // check() after a wait: throws timeout where a deadline of this rank's own has passed.
  void check_waited();
  // The points behind the world's ops, some of which may be over. None of a world that has been closed.
  std::vector<std::shared_ptr<Event>> points() const { return world != nullptr ? world->points() : ending; }
  // Whether threads but this one are inside calls.
  bool used_by_others() const;
  // To be closed with the world: at once, if that is closed.
  void add(const std::shared_ptr<Closable>& closable);
  // Keeps the arrays of an op on the chosen stream until the op is over. The op is enqueued.
  void keep(const StreamChoice& choice, Hold hold);
  // The streams that ops and graphs of the world may be on: those of World.stream(), of this world or another.
  std::vector<nb::object> streams_in_use();
  // Behind all that is enqueued, until now, on these streams, and on those of other libraries that `lent` knows.
  std::vector<std::shared_ptr<Event>> ends_of(Device& device, const std::vector<nb::object>& kept) const;
  // Blocks until all work has finished that was enqueued, until now, on streams of the world, through the world on any
  // other stream, or on the device's default stream. Ctrl-C works.
  void synchronize();
  // Lets go of abandoned buffers whose messages have finished since.
  void reap();
  void reap_lent();  // arrays of ended ops on other libraries' streams
  // Forgets the buffers of a closed world, whose ops have ended.
  void forget_buffers();
  // Enqueues work on a stream that nobody else uses, and blocks until it has finished. On Ctrl-C on_interrupt() must
  // make the work end, before the stream goes.
  void run_and_wait(const std::function<void(Stream)>& enqueue, const std::function<void()>& on_interrupt);
};

// From the start of a call that may block to its end: close() in another thread ends it, and waits for that. Made and
// destroyed with the GIL.
class BlockingCall {
 public:
  explicit BlockingCall(std::shared_ptr<WorldState> state) : state_(std::move(state)) {
    state_->callers.push_back(std::this_thread::get_id());
  }
  ~BlockingCall() {
    const auto mine = std::find(state_->callers.rbegin(), state_->callers.rend(), std::this_thread::get_id());
    state_->callers.erase(std::next(mine).base());
  }
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

 private:
  std::shared_ptr<WorldState> state_;
};

// A blocking call that waits for a stream, and tells how its work ended.
class StreamWait {
 public:
  StreamWait(const std::shared_ptr<WorldState>& state, Stream stream) : state_(state), call_(state), stream_(stream) {
    state_->waited.push_back(stream);
  }
  ~StreamWait() {
    const auto is_mine = [this](Stream one) { return one.handle == stream_.handle; };
    state_->waited.erase(std::ranges::find_if(state_->waited, is_mine));
  }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;

 private:
  std::shared_ptr<WorldState> state_;
  BlockingCall call_;
  Stream stream_;
};

// Throws the exception that tells how a message ended, unless it ended well; its world tells of it no more.
void raise_message_fault(const World& world, const FaultReport& fault);

// Ends the world because Ctrl-C broke off an op ("message", "one-sided op"), whose buffer a peer may be using.
void abort_interrupted(World& world, const std::string& what);

// run_interruptible() of a step that all ranks of the world make together. One that was broken off would still take
// part, for the rank that has left it, and the ranks' calls would no longer match: so Ctrl-C ends the world here too.
template <class Function>
auto run_together(const std::shared_ptr<WorldState>& state, const char* step, Function function) {
  const BlockingCall call(state);
  const auto world = state->open();
  return run_interruptible(std::move(function), [&] { abort_interrupted(*world, step); });
}

// Runs enqueue() without the GIL and keeps the memory of a one-sided op until the stream is past it; also if it throws,
// as it may have enqueued a part. No array library gives symmetric memory back in the order of its streams: the world
// keeps it.
template <class Enqueue, class... Kept>
void enqueue_and_keep(WorldState& state, StreamChoice choice, const Enqueue& enqueue, Kept... kept) {
  if (choice.keeper == Keeper::library) choice.keeper = Keeper::world;
  const auto keep = [&] { (state.keep(choice, std::move(kept)), ...); };
  try {
    const GilRelease release;
    enqueue();
  } catch (...) {
    try {
      keep();
    } catch (const Error&) {  // of a device that has failed; the op's own error goes on
    }
    throw;
  }
  keep();
}

// The peer that stands for onstream.null here. Every other -1 is refused, as a rank that does not exist.
constexpr int kNullPeer = std::numeric_limits<int>::min() + 1;

// One isend or irecv. The buffer stays in place until the message has finished, even if this object is gone.
class PyRequest {
 public:
  struct Posted {
    OpKind kind = OpKind::none;
    int peer = -1;
    int tag = 0;
    std::size_t bytes = 0;
    std::optional<Stream> stream;  // that it was posted on; nothing for the host form
    nb::object mine;               // the PyStream, if it is one of ours
    Keeper keeper = Keeper::library;

    StreamChoice choice() const { return {stream, mine.is_valid() ? nb::cast<PyStream*>(mine) : nullptr, keeper}; }
  };
  PyRequest(std::shared_ptr<WorldState> state, std::shared_ptr<Request> request, Hold hold, Posted posted);
  // To or from null (kNullPeer): it has ended.
  PyRequest(std::shared_ptr<WorldState> state, Posted posted);
  ~PyRequest();
  PyRequest(PyRequest&&) = default;

  void wait(nb::handle stream);
  bool test();
  bool done();  // test() that raises no error of the message
  double timeout_s() const;
  std::size_t received() const;
  // wait(), except that it raises no error of this message alone. Whether the host waited, and may raise that now.
  bool end(nb::handle stream);
  // Blocks on the host. Ctrl-C aborts the world: a peer may be writing to the buffer.
  void end_on_host();
  // After the host has waited: raises unless the message ended well; or leaves a fault that fails no world in `cut`.
  void raise_fault(const World& world);
  void tell_fault(const World& world, std::vector<FaultReport>& cut);
  // end_on_host(), then raise_fault().
  void wait_on_host();
  const Posted& posted() const { return posted_; }
  const std::shared_ptr<Request>& request() const { return request_; }
  bool is_null() const { return posted_.peer == kNullPeer; }
  // The host has seen it end so.
  void take(World& world, Status status) {
    if (status_ == Status::pending) finish(world, status);
  }
  // "send of 64 B to rank 1 with tag 0, not waited for"
  std::string text() const;

 private:
  void finish(World& world, Status status);
  FaultReport report(const World& world) const;
  std::shared_ptr<WorldState> state_;
  std::shared_ptr<Request> request_;
  Hold hold_;
  Posted posted_;
  bool waited_ = false;              // its wait has returned or is on a stream
  Status status_ = Status::pending;  // how it ended, once the host knows
  bool raised_ = false;              // how it ended, so that no other message's fault is taken for this one's
  std::size_t received_ = 0;
};

// The requests of a list that its caller keeps. Throws a TypeError that names the call, and the element that is none.
std::vector<PyRequest*> requests_in(const char* call, const nb::list& list);

}  // namespace onstream::python
