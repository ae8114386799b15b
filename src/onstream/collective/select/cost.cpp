#include "onstream/collective/select/cost.hpp"

#include <algorithm>
#include <cmath>

#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/call/stages.hpp"
#include "onstream/collective/protocol/view.hpp"
#include "onstream/collective/select/stages.hpp"

namespace onstream::collective {

namespace {

using path::Cost;

// The bytes that one rank sends to one other.
double message_bytes(const CollectiveCall& call) { return static_cast<double>(call.count * size_of(call.type)); }

const Cost& cost_of(Algorithm algorithm, const CollectiveCall& call, const MachineTraits& machine) {
  const path::Link link = path::link_of(machine.device, machine.crowded);
  return machine.paths->cost(call.kind, link, algorithm, message_bytes(call));
}

double second_trip(const Cost& cost, int peers) { return cost.trip_us + cost.trip_peer_us * peers; }
double base(const Cost& cost, const MachineTraits& machine) { return cost.base_us + cost.peer_us * (machine.size - 1); }

double line_base(const Cost& cost, double bytes) {
  constexpr double kOneRound = 8192;
  return cost.base_us + cost.round_us * std::min(1.0, bytes / kOneRound);
}

// So many times as long as the data are sums that are passed on.
double longer_sums(const CollectiveCall& call) {
  if (!has_op(call.kind)) return 1;
  return static_cast<double>(size_of(type_of_sums(call.type, call.op))) / static_cast<double>(size_of(call.type));
}

}  // namespace

double ll_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::ll, call, machine);
  const double bytes = message_bytes(call);
  const double moved = bytes * (machine.size - 1) * (has_op(call.kind) ? cost.sum_weight : 1);
  return line_base(cost, bytes) + moved / cost.bytes_per_us;
}

double two_shot_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::two_shot, call, machine);
  const double part = message_bytes(call) / machine.size;
  return line_base(cost, part) + second_trip(cost, machine.size - 1) +
         (cost.sum_weight + 1) * part * (machine.size - 1) / cost.bytes_per_us;
}

double ll128_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::ll128, call, machine);
  double part = message_bytes(call);
  double at_rest = cost.base_us;
  if (call.kind == OpKind::broadcast) part *= cost.broadcast_weight;
  if (ll128_in_two_shots(call, machine)) {
    part = 2 * part / machine.size;
    at_rest += second_trip(cost, machine.size - 1);
  }
  return at_rest + part * (machine.size - 1) / cost.bytes_per_us;
}

double simple_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::simple, call, machine);
  const double bytes = message_bytes(call);
  constexpr double kForwarding = 10;  // until an announced step is forwarded, and has arrived
  double moved = bytes * (machine.size - 1);
  if (call.kind == OpKind::all_reduce || call.kind == OpKind::reduce) moved = 2 * moved / machine.size;
  double at_rest = base(cost, machine);
  if (call.kind == OpKind::broadcast) {
    moved = bytes;
    if (machine.size > 2 && machine.device == DeviceKind::cuda) at_rest += kForwarding;
  }
  return at_rest + moved / cost.bytes_per_us;
}

// Copies go one after the other: the engines of a GPU share its links anyway.
double copy_us(const CollectiveCall& call, const MachineTraits& machine) {
  return cost_of(Algorithm::copy, call, machine).of_bytes(message_bytes(call) * (machine.size - 1));
}

double ring_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::ring, call, machine);
  const double bytes = message_bytes(call);
  double steps = machine.size - 1;
  double moved = bytes * steps * longer_sums(call);
  if (call.kind == OpKind::all_reduce) {
    moved = (moved + bytes * steps) / machine.size;
    steps *= 2;
  }
  if (call.kind == OpKind::broadcast) moved = bytes;
  return base(cost, machine) + steps * cost.step_us + moved / cost.bytes_per_us;
}

// The root moves as much as it has children; windows follow each other along the levels.
double tree_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::tree, call, machine);
  const double levels = std::ceil(std::log2(machine.size));
  const double back = call.kind == OpKind::all_reduce ? 1 : 0;
  const double moved = (longer_sums(call) + back) * message_bytes(call);
  return base(cost, machine) + levels * ((1 + back) * cost.step_us + moved / cost.bytes_per_us);
}

// log2 of the ranks steps each way; ranks beyond a power of two send their data to their mates and get it back.
double halving_us(const CollectiveCall& call, const MachineTraits& machine) {
  const Cost& cost = cost_of(Algorithm::halving_doubling, call, machine);
  const double core = std::exp2(std::floor(std::log2(machine.size)));
  const double beyond = core < machine.size ? 1 : 0;
  const double back = call.kind == OpKind::all_reduce ? 1 : 0;
  const double all = message_bytes(call) * (call.kind == OpKind::all_reduce ? 1 : machine.size);
  const double moved = (longer_sums(call) + back) * all * ((core - 1) / core + beyond);
  const double steps = (1 + back) * (std::log2(core) + beyond);
  return base(cost, machine) + steps * cost.step_us + moved / cost.bytes_per_us;
}

double hierarchical_us(const CollectiveCall& call, const MachineTraits& machine) {
  double sum_us = 0;
  if (const double longer = longer_sums(call); longer > 1) {  // to floats and back, a kernel each
    const double kernel_us = cost_of(Algorithm::ll, call, machine).base_us;
    const double bytes_per_us = cost_of(Algorithm::simple, call, machine).bytes_per_us;
    sum_us = 2 * (kernel_us + (1 + longer) * message_bytes(call) / bytes_per_us);
  }
  for (const Staged& stage : stages_on(call, machine)) sum_us += stage.row->cost_us(stage.call, stage.machine);
  return sum_us;
}

bool ll128_in_two_shots(const CollectiveCall& call, const MachineTraits& machine) {
  if (call.kind != OpKind::all_reduce || machine.size < 2) return false;
  const Cost& cost = cost_of(Algorithm::ll128, call, machine);
  const double bytes = message_bytes(call);
  const double peers = machine.size - 1;
  const double more_sent = bytes * peers * (machine.size - 2) / machine.size;  // in one shot
  return bytes > cost.one_shot_bytes || more_sent / cost.bytes_per_us > second_trip(cost, machine.size - 1);
}

std::size_t most_by_lines(const MachineTraits& machine, OpKind kind, int edges) {
  const path::Link link = path::link_of(machine.device, machine.crowded);
  const Cost& lines = machine.paths->cost(kind, link, Algorithm::ll, 0);
  const Cost& simple = machine.paths->cost(kind, link, Algorithm::simple, 0);
  const double ahead_us = simple.base_us + simple.peer_us * edges - lines.base_us - lines.round_us;
  const double longer = 1 / lines.bytes_per_us - 1 / simple.bytes_per_us;  // of a byte by lines
  constexpr double kAll = 1e15;
  if (ahead_us <= 0) return 0;
  if (longer * kAll <= ahead_us / edges) return static_cast<std::size_t>(kAll);
  return static_cast<std::size_t>(ahead_us / longer / edges);
}

}  // namespace onstream::collective
