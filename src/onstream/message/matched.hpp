// KeptMessage: the lock of a lane's receiving end, held in the name of the message that is next there. No call of the
// host receives on the lane meanwhile, so the message stays the next one.
#pragma once

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
    std::uint64_t kept = 0;            // as ThreadLock::keep() gave it; 0: no more
    std::weak_ptr<const void> memory;  // of `holder`
  };
  KeptMessage(const Probed& message, Lock lock, std::uint64_t engine)
      : Matched(message), owner(engine), lock_(std::move(lock)) {}
  ~KeptMessage() override {
    if (lock_.kept == 0 || guard_.in_child()) return;
    if (const auto memory = lock_.memory.lock()) const ThreadLock given_back(*lock_.holder, lock_.kept);
  }

  // The word that takes the lock over; 0: the message was received.
  std::uint64_t kept() const { return lock_.kept; }
  void let_go() { lock_.kept = 0; }

  const std::uint64_t owner;  // the engine that made it

 private:
  const ForkGuard guard_;
  Lock lock_;
};

}  // namespace onstream
