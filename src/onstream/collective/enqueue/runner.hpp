// Runner: puts collectives onto streams for its owner, the Collective of a team or a Neighbourhood. There are three
// ways: eager or captured, with the host waiting, and by the launches of a plan.
//
// Those of one order run one after the other, on whichever streams they were enqueued; those of different orders may
// run at once. The destructors of this and of its owner do not wait for enqueued work: the memory that it uses is
// released behind it. The world's end waits for it, as for all work of the world.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/enqueue/call_cache.hpp"
#include "onstream/collective/resource/block_budget.hpp"
#include "onstream/device/lifetime/last_epoch.hpp"
#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/plan/op/planned_call.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

struct CompiledCall;

struct Order {
  std::mutex mutex;                    // held while a collective is enqueued, or runs in its caller's thread
  std::shared_ptr<const void> ground;  // the memory that a captured collective needs
  std::shared_ptr<BlockBudget::BudgetShare> budget;  // told of the kernels that graphs keep
  std::shared_ptr<Event> newest;                     // behind the newest eager collective
  void* last_stream = nullptr;                       // where that was enqueued
  LastEpoch last_epoch;                              // of the newest of all, captured or not
};

// The work of a call that equals an earlier one. It counts as a call of the order, which nobody else uses meanwhile.
struct CachedCall {
  Order* order = nullptr;
  std::unique_lock<std::mutex> held;
  const CompiledCall* work = nullptr;  // null: there was no such call

  explicit operator bool() const { return work != nullptr; }
};

class Runner {
 public:
  explicit Runner(std::shared_ptr<Fabric> fabric);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Looks at the memory there. Throws invalid_argument for a buffer that no collective of this call can take.
  Looked check_buffer(const CollectiveCall& call, const char* what, const void* address, std::size_t bytes) const;

  // Looks for the call among the newest of the order, whose calls have as many blocks as `budget` has for them; null:
  // they have none.
  CachedCall find_again(Order& order, CallCache& recent, BlockBudget::BudgetShare* budget,
                        const CollectiveCall& call) const;

  // Each takes the order's mutex; empty work takes no place in the order.
  void enqueue(Order& order, Stream stream, const CompiledCall& work);
  // Runs on the host device in this thread, where nothing of the order is under way. Throws the story if the world
  // failed meanwhile, as Fabric::check_waited().
  void run_and_wait(Order& order, const CompiledCall& work);
  // The same for a caller that holds that mutex already, with work that is not empty; `held` is let go of before the
  // wait for a stream.
  void enqueue_next(Order& order, Stream stream, const CompiledCall& work);
  void run_next(Order& order, std::unique_lock<std::mutex> held, const CompiledCall& work);
  // The work as a part of a plan, whose launches enqueue it. `home` is the owner of this runner and the order.
  plan::PreparedCall for_plan(std::shared_ptr<const void> home, Order& order, CompiledCall work, PlanOp row);
  // Releases `used`, which the owner no longer needs, once the work so far is over; at once if it is. Does not block.
  void let_go(std::shared_ptr<const void> used) noexcept;

 private:
  bool runs_here(const Order& order, const CompiledCall& work) const;
  void note(Order& order, Stream stream, const std::shared_ptr<const void>& kept);
  void note_captured(const Order& order, Stream stream, const CompiledCall& work);

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  StreamTracker uses_;
  std::mutex kept_mutex_;
  std::vector<std::pair<std::shared_ptr<Event>, std::shared_ptr<const void>>> kept_;  // by eager ones under way
};

}  // namespace onstream::collective
