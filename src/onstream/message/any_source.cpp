// Receives from any rank, and waits for any of several requests. A receive from any rank is a request without a lane
// until a wait or a test of the host finds a message for it: then it is posted on that message's lane, and is from
// there on as any other. Where several wait for messages of one tag, the oldest gets the first.
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

// Gives messages that have come to receives from any rank of this one's tag, the oldest first, until this one has one.
// Whether it has. Does not wait: another thread that is at it may find the message.
bool MessageEngine::bind(const std::shared_ptr<Request>& request) {
  const std::unique_lock lock(binding_, std::try_to_lock);
  while (request->from_any.load(std::memory_order_acquire)) {
    if (!lock) return false;
    const auto oldest = std::ranges::find_if(unbound_, [&](const Unbound& one) {
      return one.message.options.tag == request->any_tag && !is_over(one.request.lock());
    });
    Found found;
    if (oldest == unbound_.end() || !find(kAnySource, oldest->message.options.tag, Keep::yes, found)) return false;
    Incoming message = oldest->message;
    message.peer = found.message.peer;
    if (const auto its = oldest->request.lock()) {
      bind_to(its, message, found.kept);
    } else {
      const ThreadLock given_back(receiving_lock(message.peer, found.message.tag), found.kept);
    }
    unbound_.erase(oldest);
  }
  return true;
}

// The lane's lock is kept. What is refused is so for good: its request ends, and the message stays.
void MessageEngine::bind_to(const std::shared_ptr<Request>& request, const Incoming& message, std::uint64_t kept) {
  try {
    const RecvRoute route = route_recv(message, lane::Completion::posted);
    request->lane = view(message.peer, message.options.tag);
    request->queue = queue_of(message.peer, message.options.tag);
    post_kept(route, request, message.destination, kept);
  } catch (...) {
    const ThreadLock given_back(receiving_lock(message.peer, message.options.tag), kept);
    request->lane.peer = -1;
    throw;
  }
  request->from_any.store(false, std::memory_order_release);  // pairs with the acquire of waits
}

// Its wait, first half: ends with a sender, or with the request's end in vain.
void MessageEngine::await_source(const std::shared_ptr<Request>& request) {
  const WaitView wait = fabric_->wait_view();
  const auto word = [&] { return word_of_source(kAnySource, request->any_tag); };
  const Status status = wait_on(kCaller, wait, word, [&] { return bind(request) || is_over(request); });
  if (status != Status::ok) end_in_vain(status, *request);
}

// Its test, first half.
bool MessageEngine::has_source(const std::shared_ptr<Request>& request) {
  const bool left = fabric_->has_left(-1);  // before the look: all that was sent has come then
  if (fabric_->network() != nullptr) fabric_->network()->turn();
  if (bind(request)) return true;
  if (left && are_free(kAnySource, request->any_tag) && !is_over(request)) end_in_vain(Status::aborted, *request);
  return false;
}

void MessageEngine::end_in_vain(Status status, const Request& request) {
  tell_in_vain(status, fabric_->wait_view(), fault_of(request));
  lane::settle(kCaller, request.slot.ticket, status, 0);
}

int MessageEngine::source(const std::shared_ptr<Request>& request) {
  require(request != nullptr && request->kind == OpKind::recv, "source: this is no request of a receive");
  return request->from_any.load(std::memory_order_acquire) ? kAnySource : request->lane.peer;
}

std::size_t MessageEngine::wait_any(std::span<const std::shared_ptr<Request>> requests, Status& status) {
  require(!requests.empty(), "wait_any: the list of requests is empty");
  for (const auto& request : requests) check_request(request);
  std::size_t first = 0;
  const auto looks = [&] {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      status = test(requests[i]);
      if (status == Status::pending) continue;
      first = i;
      return true;
    }
    return false;
  };
  const Status ended = wait_for_self(kCaller, fabric_->wait_view(), looks);
  if (ended == Status::ok) return first;
  Request& waited = *requests.front();  // in the name of them all
  const std::lock_guard lock(waited.in_use);
  if (!waited.result) {
    end_in_vain(ended, waited);
    (void)collect(waited);
  }
  status = *waited.result;
  return 0;
}

}  // namespace onstream
