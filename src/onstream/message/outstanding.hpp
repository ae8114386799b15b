// Outstanding: the posted receives of each lane that no wait covers yet, as the host counts them.
//
// A lane has room for tag_receives of them in device memory. One too many would end the world when its kernel finds
// out, so the call that asks for it is refused instead. A wait for a receive covers it and all before it, as a lane
// completes in order. Where that wait is only enqueued yet, perhaps on another stream, and its room is needed, the op
// that needs it comes after it. Replays of a graph are not counted here. Thread-safe; a lane without posted receives
// costs one load.
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

  // Whether the next op of the queue can be put behind others on its stream.
  enum class Next { on_stream, at_once };

  // The next place among the receives of all queues. add() gives it to a request that is not captured.
  void number(Request& request) { request.order = next_order_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Before `request` is posted in its queue: numbers it and opens its ticket. Returns the event that its stream has to
  // wait for first, or null. Throws invalid_argument when there is no room.
  std::shared_ptr<Event> add(const std::shared_ptr<Request>& request, Next next) {
    Queue& queue = queues_.at(request->queue);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Event> before = make_room(queue, "irecv", request->lane.peer, request->lane.lane, next);
    if (before != nullptr) queue.uncover_first();
    number(*request);
    MessageTickets::open(request->slot);
    queue.open.push_back(request);
    queue.note();
    return before;
  }

  // The request's wait, or test() that found it settled, has covered it; `behind`: the point behind the wait, if that
  // is on a stream.
  void cover(const Request& request, const std::shared_ptr<Event>& behind) {
    if (request.kind != OpKind::recv || request.captured) return;
    Queue& queue = queues_.at(request.queue);
    if (queue.count.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex_);
    Covered now{request.order, 0, behind};
    for (; !queue.open.empty() && queue.open.front()->order <= request.order; ++now.count) queue.open.pop_front();
    if (behind == nullptr) {
      while (!queue.covered.empty() && queue.covered.front().last <= request.order) queue.uncover_first();
    } else if (now.count > 0) {
      queue.covered_count += now.count;
      queue.covered.push_back(std::move(now));
    }
    queue.note();
  }

  // Whether there is none in the queue.
  bool none(std::size_t index) const { return queues_.at(index).count.load(std::memory_order_relaxed) == 0; }

  // Before an ordered receive of the queue: it takes a place behind those posted before it, and completes them. Returns
  // and throws as add().
  std::shared_ptr<Event> pass(std::size_t index, int peer, int lane, Next next) {
    Queue& queue = queues_.at(index);
    if (queue.count.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Event> before = make_room(queue, "recv", peer, lane, next);
    queue.open.clear();
    queue.uncover_all();
    queue.note();
    return before;
  }

  // Whether there is room for one more, posted at once.
  bool has_room(std::size_t index) {
    Queue& queue = queues_.at(index);
    if (queue.count.load(std::memory_order_relaxed) < limit_) return true;
    const std::lock_guard lock(mutex_);
    return clear_out(queue, 1);
  }

  // Throws if there will be no room for so many that are posted on streams.
  void check(const char* what, std::size_t index, int peer, int lane, std::size_t more) {
    Queue& queue = queues_.at(index);
    if (queue.count.load(std::memory_order_relaxed) + more <= limit_) return;
    const std::lock_guard lock(mutex_);
    (void)make_room(queue, what, peer, lane, Next::on_stream, more);
  }

 private:
  // Receives that a wait on a stream completes.
  struct Covered {
    std::uint64_t last;  // by their order
    std::size_t count;
    std::shared_ptr<Event> behind;
  };
  struct Queue {
    std::deque<std::shared_ptr<Request>> open;  // oldest first, as all that follows
    std::deque<Covered> covered;                // before all that are open
    std::size_t covered_count = 0;
    std::atomic<std::size_t> count = 0;  // posted(), to be read without the lock

    std::size_t posted() const { return open.size() + covered_count; }
    void uncover_first() {
      covered_count -= covered.front().count;
      covered.pop_front();
    }
    void uncover_all() {
      covered_count = 0;
      covered.clear();
    }
    void note() { count.store(posted(), std::memory_order_relaxed); }
  };

  // Forgets receives that have come. Whether there is room for `more` then.
  bool clear_out(Queue& queue, std::size_t more) const {
    if (queue.posted() + more <= limit_) return true;
    // Some may have come without a wait of their own: a wait for a later one, or test(), completes earlier ones too.
    const auto is_pending = [](const auto& one) { return one->status() == Status::pending; };
    const auto first_open = std::ranges::find_if(queue.open, is_pending);
    if (first_open != queue.open.begin()) queue.uncover_all();
    queue.open.erase(queue.open.begin(), first_open);
    while (!queue.covered.empty() && ended(*queue.covered.front().behind)) queue.uncover_first();
    queue.note();
    return queue.posted() + more <= limit_;
  }

  // Makes room for `more`. Returns null, or the event of the first of `covered`, behind which there is room for one.
  std::shared_ptr<Event> make_room(Queue& queue, const char* what, int peer, int lane, Next next,
                                   std::size_t more = 1) const {
    if (clear_out(queue, more)) return nullptr;
    const bool will_have_room = !queue.covered.empty() && queue.open.size() + more <= limit_;
    if (next == Next::on_stream && will_have_room) return queue.covered.front().behind;
    const std::string asked = more == 1 ? "" : concat(more, " more of ");
    fail(ErrorCode::invalid_argument, what, ": ", asked, queue.posted(), " receives from rank ", peer,
         " are posted with tag ", lane, " already and ",
         queue.covered.empty() ? "none of them is waited for; wait for some first"
                               : "the waits for them, on streams, have not ended; wait for those first",
         ", use several tags, or raise tag_receives (", limit_, ")");
  }

  std::mutex mutex_;
  std::vector<Queue> queues_;
  std::size_t limit_;
  std::atomic<std::uint64_t> next_order_ = 0;
};

}  // namespace onstream
