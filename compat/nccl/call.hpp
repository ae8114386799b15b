// One op as a call asks for it, no longer in NCCL's terms: a group keeps it until the group ends; outside of one it
// runs at once. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm.hpp"
#include "onstream/collective/call/call.hpp"

namespace onstream::nccl {

struct Call {
  ncclComm* comm = nullptr;
  Stream stream;
  OpKind kind = OpKind::none;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // as CollectiveCall has it; of a message, its elements
  ElementType type = ElementType::uint8;
  ReduceOp op = ReduceOp::sum;
  int other = 0;  // the root, or the peer of a message
  double factor = 1;
  std::int64_t int_factor = 1;

  bool is_message() const { return kind == OpKind::send || kind == OpKind::recv; }
  std::size_t bytes() const { return count * size_of(type); }
};

CollectiveCall collective_of(const Call& op);
// Throws the refusal that run() would for a group's ops of one communicator. Enqueues nothing.
void check(std::span<const Call> ops);
// Enqueues one op that stands alone.
void run(const Call& op);
// Enqueues a group's ops of one communicator, as NCCL does: the collectives in the order of the calls, then the
// messages as one exchange. So one rank may have a collective and a message in a group, and another the same in two
// calls, the message behind the collective.
void run(std::span<const Call> ops);
// Microseconds that the collectives among them are predicted to take, one after the other; messages have no prediction.
double predicted_us(std::span<const Call> ops);

// Messages of one communicator that start together: none waits for another, in any order of the calls. Refusals come
// before any has started.
void exchange_messages(ncclComm& comm, std::span<const Call> messages, Stream stream);
void check_messages(ncclComm& comm, std::span<const Call> messages);

}  // namespace onstream::nccl
