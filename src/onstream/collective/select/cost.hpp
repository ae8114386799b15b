// The predicted time of a collective by each algorithm, in microseconds.
//
// A time at rest plus bytes over a bandwidth, with the coefficients of the world's table of paths (path/table.hpp).
// Where a call takes one algorithm rather than another, only the order of these times matters.
#pragma once

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/select/machine.hpp"

namespace onstream::collective {

double ll_us(const CollectiveCall& call, const MachineTraits& machine);
double two_shot_us(const CollectiveCall& call, const MachineTraits& machine);
double ll128_us(const CollectiveCall& call, const MachineTraits& machine);
double simple_us(const CollectiveCall& call, const MachineTraits& machine);
double copy_us(const CollectiveCall& call, const MachineTraits& machine);
double ring_us(const CollectiveCall& call, const MachineTraits& machine);
double tree_us(const CollectiveCall& call, const MachineTraits& machine);
double halving_us(const CollectiveCall& call, const MachineTraits& machine);
double hierarchical_us(const CollectiveCall& call, const MachineTraits& machine);

// Whether a call by LL128 lines goes in two shots: an all_reduce so large that a second trip takes less time than each
// rank's extra sending and adding if every rank added up all of it (docs/decisions/0011).
bool ll128_in_two_shots(const CollectiveCall& call, const MachineTraits& machine);

// Up to how many bytes along each of so many edges lines are predicted to be faster than buffer to buffer.
std::size_t most_by_lines(const MachineTraits& machine, OpKind kind, int edges);

}  // namespace onstream::collective
