// Messages in the order of a stream: each call enqueues kernels, and copies where the buffer needs a bounce buffer.
// Nothing here waits for another rank.
#include "onstream/lane/kernels.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

void MessageEngine::send(const Outgoing& message, Stream stream) {
  SendRoute route = route_send(message, lane::Completion::ordered);
  copy_small(route, message, Moment::on_stream, stream);
  lane::Send body = send_body(route, message.bytes, view(message.peer, message.options.tag), lane::Completion::ordered);
  CopyThread::CopierLease lease;
  if (route.copy_engine) lease = fabric_->copies().take(route.copy_lead);
  body.copier = lease.copier();
  if (route.prefetch) prefetch(message.source, message.bytes, stream);
  if (route.copy_first) host_copies_.fill(*route.bounce, message.source, message.bytes, stream);
  launch(*device_, lane::send_kernel(body.way()), body, grids_.send(body), stream);
  lease.give_back(stream);
  if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce), stream);
  note_use(stream, message.source);
}

void MessageEngine::recv(const Incoming& message, Stream stream) {
  const auto& [destination, bytes, peer, options] = message;
  RecvRoute route = route_recv(message, lane::Completion::ordered);
  pass_posted(peer, options, stream);
  auto body = receive_body(route, bytes, view(peer, options.tag));
  HostCopy* copy = nullptr;
  if (route.bounce != nullptr) {
    copy = host_copies_.describe_take(destination, *route.bounce, bytes);
    body.ticket = copy->own_ticket();
  }
  if (route.prefetch) prefetch(destination, bytes, stream);
  const Kernel& kernel = route.spread ? lane::receive_spread_kernel() : lane::receive_kernel();
  launch(*device_, kernel, body, grids_.receive(body), stream);
  if (copy != nullptr) {
    host_copies_.take(copy, stream);
    bounces_->give_back(std::move(route.bounce), stream);
  }
  note_use(stream, destination);
}

std::shared_ptr<Request> MessageEngine::isend(const Outgoing& message, Stream stream) {
  SendRoute route = route_send(message, lane::Completion::posted);
  copy_small(route, message, Moment::on_stream, stream);
  auto request = request_for(message);
  isend_by(route, request, message.source, stream);
  return request;
}

void MessageEngine::isend_by(const SendRoute& route, const std::shared_ptr<Request>& request, const void* source,
                             Stream stream) {
  begin(request, device_->capturing(stream));
  try {
    post_send(route, request, source, stream);
  } catch (...) {
    close(*request);
    throw;
  }
  note_use(request, source, stream);
}

std::vector<SendRoute> MessageEngine::route_sends(std::span<const Outgoing> messages) {
  std::vector<SendRoute> routes;
  routes.reserve(messages.size());
  for (const Outgoing& message : messages) routes.push_back(route_send(message, lane::Completion::posted));
  return routes;
}

std::vector<std::shared_ptr<Request>> MessageEngine::isend_all(std::span<const Outgoing> messages, Stream stream) {
  const std::vector<SendRoute> routes = route_sends(messages);
  std::vector<std::shared_ptr<Request>> requests;
  requests.reserve(messages.size());
  for (const Outgoing& message : messages) requests.push_back(request_for(message));
  isend_all_by(routes, messages, requests, stream);
  return requests;
}

void MessageEngine::isend_all_by(const std::vector<SendRoute>& routes, std::span<const Outgoing> messages,
                                 std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  const bool captured = device_->capturing(stream);
  lane::SendMany many;
  std::size_t posted = 0;  // requests whose ops are enqueued
  const auto flush = [&](std::size_t end) {
    if (many.count > 0) launch(*device_, lane::send_many_kernel(), many, grids_.send_many(many), stream);
    many.count = 0;
    posted = end;
  };
  try {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const SendRoute& route = routes[i];
      const auto& request = requests[i];
      const lane::LaneView& to = request->lane;
      const std::size_t bytes = request->bytes;
      begin(request, captured);
      const bool joins = !captured && bytes <= route.ring_max && route.bounce == nullptr;
      const bool same_lane = many.count > 0 && many.common.lane.peer == to.peer && many.common.lane.lane == to.lane &&
                             many.common.ring_max == route.ring_max;
      if (!joins || !same_lane || many.count == lane::kMostItems) flush(i);
      if (!joins) {
        post_send(route, request, messages[i].source, stream);
        posted = i + 1;
      } else {
        if (many.count == 0) many.common = send_body(route, bytes, to, lane::Completion::posted);
        many.items[many.count++] = {route.source, bytes, request->slot.ticket};
      }
    }
    flush(messages.size());
  } catch (...) {
    for (const auto& request : requests.subspan(posted)) close(*request);
    if (posted > 0) note_use(stream);
    throw;
  }
  note_use(stream, messages, {});
  if (captured) {
    for (const auto& request : requests) device_->retain(stream, request);
  }
}

