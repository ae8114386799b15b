#include "onstream/collective.hpp"

#include <algorithm>
#include <functional>

#include "onstream/base/error.hpp"
#include "onstream/collective/check/checking.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/kernel/edges.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/neighbour/edge_channel.hpp"
#include "onstream/collective/neighbour/edge_checking.hpp"
#include "onstream/collective/neighbour/edge_list.hpp"
#include "onstream/collective/neighbour/edge_parts.hpp"
#include "onstream/collective/network/network_collectives.hpp"
#include "onstream/collective/network/program.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/cost.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/plan/op/planned_call.hpp"

namespace onstream {

using collective::CompiledCall;
using collective::EdgeChannel;
using collective::EdgeEnd;
using collective::EdgeList;
using collective::EdgePart;
using collective::KernelLaunch;
using collective::MoveEdges;
using collective::Parts;

namespace {

std::vector<int> ranks_of(const std::vector<EdgeEnd>& ends, const std::vector<int>& ranks) {
  std::vector<int> out;
  for (const EdgeEnd& end : ends) {
    out.push_back(end.rank < 0 ? -1 : static_cast<int>(std::ranges::find(ranks, end.rank) - ranks.begin()));
  }
  return out;
}

}  // namespace

class Neighbourhood::Implementation {
 public:
  using Make = std::function<EdgeList(int rank)>;

