// QueueLock: on the host device, ops of one lane and direction run one after the other, whichever threads and streams
// of the rank they come from. So each message goes to one receive, and whole; which thread gets which message is open,
// as with MPI_THREAD_MULTIPLE.
//
// The lock is a word of the rank's own memory that holds the thread of the running op: taking it costs one
// compare-and-swap. Waits for posted ops do not take it. Neither do a GPU's kernels: there the order of streams keeps
// ops apart.
#pragma once

#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/lane/many.hpp"
#include "onstream/lane/memory/lane.hpp"
#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

class QueueLock : public ThreadLock {
 public:
  // Waits while another op holds the lock. status() tells how that went (ThreadLock): misused, where this very thread
  // holds it, in an op that a signal handler has interrupted.
  explicit QueueLock(const Send& op) : ThreadLock(op.wait, op.lane.sending->busy, op.lane.sending->number) {}
  explicit QueueLock(const SendMany& op) : QueueLock(op.common) {}
  explicit QueueLock(const Receive& op) : ThreadLock(op.wait, op.lane.receiving->busy, op.lane.receiving->posted) {}
  explicit QueueLock(const Post& op) : ThreadLock(op.wait, op.lane.receiving->busy, op.lane.receiving->posted) {}
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
