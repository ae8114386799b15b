#include "onstream/collective/select/algorithm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/call/stages.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/protocol/rendezvous.hpp"
#include "onstream/collective/protocol/view.hpp"

namespace onstream::collective {

namespace {

// The cost of a collective at rest, and of a byte. Half of a line is flags.
struct Costs {
  double lines_us;
  double line_round_us = 0;  // added by more rounds of lines, or more blocks, before the bandwidth shows
  double ll128_us;
  double second_trip_us = 0;       // of LL or LL128 lines
  double second_trip_peer_us = 0;  // more for each other rank
  double bulk_us;
  double bulk_peer_us = 0;   // more for each other rank
  double line_bytes_per_us;  // of data out of one rank
  double ll128_bytes_per_us;
  double bulk_bytes_per_us;
  double line_sums = 1;        // by lines, adding a byte takes this many times as long as moving it
  double ll128_broadcast = 1;  // by LL128 lines, a byte of a broadcast takes this part, as the root alone sends
  double one_shot_bytes;       // of more than these each rank does not add up all by itself
};

// Measured among four H200; on the host device between two ranks with a core each, and among three and four on two
// cores, where each rank that is waited for may have to be scheduled first.
const Costs& costs_of(DeviceKind device, bool crowded) {
  static constexpr Costs cuda{.lines_us = 2.0,
                              .line_round_us = 0.3,
                              .ll128_us = 3.3,
                              .second_trip_us = 1.3,
                              .second_trip_peer_us = 0.1,
                              .bulk_us = 7.5,
                              .line_bytes_per_us = 150e3,
                              .ll128_bytes_per_us = 300e3,
                              .bulk_bytes_per_us = 370e3,
                              .one_shot_bytes = 640 << 10};
  static constexpr Costs a_core_each{.lines_us = 0.33,
                                     .ll128_us = 0.45,
                                     .second_trip_peer_us = 0.35,
                                     .bulk_us = 0.9,
                                     .bulk_peer_us = 0.4,
                                     .line_bytes_per_us = 700,
                                     .ll128_bytes_per_us = 2000,
                                     .bulk_bytes_per_us = 18'000,
                                     .line_sums = 2,
                                     .one_shot_bytes = kStripeData};
  static constexpr Costs crowd{.lines_us = 2.0,
                               .ll128_us = 2.5,
                               .second_trip_peer_us = 0.9,
                               .bulk_us = 2.2,
                               .bulk_peer_us = 2.0,
                               .line_bytes_per_us = 370,
                               .ll128_bytes_per_us = 1700,
                               .bulk_bytes_per_us = 8000,
                               .line_sums = 3,
                               .ll128_broadcast = 0.5,
                               .one_shot_bytes = 3 << 10};
  if (device != DeviceKind::host) return cuda;
  return crowded ? crowd : a_core_each;
}
const Costs& costs_of(const Machine& machine) { return costs_of(machine.device, machine.crowded); }

// The bytes that one rank sends to one other.
double message_bytes(const CollectiveCall& call) { return static_cast<double>(call.count * size_of(call.type)); }

double second_trip(const Costs& costs, int peers) { return costs.second_trip_us + costs.second_trip_peer_us * peers; }
double bulk_base(const Costs& costs, int peers) { return costs.bulk_us + costs.bulk_peer_us * peers; }

double line_base(const Costs& costs, double bytes) {
  constexpr double kOneRound = 8192;
  return costs.lines_us + costs.line_round_us * std::min(1.0, bytes / kOneRound);
}

// The length of so many bytes of elements in lines.
std::size_t in_packs(const UserKernels& own, std::size_t bytes) {
  const auto data = static_cast<std::size_t>(own.line_data);
  return (bytes + data - 1) / data * static_cast<std::size_t>(own.line_pack);
}

std::string ll_why_not(const CollectiveCall& call, const Machine& machine) {
  if (is_v(call.kind)) return "counts that differ from rank to rank are only known to direct";
  std::size_t bytes = call.count * size_of(call.type);
  if (call.own != nullptr) bytes = in_packs(*call.own, bytes);
  if (bytes <= machine.slot_bytes) return "";
  return concat(bytes, " B to each rank do not fit the slots of ", machine.slot_bytes, " B (collective_bytes)");
}
double ll_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double bytes = message_bytes(call);
  const double moved = bytes * (machine.size - 1) * (has_op(call.kind) ? costs.line_sums : 1);
  return line_base(costs, bytes) + moved / costs.line_bytes_per_us;
}

std::string two_shot_why_not(const CollectiveCall& call, const Machine& machine) {
  if (call.kind != OpKind::all_reduce) return "it is for all_reduce";
  if (call.own != nullptr && call.own->two_shot.bytes == 0) return "it is for elements of 1, 2, 4, 8 or 16 B";
  const std::size_t part = (call.count * size_of(call.type) / static_cast<std::size_t>(machine.size) / 16 + 1) * 16;
  if (part <= machine.slot_bytes / 2) return "";
  return concat("parts of ", part, " B do not fit half a slot of ", machine.slot_bytes, " B (collective_bytes)");
}
double two_shot_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double part = message_bytes(call) / machine.size;
  return line_base(costs, part) + second_trip(costs, machine.size - 1) +
         (costs.line_sums + 1) * part * (machine.size - 1) / costs.line_bytes_per_us;
}

