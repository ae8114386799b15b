// Messages that the calling thread sends and receives. On the host device it runs the ops' bodies itself, one at a
// time of each lane and direction (lane/queue_lock.hpp); elsewhere it enqueues them on streams of the library's own and
// waits.
#include <algorithm>
#include <mutex>

#include "onstream/lane/queue_lock.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

namespace {

constexpr std::uint64_t kNoneEnds = 0;  // of a lock that calls hold for a moment, or keep

template <class Message>
void refuse_nested(const lane::QueueLock& lock, const Message& message, const std::uint64_t& holder) {
  if (lock.status() == Status::misused) onstream::refuse_nested(text_of(message), holder);
}

}  // namespace

void refuse_nested(const std::string& call, const std::uint64_t& holder) {
  require(!ThreadLock::is_kept(holder), call,
          ": this thread has matched the next message there and not received it; receive that one first, or let go of "
          "it");
  fail(ErrorCode::invalid_argument, call,
       ": called while this thread is inside another call of the same tag and direction, as from a signal handler; "
       "call it after the handler, or use another tag");
}

Status MessageEngine::send(const Outgoing& message) {
  if (!on_host_) return wait(isend(message));
  SendRoute route = route_send(message, lane::Completion::ordered);
  lane::Send body = send_body(route, message.bytes, view(message.peer, message.options.tag), lane::Completion::ordered);
  StackTicket result;
  body.ticket = result.ticket(message.options);
  lane::QueueLock lock(body);
  refuse_nested(lock, message, body.lane.sending->busy);
  if (lock.held()) {
    body.run(kCaller, [&lock] { lock.unlock(); });
  } else {
    lane::end_unlocked(body, lock.status());
  }
  lane::carry_over(body.lane);
  if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
  return reported(result.status);
}

Status MessageEngine::recv(const Incoming& message, std::size_t* received) {
  const auto& [destination, bytes, peer, options] = message;
  if (!on_host_ || peer == kAnySource) {
    const auto request = irecv(message);
    const Status status = wait(request);
    if (received != nullptr) *received = request->received;
    return status;
  }
  RecvRoute route = route_recv(message, lane::Completion::ordered);
  auto body = receive_body(route, bytes, view(peer, options.tag));
  StackTicket result;
  body.ticket = result.ticket(options);
  const lane::QueueLock lock(body);
  refuse_nested(lock, message, body.lane.receiving->busy);
  if (lock.held()) {
    (void)outstanding_.pass(queue_of(peer, options.tag), peer, options.tag, Outstanding::Next::at_once);
    body(kCaller);
  } else {
    lane::end_unlocked(body, lock.status());
  }
  lane::carry_over(body.lane);
  if (received != nullptr) *received = result.received;
  return reported(result.status);
}

std::shared_ptr<Request> MessageEngine::isend(const Outgoing& message) {
  SendRoute route = route_send(message, lane::Completion::posted);
  auto request = request_for(message);
  isend_by(std::move(route), request, message);
  return request;
}

void MessageEngine::isend_by(SendRoute route, const std::shared_ptr<Request>& request, const Outgoing& message) {
  if (!on_host_) {
    const Stream stream = sends_.get();
    copy_small(route, message, Moment::now, stream);
    return isend_by(route, request, message.source, stream);
  }
  lane::Send body = send_body(route, message.bytes, request->lane, lane::Completion::posted);
  body.ticket = request->slot.ticket;
  lane::QueueLock lock(body);
  refuse_nested(lock, message, body.lane.sending->busy);
  if (!lock.held()) return lane::end_unlocked(body, lock.status());
  if (body.would_crowd(kCaller) && router_.may_choose(message.options.path)) {
    // It must not wait for room: a rank may post all its sends before its receives, and so may its peer.
    route = route_send(message, lane::Completion::posted, Router::RingUse::beside);
    body = send_body(route, message.bytes, request->lane, lane::Completion::posted);
  }
  begin(request, false);
  body.ticket = request->slot.ticket;
  hold_bounce(*request, route.bounce);
  if (route.copy_first && body.announce != lane::Header::pull && body.is_offered(kCaller)) {
    body.source = message.source;  // it goes to its destination at once, and needs no copy
    if (route.attached_source != 0) body.peer_source = route.attached_source;
  } else if (route.copy_first) {
    std::copy_n(static_cast<const std::byte*>(message.source), message.bytes, route.bounce->data());
  }
  if (message.bytes > route.ring_max) request->source = body.source;
  body.run(kCaller, [&lock] { lock.unlock(); });
  lane::carry_over(body.lane);
}

