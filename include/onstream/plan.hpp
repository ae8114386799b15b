// Plan: a batch of ops compiled once and launched many times, as one kernel where every peer can be stored to.
//
//   PlanBuilder builder(fabric, "exchange");
//   builder.send(buffer, layout, peer, tag); builder.recv(...);
//   auto plan = builder.build();          // collective over the world: matches, validates, chooses paths
//   plan->launch(stream);                 // any number of times, eager or captured
//
// Sends and receives match inside the plan, per (source, destination, tag) in the order added; they never meet
// messages outside it. launch() orders all ops after earlier work of the stream; when the plan's work on the stream is
// done, sent buffers may be reused and received data is there. Ops of one launch run concurrently, except that signals
// and atomics follow the puts added before them to the same peer and each other, and a wait precedes nothing but the
// end of the launch. Collectives that were added run behind all ops of the launch, in the order added. Every rank
// launches a plan the same number of times; a rank that does not is named at the deadline.
//
// Ownership: a Plan may be let go at any time; launches that are under way, and graphs that captured some, keep alive
// the parts of it that they use, and the segments that ops put, get, signal and wait in. Only the last plan of a team
// or a neighbourhood that is gone waits for its launches. Buffers stay the caller's, until the last launch or graph is
// over. A graph that is replayed after its world's end finds no peer and ends; but copies of path memop ask nobody, and
// go into the peer's buffer all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/layout.hpp"
#include "onstream/path.hpp"

namespace onstream {

class Fabric;
namespace lane {
class NetworkLanes;
}
namespace plan {
class PlannedCall;
}

// One step of communication, as halos emit it and a plan runs it.
struct Op {
  OpKind kind = OpKind::none;
  int peer = -1;
  int tag = 0;
  void* address = nullptr;  // local memory: source of send and put, destination of recv and get, old value of atomic
  Layout layout = Layout::contiguous(0);
  void* remote = nullptr;  // put, get, atomic: the peer's memory as this rank addresses it (Segment::peer); signal,
                           // wait: the counter
  std::shared_ptr<Segment> segment;  // that holds `remote`, or the counter of a wait: the plan keeps it
  Layout remote_layout = Layout::contiguous(0);
  std::uint64_t value = 0;            // signal, atomic: the operand; wait: the counter's growth per launch
  std::uint64_t expected = 0;         // atomic compare_swap
  AtomicOp atomic = AtomicOp::fetch;  // of kind atomic or signal (add, set), on a word of layout.bytes()
  std::optional<Until> until;         // wait: how its word compares at the end of every launch; none: it has grown
  Path path = Path::automatic;
  std::string element;  // name of the element type, to be compared with the other side's; "" if not told
  std::string note;     // the emitter's name for it: "halo axis 0-", for explain()
};

struct PlanOp {  // one row of Plan::explain()
  Op op;
  Path path = Path::automatic;
  std::string why;  // "2 KiB <= ll_max_bytes 8 KiB", "path=copy set by the call", ...
};

// Per op of the last launches: where time went on the device's clock.
struct OpTime {  // of ops, not of collectives; all zero where the stream and the copy engine do everything: neither can
                 // look at a clock
  std::string what;           // "send to 1, halo axis 0-"
  std::uint64_t wait_ns = 0;  // waiting for the peer
  std::uint64_t move_ns = 0;  // moving bytes
  std::uint64_t launches = 0;
};

class Plan {
 public:
  class Implementation;
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Enqueues one run of all ops. Never blocks. Throws aborted if the world has failed, and invalid_argument if memory
  // or a segment of an op was freed since the build. That is noticed for memory that onstream allocated, and costs one
  // load as long as nothing is freed; the driver's and the system's own memory is not asked about, nor at a graph's
  // replay.
  void launch(Stream stream);

  // The same where the host waits: returns when the run has ended, and throws where it did not end well. On the host
  // device the calling thread runs the ops. It comes behind launches of this plan that have not ended.
  void run();
  bool runs_here() const;  // whether the calling thread would run the ops now

  const std::string& name() const;
  const std::vector<PlanOp>& ops() const;
  std::string explain() const;  // a table for people: ops, path, why, kernels per launch
  int kernels_per_launch() const;
  std::vector<OpTime> times() const;  // since build or the last reset_times(); synchronise the stream first
  void reset_times();

