// Messages whose data lies in its buffer by a layout. Ordered ones of the host device, to a rank of this host, go from
// the places to the ring, to a chunk, or to the receive's buffer, and likewise back (lane/by_layout.hpp). All others
// are packed into a bounce buffer, and go as any message from there; a receive has one too, and its wait writes the
// data to its places.
//
// On a stream a task of the host does it, in a capture at each replay.
#include "onstream/lane/by_layout.hpp"

#include <array>
#include <functional>

#include "onstream/base/error.hpp"
#include "onstream/lane/queue_lock.hpp"
#include "onstream/layout/move.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/message/engine.hpp"
#include "onstream/transport/buffer.hpp"

namespace onstream {

// A function in the order of a stream, with the layout that it needs. An eager one goes when it has run; a graph keeps
// its own.
struct LayoutTask {
  Layout layout;
  void* buffer = nullptr;
  std::function<void(const LayoutTask&)> run;
  std::shared_ptr<LayoutTask> itself;  // until it has run, unless a graph holds it

  LayoutTask(const Layout& by, void* in) : layout(by), buffer(in) {}

  static void entry(void* task) {
    auto& self = *static_cast<LayoutTask*>(task);
    const std::shared_ptr<LayoutTask> last = std::move(self.itself);
    self.run(self);
  }
};

namespace {

std::string text_of(const LayoutMessage& message, OpKind kind) {
  if (kind == OpKind::recv) return text_of(Incoming{message.buffer, message.bytes(), message.peer, message.options});
  return text_of(Outgoing{message.buffer, message.bytes(), message.peer, message.options});
}

Outgoing outgoing(const LayoutMessage& message, const void* data) {
  return {data, message.bytes(), message.peer, message.options};
}
Incoming incoming(const LayoutMessage& message, void* data) {
  return {data, message.bytes(), message.peer, message.options};
}

std::byte* first_of(const LayoutMessage& message) {
  return static_cast<std::byte*>(message.buffer) + message.layout.lowest();
}

void run_locked(const lane::Send& op, const LayoutTask& task) {
  const lane::QueueLock lock(op);
  if (!lock.held()) return lane::end_unlocked(op, lock.status());
  lane::send_by_layout(op, task.layout, task.buffer);
}
void run_locked(const lane::Receive& op, const LayoutTask& task) {
  const lane::QueueLock lock(op);
  if (!lock.held()) return lane::end_unlocked(op, lock.status());
  lane::receive_by_layout(op, task.layout, task.buffer);
}

}  // namespace

void MessageEngine::check_layout(const char* what, const LayoutMessage& message, OpKind kind) {
  const bool from_any = kind == OpKind::recv && message.peer == kAnySource;
  check_arguments(what, message.buffer, message.bytes(), from_any ? fabric_->rank() : message.peer, message.options);
  if (message.bytes() == 0) return;
  if (kind == OpKind::recv) require_destination(what, message.layout);
  const bool is_small =
      message.bytes() <= fabric_->paths().rule(path::Operation::message, path::Link::host, Path::ll).to_bytes;
  if (on_host_ && is_small) return;  // as other messages of the ring
  const MemoryInfo info = look_at_buffer(*device_, first_of(message),
                                         static_cast<std::size_t>(message.layout.highest() - message.layout.lowest()));
  if (info.kind == MemoryKind::device && !on_host_) {
    fail(ErrorCode::unsupported, text_of(message, kind), ": its data (", message.layout.describe(),
         ") lies in GPU memory with gaps, which messages cannot take there yet; use a plan or a halo, or copy it");
  }
}

std::shared_ptr<Memory> MessageEngine::bounce_for(const LayoutMessage& message) {
  return bounces_->take(message.bytes() + kHostCopyBytes, on_host_ ? MemoryKind::device : MemoryKind::pinned);
}

lane::Send MessageEngine::send_body(const LayoutMessage& message, std::shared_ptr<Memory>& bounce) {
  const Outgoing plain = outgoing(message, message.buffer);
  SendRoute route = start_as([&] { return text_of(message, OpKind::send); },
                             [&] {
                               check_stays(plain);
                               return router_.send_by_layout(plain);
                             });
  lane::Send body =
      send_body(route, message.bytes(), view(message.peer, message.options.tag), lane::Completion::ordered);
  body.chunk_bytes = std::min(body.chunk_bytes, lane::share_chunk(message.bytes()));  // so that both ranks work at once
  bounce = std::move(route.bounce);
  return body;
}

lane::Receive MessageEngine::receive_body(const LayoutMessage& message) {
  return start_as([&] { return text_of(message, OpKind::recv); },
                  [&] {
                    RecvRoute route;
                    route.offer_min = ~std::uint64_t{0};
                    return receive_body(route, message.bytes(), view(message.peer, message.options.tag));
                  });
}

void MessageEngine::run_ahead(Stream stream, std::shared_ptr<LayoutTask> task) {
  LayoutTask* const argument = task.get();
  if (device_->capturing(stream)) {
    device_->retain(stream, std::move(task));
    return device_->call(&LayoutTask::entry, argument, stream);
  }
  task->itself = std::move(task);
  try {
    device_->call(&LayoutTask::entry, argument, stream);
  } catch (...) {
    const std::shared_ptr<LayoutTask> last = std::move(argument->itself);
    throw;
  }
}

// --- ordered ---

Status MessageEngine::send(const LayoutMessage& message) {
  check_layout("send", message, OpKind::send);
  if (!goes_directly(message.peer)) return wait(isend(message));
  std::shared_ptr<Memory> bounce;
  lane::Send body = send_body(message, bounce);
  StackTicket result;
  body.ticket = result.ticket(message.options);
  const lane::QueueLock lock(body);
  if (lock.status() == Status::misused)
    onstream::refuse_nested(text_of(message, OpKind::send), body.lane.sending->busy);
  if (lock.held()) {
    lane::send_by_layout(body, message.layout, message.buffer);
  } else {
    lane::end_unlocked(body, lock.status());
  }
  if (bounce != nullptr) bounces_->give_back(std::move(bounce));
  return reported(result.status);
}

Status MessageEngine::recv(const LayoutMessage& message, std::size_t* received) {
  if (message.peer == kAnySource || !goes_directly(message.peer)) {
    const auto request = irecv(message);
    const Status status = wait(request);
    if (received != nullptr) *received = request->received;
    return status;
  }
  check_layout("recv", message, OpKind::recv);
  lane::Receive body = receive_body(message);
  StackTicket result;
  body.ticket = result.ticket(message.options);
  const lane::QueueLock lock(body);
  if (lock.status() == Status::misused)
    onstream::refuse_nested(text_of(message, OpKind::recv), body.lane.receiving->busy);
  if (lock.held()) {
    (void)outstanding_.pass(queue_of(message.peer, message.options.tag), message.peer, message.options.tag,
                            Outstanding::Next::at_once);
    lane::receive_by_layout(body, message.layout, message.buffer);
  } else {
    lane::end_unlocked(body, lock.status());
  }
  if (received != nullptr) *received = result.received;
  return reported(result.status);
}

void MessageEngine::send(const LayoutMessage& message, Stream stream) {
  check_layout("send", message, OpKind::send);
  if (!goes_directly(message.peer)) {
    std::shared_ptr<Memory> packed = pack(message, stream);
    send(outgoing(message, packed->data()), stream);
    bounces_->give_back(std::move(packed), stream);
    return note_use(stream, std::array{outgoing(message, first_of(message))}, {});
  }
  std::shared_ptr<Memory> bounce;
  const lane::Send body = send_body(message, bounce);
  auto task = std::make_shared<LayoutTask>(message.layout, message.buffer);
  task->run = [body](const LayoutTask& self) { run_locked(body, self); };
  run_ahead(stream, std::move(task));
  if (bounce != nullptr) bounces_->give_back(std::move(bounce), stream);
  (void)note_use(stream, first_of(message));
}

void MessageEngine::recv(const LayoutMessage& message, Stream stream) {
  if (!goes_directly(message.peer)) {
    const auto request = irecv(message, stream);
    return wait_all({&request, 1}, stream);
  }
  check_layout("recv", message, OpKind::recv);
  const lane::Receive body = receive_body(message);
  pass_posted(message.peer, message.options, stream);
  auto task = std::make_shared<LayoutTask>(message.layout, message.buffer);
  task->run = [body](const LayoutTask& self) { run_locked(body, self); };
  run_ahead(stream, std::move(task));
  (void)note_use(stream, first_of(message));
}

// --- posted ---

// The data without gaps: now, or once the stream gets there.
std::shared_ptr<Memory> MessageEngine::pack(const LayoutMessage& message, std::optional<Stream> stream) {
  std::shared_ptr<Memory> packed = bounce_for(message);
  if (!stream) {
    gather(packed->data(), message.buffer, message.layout);
    return packed;
  }
  auto task = std::make_shared<LayoutTask>(message.layout, message.buffer);
  task->run = [packed](const LayoutTask& self) { gather(packed->data(), self.buffer, self.layout); };
  run_ahead(*stream, std::move(task));
  return packed;
}

std::shared_ptr<Request> MessageEngine::isend_packed(const LayoutMessage& message, std::shared_ptr<Memory> packed,
                                                     std::optional<Stream> stream) {
  const Outgoing plain = outgoing(message, packed->data());
  const auto request = stream ? isend(plain, *stream) : isend(plain);
  if (request->bounce == nullptr) {
    hold_bounce(*request, packed);
  } else if (stream) {
    bounces_->give_back(std::move(packed), *stream);  // copied on, to a bounce buffer that the peer reaches
  } else if (on_host_) {
    bounces_->give_back(std::move(packed));
  }
  return request;
}

std::shared_ptr<Request> MessageEngine::isend(const LayoutMessage& message) {
  check_layout("isend", message, OpKind::send);
  check_stays(outgoing(message, message.buffer));
  return isend_packed(message, pack(message, std::nullopt), std::nullopt);
}

std::shared_ptr<Request> MessageEngine::isend(const LayoutMessage& message, Stream stream) {
  check_layout("isend", message, OpKind::send);
  check_stays(outgoing(message, message.buffer));
  return isend_packed(message, pack(message, stream), stream);
}

// The request takes the data to its places at its wait.
namespace {

void settle_by(Request& request, const LayoutMessage& message, const std::shared_ptr<Memory>& bounce,
               const std::shared_ptr<BouncePool>& bounces) {
  if (message.bytes() == 0) return;
  request.bounce = bounce;
  request.bounces = bounces;
  request.copy_back = message.buffer;
  request.layout = std::make_shared<const Layout>(message.layout);
}

}  // namespace

std::shared_ptr<Request> MessageEngine::irecv(const LayoutMessage& message) {
  check_layout("irecv", message, OpKind::recv);
  const auto bounce = bounce_for(message);
  const auto request = irecv(incoming(message, bounce->data()));
  settle_by(*request, message, bounce, bounces_);
  return request;
}

std::shared_ptr<Request> MessageEngine::irecv(const LayoutMessage& message, Stream stream) {
  check_layout("irecv", message, OpKind::recv);
  const auto bounce = bounce_for(message);
  const auto request = irecv(incoming(message, bounce->data()), stream);
  settle_by(*request, message, bounce, bounces_);
  return request;
}

void MessageEngine::deliver(Request& request) {
  request.result = lane::deliver_by_layout(fabric_->wait_view(request.lane.peer), request.lane, request.slot.ticket,
                                           *request.layout, request.copy_back, request.bounce->data());
}

void MessageEngine::deliver(const Request& request, Stream stream) {
  auto task = std::make_shared<LayoutTask>(*request.layout, request.copy_back);
  task->run = [wait = fabric_->wait_view(request.lane.peer), lane = request.lane, ticket = request.slot.ticket,
               data = request.bounce->data()](const LayoutTask& self) {
    if (HostGroup::load_acquire(ticket.status) != static_cast<std::uint64_t>(Status::ok))
      return;  // pairs with settle()
    (void)lane::deliver_by_layout(wait, lane, ticket, self.layout, self.buffer, data);
  };
  run_ahead(stream, std::move(task));
}

// --- both directions ---

void MessageEngine::sendrecv(const LayoutMessage& out, const LayoutMessage& in, Stream stream) {
  check_layout("sendrecv", out, OpKind::send);
  check_layout("sendrecv", in, OpKind::recv);
  const auto packed = pack(out, stream);
  const auto arriving = irecv(in, stream);
  const std::array requests = {arriving, isend_packed(out, packed, stream)};
  wait_all(requests, stream);
}

Exchange MessageEngine::isendrecv(const LayoutMessage& out, const LayoutMessage& in) {
  check_layout("sendrecv", out, OpKind::send);
  check_layout("sendrecv", in, OpKind::recv);
  const Outgoing to = outgoing(out, out.buffer);
  const Incoming from = incoming(in, in.buffer);
  require_not_nested(to, from);
  check_stays(to);
  const auto packed = pack(out, std::nullopt);
  auto arriving = irecv(in);
  return {isend_packed(out, packed, std::nullopt), std::move(arriving)};
}

std::optional<SendrecvEnds> MessageEngine::sendrecv_ahead(const LayoutMessage& out, const LayoutMessage& in,
                                                          std::size_t* received) {
  std::array<std::byte, 4096> few;
  if (!goes_directly(out.peer) || !goes_directly(in.peer) || out.bytes() > few.size()) return std::nullopt;
  check_layout("sendrecv", out, OpKind::send);
  check_layout("sendrecv", in, OpKind::recv);
  const Outgoing to = outgoing(out, few.data());
  require_not_nested(to, incoming(in, in.buffer));
  if (!outstanding_.none(queue_of(in.peer, in.options.tag))) return std::nullopt;
  gather(few.data(), out.buffer, out.layout);
  const std::optional<Status> sent = send_ahead(to);
  if (!sent) return std::nullopt;
  return SendrecvEnds{*sent, recv(in, received)};
}

}  // namespace onstream
