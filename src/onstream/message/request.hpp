// Request: an isend or irecv on its way, as the MessageEngine sees it. Users hold it as an opaque handle.
//
// It may be let go at any time. A graph that captured its op or its wait owns it too; its ticket and its bounce buffer
// serve others once the op is settled and its waits have passed.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "onstream/device/host/group.hpp"
#include "onstream/lane/memory/lane.hpp"
#include "onstream/layout.hpp"
#include "onstream/message/bounce.hpp"
#include "onstream/message/message_tickets.hpp"

namespace onstream {

// One thread at a time. Not a mutex: a wait for many requests holds as many at once, and the thread sanitizer keeps
// books of 64 mutexes a thread.
class RequestLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) taken_.wait(true, std::memory_order_relaxed);
  }
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() {
    taken_.store(false, std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic<bool> taken_ = false;
};

class Request {
 public:
  RequestLock in_use;  // of the thread that waits for it, tests it or enqueues a wait: each changes the fields below
  OpKind kind = OpKind::none;
  lane::LaneView lane;
  MessageTickets::TicketSlot slot;
  std::size_t bytes = 0;
  bool captured = false;  // lives in a graph: every replay has its own end
  Stream posted_on;       // captured: the stream of its op, and the point behind it
  std::shared_ptr<Event> posted;
  std::shared_ptr<Memory> bounce;        // stands in for a buffer that kernels or peers cannot reach
  const void* source = nullptr;          // isend too large for the ring: bytes that its wait may push
  void* copy_back = nullptr;             // irecv through a bounce buffer: where the data finally goes
  std::shared_ptr<const Layout> layout;  // and by what, if not without gaps
  std::optional<Status> result;          // once the host has collected it
  std::size_t received = 0;
  std::shared_ptr<Event> last_wait;         // behind the newest wait on a stream
  std::shared_ptr<Event> taken;             // behind a stream's copy out of the bounce buffer
  std::size_t queue = 0;                    // its peer and lane, as one number
  std::uint64_t order = 0;                  // of a posted receive, among those of its engine; 0: not posted
  std::uint64_t owner = 0;                  // the engine that made it
  int any_tag = -1;                         // of a receive from any rank
  std::atomic<bool> from_any = false;       // it has no sender yet: its lane has no peer
  std::exception_ptr refused;               // from any rank, and no message can be received: for its waits to throw
  std::shared_ptr<MessageTickets> tickets;  // where the slot goes back
  std::shared_ptr<BouncePool> bounces;      // where the bounce buffer goes back, if there is one

  // How it ended, by the word of its ticket: pending until then.
  Status status() const {
    return static_cast<Status>(HostGroup::load_acquire(slot.ticket.status));  // pairs with settle()
  }

  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() {
    if (tickets == nullptr) return;
    if (from_any.load(std::memory_order_acquire)) MessageTickets::close(slot);  // no message was taken for it
    MessageTickets::Left left{slot, std::move(last_wait), nullptr, 0, std::nullopt, bytes};
    if (kind == OpKind::send) left.sent_on = lane;
    if (bounce != nullptr) {
      left.held_bytes = bounce->bytes();
      left.with_it = bounces->give_back_later(std::move(bounce));
    }
    tickets->give_back(std::move(left));
  }
};

}  // namespace onstream