std::string ll128_why_not(const CollectiveCall& call, const Machine& machine) {
  const bool sums = call.kind == OpKind::all_reduce || call.kind == OpKind::reduce_scatter;
  const bool moves =
      call.kind == OpKind::all_gather || call.kind == OpKind::all_to_all || call.kind == OpKind::broadcast;
  if (!sums && !moves) return "it is for all_reduce, reduce_scatter, all_gather, all_to_all and broadcast";
  if (machine.ll128_bytes == 0) {
    return concat("there are no LL128 lines for ", machine.size,
                  " ranks here: collective_ll128_bytes is too small, or not ",
                  "all are GPUs of compute capability 9.0 or more that see each other and are joined by NVLink");
  }
  const std::size_t bytes = call.count * size_of(call.type);
  const bool two_shots = ll128_in_two_shots(call, machine);
  const std::size_t room = two_shots ? machine.ll128_bytes / 2 : machine.ll128_bytes;
  const std::size_t part =
      two_shots ? stripes_of_part(bytes, static_cast<std::size_t>(machine.size)) * kStripeData : bytes;
  if (part <= room) return "";
  return concat("parts of ", part, " B do not fit ", room, " B of a slot (collective_ll128_bytes)");
}
double ll128_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  double part = message_bytes(call);
  double base = costs.ll128_us;
  if (call.kind == OpKind::broadcast) part *= costs.ll128_broadcast;
  if (ll128_in_two_shots(call, machine)) {
    part = 2 * part / machine.size;
    base += second_trip(costs, machine.size - 1);
  }
  return base + part * (machine.size - 1) / costs.ll128_bytes_per_us;
}

std::string simple_why_not(const CollectiveCall& call, const Machine&) {
  return call.kind == OpKind::barrier ? "a barrier moves nothing" : "";
}
double simple_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double bytes = message_bytes(call);
  constexpr double kForwarding = 10;  // until an announced step is forwarded, and has arrived
  double moved = bytes * (machine.size - 1);
  if (call.kind == OpKind::all_reduce || call.kind == OpKind::reduce) moved = 2 * moved / machine.size;
  double base = bulk_base(costs, machine.size - 1);
  if (call.kind == OpKind::broadcast) {
    moved = bytes;
    if (machine.size > 2 && machine.device == DeviceKind::cuda) base += kForwarding;
  }
  return base + moved / costs.bulk_bytes_per_us;
}

// Copies go one after the other: the engines of a GPU share its links anyway.
std::string copy_why_not(const CollectiveCall& call, const Machine&) {
  if (call.kind == OpKind::barrier) return "a barrier moves nothing";
  if (has_op(call.kind)) return "copy engines do not add";
  if (overwrites_itself(call)) return "in place it would overwrite what it has not sent yet";
  return "";
}
double copy_cost(const CollectiveCall& call, const Machine& machine) {
  constexpr double kHosts = 3;    // until they agree
  constexpr double kEngine = 12;  // words before and behind the copies
  const double moved = message_bytes(call) * (machine.size - 1);
  return kHosts + kEngine + moved / costs_of(machine).bulk_bytes_per_us;
}

// So many times as long as the data are sums that are passed on.
double longer_sums(const CollectiveCall& call) {
  if (!has_op(call.kind)) return 1;
  return static_cast<double>(size_of(type_of_sums(call.type, call.op))) / static_cast<double>(size_of(call.type));
}

std::string ring_why_not(const CollectiveCall& call, const Machine&) {
  const bool goes_round = call.kind == OpKind::all_reduce || call.kind == OpKind::reduce_scatter ||
                          call.kind == OpKind::all_gather || call.kind == OpKind::broadcast;
  return goes_round ? "" : "it is for all_reduce, reduce_scatter, all_gather and broadcast";
}
double ring_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double bytes = message_bytes(call);
  double steps = machine.size - 1;
  double moved = bytes * steps * longer_sums(call);
  if (call.kind == OpKind::all_reduce) {
    moved = (moved + bytes * steps) / machine.size;
    steps *= 2;
  }
  if (call.kind == OpKind::broadcast) moved = bytes;
  return bulk_base(costs, machine.size - 1) + steps * costs.lines_us + moved / costs.bulk_bytes_per_us;
}

