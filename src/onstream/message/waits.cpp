// Waits for requests: on a stream, where a kernel waits, and by the host, which then has the data at its final place
// and the result. A wait for a receive completes the receives posted before it on its lane; a wait for a large send
// pushes it once its receive is posted. So no rank waits for another rank's wait.
#include <algorithm>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/lane/kernels.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

namespace {

// Whether one launch may wait for both.
bool go_together(const Request& one, const Request& other) {
  return one.kind == other.kind && one.lane.peer == other.lane.peer && one.lane.lane == other.lane.lane &&
         one.copy_back == nullptr && other.copy_back == nullptr;
}

// All of them, each once, in an order that all threads keep.
std::vector<std::unique_lock<RequestLock>> lock_all(std::span<const std::shared_ptr<Request>> requests) {
  std::vector<Request*> each;
  each.reserve(requests.size());
  for (const auto& request : requests) each.push_back(request.get());
  std::ranges::sort(each, std::less<>());
  each.erase(std::unique(each.begin(), each.end()), each.end());
  std::vector<std::unique_lock<RequestLock>> locks;
  locks.reserve(each.size());
  for (Request* request : each) locks.emplace_back(request->in_use);
  return locks;
}

}  // namespace

void MessageEngine::wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  for (const auto& request : requests) {
    check_request(request);
    if (request->from_any.load(std::memory_order_acquire)) bind_for_stream(request);
  }
  const auto locks = lock_all(requests);
  for (const auto& request : requests) order_after_op(*request, stream);
  const bool captured = device_->capturing(stream);
  // Receives first: a peer's wait for its send may need their fetch.
  std::vector<std::shared_ptr<Request>> in_order(requests.begin(), requests.end());
  const auto is_receive = [](const auto& request) { return request->kind == OpKind::recv; };
  std::stable_partition(in_order.begin(), in_order.end(), is_receive);
  const std::span<const std::shared_ptr<Request>> all = in_order;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first + 1;
    while (last < all.size() && last - first < lane::kMostItems && go_together(*all[first], *all[last])) ++last;
    launch_awaits(all.subspan(first, last - first), stream);
    first = last;
  }
  const std::shared_ptr<Event> behind = note_use(stream);
  for (const auto& request : requests) {
    if (captured) {
      request->captured = true;
      device_->retain(stream, request);
    } else {
      request->last_wait = behind;
      outstanding_.cover(*request, behind);
    }
    if (request->bounce != nullptr && !request->captured && !request->result) {
      bounces_->give_back(std::exchange(request->bounce, nullptr), stream);
      request->copy_back = nullptr;
      request->layout = nullptr;
    }
  }
}

Status MessageEngine::wait(const std::shared_ptr<Request>& request) {
  check_request(request);
  const std::lock_guard lock(request->in_use);
  check_host_may_ask(*request);
  if (request->result) return *request->result;
  if (request->from_any.load(std::memory_order_acquire)) [[unlikely]]
    await_source(request);
  advance(*request, Look::wait);
  await_taken(*request);
  return collect(*request);
}

Status MessageEngine::test(const std::shared_ptr<Request>& request) {
  check_request(request);
  const std::unique_lock lock(request->in_use, std::try_to_lock);
  if (!lock) return Status::pending;  // as far as another thread's wait has come
  check_host_may_ask(*request);
  if (request->result) return *request->result;
  if (request->from_any.load(std::memory_order_acquire) && !has_source(request)) [[unlikely]] {
    const bool failed = HostGroup::load_acquire(fabric_->wait_view().abort) != 0;
    if (request->status() == Status::pending && !failed) return Status::pending;
    if (withdraw(*request)) return collect(*request);
  }
  // Nothing more comes from a peer that has left: an op that has run ends at once, one way or the other.
  advance(*request, fabric_->has_left(request->lane.peer) ? Look::finish : Look::once);
  if (request->taken != nullptr && !request->taken->done()) return Status::pending;
  const bool pending = request->status() == Status::pending;
  const bool failed = HostGroup::load_acquire(fabric_->wait_view().abort) != 0;
  return pending && !failed ? Status::pending : collect(*request);
}