  Implementation(std::shared_ptr<Fabric> fabric, collective::BlockBudget& budget,
                 std::shared_ptr<lane::NetworkLanes> lanes, const std::vector<int>& ranks, const Make& make)
      : fabric_(std::move(fabric)),
        device_(fabric_->device()),
        ranks_(ranks),
        runner_(fabric_),
        lanes_(std::move(lanes)) {
    const auto found = std::ranges::find(ranks, fabric_->rank());
    const int rank = found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
    const auto told = fabric_->agree("the edges of a neighbourhood", [&] {
      const EdgeList list = make(rank);
      const std::size_t most = std::max(list.in.size(), list.out.size());
      require(most <= collective::kMostEdges, "neighbourhood: ", most, " edges; a rank has at most ",
              collective::kMostEdges, " in each direction");
      return list.packed();
    });
    std::vector<EdgeList> lists;
    for (const std::string& bytes : told) lists.push_back(EdgeList::unpacked(bytes));
    collective::match(lists);
    announces_ = !collective::all_hear_back(lists);
    for (const EdgeList& list : lists) half_ = std::max({half_, list.in.size(), list.out.size()});
    edges_ = lists[static_cast<std::size_t>(fabric_->rank())];
    sources_ = ranks_of(edges_.in, ranks);
    destinations_ = ranks_of(edges_.out, ranks);
    if (lanes_ == nullptr) {
      channel_ = std::make_unique<EdgeChannel>(*fabric_, budget, edges_, half_);
    } else {
      lease_ = lanes_->take(*fabric_, 1);
      network_order_.ground = lease_;
      spares_ = std::make_shared<collective::ScratchPool>(device_);
    }
    if (fabric_->parameters().collective_check == "on") {
      checking_ = release_later(std::make_unique<collective::EdgeChecking>(*fabric_, ranks));
    }
  }
  ~Implementation() {
    if (channel_ != nullptr) runner_.let_go(std::shared_ptr<EdgeChannel>(std::move(channel_)));
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  const std::vector<int>& sources() const { return sources_; }
  const std::vector<int>& destinations() const { return destinations_; }
  std::size_t device_bytes() const { return channel_ == nullptr ? 0 : channel_->device_bytes(); }

  void run(const CollectiveCall& call, Stream stream) {
    if (auto again = find_again(call)) {
      runner_.enqueue_next(order(), stream, *again.work);
    } else {
      runner_.enqueue(order(), stream, *work_of(call));
    }
  }

  void run(const CollectiveCall& call) {
    if (auto again = find_again(call)) {
      runner_.run_next(order(), std::move(again.held), *again.work);
    } else {
      runner_.run_and_wait(order(), *work_of(call));
    }
  }

 private:
  friend class Neighbourhood::PlannedExchange;

  // --- arguments ---

  collective::Buffers check_buffers(const CollectiveCall& call, const Parts& parts) const {
    const std::size_t in = parts.input_bytes;
    const std::size_t out = parts.output_bytes;
    const collective::Buffers buffers = {runner_.check_buffer(call, "input", call.input, in),
                                         runner_.check_buffer(call, "output", call.output, out)};
    const auto* input = static_cast<const std::byte*>(call.input);
    const auto* output = static_cast<const std::byte*>(call.output);
    require(in == 0 || out == 0 || input + in <= output || output + out <= input, name_of(call.kind), ": the input of ",
            in, " B at ", call.input, " and the output of ", out, " B at ", call.output,
            " overlap; along edges nothing goes in place");
    return buffers;
  }

  collective::MachineTraits machine() const {
    return {.device = device_->kind(), .crowded = fabric_->crowded(), .paths = &fabric_->paths()};
  }

  collective::Order& order() { return channel_ == nullptr ? network_order_ : channel_->order; }
  collective::CallCache& recent() { return channel_ == nullptr ? network_recent_ : channel_->recent; }
  // The same on all ranks, and different for each.
  std::uint64_t number() const {
    return channel_ == nullptr ? static_cast<std::uint64_t>(lease_->first()) + 1 : channel_->number();
  }

  // Edges of up to so many bytes go by lines, on all ranks.
  std::size_t small(const CollectiveCall& call) const {
    if (channel_ == nullptr) return small_between_hosts(call);
    const std::size_t slot_bytes = (channel_->view().slot_lines - 1) * kLineData;
    switch (call.algorithm) {
      case Algorithm::automatic:
        return std::min(slot_bytes, collective::most_by_lines(machine(), call.kind,
                                                              static_cast<int>(std::max<std::size_t>(1, half_))));
      case Algorithm::ll: return slot_bytes;
      case Algorithm::simple: return 0;
      default:
        fail(ErrorCode::invalid_argument, name_of(call.kind), ": there is no algorithm ", name_of(call.algorithm),
             " along edges; there are auto, ll and simple");
    }
  }

  static std::size_t small_between_hosts(const CollectiveCall& call) {
    if (call.algorithm == Algorithm::automatic) return ~std::size_t{0};
    fail(ErrorCode::unsupported, name_of(call.kind), ": algorithm ", name_of(call.algorithm),
         " needs all ranks on one host; leave the algorithm out");
  }

  struct CheckedCall {
    Parts parts;  // that it moves
    collective::Buffers buffers;
  };

  void check_world(const CollectiveCall& call) const {
    fabric_->check([&] { return collective::what_of(call); });
  }

  // Throws the error of a call that cannot work on this rank.
  CheckedCall checked(const CollectiveCall& call) const {
    check_world(call);
    require(collective::is_of_neighbours(call.kind), "a neighbourhood does neighbour_all_gather, neighbour_all_to_all ",
            "and neighbour_all_to_all_v, not ", name_of(call.kind));
    require(call.channel == 0, name_of(call.kind), ": channel ", call.channel,
            " does not exist; a neighbourhood is a channel of its own");
    Parts parts = collective::parts_of(call, edges_);
    const collective::Buffers buffers = check_buffers(call, parts);
    require(parts.most <= small(call) || call.algorithm != Algorithm::ll, name_of(call.kind),
            ": algorithm ll cannot: ", parts.most, " B along one edge do not fit the slots of ", small(call),
            " B (collective_bytes)");
    return {std::move(parts), buffers};
  }

  // For calls that a rank outside the team cannot make.
  Parts checked_of_member(const CollectiveCall& call) const {
    const int rank = fabric_->rank();
    require(std::ranges::count(ranks_, rank) > 0, name_of(call.kind), ": rank ", rank,
            " is not in the team of this neighbourhood");
    return checked(call).parts;
  }

  // --- work ---

  collective::CachedCall find_again(const CollectiveCall& call) {
    if (checking_ != nullptr) return {};
    check_world(call);
    return runner_.find_again(order(), recent(), channel_ == nullptr ? nullptr : &channel_->budget(), call);
  }

  // Compares the call with those of the other ends, in the checking mode.
  std::shared_ptr<const CompiledCall> work_of(const CollectiveCall& call) {
    const CheckedCall good = checked(call);
    if (checking_ != nullptr) checking_->check(*fabric_, call, edges_);
    auto work = std::make_shared<const CompiledCall>(prepare(call, good.parts));
    if (checking_ == nullptr && !work->empty()) {
      const std::lock_guard lock(order().mutex);
      recent().keep(call, good.buffers, work);
    }
    return work;
  }

  // Empty: this rank has no edges. May ask peers to map the output, and block for their answer.
  CompiledCall prepare(const CollectiveCall& call, const Parts& parts) {
    if (channel_ == nullptr) return between_hosts(call, parts);
    CompiledCall work;
    work.buffers = {call.input, call.output};
    work.most = channel_->budget().of_next_call();
    work.reusable = parts.most <= small(call);
    work.add(half_ <= collective::kFewEdges ? launching<collective::kFewEdges>(call, parts, work.most)
                                            : launching<collective::kMostEdges>(call, parts, work.most));
    return work;
  }

  // Edges with one rank in the order in which their sender names them, and those of this rank itself by copies.
  CompiledCall between_hosts(const CollectiveCall& call, const Parts& parts) const {
    const auto* input = static_cast<const std::byte*>(call.input);
    auto* const output = static_cast<std::byte*>(call.output);
    std::vector<collective::NetworkProgram::EdgeMove> moves;
    for (const std::size_t k : edges_.out_as_sent()) {
      const EdgePart& part = parts.out[k];
      const EdgeEnd& edge = edges_.out[k];
      if (part.bytes == 0) continue;
      const bool own = edge.rank == fabric_->rank();
      require(!own || parts.in[static_cast<std::size_t>(edge.place)].bytes == part.bytes, name_of(call.kind),
              ": an edge of this rank to itself gives ", part.bytes, " B at one end, and another number at the other");
      std::byte* const in = own ? output + parts.in[static_cast<std::size_t>(edge.place)].offset : nullptr;
      moves.push_back({edge.rank, input + part.offset, in, part.bytes});
    }
    for (const std::size_t j : edges_.in_as_sent()) {
      if (edges_.in[j].rank == fabric_->rank() || parts.in[j].bytes == 0) continue;
      moves.push_back({edges_.in[j].rank, nullptr, output + parts.in[j].offset, parts.in[j].bytes});
    }
    if (moves.empty()) return {};
    const collective::ProgramPlace place{fabric_, fabric_->wait_view(), lease_, lease_->first(), &ranks_, 0};
    return collective::work_of(std::make_shared<const collective::NetworkProgram>(place, *spares_, call, moves), call);
  }

  template <int kMost>
  KernelLaunch launching(const CollectiveCall& call, const Parts& parts, int most) {
    MoveEdges<kMost> body;
    body.view = channel_->view();
    body.input = static_cast<const std::byte*>(call.input);
    body.output = static_cast<std::byte*>(call.output);
    body.kind = call.kind;
    body.signature = collective::signature_of(call, call.algorithm);
    body.small = small(call);
    body.half = static_cast<std::uint32_t>(half_);
    body.announces = announces_ ? 1 : 0;
    std::uint64_t places = reinterpret_cast<std::uint64_t>(call.input) | reinterpret_cast<std::uint64_t>(call.output);
    std::size_t large = 0;
    const auto count = [&](const EdgePart& part, std::uint32_t& lines) {
      if (part.bytes > body.small) return false;
      lines = std::max(lines, 1 + static_cast<std::uint32_t>((part.bytes + kLineData - 1) / kLineData));
      places |= part.offset;
      return true;
    };
    for (std::size_t k = 0; k < edges_.out.size(); ++k) {
      const EdgeEnd& edge = edges_.out[k];
      if (edge.rank < 0) continue;
      const EdgePart& part = parts.out[k];
      if (!count(part, body.out_lines)) large += part.bytes;
      body.out[body.outs++] = {part.offset, part.bytes, static_cast<std::uint32_t>(half_ + k),
                               static_cast<std::uint32_t>(edge.place)};
    }
    for (std::size_t j = 0; j < edges_.in.size(); ++j) {
      const EdgeEnd& edge = edges_.in[j];
      if (edge.rank < 0) continue;
      const EdgePart& part = parts.in[j];
      std::uint64_t at = 0;
      if (!count(part, body.in_lines)) at = exported(body.output + part.offset, part.bytes, edge.rank);
      body.bytes += part.bytes;
      body.in[body.ins++] = {part.offset, part.bytes, at, static_cast<std::uint32_t>(j),
                             static_cast<std::uint32_t>(half_ + static_cast<std::size_t>(edge.place))};
    }
    body.access_width = collective::access_width_of(places);
    KernelLaunch out;
    if (body.outs == 0 && body.ins == 0) return out;
    const auto table = kMost == collective::kFewEdges ? collective::AddressTable::near : collective::AddressTable::far;
    const std::size_t lines = std::max(body.outs * body.out_lines, body.ins * body.in_lines);
    out.set(collective::move_edges_kernel(table), body, grid_of(lines, large, static_cast<std::size_t>(most)));
    return out;
  }

  // Where a source finds this rank's memory; 0: it cannot.
  std::uint64_t exported(const std::byte* address, std::size_t bytes, int peer) {
    if (peer == fabric_->rank()) return reinterpret_cast<std::uint64_t>(address);
    return fabric_->export_to_peer(address, bytes, peer).value_or(0);
  }

  Grid grid_of(std::size_t lines, std::size_t large, std::size_t most) const {
    if (device_->kind() == DeviceKind::host) return {1, 1};
    const Parameters& parameters = fabric_->parameters();
    const auto up = [](std::size_t n, std::int64_t each) {
      const auto by = static_cast<std::size_t>(each);
      return (n + by - 1) / by;
    };
    const std::size_t for_large = up(large, parameters.collective_block_bytes);
    const std::size_t for_lines = up(lines, parameters.collective_ll_threads);
    const std::size_t blocks = std::clamp<std::size_t>(std::max(for_large, for_lines), 1, most);
    const std::size_t each = (up(lines, static_cast<std::int64_t>(blocks)) + 31) / 32 * 32;
    const std::size_t threads = large > 0 ? kMaxThreads : std::clamp<std::size_t>(each, 32, kMaxThreads);
    return {static_cast<int>(blocks), static_cast<int>(threads)};
  }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  std::vector<int> ranks_;  // the team's
  EdgeList edges_;
  std::size_t half_ = 0;  // the most edges that any rank has in one direction
  bool announces_ = false;
  std::vector<int> sources_;
  std::vector<int> destinations_;
  std::shared_ptr<collective::EdgeChecking> checking_;  // in the checking mode
  std::unique_ptr<EdgeChannel> channel_;                // of a world of one host
  collective::Runner runner_;
  std::shared_ptr<lane::NetworkLanes> lanes_;  // of one of several
  std::shared_ptr<lane::NetworkLanes::LaneLease> lease_;
  collective::Order network_order_;
  collective::CallCache network_recent_;
  std::shared_ptr<collective::ScratchPool> spares_;
};

class Neighbourhood::PlannedExchange final : public plan::PlannedCall {
 public:
  PlannedExchange(std::shared_ptr<Implementation> home, CollectiveCall call)
      : home_(std::move(home)), call_(std::move(call)), parts_(home_->checked_of_member(call_)) {}

