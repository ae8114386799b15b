#include "onstream/message/message.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/device/disposal.hpp"
#include "onstream/device/streams.hpp"
#include "onstream/device/uses.hpp"
#include "onstream/message/copy_thread.hpp"
#include "onstream/message/outstanding.hpp"
#include "onstream/message/request.hpp"
#include "onstream/message/route.hpp"
#include "onstream/plan/kernels.hpp"
#include "onstream/plan/lane_kernels.hpp"
#include "onstream/plan/lane_many.hpp"
#include "onstream/plan/lane_recv.hpp"

namespace onstream {

namespace {

// A thread for each line, or for a few lines where there are many: every instruction is issued for every warp.
int threads_for_ring(std::size_t bytes) {
  constexpr std::size_t kOneEach = 160;
  const std::size_t lines = lane::lines_for(bytes);
  const std::size_t threads =
      lines <= kOneEach ? lines : std::max(kOneEach, (lines + kLinesInFlight - 1) / kLinesInFlight);
  return static_cast<int>(std::clamp<std::size_t>((threads + 31) / 32 * 32, 32, kMaxThreads));
}

// On the stack of a host call that ends before it returns.
struct StackTicket {
  lane::Numbered numbered;
  std::uint64_t status = static_cast<std::uint64_t>(Status::pending);
  std::uint64_t received = 0;
  lane::Ticket ticket() { return {&numbered, &status, &received, 1}; }
};

// A copy between plain host memory and a pinned bounce buffer, in stream order. Its description lies behind the data in
// the bounce buffer, so it lives as long.
struct alignas(16) HostCopy {
  void* destination;
  const void* source;
  std::size_t bytes;
  const std::uint64_t* status;  // of a receive: where its op says how it ended, and how much came; null: copy all
  const std::uint64_t* received;
  std::uint64_t own_status;  // for a receive without a request
  std::uint64_t own_received;

  static void run(void* argument) {
    const HostCopy& copy = *static_cast<const HostCopy*>(argument);
    if (copy.status == nullptr) {
      std::memcpy(copy.destination, copy.source, copy.bytes);
    } else if (HostGroup::load_acquire(copy.status) == static_cast<std::uint64_t>(Status::ok)) {
      std::memcpy(copy.destination, copy.source,
                  std::min<std::size_t>(copy.bytes, HostGroup::load_relaxed(copy.received)));
    }
  }
};

static_assert(sizeof(HostCopy) <= kHostCopyBytes);

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// What the kernels of all messages use. A graph that captured some keeps it, also when the world is gone. It is let go
// later: a rank must say goodbye before it waits for kernels of other ranks in its process, which may wait for it.
struct Ground {
  explicit Ground(Fabric& fabric)
      : lanes(fabric), tickets(std::make_shared<Tickets>(fabric.device())), wait_memory(fabric.wait_memory()) {}
  Lanes lanes;
  std::shared_ptr<Tickets> tickets;
  std::shared_ptr<const void> wait_memory;
  std::shared_ptr<Relays> relays = std::make_shared<Relays>();
};

// A wait that ended without a word about this op ended because the world failed.
Status final_status(std::uint64_t word) {
  const auto status = static_cast<Status>(word);
  return status == Status::pending ? Status::aborted : status;
}

}  // namespace

class Messages::Implementation {
 public:
  explicit Implementation(std::shared_ptr<Fabric> fabric)
      : fabric_(std::move(fabric)),
        device_(fabric_->device()),
        on_host_(device_->kind() == DeviceKind::host),
        ground_(let_go_later(std::make_unique<Ground>(*fabric_))),
        lanes_(ground_->lanes),
        bounces_(let_go_later(std::make_unique<BouncePool>(device_))),
        router_(*fabric_, lanes_, *bounces_, ground_->relays),
        streams_(device_),
        copies_(device_, [fabric = fabric_.get()](const std::string& why) { fabric->abort(why); }),
        outstanding_(static_cast<std::size_t>(fabric_->size() * lanes_.count()),
                     static_cast<std::size_t>(fabric_->parameters().lane_receives)),
        small_copy_bytes_(static_cast<std::size_t>(fabric_->parameters().small_copy_bytes)),
        uses_(device_),
        serial_(next_serial()) {
    using Way = lane::Send::Way;
    for (const Kernel* kernel :
         {&lane::send_kernel(Way::small), &lane::send_kernel(Way::direct), &lane::send_kernel(Way::posted),
          &lane::await_send_kernel(), &lane::receive_kernel(), &lane::post_kernel(), &lane::await_receive_kernel(),
          &lane::deliver_kernel(), &lane::reopen_kernel(), &lane::send_many_kernel(), &lane::await_send_many_kernel(),
          &plan::kernel(), &plan::brief_kernel()}) {  // before any rank can wait for another
      device_->load(*kernel);
    }
    for (int peer = 0; peer < fabric_->size(); ++peer) {
      for (int lane = 0; lane < lanes_.count(); ++lane) views_.push_back(lanes_.view(peer, lane));
    }
    fabric_->barrier("the start of messages");
  }