std::string tree_why_not(const CollectiveCall& call, const Machine&) {
  const bool climbs = call.kind == OpKind::all_reduce || call.kind == OpKind::reduce || call.kind == OpKind::broadcast;
  return climbs ? "" : "it is for all_reduce, reduce and broadcast";
}
// The root moves as much as it has children; windows follow each other along the levels.
double tree_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double levels = std::ceil(std::log2(machine.size));
  const double back = call.kind == OpKind::all_reduce ? 1 : 0;
  const double moved = (longer_sums(call) + back) * message_bytes(call);
  return bulk_base(costs, machine.size - 1) + levels * ((1 + back) * costs.lines_us + moved / costs.bulk_bytes_per_us);
}

std::string halving_why_not(const CollectiveCall& call, const Machine&) {
  const bool halves =
      call.kind == OpKind::all_reduce || call.kind == OpKind::reduce_scatter || call.kind == OpKind::all_gather;
  return halves ? "" : "it is for all_reduce, reduce_scatter and all_gather";
}
// log2 of the ranks steps each way; ranks beyond a power of two send their data to their mates and get it back.
double halving_cost(const CollectiveCall& call, const Machine& machine) {
  const Costs& costs = costs_of(machine);
  const double core = std::exp2(std::floor(std::log2(machine.size)));
  const double beyond = core < machine.size ? 1 : 0;
  const double back = call.kind == OpKind::all_reduce ? 1 : 0;
  const double all = message_bytes(call) * (call.kind == OpKind::all_reduce ? 1 : machine.size);
  const double moved = (longer_sums(call) + back) * all * ((core - 1) / core + beyond);
  const double steps = (1 + back) * (std::log2(core) + beyond);
  return bulk_base(costs, machine.size - 1) + steps * costs.lines_us + moved / costs.bulk_bytes_per_us;
}

// A stage of a hierarchical call, with the algorithm that it will take.
struct Staged {
  Among among;
  CollectiveCall call;
  Machine machine;
  const AlgorithmRow* row;
};
std::vector<Staged> stages_on(const CollectiveCall& call, const Machine& machine) {
  const Groups groups(machine.size, machine.group, machine.rank);
  std::vector<Staged> out;
  for (const Stage& stage : stages_of(in_sums(call, nullptr), groups, nullptr)) {
    const bool within = stage.among == Among::group;
    const auto size = static_cast<int>((within ? groups.within() : groups.across()).size());
    const std::size_t slots = machine.slot_bytes * static_cast<std::size_t>(machine.size / size);
    const std::size_t wide = machine.ll128_bytes * static_cast<std::size_t>(machine.size / size);
    const Machine part{.device = machine.device,
                       .rank = within ? groups.index : groups.group,
                       .size = size,
                       .slot_bytes = slots,
                       .ll128_bytes = wide,
                       .crowded = machine.crowded};
    out.push_back({stage.among, stage.call, part, &choose(stage.call, part)});
  }
  return out;
}
std::string hierarchical_why_not(const CollectiveCall& call, const Machine& machine) {
  return stages_why_not(call, machine.size, machine.group);
}
double hierarchical_cost(const CollectiveCall& call, const Machine& machine) {
  double sum_us = 0;
  if (const double longer = longer_sums(call); longer > 1) {  // to floats and back, a kernel each
    const Costs& costs = costs_of(machine);
    sum_us = 2 * (costs.lines_us + (1 + longer) * message_bytes(call) / costs.bulk_bytes_per_us);
  }
  for (const Staged& stage : stages_on(call, machine)) sum_us += stage.row->cost_us(stage.call, stage.machine);
  return sum_us;
}

constexpr std::array<AlgorithmRow, kAlgorithms - 1> kRows{{
    {Algorithm::ll, "everything to everybody as LL lines", ll_why_not, ll_cost},
    {Algorithm::two_shot, "parts to their owners and sums to all, as LL lines", two_shot_why_not, two_shot_cost},
    {Algorithm::ll128, "as lines of 128 bytes, each with one flag", ll128_why_not, ll128_cost},
    {Algorithm::simple, "from buffer to buffer, or through the stage", simple_why_not, simple_cost},
    {Algorithm::copy, "by the copy engine, without a kernel", copy_why_not, copy_cost,
     "its calls wait for the other ranks' hosts"},
    {Algorithm::ring, "round the ranks in both directions", ring_why_not, ring_cost,
     "other links than a ring's stay idle, and sums are in the order of the ring", "the order of the ring"},
    {Algorithm::tree, "up and down a binomial tree", tree_why_not, tree_cost,
     "each level waits for the one before, and sums are in the order of the tree", "the order of the tree"},
    {Algorithm::halving_doubling, "halves of halves with partners, and back", halving_why_not, halving_cost,
     "each step waits for the one before, and sums are of pairs, and of pairs of pairs", "the order of its pairs"},
    {Algorithm::hierarchical, "in stages, within groups and across them", hierarchical_why_not, hierarchical_cost,
     "its stages wait for each other, and sums are of groups", "the order of its groups"},
}};