std::shared_ptr<Request> MessageEngine::irecv(const Incoming& message) {
  if (message.peer == kAnySource) return irecv_any(message);
  const RecvRoute route = route_recv(message, lane::Completion::posted);
  auto request = request_for(message);
  irecv_by(route, request, message.destination);
  return request;
}

void MessageEngine::irecv_by(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination) {
  const Incoming message{destination, request->bytes, request->lane.peer, {request->lane.lane}};
  if (!on_host_) {
    std::uint64_t& holder = receiving_lock(message.peer, message.options.tag);
    const ThreadLock lock(fabric_->wait_view(message.peer), holder, kNoneEnds);
    if (lock.status() == Status::misused) onstream::refuse_nested(text_of(message), holder);
    if (!lock.held()) return end_in_vain(lock.status(), *request);
    return post_receive(route, request, destination);
  }
  auto body = recv_body<lane::Post>(route, request->bytes, request->lane);
  const lane::QueueLock lock(body);
  refuse_nested(lock, message, body.lane.receiving->busy);
  body.ticket = request->slot.ticket;
  if (!lock.held()) return lane::end_unlocked(body, lock.status());
  post_receive(body, route, request, destination);
}

// The lane's lock is held.
void MessageEngine::post_receive(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination) {
  if (!on_host_) {  // on a stream that receives of all peers share: none may hold up the others there
    const std::lock_guard lock(posting_);
    return irecv_by(route, request, destination, Outstanding::Next::at_once, receives_.get());
  }
  auto body = recv_body<lane::Post>(route, request->bytes, request->lane);
  body.ticket = request->slot.ticket;
  post_receive(body, route, request, destination);
}

void MessageEngine::post_receive(const lane::Post& body, const RecvRoute& route,
                                 const std::shared_ptr<Request>& request, void* destination) {
  (void)outstanding_.add(request, Outstanding::Next::at_once);
  if (route.bounce != nullptr) request->copy_back = destination;
  hold_bounce(*request, route.bounce);
  body(kCaller);
}

// Before either half is posted.
void MessageEngine::require_not_nested(const Outgoing& out, const Incoming& in) const {
  if (!on_host_) return;
  const std::uint64_t& sending = view(out.peer, out.options.tag).sending->busy;
  const std::uint64_t& receiving = view(in.peer, in.options.tag).receiving->busy;
  if (ThreadLock::is_mine(receiving)) onstream::refuse_nested(text_of(out, in), receiving);
  if (ThreadLock::is_mine(sending)) onstream::refuse_nested(text_of(out, in), sending);
}

// A small send through the ring of its tag, which ends at once. Nothing, and nothing done, where it might wait.
std::optional<Status> MessageEngine::send_ahead(const Outgoing& message) {
  const auto& [source, bytes, peer, options] = message;
  const bool may = router_.may_choose(options.path) && !fabric_->is_remote(peer);
  if (!may || bytes > router_.most_ahead(options.tag)) return std::nullopt;
  lane::Send body = send_body(route_send(message, lane::Completion::ordered), bytes, view(peer, options.tag),
                              lane::Completion::ordered);
  StackTicket result;
  body.ticket = result.ticket(options);
  const lane::QueueLock lock(body);  // before the look: other threads send too
  if (!lock.held() || !has_room(bytes, peer, options.tag)) return std::nullopt;
  body(kCaller);
  return reported(result.status);
}

bool MessageEngine::has_room(std::size_t bytes, int peer, int lane) const {
  if (!on_host_) return false;
  const lane::LaneView& to = view(peer, lane);
  const std::uint64_t ring = std::uint64_t{1} << to.ring_shift;
  const std::uint64_t ahead =
      HostGroup::load_relaxed(&to.sending->head) - HostGroup::load_relaxed(&to.returned->credit);
  constexpr std::uint64_t kAnnouncement = 2;
  const bool in_ring = bytes <= fabric_->paths().rule(path::Operation::posted, path::Link::host, Path::ll).to_bytes;
  return ahead + std::max(in_ring ? lane::ring_units<HostGroup>(bytes) : 0, kAnnouncement) <= ring;
}

}  // namespace onstream