  // Waits for the work enqueued eagerly, bounded: then the world is aborted, which makes that work end.
  ~Implementation() {
    try {
      constexpr double kDrainS = 10;
      if (finish(Deadline(fabric_->parameters().timeout_s))) return;
      fabric_->abort("the world was destroyed while its work was under way");
      (void)finish(Deadline(kDrainS));
    } catch (const Error&) {
      // The device is gone, and the work with it.
    }
  }

  // When a buffer has what shall be sent: when the call is made, or when the stream gets there.
  enum class Moment { now, on_stream };

  // --- ordered on a stream ---

  void send(const void* source, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
    SendRoute route = route_send(source, bytes, peer, options, lane::Completion::ordered);
    copy_small(route, source, bytes, stream, Moment::on_stream);
    lane::Send body = send_body(route, bytes, peer, options, lane::Completion::ordered);
    if (route.copy_engine) body.copier = copies_.take();
    if (route.prefetch) prefetch(source, bytes, stream);
    if (route.copy_first) copy_in_order(route.bounce->data(), source, bytes, *route.bounce, stream);
    launch(*device_, lane::send_kernel(body.way()), body, send_grid(body), stream);
    if (route.copy_engine) copies_.give_back(body.copier, stream);
    if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce), stream);
    note_use(stream);
  }

  void recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
    RecvRoute route = route_recv(destination, bytes, peer, options, lane::Completion::ordered);
    if (!device_->capturing(stream)) outstanding_.pass(queue_of(peer, options.lane), peer, options.lane);
    lane::Receive body = receive_body(route, bytes, peer, options);
    HostCopy* copy = nullptr;
    if (route.bounce != nullptr) {
      copy = describe_copy(destination, route.bounce->data(), bytes, *route.bounce);
      copy->status = &copy->own_status;
      copy->received = &copy->own_received;
      body.ticket = {nullptr, &copy->own_status, &copy->own_received, 0};  // the copy takes what has come, no more
    }
    if (route.prefetch) prefetch(destination, bytes, stream);
    launch(*device_, lane::receive_kernel(), body, receive_grid(bytes, route.offer_min), stream);
    if (copy != nullptr) {
      device_->call(&HostCopy::run, copy, stream);
      bounces_->give_back(std::move(route.bounce), stream);
    }
    note_use(stream);
  }

  std::shared_ptr<Request> isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                 Stream stream) {
    return isend(source, bytes, peer, options, stream, Moment::on_stream);
  }

  std::shared_ptr<Request> isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                 Stream stream, Moment moment) {
    SendRoute route = route_send(source, bytes, peer, options, lane::Completion::posted);
    copy_small(route, source, bytes, stream, moment);
    auto request = make_request(OpKind::send, bytes, peer, options, device_->capturing(stream));
    post_send(route, request, source, peer, options, stream);
    note_use(request, stream);
    return request;
  }

  std::vector<std::shared_ptr<Request>> isend_all(std::span<const Outgoing> messages, Stream stream) {
    const bool captured = device_->capturing(stream);
    std::vector<std::shared_ptr<Request>> requests;
    lane::SendMany many;
    const auto flush = [&] {
      if (many.count > 0) launch(*device_, lane::send_many_kernel(), many, {1, threads_for_many(many)}, stream);
      many.count = 0;
    };
    for (const auto& [source, bytes, peer, options] : messages) {
      SendRoute route = route_send(source, bytes, peer, options, lane::Completion::posted);
      auto request = make_request(OpKind::send, bytes, peer, options, captured);
      const bool joins = !captured && bytes <= route.ring_max && route.bounce == nullptr;
      const bool same_lane = many.count > 0 && many.common.lane.peer == peer && many.common.lane.lane == options.lane &&
                             many.common.ring_max == route.ring_max;
      if (!joins || !same_lane || many.count == lane::kMostItems) flush();
      if (!joins) {
        post_send(route, request, source, peer, options, stream);
      } else {
        if (many.count == 0) many.common = send_body(route, bytes, peer, options, lane::Completion::posted);
        many.items[many.count++] = {route.source, bytes, request->slot.ticket};
      }
      requests.push_back(std::move(request));
    }
    flush();
    note_use(stream);
    if (captured) {
      for (const auto& request : requests) device_->retain(stream, request);
    }
    return requests;
  }

  std::shared_ptr<Request> irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                                 Stream stream) {
    RecvRoute route = route_recv(destination, bytes, peer, options, lane::Completion::posted);
    auto request = make_request(OpKind::recv, bytes, peer, options, device_->capturing(stream));
    if (!request->captured) outstanding_.add(request);
    if (route.bounce != nullptr) request->copy_back = destination;
    request->bounce = route.bounce;
    const lane::Post body = post_body(route, bytes, peer, options, request->slot.ticket);
    if (request->captured) launch(*device_, lane::reopen_kernel(), lane::Reopen{body.ticket}, {1, 32}, stream);
    if (route.prefetch) prefetch(destination, bytes, stream);
    launch(*device_, lane::post_kernel(), body, {1, 32}, stream);
    note_posted(*request, stream);
    note_use(request, stream);
    return request;
  }

  void wait(const std::shared_ptr<Request>& request, Stream stream) { wait_all({&request, 1}, stream); }

  void wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
    for (const auto& request : requests) check_request(request);
    for (const auto& request : requests) order_after_op(*request, stream);
    const bool captured = device_->capturing(stream);
    for (std::size_t first = 0; first < requests.size();) {
      std::size_t last = first + 1;
      while (last < requests.size() && last - first < lane::kMostItems &&
             go_together(*requests[first], *requests[last]))
        ++last;
      launch_awaits(requests.subspan(first, last - first), stream);
      first = last;
    }
    const std::shared_ptr<Event> behind = note_use(stream);
    for (const auto& request : requests) {
      if (captured) {
        request->captured = true;
        device_->retain(stream, request);
      } else {
        request->last_wait = behind;
        outstanding_.cover(*request);
      }
      if (request->bounce != nullptr && !request->captured && !request->result) {
        bounces_->give_back(request->bounce, stream);
        request->bounce = nullptr;
        request->copy_back = nullptr;
      }
    }
  }

  // --- the host waits ---

  Status send(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
    if (!on_host_) return wait(isend(source, bytes, peer, options));
    SendRoute route = route_send(source, bytes, peer, options, lane::Completion::ordered);
    lane::Send body = send_body(route, bytes, peer, options, lane::Completion::ordered);
    StackTicket result;
    body.ticket = result.ticket();
    body(HostGroup(0, 1));
    if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
    return told(final_status(result.status));
  }

  Status recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, std::size_t* received) {
    if (!on_host_) {
      const auto request = irecv(destination, bytes, peer, options);
      const Status status = wait(request);
      if (received != nullptr) *received = request->received;
      return status;
    }
    RecvRoute route = route_recv(destination, bytes, peer, options, lane::Completion::ordered);
    outstanding_.pass(queue_of(peer, options.lane), peer, options.lane);
    lane::Receive body = receive_body(route, bytes, peer, options);
    StackTicket result;
    body.ticket = result.ticket();
    body(HostGroup(0, 1));
    if (received != nullptr) *received = result.received;
    return told(final_status(result.status));
  }

  std::shared_ptr<Request> isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
    if (!on_host_) return isend(source, bytes, peer, options, streams_.sends(), Moment::now);
    SendRoute route = route_send(source, bytes, peer, options, lane::Completion::posted);
    auto request = make_request(OpKind::send, bytes, peer, options, false);
    lane::Send body = send_body(route, bytes, peer, options, lane::Completion::posted);
    body.ticket = request->slot.ticket;
    request->bounce = route.bounce;
    if (route.copy_first && body.announce != lane::Header::pull && body.is_offered(HostGroup(0, 1))) {
      body.source = source;  // it goes to its destination at once, and needs no copy
      if (route.attached_source != 0) body.peer_source = route.attached_source;
    } else if (route.copy_first) {
      std::copy_n(static_cast<const std::byte*>(source), bytes, route.bounce->data());
    }
    body(HostGroup(0, 1));
    return request;
  }

  std::shared_ptr<Request> irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options) {
    if (!on_host_) return irecv(destination, bytes, peer, options, streams_.receives());
    RecvRoute route = route_recv(destination, bytes, peer, options, lane::Completion::posted);
    auto request = make_request(OpKind::recv, bytes, peer, options, false);
    outstanding_.add(request);
    if (route.bounce != nullptr) request->copy_back = destination;
    request->bounce = route.bounce;
    post_body(route, bytes, peer, options, request->slot.ticket)(HostGroup(0, 1));
    return request;
  }

  Status wait(const std::shared_ptr<Request>& request) {
    check_host_may_ask(request);
    if (request->result) return *request->result;
    advance(*request, Look::wait);
    return collect(*request);
  }

  Status test(const std::shared_ptr<Request>& request) {
    check_host_may_ask(request);
    if (request->result) return *request->result;
    const bool left = fabric_->has_left(request->lane.peer);
    advance(*request, Look::once);
    if (left) advance(*request, Look::wait);  // nothing more comes: this ends at once, one way or the other
    const bool pending = status_of(*request) == Status::pending;
    const bool failed = HostGroup::load_acquire(fabric_->wait_view().abort) != 0;
    return pending && !failed ? Status::pending : collect(*request);
  }

  bool has_room(std::size_t bytes, int peer, int lane) const {
    if (!on_host_) return false;
    const lane::View& to = view(peer, lane);
    const std::uint64_t ring = std::uint64_t{1} << to.ring_shift;
    const std::uint64_t ahead = to.sending->head - HostGroup::load_relaxed(&to.returned->credit);
    constexpr std::uint64_t kAnnouncement = 2;
    const bool in_ring = bytes <= static_cast<std::size_t>(fabric_->parameters().host_ll_max_bytes);
    return ahead + std::max(in_ring ? lane::units_for(bytes) : 0, kAnnouncement) <= ring;
  }

  std::size_t device_bytes() const { return lanes_.device_bytes(); }

 private:
  enum class Look { wait, once };

  void prefetch(const void* buffer, std::size_t bytes, Stream stream) const {
    device_->prefetch(const_cast<void*>(buffer), bytes, device_->kind(), stream);
  }

  const lane::View& view(int peer, int lane) const { return views_[queue_of(peer, lane)]; }
  std::size_t queue_of(int peer, int lane) const {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(lanes_.count()) + static_cast<std::size_t>(lane);
  }

  void check_arguments(const char* what, const void* address, std::size_t bytes, int peer,
                       const MessageOptions& options) {
    fabric_->check();
    require(peer >= 0 && peer < fabric_->size(), what, ": rank ", peer, " does not exist; this world has ranks 0 to ",
            fabric_->size() - 1);
    require(options.lane >= 0 && options.lane < lanes_.count(), what, ": lane ", options.lane,
            " does not exist; this world has lanes 0 to ", lanes_.count() - 1, " (parameter lanes)");
    require(bytes == 0 || address != nullptr, what, ": the buffer of ", bytes, " B is a null pointer");
    require(bytes < lane::kBytesMask, what, ": ", bytes, " B is no size of a buffer; a negative number was converted?");
  }

  SendRoute route_send(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                       lane::Completion completion) {
    check_arguments("send", source, bytes, peer, options);
    if (fabric_->has_left(peer)) {
      fail(ErrorCode::closed, "send of ", bytes, " B to rank ", peer, " on lane ", options.lane, ": rank ", peer,
           " left the world; nobody will receive it");
    }
    return router_.send(source, bytes, peer, options.path, completion);
  }
  RecvRoute route_recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                       lane::Completion completion) {
    check_arguments("recv", destination, bytes, peer, options);
    return router_.recv(destination, bytes, peer, options.path, completion);
  }

  lane::Send send_body(const SendRoute& route, std::size_t bytes, int peer, const MessageOptions& options,
                       lane::Completion completion) const {
    lane::Send body;
    body.wait = fabric_->wait_view(peer);
    body.lane = view(peer, options.lane);
    body.source = route.source;
    body.bytes = bytes;
    body.ring_max = route.ring_max;
    body.offer_min = route.offer_min;
    body.peer_source = route.peer_source;
    body.announce = route.announce;
    body.completion = completion;
    body.place_first = on_host_ ? 1 : 0;
    const bool chunked = route.announce == lane::Header::stage;
    body.bounce = chunked ? route.bounce->data() : route.relay;
    body.peer_bounce = route.peer_bounce;
    body.chunk_bytes = router_.chunk_bytes();
    return body;
  }
  lane::Receive receive_body(const RecvRoute& route, std::size_t bytes, int peer, const MessageOptions& options) const {
    lane::Receive body;
    body.wait = fabric_->wait_view(peer);
    body.lane = view(peer, options.lane);
    body.destination = route.destination;
    body.capacity = bytes;
    body.offer_min = route.offer_min;
    body.peer_destination = route.peer_destination;
    return body;
  }
  lane::Post post_body(const RecvRoute& route, std::size_t bytes, int peer, const MessageOptions& options,
                       const lane::Ticket& ticket) const {
    lane::Post body;
    body.wait = fabric_->wait_view(peer);
    body.lane = view(peer, options.lane);
    body.destination = route.destination;
    body.capacity = bytes;
    body.offer_min = route.offer_min;
    body.peer_destination = route.peer_destination;
    body.ticket = ticket;
    return body;
  }

  // Blocks that get `each` bytes of `bytes`, at most `most`.
  int blocks_for(std::size_t bytes, std::size_t each, std::int64_t most) const {
    const auto wanted = static_cast<std::int64_t>((bytes + each - 1) / each);
    return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(most, fabric_->block_limit())));
  }

  Grid send_grid(const lane::Send& body) const {
    if (body.bytes <= body.ring_max) return {1, threads_for_ring(body.bytes)};
    if (body.copier != nullptr) return {1, 32};
    const bool alone = body.announce == lane::Header::pull || body.announce == lane::Header::stage;
    return alone ? Grid{1, kMaxThreads} : push_grid(body.bytes);
  }
  // Up to a few MiB the message is under way at once when each block has one load and store of 16 bytes a thread in
  // flight, or eight; small blocks then issue fewer instructions before the first byte leaves. Beyond that larger
  // blocks keep the link busy (measured: docs/decisions/0006).
  Grid push_grid(std::size_t bytes) const {
    constexpr int kSmallBlock = 128;
    constexpr std::int64_t kAtLeast = 8;
    constexpr std::size_t kShort = std::size_t{2} << 20;
    const auto each = static_cast<std::size_t>(fabric_->parameters().block_bytes);
    const std::int64_t most = std::min<std::int64_t>(fabric_->parameters().max_blocks, lane::kArrivals);
    if (bytes > kShort) return {blocks_for(bytes, each, most), kMaxThreads / 2};
    const int few = blocks_for(bytes, each / 2, std::min(kAtLeast, most));
    return {std::max(few, blocks_for(bytes, each, most)), kSmallBlock};
  }
  // Most large messages are pushed; more blocks serve those that this rank fetches itself, one for each 64 block_bytes.
  Grid receive_grid(std::size_t bytes, std::size_t offer_min) const {
    constexpr std::size_t kBlocksEach = 64;
    if (bytes <= offer_min) return {1, threads_for_ring(bytes)};
    const auto each = static_cast<std::size_t>(fabric_->parameters().block_bytes);
    const int blocks = blocks_for(bytes, kBlocksEach * each, fabric_->parameters().recv_blocks);
    return {blocks, blocks == 1 ? kMaxThreads / 2 : kMaxThreads};
  }

  std::shared_ptr<Request> make_request(OpKind kind, std::size_t bytes, int peer, const MessageOptions& options,
                                        bool captured) {
    auto request = std::make_shared<Request>();
    request->kind = kind;
    request->lane = view(peer, options.lane);
    request->queue = queue_of(peer, options.lane);
    request->slot = ground_->tickets->take();
    request->tickets = ground_->tickets;
    request->bounces = bounces_;
    request->bytes = bytes;
    request->captured = captured;
    request->order = next_order_.fetch_add(1, std::memory_order_relaxed);
    request->owner = serial_;
    return request;
  }

  void check_request(const std::shared_ptr<Request>& request) const {
    require(request != nullptr, "wait: the request is null");
    require(request->owner == serial_, "wait: the request belongs to another world");
  }

  // Every replay of a captured request has its own end; the host could only ask about one of them.
  void check_host_may_ask(const std::shared_ptr<Request>& request) const {
    check_request(request);
    require(!request->captured, "wait: the request is part of a graph; wait for it on the stream, inside the capture");
  }

  static Status status_of(const Request& request) {
    return static_cast<Status>(HostGroup::load_acquire(request.slot.ticket.status));  // pairs with settle()
  }

  void note_posted(Request& request, Stream stream) {
    if (!request.captured) return;
    request.posted_on = stream;
    request.posted = device_->record(stream);
  }

  // A replay's wait must come after the replay's op: what the op of the replay before left behind looks the same.
  // Stream order sees to it, or, on another branch of the graph, an edge from the op to the wait. (An eager op has a
  // ticket of its own, and its wait may run first.)
  void order_after_op(const Request& request, Stream stream) {
    if (request.posted == nullptr || request.posted_on == stream) return;
    require(device_->capturing(stream), "wait: the ", name_of(request.kind), " of ", request.bytes,
            " B is part of a graph, and this stream is not being captured; wait for it inside the capture");
    device_->wait(stream, request.posted);
  }

  void post_send(const SendRoute& route, const std::shared_ptr<Request>& request, const void* source, int peer,
                 const MessageOptions& options, Stream stream) {
    lane::Send body = send_body(route, request->bytes, peer, options, lane::Completion::posted);
    body.ticket = request->slot.ticket;
    request->bounce = route.bounce;
    if (request->captured) launch(*device_, lane::reopen_kernel(), lane::Reopen{body.ticket}, {1, 32}, stream);
    if (route.prefetch) prefetch(source, request->bytes, stream);
    if (route.copy_first) copy_in_order(route.bounce->data(), source, request->bytes, *route.bounce, stream);
    launch(*device_, lane::send_kernel(body.way()), body, send_grid(body), stream);
    note_posted(*request, stream);
  }

  static int threads_for_many(const lane::SendMany& many) {
    std::size_t most = 0;
    for (int i = 0; i < many.count; ++i) most = std::max<std::size_t>(most, many.items[i].bytes);
    return threads_for_ring(most);
  }

  // Whether one launch may wait for both.
  static bool go_together(const Request& one, const Request& other) {
    return one.kind == other.kind && one.lane.peer == other.lane.peer && one.lane.lane == other.lane.lane &&
           one.copy_back == nullptr && other.copy_back == nullptr;
  }

  // Requests that go together, or one.
  void launch_awaits(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
    if (requests.front()->kind == OpKind::send && requests.size() > 1) {
      lane::AwaitSendMany many;
      many.common = await_send(*requests.front(), Look::wait);
      for (const auto& request : requests) many.items[many.count++] = {nullptr, request->bytes, request->slot.ticket};
      return launch(*device_, lane::await_send_many_kernel(), many, {1, 32}, stream);
    }
    const auto posted_before = [](const auto& one, const auto& other) { return one->order < other->order; };
    const std::shared_ptr<Request>& last = *std::ranges::max_element(requests, posted_before);
    launch_await(*last, Look::wait, stream);
    if (last->copy_back != nullptr) copy_back_in_order(*last, stream);
  }

  lane::AwaitSend await_send(const Request& request, Look look) const {
    return {fabric_->wait_view(request.lane.peer), request.lane, request.bytes, look == Look::once ? 1 : 0,
            request.slot.ticket};
  }
  lane::AwaitReceive await_receive(const Request& request, Look look) const {
    return {fabric_->wait_view(request.lane.peer), request.lane, request.slot.crew, look == Look::once ? 1 : 0,
            request.slot.ticket};
  }
  // Waits for an unfinished request, or looks once, and comes back when that is done.
  void advance(const Request& request, Look look) {
    if (status_of(request) != Status::pending) return;
    if (on_host_) return await_inline(request, look);
    const StreamPool::Lease stream = streams_.lease();
    launch_await(request, look, stream.get());
    device_->synchronize(stream.get());
  }

  void await_inline(const Request& request, Look look) const {
    if (request.kind == OpKind::send) {
      await_send(request, look)(HostGroup(0, 1));
    } else {
      await_receive(request, look)(HostGroup(0, 1));
    }
  }
  void launch_await(const Request& request, Look look, Stream stream) const {
    if (request.kind == OpKind::send) {
      launch(*device_, lane::await_send_kernel(), await_send(request, look), {1, 32}, stream);
    } else {
      launch(*device_, lane::await_receive_kernel(), await_receive(request, look),
             receive_grid(request.bytes, static_cast<std::size_t>(fabric_->parameters().ll_max_bytes)), stream);
    }
  }

  // A short copy from plain host memory is made right here where nothing on the stream can still change the buffer: no
  // thread of the driver has to wake up for it, and where the GPU has a window for the CPU, kernels read their own
  // memory.
  void copy_small(SendRoute& route, const void* source, std::size_t bytes, Stream stream, Moment moment) {
    if (!route.plain || bytes > small_copy_bytes_) return;
    if (moment == Moment::on_stream && (device_->capturing(stream) || !device_->idle(stream))) return;
    std::shared_ptr<SmallMemory> small = bounces_->take_small(bytes);
    small->put(0, source, bytes);
    bounces_->give_back(std::exchange(route.bounce, small));
    route.source = small->data();
    route.copy_first = false;
  }

  // Copies to or from a bounce buffer. Pageable memory goes by a host function: cudaMemcpyAsync would make the host
  // wait for the stream, and with it every thread of the process that wants the GPU.
  void copy_in_order(void* destination, const void* source, std::size_t bytes, const Memory& bounce,
                     Stream stream) const {
    if (!has_description(bounce)) return device_->copy(destination, source, bytes, stream);
    device_->call(&HostCopy::run, describe_copy(destination, source, bytes, bounce), stream);
  }

  // Takes from a posted receive's bounce buffer what has come, no more.
  void copy_back_in_order(const Request& request, Stream stream) const {
    const Memory& bounce = *request.bounce;
    if (!has_description(bounce)) {
      const lane::Deliver body{request.copy_back, bounce.data(), request.bytes, request.slot.ticket};
      const int most = static_cast<int>(fabric_->parameters().max_blocks);
      const auto each = static_cast<std::size_t>(fabric_->parameters().block_bytes);
      return launch(*device_, lane::deliver_kernel(), body, {blocks_for(request.bytes, each, most), kMaxThreads},
                    stream);
    }
    HostCopy* copy = describe_copy(request.copy_back, bounce.data(), request.bytes, bounce);
    copy->status = request.slot.ticket.status;
    copy->received = request.slot.ticket.received;
    device_->call(&HostCopy::run, copy, stream);
  }

  // Bounce buffers that the host can read have room for a HostCopy behind their data.
  bool has_description(const Memory& bounce) const { return on_host_ || bounce.kind() == MemoryKind::pinned; }

  static HostCopy* describe_copy(void* destination, const void* source, std::size_t bytes, const Memory& bounce) {
    return new (bounce.data() + bounce.bytes() - kHostCopyBytes)
        HostCopy{destination, source, bytes, nullptr, nullptr, static_cast<std::uint64_t>(Status::pending), 0};
  }

  // A call of the host that failed with its world: the failure is logged and told to the others now, also if the
  // program looks at nothing more and ends.
  Status told(Status status) const {
    if (status == Status::timeout || status == Status::aborted) (void)fabric_->failure();
    return status;
  }

  // Of this world's messages and plans; one_sided waits for its own.
  bool finish(Deadline deadline) { return uses_.done(deadline) && fabric_->uses().done(deadline); }

  // After an op was enqueued. Null inside a capture; the graph then keeps what all ops use.
  std::shared_ptr<Event> note_use(Stream stream) {
    auto event = uses_.note(stream);
    if (event == nullptr) device_->retain(stream, ground_);
    return event;
  }
  // After an op of a request was enqueued.
  std::shared_ptr<Event> note_use(const std::shared_ptr<Request>& request, Stream stream) {
    auto event = note_use(stream);
    if (event == nullptr) device_->retain(stream, request);
    return event;
  }

  // The op is through: data to its final place, result to the request.
  Status collect(Request& request) {
    request.result = told(final_status(static_cast<std::uint64_t>(status_of(request))));
    outstanding_.cover(request);
    request.received = HostGroup::load_relaxed(request.slot.ticket.received);
    if (request.copy_back != nullptr && *request.result == Status::ok) {
      if (on_host_ || request.bounce->kind() == MemoryKind::pinned) {
        std::memcpy(request.copy_back, request.bounce->data(), request.received);
      } else {
        const StreamPool::Lease stream = streams_.lease();
        device_->copy(request.copy_back, request.bounce->data(), request.received, stream.get());
        device_->synchronize(stream.get());
      }
    }
    if (request.bounce != nullptr && *request.result == Status::ok) bounces_->give_back(request.bounce);
    request.bounce = nullptr;
    return *request.result;
  }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  bool on_host_;
  std::shared_ptr<const Ground> ground_;
  const Lanes& lanes_;
  std::vector<lane::View> views_;
  std::shared_ptr<BouncePool> bounces_;
  Router router_;
  StreamPool streams_;
  CopyThread copies_;
  Outstanding outstanding_;
  std::size_t small_copy_bytes_;
  Uses uses_;
  std::atomic<std::uint64_t> next_order_ = 0;
  std::uint64_t serial_;  // tells this object from all others of the process, also dead ones
};