// The bytes of sums that the copy engine would move for each rank, which are a rank's share; 0 if it cannot.
std::uint64_t share_for_engine(const CollectiveCall& call, const Machine& machine) {
  const auto size = static_cast<std::uint64_t>(machine.size);
  const std::uint64_t bytes = call.count * size_of(call.type);
  const bool sums = call.kind == OpKind::all_reduce && call.op == ReduceOp::sum && call.own == nullptr;
  const bool has_kernel = machine.device == DeviceKind::host || size_of(call.type) > 1;
  const bool evenly = bytes % (size * deal_for(size_of(call.type))) == 0;
  return sums && has_kernel && evenly && call.input != call.output ? bytes / size : 0;
}
// For moves: the average bytes that this rank sends to each peer to which it sends any.
std::uint64_t part_for_engine(const CollectiveCall& call, const Machine& machine) {
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

bool asks_engine(const CollectiveCall& call, const Machine& machine) {
  if (machine.engine == EngineUse::off || machine.size < 2 || machine.size > kNear) return false;
  const std::uint64_t bytes = has_op(call.kind) ? share_for_engine(call, machine) : part_for_engine(call, machine);
  if (machine.engine == EngineUse::on) return bytes > 0;
  const bool sums_of_many = has_op(call.kind) && machine.size > 2;
  const std::uint64_t least = std::uint64_t{sums_of_many ? 128u : 64u} << 20;  // docs/decisions/0010
  return machine.device != DeviceKind::host && bytes >= least;
}

bool ll128_in_two_shots(const CollectiveCall& call, const Machine& machine) {
  if (call.kind != OpKind::all_reduce || machine.size < 2) return false;
  const Costs& costs = costs_of(machine);
  const double bytes = message_bytes(call);
  const double peers = machine.size - 1;
  const double more_sent = bytes * peers * (machine.size - 2) / machine.size;  // in one shot
  return bytes > costs.one_shot_bytes || more_sent / costs.ll128_bytes_per_us > second_trip(costs, machine.size - 1);
}

std::size_t most_by_lines(DeviceKind device, bool crowded, int edges) {
  const Costs& costs = costs_of(device, crowded);
  const double ahead_us = bulk_base(costs, edges) - costs.lines_us - costs.line_round_us;
  return static_cast<std::size_t>(ahead_us / (1 / costs.line_bytes_per_us - 1 / costs.bulk_bytes_per_us) / edges);
}

bool is_by_lines(Algorithm algorithm) {
  return algorithm == Algorithm::ll || algorithm == Algorithm::two_shot || algorithm == Algorithm::ll128;
}

std::span<const AlgorithmRow> algorithms() { return kRows; }

std::string why_not(const AlgorithmRow& row, const CollectiveCall& call, const Machine& machine) {
  const bool has_kernel =
      row.algorithm == Algorithm::ll || row.algorithm == Algorithm::two_shot || row.algorithm == Algorithm::simple;
  if (call.own != nullptr && !has_kernel) return "it has no kernel with a functor of yours";
  std::string reason = row.why_not(call, machine);
  const bool other_bits = *row.own_order != 0 && has_op(call.kind) && order_matters(call.type);
  if (!reason.empty() || !call.deterministic || !other_bits) return reason;
  return concat("it adds in ", row.own_order, ", and a deterministic ", name_of(call.op), " of ", name_of(call.type),
                " is added in the order of the ranks");
}

const AlgorithmRow& choose(const CollectiveCall& call, const Machine& machine) {
  const AlgorithmRow* best = nullptr;
  double best_us = 0;
  for (const AlgorithmRow& row : kRows) {
    const bool named = call.algorithm == row.algorithm;
    if (!named && *row.never_by_itself != 0) continue;  // first: every call comes here, and reasons are text
    const std::string reason = why_not(row, call, machine);
    if (named) {
      require(reason.empty(), name_of(call.kind), ": algorithm ", name_of(row.algorithm), " cannot: ", reason);
      return row;
    }
    if (!reason.empty()) continue;
    const double cost_us = row.cost_us(call, machine);
    if (best == nullptr || cost_us < best_us) {
      best = &row;
      best_us = cost_us;
    }
  }
  require(best != nullptr, name_of(call.kind), " of ", call.count, " elements: no algorithm can do it");
  return *best;
}

std::string explain(const CollectiveCall& call, const Machine& machine) {
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
