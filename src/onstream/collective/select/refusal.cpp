#include "onstream/collective/select/refusal.hpp"

#include "onstream/base/text.hpp"
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/call/stages.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/protocol/view.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/cost.hpp"

namespace onstream::collective {

namespace {

std::size_t bytes_of(const CollectiveCall& call) { return call.count * size_of(call.type); }

// The bytes to each rank by LL lines: elements of a functor's own size lie in packs.
std::size_t line_bytes(const CollectiveCall& call) {
  const std::size_t bytes = bytes_of(call);
  if (call.user_kernels == nullptr) return bytes;
  const auto data = static_cast<std::size_t>(call.user_kernels->line_data);
  return (bytes + data - 1) / data * static_cast<std::size_t>(call.user_kernels->line_pack);
}

// By LL lines, in two shots.
std::size_t two_shot_part(const CollectiveCall& call, const MachineTraits& machine) {
  return (bytes_of(call) / static_cast<std::size_t>(machine.size) / 16 + 1) * 16;
}

struct SlotPart {
  std::size_t bytes;
  std::size_t room;  // of a slot
};
SlotPart ll128_part(const CollectiveCall& call, const MachineTraits& machine) {
  if (!ll128_in_two_shots(call, machine)) return {bytes_of(call), machine.ll128_bytes};
  return {stripes_of_part(bytes_of(call), static_cast<std::size_t>(machine.size)) * kStripeData,
          machine.ll128_bytes / 2};
}

bool is_one_of(OpKind kind, std::initializer_list<OpKind> kinds) {
  for (const OpKind one : kinds) {
    if (kind == one) return true;
  }
  return false;
}

}  // namespace

Refusal ll_refuses(const CollectiveCall& call, const MachineTraits& machine) {
  if (is_v(call.kind)) return Refusal::counts_differ;
  return line_bytes(call) <= machine.slot_bytes ? Refusal::none : Refusal::slots_too_small;
}

Refusal two_shot_refuses(const CollectiveCall& call, const MachineTraits& machine) {
  if (call.kind != OpKind::all_reduce) return Refusal::two_shot_is_for_all_reduce;
  if (call.user_kernels != nullptr && call.user_kernels->two_shot.bytes == 0) return Refusal::two_shot_element_size;
  return two_shot_part(call, machine) <= machine.slot_bytes / 2 ? Refusal::none : Refusal::half_slots_too_small;
}

Refusal ll128_refuses(const CollectiveCall& call, const MachineTraits& machine) {
  if (!is_one_of(call.kind, {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::all_to_all,
                             OpKind::broadcast})) {
    return Refusal::ll128_kinds;
  }
  if (machine.ll128_bytes == 0) return Refusal::ll128_missing;
  const SlotPart part = ll128_part(call, machine);
  return part.bytes <= part.room ? Refusal::none : Refusal::ll128_slots_too_small;
}

Refusal simple_refuses(const CollectiveCall& call, const MachineTraits&) {
  return call.kind == OpKind::barrier ? Refusal::moves_nothing : Refusal::none;
}

Refusal copy_refuses(const CollectiveCall& call, const MachineTraits&) {
  if (call.kind == OpKind::barrier) return Refusal::moves_nothing;
  if (has_op(call.kind)) return Refusal::engines_do_not_add;
  return overwrites_itself(call) ? Refusal::overwrites_itself : Refusal::none;
}

Refusal ring_refuses(const CollectiveCall& call, const MachineTraits&) {
  const bool goes_round =
      is_one_of(call.kind, {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::broadcast});
  return goes_round ? Refusal::none : Refusal::ring_kinds;
}

Refusal tree_refuses(const CollectiveCall& call, const MachineTraits&) {
  const bool climbs = is_one_of(call.kind, {OpKind::all_reduce, OpKind::reduce, OpKind::broadcast});
  return climbs ? Refusal::none : Refusal::tree_kinds;
}

Refusal halving_refuses(const CollectiveCall& call, const MachineTraits&) {
  const bool halves = is_one_of(call.kind, {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather});
  return halves ? Refusal::none : Refusal::halving_kinds;
}

Refusal hierarchical_refuses(const CollectiveCall& call, const MachineTraits& machine) {
  return stages_why_not(call, machine.size, machine.group).empty() ? Refusal::none : Refusal::no_stages;
}

std::string text_of(Refusal refusal, const AlgorithmRow& row, const CollectiveCall& call,
                    const MachineTraits& machine) {
  switch (refusal) {
    case Refusal::none: return "";
    case Refusal::counts_differ: return "counts that differ from rank to rank are only known to simple";
    case Refusal::slots_too_small:
      return concat(line_bytes(call), " B to each rank do not fit the slots of ", machine.slot_bytes,
                    " B (collective_bytes)");
    case Refusal::two_shot_is_for_all_reduce: return "it is for all_reduce";
    case Refusal::two_shot_element_size: return "it is for elements of 1, 2, 4, 8 or 16 B";
    case Refusal::half_slots_too_small:
      return concat("parts of ", two_shot_part(call, machine), " B do not fit half a slot of ", machine.slot_bytes,
                    " B (collective_bytes)");
    case Refusal::ll128_kinds: return "it is for all_reduce, reduce_scatter, all_gather, all_to_all and broadcast";
    case Refusal::ll128_missing:
      return concat("there are no LL128 lines for ", machine.size,
                    " ranks here: collective_ll128_bytes is too small, or not ",
                    "all are GPUs of compute capability 9.0 or more that see each other and are joined by NVLink");
    case Refusal::ll128_slots_too_small: {
      const SlotPart part = ll128_part(call, machine);
      return concat("parts of ", part.bytes, " B do not fit ", part.room, " B of a slot (collective_ll128_bytes)");
    }
    case Refusal::moves_nothing: return "a barrier moves nothing";
    case Refusal::engines_do_not_add: return "copy engines do not add";
    case Refusal::overwrites_itself: return "in place it would overwrite what it has not sent yet";
    case Refusal::ring_kinds: return "it is for all_reduce, reduce_scatter, all_gather and broadcast";
    case Refusal::tree_kinds: return "it is for all_reduce, reduce and broadcast";
    case Refusal::halving_kinds: return "it is for all_reduce, reduce_scatter and all_gather";
    case Refusal::no_stages: return stages_why_not(call, machine.size, machine.group);
    case Refusal::no_kernel_of_yours: return "it has no kernel with a functor of yours";
    case Refusal::other_order:
      return concat("it adds in ", row.own_order, ", and a deterministic ", name_of(call.op), " of ",
                    name_of(call.type), " is added in the order of the ranks");
  }
  return "";
}

}  // namespace onstream::collective
