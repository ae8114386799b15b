#include "onstream/collective/neighbourhood.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/collective/algorithm.hpp"
#include "onstream/collective/edge_checking.hpp"
#include "onstream/collective/edge_list.hpp"
#include "onstream/collective/edges.hpp"
#include "onstream/collective/kernels.hpp"
#include "onstream/collective/launching.hpp"
#include "onstream/collective/runner.hpp"
#include "onstream/device/disposal.hpp"

namespace onstream {

using collective::EdgeEnd;
using collective::EdgeList;
using collective::InEdge;
using collective::Launching;
using collective::MoveEdges;
using collective::OutEdge;

namespace {

// What one end of an edge moves, in bytes.
struct Part {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

std::size_t end_of(const std::vector<Part>& parts) {
  std::size_t end = 0;
  for (const Part& part : parts) {
    if (part.bytes > 0) end = std::max(end, part.offset + part.bytes);
  }
  return end;
}

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

  Implementation(std::shared_ptr<Fabric> fabric, const std::vector<int>& ranks, const Make& make)
      : fabric_(std::move(fabric)),
        device_(fabric_->device()),
        ground_(let_go_later(std::make_unique<Ground>())),
        runner_(fabric_, "a neighbourhood") {
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
    make_memory();
    if (fabric_->parameters().collective_check == "on") {
      checking_ = std::make_unique<collective::EdgeChecking>(*fabric_, ranks);
    }
  }

  const std::vector<int>& sources() const { return sources_; }
  const std::vector<int>& destinations() const { return destinations_; }
  std::size_t device_bytes() const { return ground_->shared->bytes() + ground_->own->bytes(); }

  void run(const CollectiveCall& call, Stream stream) {
    const Launching work = prepare(call);
    const std::lock_guard lock(order_.mutex);
    if (work.kernel != nullptr) runner_.enqueue(order_, stream, work);
  }

  void run(const CollectiveCall& call) {
    const Launching work = prepare(call);
    if (work.kernel == nullptr) return;
    runner_.run_and_wait(order_, work);
    fabric_->check();
  }

 private:
  struct Ground {
    std::shared_ptr<Segment> shared;
    std::shared_ptr<Memory> own;
    std::shared_ptr<const void> wait_memory;
  };

  // Collective over the world. A channel whose ranks are ends of edges, see edges.hpp.
  void make_memory() {
    const Parameters& parameters = fabric_->parameters();
    fabric_->require_same("the parameters of collectives", "has",
                          concat("collective_bytes=", parameters.collective_bytes, " collective_stage_bytes=",
                                 parameters.collective_stage_bytes, " collective_check=", parameters.collective_check));
    const std::size_t size = 2 * half_ + 1;
    constexpr std::uint64_t kLeastLines = 64;
    constexpr std::uint64_t kLeastStage = 4096;
    const auto slots = static_cast<std::uint64_t>(parameters.collective_bytes) / (2 * size * sizeof(Line)) / 4 * 4;
    view_.slot_lines = static_cast<std::uint32_t>(std::max(kLeastLines, slots));
    view_.stage_bytes = std::max(kLeastStage * std::max<std::size_t>(1, half_),
                                 static_cast<std::uint64_t>(parameters.collective_stage_bytes));
    view_.places = collective::places_of(static_cast<int>(size), view_.slot_lines, view_.stage_bytes);
    order_.ground = ground_;
    ground_->wait_memory = fabric_->wait_memory();
    ground_->shared = fabric_->segment(view_.places.bytes, MemoryKind::device);
    const std::size_t table = size * (sizeof(std::uint64_t) + sizeof(std::int32_t));
    ground_->own = device_->allocate(sizeof(collective::State) + table, MemoryKind::device);

    const int me = fabric_->rank();
    std::vector<std::int32_t> worlds(size, me);
    for (std::size_t i = 0; i < edges_.in.size(); ++i) worlds[i] = std::max(0, edges_.in[i].rank);
    for (std::size_t i = 0; i < edges_.out.size(); ++i) worlds[half_ + i] = std::max(0, edges_.out[i].rank);
    std::vector<std::uint64_t> parts;
    for (const std::int32_t world : worlds) {
      parts.push_back(reinterpret_cast<std::uint64_t>(ground_->shared->peer(world)));
    }
    std::byte* const own = ground_->own->data();
    std::byte* const parts_at = own + sizeof(collective::State);
    std::byte* const worlds_at = parts_at + size * sizeof(std::uint64_t);
    const StreamPool::Lease stream = runner_.lease();
    device_->copy(parts_at, parts.data(), size * sizeof(std::uint64_t), stream.get());
    device_->copy(worlds_at, worlds.data(), size * sizeof(std::int32_t), stream.get());
    device_->synchronize(stream.get());
    view_.state = reinterpret_cast<collective::State*>(own);
    view_.parts = reinterpret_cast<const std::uint64_t*>(parts_at);
    view_.worlds = reinterpret_cast<const std::int32_t*>(worlds_at);
    view_.rank = static_cast<std::uint32_t>(2 * half_);
    view_.size = static_cast<std::uint32_t>(size);
    view_.wait = fabric_->wait_view();
    fabric_->barrier("the memory of a neighbourhood");  // nobody writes before all have set theirs up
  }