Messages::Messages(std::shared_ptr<Fabric> fabric)
    : implementation_(std::make_unique<Implementation>(std::move(fabric))) {}
Messages::~Messages() = default;

void Messages::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  implementation_->send(source, bytes, peer, options, stream);
}
void Messages::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  implementation_->recv(destination, bytes, peer, options, stream);
}
std::shared_ptr<Request> Messages::isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                         Stream stream) {
  return implementation_->isend(source, bytes, peer, options, stream);
}
std::shared_ptr<Request> Messages::irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                                         Stream stream) {
  return implementation_->irecv(destination, bytes, peer, options, stream);
}
std::vector<std::shared_ptr<Request>> Messages::isend_all(std::span<const Outgoing> messages, Stream stream) {
  return implementation_->isend_all(messages, stream);
}
void Messages::wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  implementation_->wait_all(requests, stream);
}
void Messages::wait(const std::shared_ptr<Request>& request, Stream stream) { implementation_->wait(request, stream); }

Status Messages::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
  return implementation_->send(source, bytes, peer, options);
}
Status Messages::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                      std::size_t* received) {
  return implementation_->recv(destination, bytes, peer, options, received);
}
std::shared_ptr<Request> Messages::isend(const void* source, std::size_t bytes, int peer,
                                         const MessageOptions& options) {
  return implementation_->isend(source, bytes, peer, options);
}
std::shared_ptr<Request> Messages::irecv(void* destination, std::size_t bytes, int peer,
                                         const MessageOptions& options) {
  return implementation_->irecv(destination, bytes, peer, options);
}
Status Messages::wait(const std::shared_ptr<Request>& request) { return implementation_->wait(request); }
Status Messages::test(const std::shared_ptr<Request>& request) { return implementation_->test(request); }
bool Messages::has_room(std::size_t bytes, int peer, int lane) const {
  return implementation_->has_room(bytes, peer, lane);
}
std::size_t Messages::received(const std::shared_ptr<Request>& request) { return request->received; }
bool Messages::captured(const std::shared_ptr<Request>& request) { return request->captured; }
std::size_t Messages::device_bytes() const { return implementation_->device_bytes(); }

}  // namespace onstream
