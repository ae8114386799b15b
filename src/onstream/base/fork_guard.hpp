// Keeps a forked child from its parent's worlds. The child has a copy of their memory and none of their threads, so it
// can neither use them nor take them apart: locks may be held, and condition variables waited at, by threads that it
// lacks, and it must not end its parent's exchanges with peers.
//
// Only this file handles forks. A ForkGuard is a member of each object that must not be used in a child (check()) or
// must not act there (in_child()); a ParentsOwn is a unique_ptr whose object a child lets go of without destroying it.
// Neither calls the system: the C library tells of each fork(). A child made by other means (clone) is not known.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace onstream {

class ForkGuard {
 public:
  ForkGuard();  // of this process

  // Whether this process is a forked child of the one that this object was made in. One load.
  bool in_child() const { return forks_.load(std::memory_order_relaxed) != made_after_; }
  // Throws closed in a child: "a world" was made in process ..., and so on.
  void check(const char* what) const {
    if (in_child()) refuse(what);
  }

 private:
  [[noreturn]] void refuse(const char* what) const;

  inline static constinit std::atomic<std::uint64_t> forks_{0};  // between the first process and this one
  std::uint64_t made_after_;
  pid_t made_in_;
};

// A deleter.
class LeftToParent {
 public:
  template <class Thing>
  void operator()(Thing* thing) const {
    if (!guard_.in_child()) delete thing;
  }

 private:
  ForkGuard guard_;
};

template <class Thing>
using ParentsOwn = std::unique_ptr<Thing, LeftToParent>;

}  // namespace onstream