void MessageEngine::check_request(const std::shared_ptr<Request>& request) const {
  fabric_->check_process();
  require(request != nullptr, "wait: the request is null");
  require(request->owner == serial_, "wait: the request belongs to another world");
}

// Every replay of a captured request has its own end; the host could only ask about one of them.
void MessageEngine::check_host_may_ask(const Request& request) const {
  require(!request.captured, "wait: the request is part of a graph; wait for it on the stream, inside the capture");
}

// A replay's wait must come after the replay's op: the ticket left by the replay before looks the same. Stream order
// sees to it, or, on another branch of the graph, an edge from the op to the wait. (An eager op has a ticket of its
// own, and its wait may run first.)
void MessageEngine::order_after_op(const Request& request, Stream stream) {
  if (request.posted == nullptr) return;
  require(device_->capturing(stream), "wait: the ", name_of(request.kind), " of ", request.bytes,
          " B is part of a graph, and this stream is not being captured; wait for it inside the capture");
  if (request.posted_on != stream) device_->wait(stream, request.posted);
}

// The waits of one request share a crew, so they run one after the other.
void MessageEngine::order_after_wait(const Request& request, Stream stream) const {
  const bool under_way = request.last_wait != nullptr && !request.last_wait->done();
  if (under_way && !device_->capturing(stream)) device_->wait(stream, request.last_wait);
}

// Requests that go together, or one.
void MessageEngine::launch_awaits(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  for (const auto& request : requests) order_after_wait(*request, stream);
  if (requests.front()->kind == OpKind::send && requests.size() > 1) {
    lane::AwaitSendMany many;
    many.common = await_large_send(*requests.front(), Look::wait);
    std::size_t largest = 0;
    for (const auto& request : requests) {
      many.items[many.count++] = {request->source, request->bytes, request->slot.ticket};
      if (request->source != nullptr) largest = std::max(largest, request->bytes);
    }
    const Grid grid = largest > 0 ? grids_.receive(largest, 0) : kOneWarp;
    return launch(*device_, lane::await_send_many_kernel(), many, grid, stream);
  }
  const auto posted_before = [](const auto& one, const auto& other) { return one->order < other->order; };
  const std::shared_ptr<Request>& last = *std::ranges::max_element(requests, posted_before);
  launch_await(*last, Look::wait, stream);
  if (last->copy_back == nullptr) return;
  if (last->layout != nullptr) {
    deliver(*last, stream);
  } else {
    host_copies_.take(*last, stream);
  }
  last->taken = device_->point(stream);
}

void MessageEngine::launch_await(const Request& request, Look look, Stream stream) const {
  if (request.kind == OpKind::send && request.source == nullptr) {
    return launch(*device_, lane::await_send_kernel(), await_send(request, look), kOneWarp, stream);
  }
  if (request.kind == OpKind::send) {
    return launch(*device_, lane::await_large_send_kernel(), await_large_send(request, look),
                  grids_.receive(request.bytes, 0), stream);
  }
  launch(*device_, lane::await_receive_kernel(), await_receive(request, look), grids_.await_receive(request.bytes),
         stream);
}

void MessageEngine::await_inline(const Request& request, Look look) const {
  if (request.kind == OpKind::send && request.source == nullptr) {
    await_send(request, look)(kCaller);
  } else if (request.kind == OpKind::send) {
    await_large_send(request, look)(kCaller);
  } else {
    await_receive(request, look)(kCaller);
  }
}

lane::AwaitSend MessageEngine::await_send(const Request& request, Look look) const {
  return {fabric_->wait_view(request.lane.peer), request.lane, request.bytes, look, request.slot.ticket};
}

lane::AwaitLargeSend MessageEngine::await_large_send(const Request& request, Look look) const {
  return {await_send(request, look), request.source, request.slot.crew};
}

