// QueueLock: on the host device, ops of one lane and direction run one after the other, whichever threads and streams
// of the rank they come from. So each message goes to one receive, and whole; which thread gets which message is open,
// as with MPI_THREAD_MULTIPLE.
//
// The lock is a word of the rank's own memory that holds the thread of the running op: taking it costs one
// compare-and-swap. Waits for posted ops do not take it. Neither do a GPU's kernels: there the order of streams keeps
// ops apart.
#pragma once

#include <pthread.h>

#include <cstring>

#include "onstream/lane/many.hpp"
#include "onstream/lane/memory/lane.hpp"
#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

class QueueLock {
 public:
  // Waits while another op holds the lock. status() is then ok, or tells why this op does not hold it: timeout (no op
  // of the lane ended for twice the deadline, so that the op that holds it passes its own first), aborted, or misused:
  // this very thread holds it, in an op that a signal handler has interrupted.
  explicit QueueLock(const Send& op) : QueueLock(op.wait, op.lane.sending->busy, op.lane.sending->number) {}
  explicit QueueLock(const SendMany& op) : QueueLock(op.common) {}
  explicit QueueLock(const Receive& op) : QueueLock(op.wait, op.lane.receiving->busy, op.lane.receiving->posted) {}
  explicit QueueLock(const Post& op) : QueueLock(op.wait, op.lane.receiving->busy, op.lane.receiving->posted) {}
  ~QueueLock() { unlock(); }
  QueueLock(const QueueLock&) = delete;
  QueueLock& operator=(const QueueLock&) = delete;

  // Whether this thread holds the lock whose word that is.
  static bool is_mine(const std::uint64_t& holder) { return HostGroup::load_relaxed(&holder) == this_thread(); }

  Status status() const { return status_; }
  bool held() const { return status_ == Status::ok; }
  // The next op may run from now on.
  void unlock() {
    if (held()) HostGroup::store_release(holder_, 0);  // pairs with compare_swap
    status_ = Status::pending;
  }

 private:
  QueueLock(const WaitView& wait, std::uint64_t& holder, const std::uint64_t& ended) : holder_(&holder) {
    const std::uint64_t me = this_thread();
    if (HostGroup::compare_swap(holder_, 0, me) != 0) [[unlikely]]
      status_ = queue_up(wait, me, ended);
  }

  static std::uint64_t this_thread() {
    const pthread_t self = pthread_self();
    std::uint64_t word = 0;
    static_assert(sizeof self <= sizeof word);
    std::memcpy(&word, &self, sizeof self);
    return word;
  }

  // `ended` counts the ops of the lane: while it changes, those before this op come to their ends.
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

// How an op ends that did not get the lock.
inline void end_unlocked(const Send& op, Status status) {
  report(HostGroup(0, 1), op.wait, status, fault_of(OpKind::send, op.lane, op.bytes, 0));
  settle(HostGroup(0, 1), op.ticket, status, 0);
}
inline void end_unlocked(const SendMany& op, Status status) {
  Send one = op.common;
  for (int i = 0; i < op.count; ++i) {
    one.bytes = op.items[i].bytes;
    one.ticket = op.items[i].ticket;
    end_unlocked(one, status);
  }
}
template <class Receiver>
void end_unlocked(const Receiver& op, Status status) {
  report(HostGroup(0, 1), op.wait, status, fault_of(OpKind::recv, op.lane, op.capacity, 0));
  settle(HostGroup(0, 1), op.ticket, status, 0);
}

}  // namespace onstream::lane
