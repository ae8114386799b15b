// Refusal: why an algorithm cannot do a call. An enum, as every call asks; text_of() makes the words for people.
#pragma once

#include <string>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/select/machine.hpp"

namespace onstream::collective {

struct AlgorithmRow;

enum class Refusal {
  none,
  counts_differ,
  slots_too_small,
  two_shot_is_for_all_reduce,
  two_shot_element_size,
  half_slots_too_small,
  ll128_kinds,
  ll128_missing,
  ll128_slots_too_small,
  moves_nothing,
  engines_do_not_add,
  overwrites_itself,
  ring_kinds,
  tree_kinds,
  halving_kinds,
  no_stages,
  no_kernel_of_yours,
  other_order,
};

Refusal ll_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal two_shot_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal ll128_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal simple_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal copy_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal ring_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal tree_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal halving_refuses(const CollectiveCall& call, const MachineTraits& machine);
Refusal hierarchical_refuses(const CollectiveCall& call, const MachineTraits& machine);

std::string text_of(Refusal refusal, const AlgorithmRow& row, const CollectiveCall& call, const MachineTraits& machine);

}  // namespace onstream::collective
