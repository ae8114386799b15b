// One op as a call asks for it, in NCCL's terms no more: what a group keeps until it ends, and what is run at once
// outside of one. Plain data.
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
// Throws what run() would refuse of a group's ops of one communicator. Enqueues nothing.
void check(std::span<const Call> ops);
// Enqueues one op that stands alone.
void run(const Call& op);
// Enqueues a group's ops of one communicator, as NCCL does: the collectives in the order of the calls, then the
// messages as one exchange. So a rank may have in a group what another has in two calls, a collective and a message
// behind it.
void run(std::span<const Call> ops);
// Microseconds that the collectives among them are predicted to take, one after the other; messages have no prediction.
double predicted_us(std::span<const Call> ops);

// Messages of one communicator that start together: none waits for another, in whatever order they were asked for. What
// is refused of them is refused before any has started.
void exchange_messages(ncclComm& comm, std::span<const Call> messages, Stream stream);
void check_messages(ncclComm& comm, std::span<const Call> messages);

}  // namespace onstream::nccl
