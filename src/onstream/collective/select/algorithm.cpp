#include "onstream/collective/select/algorithm.hpp"

#include <array>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/protocol/rendezvous.hpp"
#include "onstream/collective/select/cost.hpp"
#include "onstream/collective/select/stages.hpp"

namespace onstream::collective {

namespace {

constexpr std::array<AlgorithmRow, kAlgorithms - 1> kRows{{
    {Algorithm::ll, "everything to everybody as LL lines", ll_refuses, ll_us},
    {Algorithm::two_shot, "parts to their owners and sums to all, as LL lines", two_shot_refuses, two_shot_us},
    {Algorithm::ll128, "as lines of 128 bytes, each with one flag", ll128_refuses, ll128_us},
    {Algorithm::simple, "from buffer to buffer, or through the stage", simple_refuses, simple_us},
    {Algorithm::copy, "by the copy engine, without a kernel", copy_refuses, copy_us,
     "its calls wait for the other ranks' hosts"},
    {Algorithm::ring, "round the ranks in both directions", ring_refuses, ring_us,
     "other links than a ring's stay idle, and sums are in the order of the ring", "the order of the ring"},
    {Algorithm::tree, "up and down a binomial tree", tree_refuses, tree_us,
     "each level waits for the one before, and sums are in the order of the tree", "the order of the tree"},
    {Algorithm::halving_doubling, "halves of halves with partners, and back", halving_refuses, halving_us,
     "each step waits for the one before, and sums are of pairs, and of pairs of pairs", "the order of its pairs"},
    {Algorithm::hierarchical, "in stages, within groups and across them", hierarchical_refuses, hierarchical_us,
     "its stages wait for each other, and sums are of groups", "the order of its groups"},
}};

// The bytes of sums that the copy engine would move for each rank, which are a rank's share; 0 if it cannot.
std::uint64_t share_for_engine(const CollectiveCall& call, const MachineTraits& machine) {
  const auto size = static_cast<std::uint64_t>(machine.size);
  const std::uint64_t bytes = call.count * size_of(call.type);
  const bool sums = call.kind == OpKind::all_reduce && call.op == ReduceOp::sum && call.user_kernels == nullptr;
  const bool has_kernel = machine.device == DeviceKind::host || size_of(call.type) > 1;
  const bool evenly = bytes % (size * deal_for(size_of(call.type))) == 0;
  return sums && has_kernel && evenly && call.input != call.output ? bytes / size : 0;
}
// For moves: the average bytes that this rank sends to each peer to which it sends any.
std::uint64_t part_for_engine(const CollectiveCall& call, const MachineTraits& machine) {
  if (call.kind == OpKind::broadcast && machine.size > 2) return 0;  // ranks forward to each other
  std::uint64_t all = 0;
  std::uint64_t peers = 0;
  for (int peer = 0; peer < machine.size; ++peer) {
    if (peer == machine.rank) continue;
    const std::uint64_t bytes = portion_of(call, machine.rank, peer).send_bytes;
    all += bytes;
    peers += bytes > 0 ? 1 : 0;
  }
  return peers > 0 ? all / peers : 0;
}

}  // namespace

bool goes_from_rank_to_rank(std::uint64_t bytes, std::uint64_t ranks, std::uint64_t chain_bytes) {
  return ranks > 2 && bytes / (ranks - 2) >= chain_bytes;
}

bool asks_engine(const CollectiveCall& call, const MachineTraits& machine) {
  if (machine.engine == EngineUse::off || machine.size < 2 || machine.size > kNear) return false;
  const std::uint64_t bytes = has_op(call.kind) ? share_for_engine(call, machine) : part_for_engine(call, machine);
  if (machine.engine == EngineUse::on) return bytes > 0;
  const bool sums_of_many = has_op(call.kind) && machine.size > 2;
  const std::uint64_t least = std::uint64_t{sums_of_many ? 128u : 64u} << 20;  // docs/decisions/0010
  return machine.device != DeviceKind::host && bytes >= least;
}

bool is_by_lines(Algorithm algorithm) {
  return algorithm == Algorithm::ll || algorithm == Algorithm::two_shot || algorithm == Algorithm::ll128;
}

std::span<const AlgorithmRow> algorithms() { return kRows; }

std::vector<Staged> stages_on(const CollectiveCall& call, const MachineTraits& machine) {
  const Groups groups(machine.size, machine.group, machine.rank);
  std::vector<Staged> out;
  for (const Stage& stage : stages_of(in_sums(call, nullptr), groups, nullptr)) {
    const bool within = stage.among == Among::group;
    const auto size = static_cast<int>((within ? groups.within() : groups.across()).size());
    const std::size_t slots = machine.slot_bytes * static_cast<std::size_t>(machine.size / size);
    const std::size_t wide = machine.ll128_bytes * static_cast<std::size_t>(machine.size / size);
    const MachineTraits part{.device = machine.device,
                             .rank = within ? groups.index : groups.group,
                             .size = size,
                             .slot_bytes = slots,
                             .ll128_bytes = wide,
                             .crowded = machine.crowded,
                             .paths = machine.paths};
    out.push_back({stage.among, stage.call, part, &choose(stage.call, part)});
  }
  return out;
}
Refusal refusal_of(const AlgorithmRow& row, const CollectiveCall& call, const MachineTraits& machine) {
  const bool has_kernel =
      row.algorithm == Algorithm::ll || row.algorithm == Algorithm::two_shot || row.algorithm == Algorithm::simple;
  if (call.user_kernels != nullptr && !has_kernel) return Refusal::no_kernel_of_yours;
  const Refusal refusal = row.refuses(call, machine);
  const bool other_bits = *row.own_order != 0 && has_op(call.kind) && order_matters(call.type);
  return refusal == Refusal::none && call.deterministic && other_bits ? Refusal::other_order : refusal;
}

std::string why_not(const AlgorithmRow& row, const CollectiveCall& call, const MachineTraits& machine) {
  return text_of(refusal_of(row, call, machine), row, call, machine);
}

const AlgorithmRow& choose(const CollectiveCall& call, const MachineTraits& machine) {
  const AlgorithmRow* best = nullptr;
  double best_us = 0;
  for (const AlgorithmRow& row : kRows) {
    const bool named = call.algorithm == row.algorithm;
    if (!named && *row.never_by_itself != 0) continue;
    const Refusal refusal = refusal_of(row, call, machine);
    if (named) {
      require(refusal == Refusal::none, name_of(call.kind), ": algorithm ", name_of(row.algorithm),
              " cannot: ", text_of(refusal, row, call, machine));
      return row;
    }
    if (refusal != Refusal::none) continue;
    const double cost_us = row.cost_us(call, machine);
    if (best == nullptr || cost_us < best_us) {
      best = &row;
      best_us = cost_us;
    }
  }
  require(best != nullptr, name_of(call.kind), " of ", call.count, " elements: no algorithm can do it");
  return *best;
}

std::string explain(const CollectiveCall& call, const MachineTraits& machine) {
  const AlgorithmRow& chosen = choose(call, machine);
  const bool direct = chosen.algorithm == Algorithm::simple;
  const bool engine = direct && asks_engine(call, machine);
  const bool chain = direct && call.kind == OpKind::broadcast &&
                     goes_from_rank_to_rank(call.count * size_of(call.type), static_cast<std::uint64_t>(machine.size),
                                            machine.chain_bytes);
  constexpr int kCostDigits = 3;
  std::string text = name_of(call.kind);
  if (!is_v(call.kind) && call.kind != OpKind::barrier) {
    const bool of_bytes = call.type == ElementType::uint8 && !has_op(call.kind);
    text += concat(" of ", of_bytes ? concat(call.count, " B") : elements_of(call));
  }
  text += concat(" on ", machine.size, " ranks: ", name_of(chosen.algorithm), ", ", chosen.what,
                 chain ? ", from rank to rank" : "", engine ? ", by the copy engine (collective_engine)" : "",
                 call.algorithm == Algorithm::automatic ? " (the least predicted cost)" : " (asked for)");
  for (const AlgorithmRow& row : kRows) {
    const std::string reason = why_not(row, call, machine);
    text += concat("\n  ", name_of(row.algorithm), ": ");
    if (reason.empty()) {
      text += concat(general(row.cost_us(call, machine), kCostDigits), " us predicted");
      if (*row.never_by_itself != 0) text += concat("; only for those who ask for it: ", row.never_by_itself);
      if (row.algorithm != Algorithm::hierarchical) continue;
      for (const Staged& stage : stages_on(call, machine)) {
        text +=
            concat("\n    ", stage.among == Among::group ? "within" : "across", " groups: ", name_of(stage.call.kind),
                   " of ", stage.call.count, " by ", name_of(stage.row->algorithm));
      }
    } else {
      text += reason;
    }
  }
  return text;
}

}  // namespace onstream::collective