  // --- arguments ---

  std::vector<Part> parts_of(const CollectiveCall& call, const char* what, std::size_t edges,
                             const std::vector<std::size_t>& counts, const std::vector<std::size_t>& offsets,
                             bool one_for_all) const {
    const std::size_t item = size_of(call.type);
    std::vector<Part> parts(edges);
    if (call.kind == OpKind::neighbour_all_to_all_v) {
      require(counts.size() == edges && offsets.size() == edges, name_of(call.kind), ": ", what, "_counts has ",
              counts.size(), " entries and ", what, "_offsets ", offsets.size(), "; this rank has ", edges,
              " such neighbours");
    }
    for (std::size_t i = 0; i < edges; ++i) {
      if (call.kind == OpKind::neighbour_all_to_all_v) {
        parts[i] = {offsets[i] * item, counts[i] * item};
      } else {
        parts[i] = {one_for_all ? 0 : i * call.count * item, call.count * item};
      }
    }
    return parts;
  }

  void check(const CollectiveCall& call, std::size_t in, std::size_t out) const {
    runner_.check_buffer(call, "input", call.input, in);
    runner_.check_buffer(call, "output", call.output, out);
    const auto* input = static_cast<const std::byte*>(call.input);
    const auto* output = static_cast<const std::byte*>(call.output);
    require(in == 0 || out == 0 || input + in <= output || output + out <= input, name_of(call.kind), ": the input of ",
            in, " B at ", call.input, " and the output of ", out, " B at ", call.output,
            " overlap; along edges nothing goes in place");
  }

  // Edges of up to so many bytes go by lines, on all ranks.
  std::size_t small(const CollectiveCall& call) const {
    const std::size_t room = (view_.slot_lines - 1) * kLineData;
    switch (call.algorithm) {
      case Algorithm::automatic:
        return std::min(room,
                        collective::most_by_lines(device_->kind(), static_cast<int>(std::max<std::size_t>(1, half_))));
      case Algorithm::lines: return room;
      case Algorithm::direct: return 0;
      default:
        fail(ErrorCode::invalid_argument, name_of(call.kind), ": there is no algorithm ", name_of(call.algorithm),
             " along edges; there are auto, lines and direct");
    }
  }

  // --- work ---

  // No kernel: this rank has no edges.
  Launching prepare(const CollectiveCall& call) {
    fabric_->check();
    require(collective::is_of_neighbours(call.kind), "a neighbourhood does neighbour_all_gather, neighbour_all_to_all ",
            "and neighbour_all_to_all_v, not ", name_of(call.kind));
    require(call.channel == 0, name_of(call.kind), ": channel ", call.channel,
            " does not exist; a neighbourhood is a channel of its own");
    const bool gathers = call.kind == OpKind::neighbour_all_gather;
    const auto sends = parts_of(call, "send", edges_.out.size(), call.send_counts, call.send_offsets, gathers);
    const auto gets = parts_of(call, "receive", edges_.in.size(), call.receive_counts, call.receive_offsets, false);
    check(call, end_of(sends), end_of(gets));
    if (checking_ != nullptr) checking_->check(*fabric_, call, edges_);
    if (half_ <= collective::kFewEdges) return prepare<collective::kFewEdges>(call, sends, gets);
    return prepare<collective::kMostEdges>(call, sends, gets);
  }