lane::AwaitReceive MessageEngine::await_receive(const Request& request, Look look) const {
  return {fabric_->wait_view(request.lane.peer), request.lane, request.slot.crew, look, request.slot.ticket};
}

// Waits for an unfinished request, or looks, and comes back when that is done.
void MessageEngine::advance(const Request& request, Look look) {
  if (request.status() != Status::pending) return;
  if (on_host_) {
    lane::carry_over(request.lane);  // a look at what has come over the network
    await_inline(request, look);
    return lane::carry_over(request.lane);
  }
  if (look != Look::wait && request.last_wait != nullptr && !request.last_wait->done()) return;  // that one sees to it
  const StreamPool::StreamLease stream = fabric_->streams()->lease();
  order_after_wait(request, stream.get());
  launch_await(request, look, stream.get());
  device_->synchronize(stream.get());
}

// A stream's wait has settled the request, and the stream may still copy the received bytes to their place.
void MessageEngine::await_taken(const Request& request) {
  if (request.taken == nullptr || request.taken->done()) return;
  const StreamPool::StreamLease stream = fabric_->streams()->lease();
  device_->wait(stream.get(), request.taken);
  device_->synchronize(stream.get());
}

// Settles posted sends whose requests were let go before their waits: those that have ended give back their tickets and
// bounce buffers.
void MessageEngine::settle_unasked() {
  if (!ground_->tickets->wants_look()) return;
  ground_->tickets->settle_unasked([this](std::span<const MessageTickets::Left* const> open) -> std::shared_ptr<Event> {
    const auto body_of = [this](const MessageTickets::Left& left) {
      return lane::AwaitSend{fabric_->wait_view(left.sent_on->peer), *left.sent_on, left.bytes, Look::once,
                             left.slot.ticket};
    };
    if (on_host_) {
      for (const MessageTickets::Left* left : open) body_of(*left).glance(kCaller);
      return nullptr;
    }
    const StreamPool::StreamLease stream = fabric_->streams()->lease();
    lane::AwaitSendMany many;
    const auto flush = [&] {
      if (many.count > 0) launch(*device_, lane::await_send_many_kernel(), many, kOneWarp, stream.get());
      many.count = 0;
    };
    for (const MessageTickets::Left* left : open) {
      const lane::LaneView& of_many = many.common.lane;
      const bool same_lane = left->sent_on->peer == of_many.peer && left->sent_on->lane == of_many.lane;
      if (!same_lane || many.count == lane::kMostItems) flush();
      if (many.count == 0) many.common = {body_of(*left)};
      many.items[many.count++] = {nullptr, left->bytes, left->slot.ticket};
    }
    flush();
    return note_use(stream.get());
  });
}

// How an op ended, by the word of its ticket. A wait that ended without a word about this op ended because the world
// failed. A call of the host that failed with its world: the failure is logged and told to the others now, also if the
// program looks at nothing more and ends.
Status MessageEngine::reported(std::uint64_t word) const {
  const auto status = static_cast<Status>(word) == Status::pending ? Status::aborted : static_cast<Status>(word);
  if (status == Status::timeout || status == Status::aborted) (void)fabric_->failure();
  if (status == Status::timeout) fabric_->note_timeout_reported();
  return status;
}

// The op is through: data to its final place, result to the request.
Status MessageEngine::collect(Request& request) {
  request.result = reported(static_cast<std::uint64_t>(request.status()));
  outstanding_.cover(request, nullptr);
  request.received = HostGroup::load_relaxed(request.slot.ticket.received);
  if (*request.result == Status::ok) {
    if (request.copy_back != nullptr) {
      if (request.layout != nullptr) {
        deliver(request);
      } else {
        host_copies_.take_now(request, *fabric_->streams());
      }
    }
    if (request.bounce != nullptr) bounces_->give_back(request.bounce);
  }
  request.bounce = nullptr;
  request.copy_back = nullptr;  // a stream may be told to wait for it once more
  request.layout = nullptr;
  return *request.result;
}

}  // namespace onstream
