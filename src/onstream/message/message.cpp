#include "onstream/message/message.hpp"

#include "onstream/base/error.hpp"
#include "onstream/base/thread_cache.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/lane/kernels.hpp"
#include "onstream/message/implementation.hpp"
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

Messages::Implementation::Implementation(std::shared_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)),
      device_(fabric_->device()),
      on_host_(device_->kind() == DeviceKind::host),
      ground_(release_later(std::make_unique<Ground>(*fabric_))),
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
      serial_(next_serial()) {
  load_kernels();
  fabric_->set_ahead(router_.ahead());
  for (int peer = 0; peer < fabric_->size(); ++peer) {
    for (int lane = 0; lane < ground_->lanes.count(); ++lane) views_.push_back(ground_->lanes.view(peer, lane));
  }
  fabric_->barrier("the start of messages");
}

Messages::Implementation::~Implementation() {
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
void Messages::Implementation::load_kernels() {
  using Way = lane::Send::Way;
  for (const Kernel* kernel :
       {&lane::send_kernel(Way::small), &lane::send_kernel(Way::spread), &lane::send_kernel(Way::direct),
        &lane::send_kernel(Way::posted), &lane::await_send_kernel(), &lane::await_large_send_kernel(),
        &lane::receive_kernel(), &lane::receive_spread_kernel(), &lane::post_kernel(), &lane::await_receive_kernel(),
        &lane::deliver_kernel(), &lane::reopen_kernel(), &lane::send_many_kernel(), &lane::await_send_many_kernel(),
        &lane::exchange_kernel(), &lane::exchange_few_kernel(), &lane::exchange_many_kernel(), &plan::kernel(),
        &plan::brief_kernel()}) {
    device_->load(*kernel);
  }
}

void Messages::Implementation::check_arguments(const char* what, const void* address, std::size_t bytes, int peer,
                                               const MessageOptions& options) {
  const int lanes = ground_->lanes.count();
  require(peer >= 0 && peer < fabric_->size(), what, ": rank ", peer, " does not exist; this world has ranks 0 to ",
          fabric_->size() - 1);
  require(options.tag >= 0 && options.tag < lanes, what, ": tag ", options.tag,
          " does not exist; this world has tags 0 to ", lanes - 1, " (parameter tags)");
  require(bytes == 0 || address != nullptr, what, ": the buffer of ", bytes, " B is a null pointer");
  require(bytes < lane::kBytesMask, what, ": ", bytes, " B is no size of a buffer; a negative number was converted?");
  router_.check_size(bytes, options.tag, options.path);
}

void Messages::Implementation::check_stays(const Outgoing& message) const {
  if (!fabric_->has_left(message.peer)) return;
  fabric_->check();  // a peer that leaves a failed world leaves for that reason
  fail(ErrorCode::closed, text_of(message), ": rank ", message.peer, " left the world; nobody will receive it");
}

SendRoute Messages::Implementation::route_send(const Outgoing& message, lane::Completion completion,
                                               Router::Ring ring) {
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

RecvRoute Messages::Implementation::route_recv(void* destination, std::size_t bytes, int peer,
                                               const MessageOptions& options, lane::Completion completion,
                                               Router::Ring ring) {
  check_arguments("recv", destination, bytes, peer, options);
  return start_as([&] { return text_of(Incoming{destination, bytes, peer, options}); },
                  [&] { return router_.recv({destination, bytes, peer, options}, completion, ring); });
}

std::string Messages::Implementation::explain(const Outgoing& message) {
  check_arguments("send", message.source, message.bytes, message.peer, message.options);
  return start_as([&] { return text_of(message); }, [&] { return router_.explain(message); });
}

lane::Send Messages::Implementation::send_body(const SendRoute& route, std::size_t bytes, const lane::View& lane,
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

std::shared_ptr<Request> Messages::Implementation::make_request(OpKind kind, std::size_t bytes, const lane::View& lane,
                                                                const MessageOptions& options) {
  settle_unasked();
  auto request = std::allocate_shared<Request>(ThreadCache<Request>());
  request->kind = kind;
  request->lane = lane;
  request->queue = queue_of(lane.peer, lane.lane);
  request->slot = ground_->tickets->take();
  if (options.told_by_wait) request->slot.ticket.use |= lane::kOwed;
  request->tickets = ground_->tickets;
  request->bytes = bytes;
  request->owner = serial_;
  return request;
}

std::shared_ptr<Request> Messages::Implementation::request_for(const Outgoing& message) {
  return make_request(OpKind::send, message.bytes, view(message.peer, message.options.tag), message.options);
}
std::shared_ptr<Request> Messages::Implementation::request_for(const Incoming& message) {
  return make_request(OpKind::recv, message.bytes, view(message.peer, message.options.tag), message.options);
}

// Until the request goes.
void Messages::Implementation::hold_bounce(Request& request, const std::shared_ptr<Memory>& bounce) const {
  if (bounce == nullptr) return;
  request.bounce = bounce;
  request.bounces = bounces_;
}

// A send, before its op is enqueued.
void Messages::Implementation::begin(const std::shared_ptr<Request>& request, bool captured) {
  request->captured = captured;
  if (!captured) Tickets::open(request->slot);
}

// Its op could not be enqueued.
void Messages::Implementation::close(const Request& request) {
  if (!request.captured) Tickets::close(request.slot);
}

Messages::Messages(std::shared_ptr<Fabric> fabric)
    : implementation_(std::make_unique<Implementation>(std::move(fabric))) {}
Messages::~Messages() = default;

void Messages::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  implementation_->send({source, bytes, peer, options}, stream);
}
void Messages::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  implementation_->recv(destination, bytes, peer, options, stream);
}
std::shared_ptr<Request> Messages::isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                         Stream stream) {
  return implementation_->isend({source, bytes, peer, options}, stream);
}
std::shared_ptr<Request> Messages::irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                                         Stream stream) {
  return implementation_->irecv(destination, bytes, peer, options, stream);
}
std::vector<std::shared_ptr<Request>> Messages::isend_all(std::span<const Outgoing> messages, Stream stream) {
  return implementation_->isend_all(messages, stream);
}
void Messages::sendrecv(const Outgoing& out, const Incoming& in, Stream stream) {
  implementation_->check_both(out, in);
  implementation_->sendrecv(out, in, stream);
}
void Messages::exchange(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream) {
  implementation_->exchange_all(out, in, stream);
}
void Messages::check_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  implementation_->check_exchange(out, in);
}
void Messages::wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  implementation_->wait_all(requests, stream);
}
void Messages::wait(const std::shared_ptr<Request>& request, Stream stream) {
  implementation_->wait_all({&request, 1}, stream);
}