  template <int kMost>
  Launching prepare(const CollectiveCall& call, const std::vector<Part>& sends, const std::vector<Part>& gets) {
    MoveEdges<kMost> body;
    body.view = view_;
    body.input = static_cast<const std::byte*>(call.input);
    body.output = static_cast<std::byte*>(call.output);
    body.kind = call.kind;
    body.signature = collective::signature_of(call, call.algorithm);
    body.small = small(call);
    body.half = static_cast<std::uint32_t>(half_);
    body.announces = announces_ ? 1 : 0;
    std::uint64_t places = reinterpret_cast<std::uint64_t>(call.input) | reinterpret_cast<std::uint64_t>(call.output);
    std::size_t large = 0;
    const auto count = [&](const Part& part, std::uint32_t& lines) {
      if (part.bytes > body.small) {
        require(call.algorithm != Algorithm::lines, name_of(call.kind), ": algorithm lines cannot: ", part.bytes,
                " B along one edge do not fit the slots of ", body.small, " B (collective_bytes)");
        return false;
      }
      lines = std::max(lines, 1 + static_cast<std::uint32_t>((part.bytes + kLineData - 1) / kLineData));
      places |= part.offset;
      return true;
    };
    for (std::size_t k = 0; k < sends.size(); ++k) {
      const EdgeEnd& edge = edges_.out[k];
      if (edge.rank < 0) continue;
      if (!count(sends[k], body.out_lines)) large += sends[k].bytes;
      body.out[body.outs++] = {sends[k].offset, sends[k].bytes, static_cast<std::uint32_t>(half_ + k),
                               static_cast<std::uint32_t>(edge.place)};
    }
    for (std::size_t j = 0; j < gets.size(); ++j) {
      const EdgeEnd& edge = edges_.in[j];
      if (edge.rank < 0) continue;
      std::uint64_t at = 0;
      if (!count(gets[j], body.in_lines)) at = exposed(body.output + gets[j].offset, gets[j].bytes, edge.rank);
      body.bytes += gets[j].bytes;
      body.in[body.ins++] = {gets[j].offset, gets[j].bytes, at, static_cast<std::uint32_t>(j),
                             static_cast<std::uint32_t>(half_ + static_cast<std::size_t>(edge.place))};
    }
    body.grain = collective::grain_of(places);
    Launching out;
    if (body.outs == 0 && body.ins == 0) return out;
    const auto reach = kMost == collective::kFewEdges ? collective::Reach::near : collective::Reach::far;
    const std::size_t lines = std::max(body.outs * body.out_lines, body.ins * body.in_lines);
    out.set(collective::move_edges_kernel(reach), body, grid_of(lines, large));
    return out;
  }

  // Where a source finds this rank's memory; 0: it cannot.
  std::uint64_t exposed(const std::byte* address, std::size_t bytes, int peer) {
    if (peer == fabric_->rank()) return reinterpret_cast<std::uint64_t>(address);
    return fabric_->expose(address, bytes, peer).value_or(0);
  }

  Grid grid_of(std::size_t lines, std::size_t large) const {
    if (device_->kind() == DeviceKind::host) return {1, 1};
    const Parameters& parameters = fabric_->parameters();
    const auto limit = static_cast<std::size_t>(std::clamp<std::int64_t>(
        parameters.collective_blocks, 1, std::min<std::int64_t>(fabric_->block_limit(), collective::kMostBlocks)));
    const auto up = [](std::size_t n, std::int64_t each) {
      const auto by = static_cast<std::size_t>(each);
      return (n + by - 1) / by;
    };
    const std::size_t for_large = up(large, parameters.collective_block_bytes);
    const std::size_t for_lines = up(lines, parameters.collective_line_threads);
    const std::size_t blocks = std::clamp<std::size_t>(std::max(for_large, for_lines), 1, limit);
    const std::size_t each = (up(lines, static_cast<std::int64_t>(blocks)) + 31) / 32 * 32;
    const std::size_t threads = large > 0 ? kMaxThreads : std::clamp<std::size_t>(each, 32, kMaxThreads);
    return {static_cast<int>(blocks), static_cast<int>(threads)};
  }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Ground> ground_;  // graphs that captured collectives keep it too
  EdgeList edges_;
  std::size_t half_ = 0;  // the most edges that any rank has in one direction
  bool announces_ = false;
  std::vector<int> sources_;
  std::vector<int> destinations_;
  std::unique_ptr<collective::EdgeChecking> checking_;  // in the checking mode
  collective::View view_;
  collective::Order order_;
  collective::Runner runner_;
};

Neighbourhood::Neighbourhood(std::shared_ptr<Fabric> fabric, const std::vector<int>& ranks, const NeighbourGrid& grid)
    : implementation_(std::make_unique<Implementation>(std::move(fabric), ranks, [&](int rank) {
        return collective::edges_of_grid(grid.dims, grid.periodic, ranks, rank);
      })) {}
Neighbourhood::Neighbourhood(std::shared_ptr<Fabric> fabric, const std::vector<int>& ranks, const NeighbourGraph& graph)
    : implementation_(std::make_unique<Implementation>(std::move(fabric), ranks, [&](int) {
        return collective::edges_of_graph(graph.sources, graph.destinations, ranks);
      })) {}
Neighbourhood::~Neighbourhood() = default;

const std::vector<int>& Neighbourhood::sources() const { return implementation_->sources(); }
const std::vector<int>& Neighbourhood::destinations() const { return implementation_->destinations(); }
void Neighbourhood::run(const CollectiveCall& call, Stream stream) { implementation_->run(call, stream); }
void Neighbourhood::run(const CollectiveCall& call) { implementation_->run(call); }
std::size_t Neighbourhood::device_bytes() const { return implementation_->device_bytes(); }

}  // namespace onstream
