// Ops as onstream's: collectives by World::collective(), messages by World::exchange, a lone one by send and recv.
//
// A group is one operation on all streams that its calls name, as with NCCL: it begins behind the earlier work of each,
// and later work of each comes behind all of it. So all of it is enqueued on the first call's stream.
#include <algorithm>
#include <vector>

#include "call.hpp"
#include "onstream/base/error.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/device/kernel/ll.hpp"

namespace onstream::nccl {

CollectiveCall collective_of(const Call& op) {
  CollectiveCall call;
  call.kind = op.kind;
  call.input = op.input;
  call.output = op.output;
  call.count = op.count;
  call.type = op.type;
  call.op = op.op;
  call.root = op.other;
  call.factor = op.factor;
  call.int_factor = op.int_factor;
  return call;
}

namespace {

void run_one(ncclComm& comm, const Call& op) {
  if (op.is_message()) return exchange_messages(comm, {&op, 1}, op.stream);
  comm.collective->run(collective_of(op), op.stream);
}

// The streams of a group of one communicator's calls: the first, and the others.
class Streams {
 public:
  Streams(ncclComm& comm, std::span<const Call> ops) : device_(comm.world->device()), main_(ops.front().stream) {
    for (const Call& op : ops) {
      if (op.stream != main_ && std::ranges::find(others_, op.stream) == others_.end()) others_.push_back(op.stream);
    }
    const bool captured = !others_.empty() && device_.capturing(main_);
    for (const Stream other : others_) {
      if (device_.capturing(other) == captured) continue;
      refuse(ncclInvalidUsage, "the group has calls on a stream that captures and on one that does not");
    }
  }
  void begin() {
    for (const Stream other : others_) device_.wait(main_, device_.record(other));
  }
  void end() {
    if (others_.empty()) return;
    const auto all = device_.record(main_);
    for (const Stream other : others_) device_.wait(other, all);
  }
  Stream main() const { return main_; }

 private:
  Device& device_;
  Stream main_;
  std::vector<Stream> others_;
};

// The messages among them. Valid until this thread's next call.
std::span<const Call> messages_of(std::span<const Call> ops) {
  if (std::ranges::all_of(ops, &Call::is_message)) return ops;
  static thread_local std::vector<Call> together;
  together.clear();
  std::ranges::copy_if(ops, std::back_inserter(together), &Call::is_message);
  return together;
}

void check_many(ncclComm& comm, std::span<const Call> ops) {
  static_cast<void>(Streams(comm, ops));
  for (const Call& op : ops) {
    if (!op.is_message()) comm.collective->check(collective_of(op));
  }
  const std::span<const Call> messages = messages_of(ops);
  if (!messages.empty()) check_messages(comm, messages);
}

void run_many(ncclComm& comm, std::span<const Call> ops) {
  Streams streams(comm, ops);
  streams.begin();
  for (const Call& op : ops) {
    if (!op.is_message()) comm.collective->run(collective_of(op), streams.main());
  }
  const std::span<const Call> messages = messages_of(ops);
  if (!messages.empty()) exchange_messages(comm, messages, streams.main());
  streams.end();
}

}  // namespace

void check(std::span<const Call> ops) {
  ncclComm& comm = *ops.front().comm;
  inside_of(comm, [&] { check_many(comm, ops); });
}

void run(const Call& op) {
  inside_of(*op.comm, [&] { run_one(*op.comm, op); });
}

void run(std::span<const Call> ops) {
  ncclComm& comm = *ops.front().comm;
  inside_of(comm, [&] { run_many(comm, ops); });
}

double predicted_us(std::span<const Call> ops) {
  double total_us = 0;
  for (const Call& op : ops) {
    if (op.is_message()) continue;
    const Inside inside(*op.comm);
    const World& world = *op.comm->world;
    const auto ranks = static_cast<std::size_t>(world.size());
    const collective::MachineTraits machine = collective::machine_of(*world.fabric(), world.rank(), ranks);
    const CollectiveCall call = collective_of(op);
    total_us += collective::choose(call, machine).cost_us(call, machine);
  }
  return total_us;
}

}  // namespace onstream::nccl
