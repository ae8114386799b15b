// World: the set of ranks of a job and everything they share. The door of the library. Classes that it gives and that
// are only declared here have headers of their own.
//
// Several worlds may exist at once, and one may be destroyed and made again. Destruction is not collective, but a world
// must outlive the work enqueued through it; the destructor waits for that work, bounded by the deadline. Its Plans and
// PlanBuilders keep the Fabric: the other ranks hear of the end once they are gone too. Replays of a
// graph are enqueued through a device, not through a world: synchronize their stream first, or their pending waits end
// when the world does.
//
// Errors: every call throws Error for values that cannot work, and, once the world has failed, for that (aborted, with
// the story; timeout from the first call that tells that this rank's own deadline has passed). How a message ended is a
// Status: returned where the host waits; where a stream does, synchronize(), check() or take_faults() tell. A world's
// failure is logged where it began, elsewhere at level info.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/failure.hpp"
#include "onstream/launch.hpp"
#include "onstream/message.hpp"
#include "onstream/parameters.hpp"

namespace onstream {

namespace lane {
class NetworkLanes;  // the library's own
}
class Collective;     // collective.hpp
class Fabric;         // the library's own
class MessageEngine;  // the library's own
class OneSided;       // one_sided.hpp
class Plan;           // plan.hpp
class PlanBuilder;    // plan.hpp
class Team;           // one_sided.hpp
class Window;         // one_sided.hpp
struct HaloSpec;      // halo.hpp

class World {
 public:
  // Collective over the job. Throws Error naming the ranks that did not come.
  static std::shared_ptr<World> create(const Launch& launch = launch_from_environment(),
                                       const Parameters& parameters = Parameters::from_environment());
  ~World();  // not for a forked child, where the last handle's end leaves all to the parent
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  bool in_forked_child() const;  // of the process that made it: no call works, and destruction does nothing
  void check_process() const;    // throws closed there
  const Launch& launch() const;  // this rank's place in the job
  const std::shared_ptr<Fabric>& fabric() const;
  Device& device() const;

