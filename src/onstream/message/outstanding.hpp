// Outstanding: the posted receives of each lane that no wait covers yet, as the host counts them.
//
// A lane has room for lane_receives of them in device memory. One too many would end the world when its kernel finds
// out, so the call that asks for it is refused instead. A wait for a receive covers it and all before it, as a lane
// completes in order, also a wait that is only enqueued yet: later ops of its stream come after it. Replays of a graph
// are not counted here. Thread-safe; a lane without posted receives costs one load.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/message/request.hpp"

namespace onstream {

class Outstanding {
 public:
  Outstanding(std::size_t queues, std::size_t limit) : queues_(queues), limit_(limit) {}

  // Before `request` is posted in its queue: opens its ticket. Throws invalid_argument when there is no room.
  void add(const std::shared_ptr<Request>& request) {
    Queue& queue = queues_.at(request->queue);
    const std::lock_guard lock(mutex_);
    make_room(queue, "irecv", request->lane.peer, request->lane.lane);
    Tickets::open(request->slot);
    queue.open.push_back(request);
    queue.count.store(queue.open.size(), std::memory_order_relaxed);
  }

  // The request's wait, or test() that found it settled, has covered it.
  void cover(const Request& request) {
    if (request.kind != OpKind::recv || request.captured) return;
    Queue& queue = queues_.at(request.queue);
    if (queue.count.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex_);
    while (!queue.open.empty() && queue.open.front()->order <= request.order) queue.open.pop_front();
    queue.count.store(queue.open.size(), std::memory_order_relaxed);
  }

  // Whether there is none in the queue.
  bool none(std::size_t index) const { return queues_.at(index).count.load(std::memory_order_relaxed) == 0; }

  // Before an ordered receive of the queue: it takes a place behind those posted before it, and completes them.
  void pass(std::size_t index, int peer, int lane) {
    Queue& queue = queues_.at(index);
    if (queue.count.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex_);
    make_room(queue, "recv", peer, lane);
    queue.open.clear();
    queue.count.store(0, std::memory_order_relaxed);
  }

 private:
  struct Queue {
    std::deque<std::shared_ptr<Request>> open;  // oldest first
    std::atomic<std::size_t> count = 0;
  };

  void make_room(Queue& queue, const char* what, int peer, int lane) const {
    if (queue.open.size() < limit_) return;
    // Some may have come without a wait of their own: a wait for a later one, or test(), completes earlier ones too.
    const auto first_open = std::ranges::find_if(queue.open, [](const auto& one) {
      return HostGroup::load_acquire(one->slot.ticket.status) == static_cast<std::uint64_t>(Status::pending);
    });
    queue.open.erase(queue.open.begin(), first_open);
    require(queue.open.size() < limit_, what, ": ", limit_, " receives from rank ", peer, " are posted on lane ", lane,
            " already and none of them is waited for; wait for some first, use several lanes, or raise lane_receives (",
            limit_, ")");
  }

  std::mutex mutex_;
  std::vector<Queue> queues_;
  std::size_t limit_;
};

}  // namespace onstream