Status Messages::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
  return implementation_->send({source, bytes, peer, options});
}
Status Messages::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                      std::size_t* received) {
  return implementation_->recv(destination, bytes, peer, options, received);
}
std::shared_ptr<Request> Messages::isend(const void* source, std::size_t bytes, int peer,
                                         const MessageOptions& options) {
  return implementation_->isend({source, bytes, peer, options});
}
std::shared_ptr<Request> Messages::irecv(void* destination, std::size_t bytes, int peer,
                                         const MessageOptions& options) {
  return implementation_->irecv(destination, bytes, peer, options);
}
Exchange Messages::isendrecv(const Outgoing& out, const Incoming& in) {
  implementation_->check_both(out, in);
  return implementation_->isendrecv(out, in);
}
Status Messages::sendrecv(const Outgoing& out, const Incoming& in, std::size_t* received) {
  implementation_->check_both(out, in);
  return implementation_->sendrecv(out, in, received);
}
Status Messages::wait(const std::shared_ptr<Request>& request) { return implementation_->wait(request); }
Status Messages::test(const std::shared_ptr<Request>& request) { return implementation_->test(request); }
bool Messages::has_room(std::size_t bytes, int peer, int lane) const {
  return implementation_->has_room(bytes, peer, lane);
}
std::string Messages::explain(const Outgoing& message) { return implementation_->explain(message); }
std::size_t Messages::received(const std::shared_ptr<Request>& request) {
  const std::lock_guard lock(request->turn);
  if (request->result) return request->received;
  // Nobody may have asked the host: a wait on a stream settles it too.
  require(request->status() != Status::pending && (request->taken == nullptr || request->taken->done()),
          "received: the receive has not ended; ask once its wait has returned, or the stream that waits for it has "
          "come to its end");
  return HostGroup::load_relaxed(request->slot.ticket.received);
}
bool Messages::captured(const std::shared_ptr<Request>& request) { return request->captured; }
std::vector<std::shared_ptr<Event>> Messages::points(const std::vector<Stream>& beside) const {
  return implementation_->points(beside);
}
std::size_t Messages::device_bytes() const { return implementation_->device_bytes(); }

}  // namespace onstream
