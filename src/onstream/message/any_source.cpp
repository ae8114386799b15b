// Receives from any rank, and waits for any of several requests. A receive from any rank is a request without a lane
// until a wait or a test of the host finds a message for it: then it is posted on that message's lane, and is from
// there on as any other. Where several wait for messages of one tag, the oldest gets the first.
//
// Any thread's wait may so bind another's request: under binding_, and without a word to that request's waits but what
// it leaves in the request.
#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

namespace {

Fault fault_of(const Request& request) {
  return lane::of_ticket(lane::fault_of(request.kind, request.lane, request.bytes, 0), request.slot.ticket);
}

bool is_over(const std::shared_ptr<Request>& request) {
  return request == nullptr || request->status() != Status::pending;
}

void throw_refusal(const Request& request) {
  if (request.status() != Status::pending && request.refused != nullptr) std::rethrow_exception(request.refused);
}

}  // namespace

std::shared_ptr<Request> MessageEngine::irecv_any(const Incoming& message) {
  check_arguments("recv", message.destination, message.bytes, fabric_->rank(), message.options);
  lane::LaneView nowhere;
  nowhere.peer = -1;  // as faults number any rank
  nowhere.lane = message.options.tag;
  return start_as([&] { return text_of(message); },
                  [&] {
                    auto request = make_request(OpKind::recv, message.bytes, nowhere, message.options);
                    request->queue = 0;
                    request->any_tag = message.options.tag;
                    request->from_any.store(true, std::memory_order_relaxed);
                    MessageTickets::open(request->slot);
                    const std::lock_guard lock(binding_);
                    std::erase_if(unbound_, [](const Unbound& one) { return is_over(one.request.lock()); });
                    unbound_.push_back({request, message});
                    return request;
                  });
}

// Gives messages that have come to receives from any rank of this one's tag, the oldest first, until this one has one,
// or has ended: found. Does not wait: another thread that is at it may find the message.
MessageEngine::Sight MessageEngine::bind(const std::shared_ptr<Request>& request, Care care) {
  const std::unique_lock lock(binding_, std::try_to_lock);
  if (lock) return bind_locked(request, care);
  return request->from_any.load(std::memory_order_acquire) ? Sight::busy : Sight::found;
}

MessageEngine::Sight MessageEngine::bind_locked(const std::shared_ptr<Request>& request, Care care) {
  while (request->from_any.load(std::memory_order_acquire) && !is_over(request)) {
    const auto oldest = std::ranges::find_if(unbound_, [&](const Unbound& one) {
      return one.message.options.tag == request->any_tag && !is_over(one.request.lock());
    });
    if (oldest == unbound_.end()) return Sight::none;
    Found found;
    const Sight sight = find(kAnySource, request->any_tag, care, Keep::yes, found);
    if (sight != Sight::found) return sight;
    Incoming message = oldest->message;
    message.peer = found.message.peer;
    const auto its = oldest->request.lock();
    const bool through = its == nullptr || bind_to(its, message, found.kept);
    if (found.kept != 0) const ThreadLock given_back(receiving_lock(message.peer, found.message.tag), found.kept);
    if (!through) return Sight::busy;
    unbound_.erase(oldest);
  }
  return Sight::found;
}

// The lane's lock is kept. False, and nothing done: the lane has no room for one more receive, or the world has failed,
// which the waits see. What is refused otherwise is so for good: the waits of this request alone throw it, and the
// message goes to another.
bool MessageEngine::bind_to(const std::shared_ptr<Request>& request, const Incoming& message, std::uint64_t& kept) {
  const lane::LaneView before = request->lane;
  const std::size_t queue = queue_of(message.peer, message.options.tag);
  RecvRoute route;
  try {
    if (!make_room(view(message.peer, message.options.tag))) return false;
    route = route_recv(message, lane::Completion::posted);
    request->lane = view(message.peer, message.options.tag);
    request->queue = queue;
    post_kept(route, request, message.destination, kept);
  } catch (const Error& error) {
    request->lane = before;
    if (error.of_failure()) return false;
    if (error.code() == ErrorCode::invalid_argument && !outstanding_.has_room(queue)) {  // a stream's receive took it
      if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
      return false;
    }
    request->refused = std::current_exception();
    MessageTickets::close(request->slot);
    return true;
  }
  request->from_any.store(false, std::memory_order_release);  // pairs with the acquire of waits
  return true;
}

