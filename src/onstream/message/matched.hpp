// KeptMessage: the lock of a lane's receiving end, held in the name of the message that is next there. No call of the
// host receives on the lane meanwhile, so the message stays the next one.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "onstream/base/fork_guard.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/message.hpp"

namespace onstream {

class KeptMessage final : public Matched {
 public:
  struct Lock {
    std::uint64_t* holder = nullptr;
    std::uint64_t kept = 0;            // as ThreadLock::keep() gave it
    std::weak_ptr<const void> memory;  // of `holder`
  };
  KeptMessage(const Probed& message, Lock lock, std::uint64_t engine)
      : Matched(message), owner(engine), lock_(std::move(lock)), kept_(lock_.kept) {}
  ~KeptMessage() override {
    const std::uint64_t kept = take();
    if (kept == 0 || guard_.in_child()) return;
    if (const auto memory = lock_.memory.lock()) const ThreadLock given_back(*lock_.holder, kept);
  }

  // The word that takes the lock over, for one call alone; 0: the message was received, or a call is at it.
  std::uint64_t take() { return kept_.exchange(0, std::memory_order_acq_rel); }
  void put_back(std::uint64_t kept) { kept_.store(kept, std::memory_order_release); }

  const std::uint64_t owner;  // the engine that made it

 private:
  const ForkGuard guard_;
  const Lock lock_;
  std::atomic<std::uint64_t> kept_;  // 0: no more
};

}  // namespace onstream
