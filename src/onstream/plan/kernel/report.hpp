// The counting and reporting that both kernels of a plan (body.hpp, brief.hpp) share.
#pragma once

#include "onstream/plan/kernel/view.hpp"

namespace onstream::plan {

// The flag of a line (device/kernel/ll.hpp) is the low half of the epoch. A slot is written whole at every use, so
// before that it holds the flag of two launches ago.
ONSTREAM_BODY std::uint32_t flag_of(std::uint64_t epoch) { return static_cast<std::uint32_t>(epoch); }

// Counters only grow; the difference survives a wrap.
ONSTREAM_BODY bool reached(std::uint64_t counter, std::uint64_t target) {
  return static_cast<std::int64_t>(counter - target) >= 0;
}

// Reports that a wait of `task` failed: nothing is moved any more. The op is named once.
template <Group G>
ONSTREAM_CALL void report_wait(const G& group, PlanState* state, OpState* ops, const Task& task, std::uint64_t plan,
                               const WaitView& wait, Status status, std::uint64_t epoch) {
  group.store_relaxed(&state->failed, 1);
  if (group.exchange(&ops[task.op].reported, 1) != 0) return;
  Fault fault;
  fault.op = static_cast<std::uint64_t>(task.kind);
  fault.peer = static_cast<std::uint64_t>(task.peer);
  fault.tag = task.op;
  fault.bytes = task.bytes;
  fault.extra = epoch;
  fault.plan = plan;
  report(group, wait, status, fault);
}

// Two launches of one plan ran at once: they share its slots and counters, so neither can be trusted.
template <Group G>
ONSTREAM_CALL void report_overlap(const G& group, PlanState* state, std::uint64_t plan, const WaitView& wait,
                                  std::uint64_t epoch) {
  group.store_relaxed(&state->failed, 1);
  Fault fault;
  fault.op = static_cast<std::uint64_t>(OpKind::plan);
  fault.peer = ~std::uint64_t{0};
  fault.tag = ~std::uint64_t{0};  // of no op
  fault.extra = epoch;
  fault.plan = plan;
  report(group, wait, Status::misused, fault);
}

}  // namespace onstream::plan
