// MessageTickets: where an op with a request says how it ended. A pool, since ops must not allocate.
//
// A ticket's message number and crew lie in device memory, its status and size in pinned memory where the host looks.
//
// A posted send that its receiver fetches is settled by its wait alone. Where the request was let go before that,
// a thread that takes tickets looks for it now and then: settle_unasked(). A forked child gives nothing back.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "onstream/base/fork_guard.hpp"
#include "onstream/device/memory/own_memory.hpp"
#include "onstream/lane/memory/lane.hpp"
#include "onstream/message.hpp"

namespace onstream {

class MessageTickets {
 public:
  struct TicketSlot {
    lane::Ticket ticket;
    lane::BlockTeam* crew = nullptr;
  };

  MessageTickets(std::shared_ptr<Device> device, std::shared_ptr<OwnMemory> own_memory);

  // A ticket, settled until it is opened. Grows the pool when it is empty, which allocates.
  TicketSlot take();
  // Before its op is enqueued: pending from now on. That of a captured op each replay opens itself (lane::Reopen), so
  // that a graph which is never launched leaves none open.
  static void open(const TicketSlot& slot);
  // Where its op could not be enqueued after all.
  static void close(const TicketSlot& slot);

  // The remains of a request that was let go.
  struct Left {
    TicketSlot slot;
    std::shared_ptr<Event> last_wait;       // null: none on a stream
    std::shared_ptr<const void> with_it;    // let go of with the ticket
    std::size_t held_bytes = 0;             // by that
    std::optional<lane::LaneView> sent_on;  // of a send
    std::size_t bytes = 0;                  // of its message
  };
  // Back into the pool, once its op has settled it and the last wait is done. A graph that it was in must be over.
  void give_back(Left left);

  // Whether enough sends were let go before their waits that it is time to look for them. One load.
  bool wants_look() const {
    return unasked_.load(std::memory_order_relaxed) >= enough_.load(std::memory_order_relaxed);
  }
  // `look` settles those that have ended and returns null, or enqueues that and returns the event behind it.
  using Look = std::function<std::shared_ptr<Event>(std::span<const Left* const>)>;
  void settle_unasked(const Look& look);

 private:
  void grow();
  void reclaim();
  static bool settled(const Left& left);
  static bool free_again(const Left& left);
  // How much there is to be gained from looking for it.
  static std::size_t weight(const Left& left);

  const ForkGuard guard_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<OwnMemory> own_memory_;
  std::mutex mutex_;
  std::vector<TicketSlot> free_;
  std::vector<Left> busy_;                // given back while an op or a wait on them was still on its way
  std::atomic<std::size_t> unasked_ = 0;  // weight of the sends among them since the last look
  std::atomic<std::size_t> enough_;       // ... that the next look is for
  std::vector<std::shared_ptr<void>> memory_;
};

// The ticket of a host call that ends before it returns, on its stack.
struct StackTicket {
  lane::Numbered numbered;
  std::uint64_t status = static_cast<std::uint64_t>(Status::pending);
  std::uint64_t received = 0;
  lane::Ticket ticket(const MessageOptions& options) {
    return {&numbered, &status, &received, 1 | (options.reported_by_wait ? lane::kOwed : 0)};
  }
};

}  // namespace onstream