// Whether there is room for one more posted receive. The host makes some: it takes the messages of posted receives that
// have come, as a wait for those would. A GPU leaves that to their waits.
bool MessageEngine::make_room(const lane::LaneView& lane) {
  const std::size_t queue = queue_of(lane.peer, lane.lane);
  if (outstanding_.has_room(queue)) return true;
  if (!on_host_) return false;
  lane::Numbered newest{HostGroup::load_acquire(&lane.receiving->posted) - 1, 1};
  lane::BlockTeam crew;
  lane::AwaitReceive look;
  look.wait = fabric_->wait_view(lane.peer);
  look.lane = lane;
  look.crew = &crew;
  look.look = Look::once;
  look.ticket = {&newest, nullptr, nullptr, 1};
  look(kCaller);
  lane::carry_over(lane);
  return outstanding_.has_room(queue);
}

// Ends its search, unless another thread has bound it: false. No thread writes its fields from now on.
bool MessageEngine::withdraw(const Request& request) {
  const std::lock_guard lock(binding_);
  if (!request.from_any.load(std::memory_order_acquire)) return false;
  std::erase_if(unbound_, [&](const Unbound& one) { return one.request.lock().get() == &request; });
  return true;
}

// Its wait, first half: ends with a sender, or with the request's end in vain.
void MessageEngine::await_source(const std::shared_ptr<Request>& request) {
  const Status status = wait_for_message(kAnySource, [&](Care care) { return bind(request, care); });
  if (status != Status::ok && withdraw(*request) && !is_over(request)) end_in_vain(status, *request);
  throw_refusal(*request);
}

// Its test, first half. Once all others have left, a sure look that finds nothing ends it, as it ends a wait: a thread
// that may still send to its own rank is not known of, and its receiver names that rank.
bool MessageEngine::has_source(const std::shared_ptr<Request>& request) {
  const bool left = fabric_->has_left(-1);  // before the look: all that was sent has come then
  if (fabric_->network() != nullptr) fabric_->network()->turn();
  const Sight sight = bind(request, left ? Care::sure : Care::brief);
  throw_refusal(*request);
  if (sight == Sight::found) return !request->from_any.load(std::memory_order_acquire);
  if (sight == Sight::none && left && withdraw(*request) && !is_over(request)) end_in_vain(Status::aborted, *request);
  return false;
}

// Before a stream's wait, which cannot look for a message.
void MessageEngine::bind_for_stream(const std::shared_ptr<Request>& request) {
  const std::lock_guard lock(binding_);
  const Sight sight = bind_locked(request, Care::sure);
  throw_refusal(*request);
  require(sight != Sight::none,
          "wait: a receive from any rank whose message has not come is waited for by the host, not by a stream");
  require(sight != Sight::busy, "wait: another call receives with tag ", request->any_tag,
          ", so whether a message has come for this receive from any rank is not known; it is waited for by the host, "
          "not by a stream, or again later");
  require(!request->from_any.load(std::memory_order_acquire),
          "wait: this receive from any rank has ended without a message; the host's wait tells how, not a stream's");
}

void MessageEngine::end_in_vain(Status status, const Request& request) {
  tell_in_vain(status, fabric_->wait_view(), fault_of(request));
  lane::settle(kCaller, request.slot.ticket, status, 0);
}

int MessageEngine::source(const std::shared_ptr<Request>& request) {
  require(request != nullptr && request->kind == OpKind::recv, "source: this is no request of a receive");
  return request->from_any.load(std::memory_order_acquire) ? kAnySource : request->lane.peer;
}

std::optional<std::size_t> MessageEngine::test_any(std::span<const std::shared_ptr<Request>> requests, Status& status) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    status = test(requests[i]);
    if (status != Status::pending) return i;
  }
  return std::nullopt;
}

std::size_t MessageEngine::wait_any(std::span<const std::shared_ptr<Request>> requests, Status& status) {
  require(!requests.empty(), "wait_any: the list of requests is empty");
  for (const auto& request : requests) check_request(request);
  std::optional<std::size_t> first;
  const auto looks = [&] { return (first = test_any(requests, status)).has_value(); };
  const Status ended = wait_for_self(kCaller, fabric_->wait_view(), looks);
  if (ended == Status::ok) return *first;
  Request& waited = *requests.front();  // in the name of them all
  const std::lock_guard lock(waited.in_use);
  if (!waited.result) {
    (void)withdraw(waited);
    end_in_vain(ended, waited);
    (void)collect(waited);
  }
  status = *waited.result;
  return 0;
}

}  // namespace onstream