  // --- memory ---
  // Zeroed memory that peers can reach directly (kind device or pinned). The caller's until the last owner lets go,
  // which waits for nothing, or, where the driver frees so (docs/decisions/0005), for everything: let go when the work
  // that uses it has ended.
  std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind = MemoryKind::device);
  // Makes the allocation that holds [address, address + bytes) known to every peer now, so that no later call has to.
  // Optional: the first message from or to it does the same. Throws with the reason if peers cannot reach it.
  void register_memory(const void* address, std::size_t bytes);
  // Symmetric memory, zeroed: any number, on device and host memory side by side. Collective; throws, on every rank, if
  // the ranks differ, naming them, or if one has no memory. The handle's end frees this rank's part; free() all at
  // once.
  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind = MemoryKind::device);
  void free(const std::shared_ptr<Segment>& segment);

  // --- messages, ordered on a stream ---
  // message.hpp says how each behaves.
  void send(const void* source, std::size_t bytes, int peer, const MessageOptions& options, Stream stream);
  void recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, Stream stream);
  std::shared_ptr<Request> isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                 Stream stream);
  std::shared_ptr<Request> irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                                 Stream stream);
  void sendrecv(const Outgoing& out, const Incoming& in, Stream stream);
  // As sendrecv of any number of each: none waits for another of them, nor for its place in the lists. Those of one
  // lane and direction match in their order. Buffers are not compared. On cuda one kernel for up to 7 of each, if all
  // are of different lanes.
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream);
  // Throws as exchange() would for its arguments, except for want of room for receives; enqueues nothing.
  void check_exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  void wait(const std::shared_ptr<Request>& request, Stream stream);
  // As isend for each in this order, and wait for each, for receives first. Small messages that follow each other on
  // one lane are posted by one launch for up to 64 of them, and so are waits for sends; of receives that follow each
  // other the last is waited for, which completes all.
  std::vector<std::shared_ptr<Request>> isend_all(std::span<const Outgoing> messages, Stream stream);
  void wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream);

  // --- messages, the host waits ---
  // Wrong arguments throw, as do all calls once the world has failed. The message's own outcome is returned, not
  // thrown, and must be looked at: truncated leaves the world whole; timeout and aborted mean that it has failed, and
  // failure() tells the story, which is logged too.
  Status send(const void* source, std::size_t bytes, int peer, const MessageOptions& options = {});
  // Returns the status; received (may be null) gets the message's bytes. The peer may be kAnySource, here and in irecv.
  Status recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options = {},
              std::size_t* received = nullptr);
  std::shared_ptr<Request> isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options = {});
  std::shared_ptr<Request> irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options = {});
  // Posts both, or, if either is refused, none.
  Exchange isendrecv(const Outgoing& out, const Incoming& in);
  // How the send ended, or, if that is ok, the receive.
  Status sendrecv(const Outgoing& out, const Incoming& in, std::size_t* received = nullptr);
  // The same where the send can end at once: it is small, and its tag has room. Nothing, and nothing done, where not.
  std::optional<SendrecvEnds> sendrecv_ahead(const Outgoing& out, const Incoming& in, std::size_t* received = nullptr);
  Status wait(const std::shared_ptr<Request>& request);  // any number of times: the same status again
  Status test(const std::shared_ptr<Request>& request);  // pending, or how it ended; never blocks
  // Host device: whether an isend of so many bytes would end without waiting for the receiver to make room. Elsewhere
  // the host never waits in an isend, and the answer is false.
  bool has_room(std::size_t bytes, int peer, int lane) const;
  std::size_t received(const std::shared_ptr<Request>& request) const;  // of the message; the irecv has ended
  int source(const std::shared_ptr<Request>& request) const;            // its sender; kAnySource: not known yet
  bool captured(const std::shared_ptr<Request>& request) const;         // a graph holds it
  std::string explain(const Outgoing& message) const;                   // the path of a send on a stream, and why

  // --- messages by layouts ---
  // As those above, of data that lies in its buffer by a layout (message.hpp). A sendrecv's buffers may overlap: what
  // is sent is packed before anything is received.
  void send(const LayoutMessage& message, Stream stream);
  void recv(const LayoutMessage& message, Stream stream);
  std::shared_ptr<Request> isend(const LayoutMessage& message, Stream stream);
  std::shared_ptr<Request> irecv(const LayoutMessage& message, Stream stream);
  void sendrecv(const LayoutMessage& out, const LayoutMessage& in, Stream stream);
  Status send(const LayoutMessage& message);
  Status recv(const LayoutMessage& message, std::size_t* received = nullptr);
  std::shared_ptr<Request> isend(const LayoutMessage& message);
  std::shared_ptr<Request> irecv(const LayoutMessage& message);
  Exchange isendrecv(const LayoutMessage& out, const LayoutMessage& in);
  std::optional<SendrecvEnds> sendrecv_ahead(const LayoutMessage& out, const LayoutMessage& in,
                                             std::size_t* received = nullptr);

  // --- messages whose sender or size is unknown ---
  // The next message of the tag from `peer`, or from any rank (kAnySource), that no receive was posted for. iprobe and
  // imatch look once and never block: nothing where none has come, or another call of this rank receives there. probe
  // and match wait, and return the status as a receive does. Host calls: there is no form on a stream.
  std::optional<Probed> iprobe(int peer, int tag = 0);
  Status probe(int peer, int tag, Probed& found);
  std::shared_ptr<Matched> imatch(int peer, int tag = 0);
  Status match(int peer, int tag, std::shared_ptr<Matched>& found);
  // Receives just that message. A buffer that is too small is refused by invalid_argument, and the message stays; so is
  // one that was received already. The options' tag does not count.
  std::shared_ptr<Request> irecv(const std::shared_ptr<Matched>& matched, void* destination, std::size_t bytes,
                                 const MessageOptions& options = {});
  Status recv(const std::shared_ptr<Matched>& matched, void* destination, std::size_t bytes,
              const MessageOptions& options = {});

  // --- several requests, the host waits ---
  // The first in the list that has ended, and how; one that was waited for before counts. Throws for an empty list.
  std::size_t wait_any(std::span<const std::shared_ptr<Request>> requests, Status& status);
  // Waits for the first; then all that have ended by now, and how each did, in the list's order.
  struct EndedRequest {
    std::size_t index;
    Status status;
  };
  std::vector<EndedRequest> wait_some(std::span<const std::shared_ptr<Request>> requests);
  // The same, but look once and never block. Nothing: none has ended.
  std::optional<EndedRequest> test_any(std::span<const std::shared_ptr<Request>> requests);
  bool test_all(std::span<const std::shared_ptr<Request>> requests);  // whether every one has ended

  // --- one-sided ---
  // Every rank's memory, or a segment, to put to and get from; see one_sided.hpp. Collective for memory.
  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);
  OneSided& one_sided() const;
  std::shared_ptr<Team> team() const;  // of all ranks

  // --- collectives ---
  // Among all ranks: collective().run(collective::all_reduce({...}), stream); see collective.hpp.
  // collective().among(ranks) has those of a team.
  Collective& collective() const;

  // --- plans ---
  PlanBuilder plan(std::string name);
  std::shared_ptr<Plan> halo(void* array, const HaloSpec& spec, std::string name = "halo");  // collective

  // --- the job ---
  void barrier();                   // the hosts of all ranks
  void synchronize(Stream stream);  // waits for the stream, then check(); timeout where this rank's deadline passed
  // The point behind the ops of this world that have not ended, for each stream with such ops. Not for a graph's
  // replays, which are enqueued through the device.
  std::vector<std::shared_ptr<Event>> unfinished() const;
  // unfinished() without asking the device, so that some may be over, and without the points of the streams `beside`.
  std::vector<std::shared_ptr<Event>> points(const std::vector<Stream>& beside = {}) const;
  void abort(const std::string& reason, Cause cause = Cause::failure);
  // At the world's end: waits for all work enqueued through it, and for the points `besides` (as behind launches of
  // graphs, which it does not know), bounded by the deadline. It does not wait for the work of calls in which threads
  // wait now, and of the streams that they synchronize. Then throws the error of that work which no call and no
  // warning has told: of a failure in which an op of this rank has ended, or the faults that check() tells. The
  // destructor waits too, but can tell nothing.
  void finish(std::vector<Stream> synchronized = {}, const std::vector<std::shared_ptr<Event>>& besides = {});
  // Behind finish(), before a thread lets go of a world that others of this process are using: their waits end and
  // their calls throw closed, or return aborted. The other ranks hear nothing but the goodbye of the world's end.
  // Buffers of calls that ended so may still be read or written by other ranks until then.
  void leave();
  // Throws the story if the world failed, as every call; else, if messages did not end well since the last call,
  // truncated or unmapped as the oldest of them, naming each.
  void check() const;
  std::optional<Failure> failure() const;
  std::vector<FaultReport> take_faults();
  std::size_t device_bytes() const;  // for messages of all ranks and tags: held from the start
  std::string describe() const;      // ranks, devices, memory held, registrations
  std::string paths() const;         // the rules by which paths and algorithms are taken (docs/paths.md)

  struct Statistics {
    PeerMappingStatistics peer_mapping;
    std::size_t message_bytes = 0;  // device memory for messages of all ranks and tags
    std::size_t segment_bytes = 0;  // of all segments that the library made, those for messages included
  };
  Statistics statistics() const;

 private:
  explicit World(std::shared_ptr<Fabric> fabric);
  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<lane::NetworkLanes> network_lanes_;  // null: all ranks are on one host
  std::unique_ptr<Collective> collective_;             // first: its kernels are loaded before the messages' barrier
  std::unique_ptr<MessageEngine> messages_;
  std::unique_ptr<OneSided> one_sided_;
};

}  // namespace onstream
