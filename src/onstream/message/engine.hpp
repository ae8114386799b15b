// MessageEngine: the messages of a world, behind its calls. Each file has the methods of one task: engine.cpp sets up
// and checks, on_stream.cpp enqueues, on_host.cpp runs and waits in the calling thread, sendrecv.cpp does both
// directions, by_layout.cpp has messages that lie by layouts, waits.cpp completes requests, probe.cpp looks ahead,
// any_source.cpp has receives without a named sender, unreceived.cpp looks back at the end.
//
// Thread-safe. Where threads use one lane in one direction, their ops run one at a time, in any order; streams that do
// so on a GPU are the program's to order (message.hpp).
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/lane/many.hpp"
#include "onstream/lane/recv.hpp"
#include "onstream/lane/remote/remote_lanes.hpp"
#include "onstream/message/grids.hpp"
#include "onstream/message/host_copy.hpp"
#include "onstream/message/message.hpp"
#include "onstream/message/outstanding.hpp"
#include "onstream/message/request.hpp"
#include "onstream/message/route.hpp"

namespace onstream {

struct LayoutTask;

inline const HostGroup kCaller(0, 1);  // the calling thread, where it runs an op or waits itself

class MessageEngine {
 public:
  explicit MessageEngine(std::shared_ptr<Fabric> fabric);  // collective: allocates the lanes
  // Waits for the work enqueued eagerly, bounded: then the world is aborted, which makes that work end.
  ~MessageEngine();
  MessageEngine(const MessageEngine&) = delete;
  MessageEngine& operator=(const MessageEngine&) = delete;

