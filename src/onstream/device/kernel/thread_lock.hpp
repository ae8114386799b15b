// ThreadLock: a word that holds the thread inside, for calls of the host that wait while they hold it.
//
// Unlike a mutex it waits as ops do: bounded, and until the world fails or the thread's interrupt hook says so. A call
// of the thread that holds it already, as from a signal handler, is told so at once. A call may end and keep() the
// lock: another one takes it over, in any thread, or gives it back.
//
// A thread inside is alive, so its pthread_t names it. One that has kept a lock may be gone, and a later thread have
// its pthread_t: a kept word has a number of the thread that no other thread gets, and one of the lock's keeping.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "onstream/device/host/group.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream {

// A thread that has kept locks, and the words that it kept them under.
struct LockKeeper {
  static constexpr std::uint64_t kKept = 1;   // not in a pthread_t, which is the address of an aligned object
  static constexpr unsigned kCountBits = 36;  // of a word: above them the thread, in them its keepings and kKept
  std::uint64_t number = 0;                   // from 1 on; never reused
  std::uint64_t count = 0;

  std::uint64_t next_word() {
    static constinit std::atomic<std::uint64_t> last = 0;
    if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;  // orders nothing
    constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
    return number << kCountBits | (++count << 1 & kCountMask) | kKept;
  }
  bool made(std::uint64_t word) const { return word >> kCountBits == number; }
};
inline constinit thread_local LockKeeper lock_keeper;

class ThreadLock {
 public:
  // `ended` counts the calls that have come to their ends. status() is then ok, or tells why this one does not hold the
  // lock: timeout (none ended for twice the deadline, so that the one inside passes its own first), aborted, or
  // misused: this very thread holds it.
  ThreadLock(const WaitView& wait, std::uint64_t& holder, const std::uint64_t& ended) : holder_(&holder) {
    const std::uint64_t me = this_thread();
    if (HostGroup::compare_swap(holder_, 0, me) != 0) [[unlikely]]
      status_ = queue_up(wait, me, ended);
  }
  // Waits for nothing: status() is pending where another call holds it.
  explicit ThreadLock(std::uint64_t& holder) : ThreadLock(holder, 0) {}
  // Takes over the lock that a call kept under this word. status() is pending if no call has.
  ThreadLock(std::uint64_t& holder, std::uint64_t kept) : holder_(&holder) {
    const bool free = HostGroup::load_relaxed(holder_) == kept;
    if (!free || HostGroup::compare_swap(holder_, kept, this_thread()) != kept) status_ = Status::pending;
  }
  ~ThreadLock() { unlock(); }
  ThreadLock(const ThreadLock&) = delete;
  ThreadLock& operator=(const ThreadLock&) = delete;

  // Whether this thread holds the lock whose word that is, or has kept it.
  static bool is_mine(const std::uint64_t& holder) {
    const std::uint64_t word = HostGroup::load_relaxed(&holder);
    return (word & LockKeeper::kKept) == 0 ? word == this_thread() : lock_keeper.made(word);
  }
  static bool is_kept(const std::uint64_t& holder) {
    return (HostGroup::load_relaxed(&holder) & LockKeeper::kKept) != 0;
  }

  Status status() const { return status_; }
  bool held() const { return status_ == Status::ok; }
  // The next call may run from now on.
  void unlock() {
    if (held()) HostGroup::store_release(holder_, 0);  // pairs with compare_swap
    status_ = Status::pending;
  }

  // Ends this call and keeps the lock. Returns the word to take it over by, which no other keeping has.
  std::uint64_t keep() {
    const std::uint64_t word = lock_keeper.next_word();
    HostGroup::store_release(holder_, word);  // pairs with compare_swap
    status_ = Status::pending;
    return word;
  }

 private:
  static std::uint64_t this_thread() {
    const pthread_t self = pthread_self();
    std::uint64_t word = 0;
    static_assert(sizeof self <= sizeof word);
    std::memcpy(&word, &self, sizeof self);
    return word;
  }

  // While `ended` changes, those before this call come to their ends.
  Status queue_up(const WaitView& wait, std::uint64_t me, const std::uint64_t& ended) const {
    if (is_mine(*holder_)) return Status::misused;
    WaitView patient = wait;
    patient.timeout_ns *= 2;
    bool mine = false;
    Status status = Status::ok;
    while (!mine && status == Status::ok) {
      const std::uint64_t before = HostGroup::load_relaxed(&ended);
      status = wait_for_self(HostGroup(0, 1), patient, [&] {
        mine = HostGroup::load_relaxed(holder_) == 0 && HostGroup::compare_swap(holder_, 0, me) == 0;
        return mine || HostGroup::load_relaxed(&ended) != before;
      });
    }
    return status;
  }

  std::uint64_t* holder_;
  Status status_ = Status::ok;
};

}  // namespace onstream