  const Fabric* fabric() const override { return home_->fabric_.get(); }

  plan::StatedCall state() const override {
    plan::StatedCall stated;
    stated.words = concat(collective::words_of(call_), ", neighbourhood ", home_->number());
    stated.ranks.assign(home_->ranks_.begin(), home_->ranks_.end());
    const EdgeList& edges = home_->edges_;
    for (const std::size_t k : edges.out_as_sent()) stated.gives.push_back({edges.out[k].rank, parts_.out[k].bytes});
    for (const std::size_t j : edges.in_as_sent()) stated.takes.push_back({edges.in[j].rank, parts_.in[j].bytes});
    return stated;
  }

  std::vector<const void*> buffers() const override {
    std::vector<const void*> all;
    if (parts_.input_bytes > 0) all.push_back(call_.input);
    if (parts_.output_bytes > 0) all.push_back(call_.output);
    return all;
  }

  plan::PreparedCall prepare() const override {
    CompiledCall work = home_->prepare(call_, parts_);
    if (home_->channel_ != nullptr) home_->channel_->budget().keep(work.blocks());
    PlanOp row = row_of(work);
    return home_->runner_.for_plan(home_, home_->order(), std::move(work), std::move(row));
  }

 private:
  PlanOp row_of(const CompiledCall& work) const {
    PlanOp row;
    row.op.kind = call_.kind;
    std::size_t sent = 0;
    std::vector<int> to;
    for (const std::size_t k : home_->edges_.out_as_sent()) {
      sent += parts_.out[k].bytes;
      to.push_back(home_->edges_.out[k].rank);
    }
    row.op.layout = Layout::contiguous(sent);
    if (!to.empty()) row.op.note = "to ranks" + listed(to);
    const std::size_t small = home_->small(call_);
    row.path = parts_.most > small ? Path::store : Path::ll;
    if (home_->channel_ == nullptr) {
      row.path = Path::net;
      row.why = "ranks of several hosts";
      return row;
    }
    row.why = work.empty() ? "there is nothing to do"
              : call_.algorithm != Algorithm::automatic
                  ? concat(name_of(call_.algorithm), ", as asked for")
                  : concat(parts_.most > small ? "simple" : "ll", ", as edges of up to ", small, " B go as LL lines");
    return row;
  }