 private:
  friend class PlanBuilder;
  explicit Plan(std::unique_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;  // a forked child leaves it to its parent
};

class PlanBuilder {
 public:
  // `lanes`: of a world of several hosts.
  PlanBuilder(std::shared_ptr<Fabric> fabric, std::string name, std::shared_ptr<lane::NetworkLanes> lanes = nullptr);

  // Each throws invalid_argument at once for errors that one rank can see: rank out of range, tag out of range, null
  // address, a layout that leaves the allocation that it begins in, memory that is freed or another device's, a
  // destination layout that overlaps itself.
  PlanBuilder& send(const void* source, const Layout& layout, int peer, int tag = 0, std::string note = "");
  PlanBuilder& recv(void* destination, const Layout& layout, int peer, int tag = 0, std::string note = "");
  PlanBuilder& put(void* remote, const Layout& remote_layout, const void* source, const Layout& layout, int peer,
                   std::string note = "");
  // Reads the memory when the launch begins, or later: not behind this plan's own waits.
  PlanBuilder& get(void* destination, const Layout& layout, const void* remote, const Layout& remote_layout, int peer,
                   std::string note = "");
  // Adds `value` to a 64-bit counter in a peer's part of a segment, after this plan's earlier puts to that peer.
  PlanBuilder& signal(std::uint64_t* remote_counter, std::uint64_t value, int peer, std::string note = "");
  // The same by an op, on a word of 4 or 8 bytes.
  PlanBuilder& signal(SignalOp op, void* remote, std::size_t width, std::uint64_t value, int peer,
                      std::string note = "");
  // An atomic on a word of 4 or 8 bytes in a peer's part of a segment, in order as a signal is. The old value goes to
  // `old`, a word of the same width that kernels of this rank access, or nowhere if that is null. `expected`: of a
  // compare_swap, which without `old` tells nobody how it went.
  PlanBuilder& atomic(AtomicOp op, void* remote, std::size_t width, std::uint64_t value, int peer, void* old = nullptr,
                      std::uint64_t expected = 0, std::string note = "");
  // Ends when the local counter has grown by `value` more for every launch of this plan.
  PlanBuilder& wait(std::uint64_t* counter, std::uint64_t value, std::string note = "");
  // Ends when the local word compares, at every launch anew: it has to stay so until the launch has looked. Several
  // waits of a plan end when all of them compare.
  PlanBuilder& wait(const void* word, const Until& until, std::string note = "");
  // A collective of a team or a neighbourhood: builder.add(world.collective().planned(collective::all_reduce({...}))).
  // All ranks of its team add it, in an order in which they can run. A launch neither prepares it nor asks peers, with
  // any algorithm.
  PlanBuilder& add(std::shared_ptr<const plan::PlannedCall> call);
  // Names the element type of the op added last ("float64"): a send and a receive that name different ones do not
  // match.
  PlanBuilder& of(std::string element);
  PlanBuilder& use_path(Path path);  // for all sends, receives, puts and gets of the plan
  // Something that only this rank can see is wrong: build() throws it on every rank, instead of leaving them waiting.
  PlanBuilder& refuse(const std::string& problem);

  // Collective. Throws invalid_argument on every rank, naming both sides: unmatched send or receive, sizes that differ,
  // destinations of any two ranks' ops that overlap in one rank's memory (explain() says where there were too many runs
  // to look), paths that cannot work with the reason. A wait is not matched: its signaller may be outside the plan.
  std::shared_ptr<Plan> build();

 private:
  enum class Reach { this_host, all_hosts };
  void check_peer(const char* what, int peer, Reach reach = Reach::this_host) const;
  void check_lane(const char* what, int tag) const;
  void check_buffer(const char* what, const void* address, const Layout& layout) const;
  void check_destination(const char* what, const Layout& layout) const;
  std::shared_ptr<Segment> segment_of(const char* what, const void* address, std::size_t bytes, int peer) const;
  void add_copy(Op op, void* remote, const Layout& remote_layout);
  void check_word(const char* what, const char* name, const void* word, std::size_t width) const;
  PlanBuilder& add_wait(Op op, std::size_t width, std::string note);

  std::shared_ptr<Fabric> fabric_;
  std::string name_;
  std::shared_ptr<lane::NetworkLanes> lanes_;
  Path path_ = Path::automatic;
  std::vector<Op> ops_;
  std::vector<std::shared_ptr<const plan::PlannedCall>> calls_;
  std::string problems_;  // one a line
};

}  // namespace onstream