  // Ordered on a stream; World says how each behaves.
  void send(const Outgoing& message, Stream stream);
  void recv(const Incoming& message, Stream stream);
  std::shared_ptr<Request> isend(const Outgoing& message, Stream stream);
  std::shared_ptr<Request> irecv(const Incoming& message, Stream stream);
  void sendrecv(const Outgoing& out, const Incoming& in, Stream stream);
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream);
  void check_exchange(std::span<const Outgoing> out, std::span<const Incoming> in);
  std::vector<std::shared_ptr<Request>> isend_all(std::span<const Outgoing> messages, Stream stream);
  void wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream);

  // The host waits.
  Status send(const Outgoing& message);
  Status recv(const Incoming& message, std::size_t* received);
  std::shared_ptr<Request> isend(const Outgoing& message);
  std::shared_ptr<Request> irecv(const Incoming& message);
  Exchange isendrecv(const Outgoing& out, const Incoming& in);
  std::optional<SendrecvEnds> sendrecv_ahead(const Outgoing& out, const Incoming& in, std::size_t* received);
  Status sendrecv(const Outgoing& out, const Incoming& in, std::size_t* received);
  Status wait(const std::shared_ptr<Request>& request);
  Status test(const std::shared_ptr<Request>& request);

  // By layouts.
  void send(const LayoutMessage& message, Stream stream);
  void recv(const LayoutMessage& message, Stream stream);
  std::shared_ptr<Request> isend(const LayoutMessage& message, Stream stream);
  std::shared_ptr<Request> irecv(const LayoutMessage& message, Stream stream);
  void sendrecv(const LayoutMessage& out, const LayoutMessage& in, Stream stream);
  Status send(const LayoutMessage& message);
  Status recv(const LayoutMessage& message, std::size_t* received);
  std::shared_ptr<Request> isend(const LayoutMessage& message);
  std::shared_ptr<Request> irecv(const LayoutMessage& message);
  Exchange isendrecv(const LayoutMessage& out, const LayoutMessage& in);
  std::optional<SendrecvEnds> sendrecv_ahead(const LayoutMessage& out, const LayoutMessage& in, std::size_t* received);

  std::size_t wait_any(std::span<const std::shared_ptr<Request>> requests, Status& status);
  std::optional<std::size_t> test_any(std::span<const std::shared_ptr<Request>> requests, Status& status);
  std::optional<Probed> iprobe(int peer, int tag);
  Status probe(int peer, int tag, Probed& found);
  std::shared_ptr<Matched> imatch(int peer, int tag);
  Status match(int peer, int tag, std::shared_ptr<Matched>& found);
  std::shared_ptr<Request> irecv(const std::shared_ptr<Matched>& matched, void* destination, std::size_t bytes,
                                 const MessageOptions& options);

  bool has_room(std::size_t bytes, int peer, int lane) const;
  std::string explain(const Outgoing& message);
  static std::size_t received(const std::shared_ptr<Request>& request);
  static int source(const std::shared_ptr<Request>& request);
  std::vector<std::shared_ptr<Event>> points(const std::vector<Stream>& beside) const { return uses_.points(beside); }
  std::size_t device_bytes() const { return ground_->lanes.device_bytes(); }

 private:
  // The objects that the kernels of all messages use. A graph that captured some keeps them, also when the world is
  // gone. They are let go later: a rank must say goodbye before it waits for kernels of other ranks in its process,
  // which may wait for it.
  struct KernelObjects {
    explicit KernelObjects(Fabric& fabric)
        : lanes(fabric),
          tickets(std::make_shared<MessageTickets>(fabric.device(), fabric.own_memory())),
          wait_memory(fabric.wait_memory()) {
      if (fabric.network() == nullptr) return;
      remote = std::make_unique<lane::RemoteLanes>(fabric.network(), net::ServiceNumber::messages);
    }
    Lanes lanes;
    std::shared_ptr<MessageTickets> tickets;
    std::shared_ptr<const void> wait_memory;
    std::unique_ptr<lane::RemoteLanes> remote;  // where peers are on other hosts
  };
  // When a buffer holds the bytes to send: when the call is made, or when the stream gets there.
  enum class Moment { now, on_stream };
  using Look = lane::Look;

  // --- engine.cpp ---
  void load_kernels();
  // Of this world's messages and plans; one_sided waits for its own.
  bool finish(Deadline deadline) { return uses_.done(deadline) && fabric_->uses().done(deadline); }
  std::size_t queue_of(int peer, int lane) const {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(ground_->lanes.count()) +
           static_cast<std::size_t>(lane);
  }
  const lane::LaneView& view(int peer, int lane) const {
    const lane::LaneView& found = views_[queue_of(peer, lane)];
    if (found.remote != nullptr) found.remote->open();
    return found;
  }
  void check_arguments(const char* what, const void* address, std::size_t bytes, int peer,
                       const MessageOptions& options);
  // Runs a function that starts an op: if the world has failed, or fails meanwhile, or a peer does not answer, the
  // error names the op, `what()`.
  template <class What, class Function>
  auto start_as(const What& what, const Function& function) const {
    try {
      fabric_->check();
      return function();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::aborted && error.code() != ErrorCode::timeout) throw;
      fail_named(DidNot::start, fabric_->rank(), what(), error);
    }
  }
  void check_stays(const Outgoing& message) const;
  void check_both(const Outgoing& out, const Incoming& in);
  SendRoute route_send(const Outgoing& message, lane::Completion completion,
                       Router::RingUse ring = Router::RingUse::through);
  RecvRoute route_recv(const Incoming& message, lane::Completion completion,
                       Router::RingUse ring = Router::RingUse::through);
  lane::Send send_body(const SendRoute& route, std::size_t bytes, const lane::LaneView& lane,
                       lane::Completion completion) const;
  // A lane::Receive or a lane::Post: they take the same.
  template <class Body>
  Body recv_body(const RecvRoute& route, std::size_t bytes, const lane::LaneView& lane) const {
    Body body;
    body.wait = fabric_->wait_view(lane.peer);
    body.lane = lane;
    body.destination = route.destination;
    body.capacity = bytes;
    body.offer_min = route.offer_min;
    body.peer_destination = route.peer_destination;
    return body;
  }
  lane::Receive receive_body(const RecvRoute& route, std::size_t bytes, const lane::LaneView& lane) const {
    auto body = recv_body<lane::Receive>(route, bytes, lane);
    body.spread = route.spread ? 1 : 0;
    return body;
  }
  std::shared_ptr<Request> make_request(OpKind kind, std::size_t bytes, const lane::LaneView& lane,
                                        const MessageOptions& options);
  // The request of a message that is not posted yet. A call that posts several makes all requests first, as that may
  // fail.
  std::shared_ptr<Request> request_for(const Outgoing& message);
  std::shared_ptr<Request> request_for(const Incoming& message);
  void hold_bounce(Request& request, const std::shared_ptr<Memory>& bounce) const;
  void begin(const std::shared_ptr<Request>& request, bool captured);
  static void close(const Request& request);

  // --- on_stream.cpp ---
  void irecv_by(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination,
                Outstanding::Next next, Stream stream);
  std::vector<SendRoute> route_sends(std::span<const Outgoing> messages);  // posted ones
  void isend_by(const SendRoute& route, const std::shared_ptr<Request>& request, const void* source, Stream stream);
  void isend_all_by(const std::vector<SendRoute>& routes, std::span<const Outgoing> messages,
                    std::span<const std::shared_ptr<Request>> requests, Stream stream);
  void copy_small(SendRoute& route, const Outgoing& message, Moment moment, Stream stream);
  void post_send(const SendRoute& route, const std::shared_ptr<Request>& request, const void* source, Stream stream);
  void prefetch(const void* buffer, std::size_t bytes, Stream stream) const;
  void note_posted(Request& request, Stream stream);
  void pass_posted(int peer, const MessageOptions& options, Stream stream);
  void follow(const std::shared_ptr<Event>& before, Stream stream);
  std::shared_ptr<Event> note_use(Stream stream);
  // The same for an op on a buffer: a graph is not launched once the segment that the buffer lies in was freed.
  std::shared_ptr<Event> note_use(Stream stream, const void* buffer);
  void note_use(Stream stream, std::span<const Outgoing> out, std::span<const Incoming> in);
  void note_use(const std::shared_ptr<Request>& request, const void* buffer, Stream stream);

  // --- sendrecv.cpp ---
  void sendrecv_unchecked(const Outgoing& out, const Incoming& in, Stream stream);
  bool side_by_side(const Outgoing& out, const Incoming& in, Stream stream);

  // --- exchange_many.cpp ---
  std::vector<RecvRoute> route_receives(std::span<const Incoming> messages);  // posted ones
  void require_room(const char* what, std::span<const Incoming> messages, Stream stream);
  template <int kMost>
  bool side_by_side(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream);

  // --- on_host.cpp ---
  std::optional<Status> send_ahead(const Outgoing& message);
  void isend_by(SendRoute route, const std::shared_ptr<Request>& request, const Outgoing& message);
  void irecv_by(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination);
  void post_receive(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination);
  void post_receive(const lane::Post& body, const RecvRoute& route, const std::shared_ptr<Request>& request,
                    void* destination);
  void require_not_nested(const Outgoing& out, const Incoming& in) const;

  // --- by_layout.cpp ---
  void check_layout(const char* what, const LayoutMessage& message, OpKind kind);
  bool goes_directly(int peer) const { return on_host_ && !fabric_->is_remote(peer); }
  std::shared_ptr<Memory> bounce_for(const LayoutMessage& message);
  lane::Send send_body(const LayoutMessage& message, std::shared_ptr<Memory>& bounce);
  lane::Receive receive_body(const LayoutMessage& message);
  void run_ahead(Stream stream, std::shared_ptr<LayoutTask> task);
  std::shared_ptr<Memory> pack(const LayoutMessage& message, std::optional<Stream> stream);
  std::shared_ptr<Request> isend_packed(const LayoutMessage& message, std::shared_ptr<Memory> packed,
                                        std::optional<Stream> stream);
  void deliver(Request& request);
  void deliver(const Request& request, Stream stream);

  // --- waits.cpp ---
  void check_request(const std::shared_ptr<Request>& request) const;
  void check_host_may_ask(const Request& request) const;
  void order_after_op(const Request& request, Stream stream);
  void order_after_wait(const Request& request, Stream stream) const;
  void launch_awaits(std::span<const std::shared_ptr<Request>> requests, Stream stream);
  void launch_await(const Request& request, Look look, Stream stream) const;
  void await_inline(const Request& request, Look look) const;
  lane::AwaitSend await_send(const Request& request, Look look) const;
  lane::AwaitLargeSend await_large_send(const Request& request, Look look) const;
  lane::AwaitReceive await_receive(const Request& request, Look look) const;
  void advance(const Request& request, Look look);
  void await_taken(const Request& request);
  void settle_unasked();
  Status collect(Request& request);
  Status reported(std::uint64_t word) const;

  // --- probe.cpp ---
  enum class Keep { no, yes };             // whether the lane's lock, in the name of the message that was found
  enum class Sight { none, found, busy };  // of a look for a message; busy: another call was at it, look again
  // Sure: `none` means that nothing had come when the look began, as it takes the lanes' locks.
  enum class Care { brief, sure };
  struct Found {
    Probed message;
    std::uint64_t kept = 0;  // takes that lock over
  };
  std::uint64_t& receiving_lock(int peer, int tag);
  void check_probe(int peer, int tag);
  void next_message(std::span<const lane::LaneView> lanes, std::span<std::uint64_t> found);
  static Sight sight_of(std::uint64_t word);
  Sight look_at(int peer, int tag, Care care, Keep keep, Found& found);
  Sight find(int peer, int tag, Care care, Keep keep, Found& found);
  Status wait_for_message(int peer, const std::function<Sight(Care)>& look) const;
  bool find_once(int peer, int tag, Keep keep, Found& found);
  Status await_message(int peer, int tag, Keep keep, Found& found);
  std::shared_ptr<Matched> matched(const Found& found);
  void post_kept(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination,
                 std::uint64_t& kept);
  void tell_in_vain(Status status, const WaitView& wait, const Fault& fault);

  // --- any_source.cpp ---
  std::shared_ptr<Request> irecv_any(const Incoming& message);
  Sight bind(const std::shared_ptr<Request>& request, Care care);
  Sight bind_locked(const std::shared_ptr<Request>& request, Care care);
  bool bind_to(const std::shared_ptr<Request>& request, const Incoming& message, std::uint64_t& kept);
  bool make_room(const lane::LaneView& lane);
  bool withdraw(const Request& request);
  void bind_for_stream(const std::shared_ptr<Request>& request);
  void await_source(const std::shared_ptr<Request>& request);
  bool has_source(const std::shared_ptr<Request>& request);
  void end_in_vain(Status status, const Request& request);

  // --- unreceived.cpp ---
  void tell_unreceived() const;
  void look_aside(FaultReport& late) const;

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  bool on_host_;
  std::shared_ptr<const KernelObjects> ground_;
  std::vector<lane::LaneView> views_;
  std::shared_ptr<BouncePool> bounces_;
  Router router_;
  Grids grids_;
  HostCopies host_copies_;
  LateStream sends_;     // of posted sends, in the order that matches them
  LateStream receives_;  // and of posted receives
  std::mutex posting_;   // held while one is numbered and enqueued there, so that both orders are the same
  Outstanding outstanding_;
  std::size_t small_copy_bytes_;
  StreamTracker uses_;
  std::shared_ptr<std::vector<std::uint64_t>> keepers_;  // on cuda the locks of receiving, by queue
  std::mutex probing_;                                   // guards the next
  std::shared_ptr<Memory> probed_;                       // on cuda: the answers of a probe
  std::atomic<int> next_source_ = 0;                     // whose message an any-source look takes first
  // A receive from any rank that has no message yet. The oldest come first.
  struct Unbound {
    std::weak_ptr<Request> request;
    Incoming message;
  };
  std::mutex binding_;  // guards the next, and the fields of those requests that name their message's lane
  std::vector<Unbound> unbound_;
  std::uint64_t serial_;  // tells this object from all others of the process, also dead ones
};

}  // namespace onstream
