#include "onstream/message/message.hpp"

#include "onstream/base/error.hpp"
#include "onstream/base/thread_cache.hpp"
#include "onstream/bootstrap/launch_hint.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/lane/kernels.hpp"
#include "onstream/message/engine.hpp"
#include "onstream/plan/kernel/kernels.hpp"

namespace onstream {

namespace {

// As faults name it.
std::string text_of(OpKind kind, std::size_t bytes, int peer, const MessageOptions& options) {
  FaultReport named;
  named.op = kind;
  named.peer = peer;
  named.tag = options.tag;
  named.bytes = bytes;
  return what_of(named);
}

[[noreturn]] void refuse_rank(const char* what, int peer, const Launch& launch) {
  require(peer != kAnySource, what,
          ": any source names no rank; only a recv or an irecv that the host waits for, and a probe, take that");
  fail(ErrorCode::invalid_argument, what, ": rank ", peer, " does not exist; this world has ranks 0 to ",
       launch.size - 1, hint_without_launcher(launch));
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

std::string text_of(const Outgoing& message) {
  return text_of(OpKind::send, message.bytes, message.peer, message.options);
}
std::string text_of(const Incoming& message) {
  return text_of(OpKind::recv, message.bytes, message.peer, message.options);
}
std::string text_of(const Outgoing& out, const Incoming& in) {
  return concat("sendrecv (", text_of(out), ", ", text_of(in), ")");
}

MessageEngine::MessageEngine(std::shared_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)),
      device_(fabric_->device()),
      on_host_(device_->kind() == DeviceKind::host),
      ground_(release_later(std::make_unique<KernelObjects>(*fabric_))),
      bounces_(release_later(std::make_unique<BouncePool>(device_))),
      router_(*fabric_, ground_->lanes, *bounces_),
      grids_(*fabric_),
      host_copies_(*device_, grids_),
      sends_(device_),
      receives_(device_),
      outstanding_(static_cast<std::size_t>(fabric_->size() * ground_->lanes.count()),
                   static_cast<std::size_t>(fabric_->parameters().tag_receives)),
      small_copy_bytes_(static_cast<std::size_t>(fabric_->parameters().small_copy_bytes)),
      uses_(device_),
      keepers_(std::make_shared<std::vector<std::uint64_t>>(
          on_host_ ? 0 : static_cast<std::size_t>(fabric_->size() * ground_->lanes.count()))),
      serial_(next_serial()) {
  load_kernels();
  fabric_->set_ahead(router_.ahead());
  views_ = lane::all_views(*fabric_, ground_->lanes, ground_->remote.get());
  if (on_host_) fabric_->set_look_aside([this](FaultReport& late) { look_aside(late); });
  fabric_->barrier("the start of messages");
}

MessageEngine::~MessageEngine() {
  fabric_->set_look_aside({});
  try {
    constexpr double kDrainS = 10;
    if (finish(Deadline(fabric_->parameters().timeout_s))) {
      tell_unreceived();
    } else {
      fabric_->abort("the world was destroyed while its work was under way");
      (void)finish(Deadline(kDrainS));
    }
  } catch (const Error&) {
    // The device is gone, and the work with it.
  }
}

// Before any rank can wait for another.
void MessageEngine::load_kernels() {
  using Way = lane::Send::SendWay;
  for (const Kernel* kernel : {&lane::send_kernel(Way::small),
                               &lane::send_kernel(Way::spread),
                               &lane::send_kernel(Way::direct),
                               &lane::send_kernel(Way::posted),
                               &lane::await_send_kernel(),
                               &lane::await_large_send_kernel(),
                               &lane::receive_kernel(),
                               &lane::receive_spread_kernel(),
                               &lane::post_kernel(),
                               &lane::await_receive_kernel(),
                               &lane::deliver_kernel(),
                               &lane::reopen_kernel(),
                               &lane::send_many_kernel(),
                               &lane::await_send_many_kernel(),
                               &lane::exchange_kernel(),
                               &lane::exchange_few_kernel(),
                               &lane::exchange_many_kernel(),
                               &lane::exchange_few_small_kernel(),
                               &lane::exchange_many_small_kernel(),
                               &plan::kernel(),
                               &plan::brief_kernel()}) {
    device_->load(*kernel);
  }
}

void MessageEngine::check_arguments(const char* what, const void* address, std::size_t bytes, int peer,
                                    const MessageOptions& options) {
  const int lanes = ground_->lanes.count();
  if (peer < 0 || peer >= fabric_->size()) [[unlikely]]
    refuse_rank(what, peer, fabric_->launch());
  require(options.tag >= 0 && options.tag < lanes, what, ": tag ", options.tag,
          " does not exist; this world has tags 0 to ", lanes - 1, " (parameter tags)");
  require(bytes == 0 || address != nullptr, what, ": the buffer of ", bytes, " B is a null pointer");
  require(bytes < lane::kBytesMask, what, ": ", bytes, " B is no size of a buffer; a negative number was converted?");
  router_.check_size(bytes, peer, options.tag, options.path);
}

void MessageEngine::check_stays(const Outgoing& message) const {
  if (!fabric_->has_left(message.peer)) return;
  fabric_->check();  // a peer that leaves a failed world leaves for that reason
  fail(ErrorCode::closed, text_of(message), ": rank ", message.peer, " left the world; nobody will receive it");
}

SendRoute MessageEngine::route_send(const Outgoing& message, lane::Completion completion, Router::RingUse ring) {
  check_arguments("send", message.source, message.bytes, message.peer, message.options);
  // Last: a failed world, or a peer that left it, shall not hide an error of the call.
  return start_as([&] { return text_of(message); },
                  [&] {
                    check_stays(message);
                    try {
                      return router_.send(message, completion, ring);
                    } catch (const Error&) {
                      check_stays(message);  // a peer that leaves meanwhile takes its mappings along
                      throw;
                    }
                  });
}

RecvRoute MessageEngine::route_recv(const Incoming& message, lane::Completion completion, Router::RingUse ring) {
  check_arguments("recv", message.destination, message.bytes, message.peer, message.options);
  return start_as([&] { return text_of(message); }, [&] { return router_.recv(message, completion, ring); });
}

std::string MessageEngine::explain(const Outgoing& message) {
  check_arguments("send", message.source, message.bytes, message.peer, message.options);
  return start_as([&] { return text_of(message); }, [&] { return router_.explain(message); });
}

lane::Send MessageEngine::send_body(const SendRoute& route, std::size_t bytes, const lane::LaneView& lane,
                                    lane::Completion completion) const {
  lane::Send body;
  body.wait = fabric_->wait_view(lane.peer);
  body.lane = lane;
  body.source = route.source;
  body.bytes = bytes;
  body.ring_max = route.ring_max;
  body.offer_min = route.offer_min;
  body.peer_source = route.peer_source;
  body.announce = route.announce;
  body.completion = completion;
  body.place_first = on_host_ ? 1 : 0;
  body.spread = route.spread ? 1 : 0;
  if (route.announce == lane::Header::stage) body.bounce = route.bounce->data();
  body.peer_bounce = route.peer_bounce;
  body.chunk_bytes = router_.chunk_bytes();
  return body;
}

std::shared_ptr<Request> MessageEngine::make_request(OpKind kind, std::size_t bytes, const lane::LaneView& lane,
                                                     const MessageOptions& options) {
  settle_unasked();
  auto request = std::allocate_shared<Request>(ThreadCache<Request>());
  request->kind = kind;
  request->lane = lane;
  request->queue = queue_of(lane.peer, lane.lane);
  request->slot = ground_->tickets->take();
  if (options.reported_by_wait) request->slot.ticket.use |= lane::kOwed;
  request->tickets = ground_->tickets;
  request->bytes = bytes;
  request->owner = serial_;
  return request;
}

std::shared_ptr<Request> MessageEngine::request_for(const Outgoing& message) {
  return make_request(OpKind::send, message.bytes, view(message.peer, message.options.tag), message.options);
}
std::shared_ptr<Request> MessageEngine::request_for(const Incoming& message) {
  return make_request(OpKind::recv, message.bytes, view(message.peer, message.options.tag), message.options);
}

// Until the request goes.
void MessageEngine::hold_bounce(Request& request, const std::shared_ptr<Memory>& bounce) const {
  if (bounce == nullptr) return;
  request.bounce = bounce;
  request.bounces = bounces_;
}

// A send, before its op is enqueued.
void MessageEngine::begin(const std::shared_ptr<Request>& request, bool captured) {
  request->captured = captured;
  if (!captured) MessageTickets::open(request->slot);
}

// Its op could not be enqueued.
void MessageEngine::close(const Request& request) {
  if (!request.captured) MessageTickets::close(request.slot);
}

std::size_t MessageEngine::received(const std::shared_ptr<Request>& request) {
  const std::lock_guard lock(request->in_use);
  if (request->result) return request->received;
  // Nobody may have asked the host: a wait on a stream settles it too.
  require(request->status() != Status::pending && (request->taken == nullptr || request->taken->done()),
          "received: the receive has not ended; ask once its wait has returned, or the stream that waits for it has "
          "come to its end");
  return HostGroup::load_relaxed(request->slot.ticket.received);
}
}  // namespace onstream