std::shared_ptr<Request> MessageEngine::irecv(const Incoming& message, Stream stream) {
  const RecvRoute route = route_recv(message, lane::Completion::posted);
  auto request = request_for(message);
  irecv_by(route, request, message.destination, Outstanding::Next::on_stream, stream);
  return request;
}

void MessageEngine::irecv_by(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination,
                             Outstanding::Next next, Stream stream) {
  request->captured = device_->capturing(stream);
  if (request->captured) outstanding_.number(*request);
  const auto before = request->captured ? nullptr : outstanding_.add(request, next);
  try {
    follow(before, stream);
    if (route.bounce != nullptr) request->copy_back = destination;
    hold_bounce(*request, route.bounce);
    auto body = recv_body<lane::Post>(route, request->bytes, request->lane);
    body.ticket = request->slot.ticket;
    if (request->captured) launch(*device_, lane::reopen_kernel(), lane::Reopen{body.ticket}, kOneWarp, stream);
    if (route.prefetch) prefetch(destination, request->bytes, stream);
    launch(*device_, lane::post_kernel(), body, kOneWarp, stream);
  } catch (...) {
    close(*request);  // so its place is free as well
    throw;
  }
  note_posted(*request, stream);
  note_use(request, destination, stream);
}

void MessageEngine::post_send(const SendRoute& route, const std::shared_ptr<Request>& request, const void* source,
                              Stream stream) {
  lane::Send body = send_body(route, request->bytes, request->lane, lane::Completion::posted);
  body.ticket = request->slot.ticket;
  hold_bounce(*request, route.bounce);
  if (request->bytes > route.ring_max) request->source = route.source;
  if (request->captured) launch(*device_, lane::reopen_kernel(), lane::Reopen{body.ticket}, kOneWarp, stream);
  if (route.prefetch) prefetch(source, request->bytes, stream);
  if (route.copy_first) host_copies_.fill(*route.bounce, source, request->bytes, stream);
  launch(*device_, lane::send_kernel(body.way()), body, grids_.send(body), stream);
  note_posted(*request, stream);
}

// A short copy from plain host memory is made right here where nothing on the stream can still change the buffer: no
// thread of the driver has to wake up for it, and where the GPU has a window for the CPU, kernels read their own
// memory.
void MessageEngine::copy_small(SendRoute& route, const Outgoing& message, Moment moment, Stream stream) {
  if (!route.plain || message.bytes > small_copy_bytes_) return;
  if (moment == Moment::on_stream && (device_->capturing(stream) || !device_->idle(stream))) return;
  std::shared_ptr<SmallMemory> small = bounces_->take_small(message.bytes);
  small->put(0, message.source, message.bytes);
  bounces_->give_back(std::exchange(route.bounce, small));
  route.source = small->data();
  route.copy_first = false;
}

void MessageEngine::prefetch(const void* buffer, std::size_t bytes, Stream stream) const {
  device_->prefetch(const_cast<void*>(buffer), bytes, device_->kind(), stream);
}

// Before an ordered receive takes its place behind posted ones. Replays are not counted.
void MessageEngine::pass_posted(int peer, const MessageOptions& options, Stream stream) {
  const std::size_t queue = queue_of(peer, options.tag);
  if (outstanding_.none(queue) || device_->capturing(stream)) return;
  follow(outstanding_.pass(queue, peer, options.tag, Outstanding::Next::on_stream), stream);
}

// Orders the next work of the stream behind `before`, unless it is null.
void MessageEngine::follow(const std::shared_ptr<Event>& before, Stream stream) {
  if (before != nullptr) device_->wait(stream, before);
}

// Where a captured request's op stands: order_after_op() asks.
void MessageEngine::note_posted(Request& request, Stream stream) {
  if (!request.captured) return;
  request.posted_on = stream;
  request.posted = device_->record(stream);
}

// Call it after an op was enqueued. It returns null inside a capture; the graph then keeps the objects that all ops
// use.
std::shared_ptr<Event> MessageEngine::note_use(Stream stream) {
  auto event = uses_.note(stream);
  if (event == nullptr) device_->retain(stream, ground_);
  return event;
}

std::shared_ptr<Event> MessageEngine::note_use(Stream stream, const void* buffer) {
  auto event = note_use(stream);
  if (event == nullptr) fabric_->guard(stream, buffer);
  return event;
}

void MessageEngine::note_use(Stream stream, std::span<const Outgoing> out, std::span<const Incoming> in) {
  if (note_use(stream) != nullptr) return;
  for (const Outgoing& message : out) fabric_->guard(stream, message.source);
  for (const Incoming& message : in) fabric_->guard(stream, message.destination);
}

void MessageEngine::note_use(const std::shared_ptr<Request>& request, const void* buffer, Stream stream) {
  if (note_use(stream, buffer) == nullptr) device_->retain(stream, request);
}

}  // namespace onstream