  std::shared_ptr<Implementation> home_;
  CollectiveCall call_;
  Parts parts_;
};

Neighbourhood::Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& budget,
                             std::shared_ptr<lane::NetworkLanes> lanes, const std::vector<int>& ranks,
                             const NeighbourGrid& grid)
    : implementation_(std::make_shared<Implementation>(
          std::move(fabric), budget, std::move(lanes), ranks,
          [&](int rank) { return collective::edges_of_grid(grid.dims, grid.periodic, ranks, rank); })) {}
Neighbourhood::Neighbourhood(std::shared_ptr<Fabric> fabric, collective::BlockBudget& budget,
                             std::shared_ptr<lane::NetworkLanes> lanes, const std::vector<int>& ranks,
                             const NeighbourGraph& graph)
    : implementation_(std::make_shared<Implementation>(std::move(fabric), budget, std::move(lanes), ranks, [&](int) {
        return collective::edges_of_graph(graph.sources, graph.destinations, ranks);
      })) {}
Neighbourhood::~Neighbourhood() = default;

const std::vector<int>& Neighbourhood::sources() const { return implementation_->sources(); }
const std::vector<int>& Neighbourhood::destinations() const { return implementation_->destinations(); }
void Neighbourhood::run(const CollectiveCall& call, Stream stream) { implementation_->run(call, stream); }
void Neighbourhood::run(const CollectiveCall& call) { implementation_->run(call); }
std::shared_ptr<const plan::PlannedCall> Neighbourhood::planned(const CollectiveCall& call) const {
  return std::make_shared<const PlannedExchange>(implementation_, call);
}
std::size_t Neighbourhood::device_bytes() const { return implementation_->device_bytes(); }

}  // namespace onstream
