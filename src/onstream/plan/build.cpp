#include "onstream/plan/build.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "onstream/base/error.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/plan/build/match.hpp"
#include "onstream/plan/build/route.hpp"
#include "onstream/plan/network_edges.hpp"

namespace onstream {

namespace {

using plan::PeerExport;
using plan::Route;
using plan::StatedOp;
using plan::Statement;

// Plans built by this process so far; only proposals for the number that all ranks agree on.
std::atomic<std::uint64_t> plans_built{0};

std::string device_identity(const Device& device) {
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return concat(host.data(), "/", name_of(device.kind()), "/", device.index());
}

bool is_alone(OpKind kind) { return kind == OpKind::put || kind == OpKind::get; }
bool is_message(OpKind kind) { return kind == OpKind::send || kind == OpKind::recv; }
bool is_transfer(OpKind kind) { return is_message(kind) || is_alone(kind); }

class Build {
  using Edge = plan::Edge;

 public:
  Build(std::shared_ptr<Fabric> fabric, PlanRequest request)
      : fabric_(std::move(fabric)),
        name_(std::move(request.name)),
        path_(request.path),
        ops_(std::move(request.ops)),
        calls_(std::move(request.calls)),
        problems_(std::move(request.problems)),
        lanes_(std::move(request.lanes)) {}

  std::unique_ptr<Plan::Implementation> run() {
    exchange_statements();
    routes_ = plan::routes_of(statements_, local_edges(), fabric_->device()->kind());
    exchange_exports();
    plan::choose_paths(routes_, statements_, fabric_->paths());
    const plan::Room room = plan::place(routes_, fabric_->size());
    built_ = std::make_unique<Plan::Implementation>();
    try {
      built_->resources->segment = fabric_->segment(room.bytes, MemoryKind::device);
      if (room.word_bytes > 0) built_->resources->words = fabric_->segment(room.word_bytes, MemoryKind::pinned);
      for (const auto& call : calls_) call->open();
      if (!network_edges_.empty()) lease_ = lanes_->take(*fabric_, 1);
      (void)fabric_->agree("the end of a plan's build", [this] {
        check_destinations();
        finish();
        return std::string();
      });
      prepare_calls();
    } catch (const Error& error) {
      if (error.of_failure()) throw;
      throw Error(error.code(), concat("plan '", name_, "' cannot be built:\n  ", error.what()));
    }
    fabric_->name_plan(number_, name_, tags());
    return std::move(built_);
  }

 private:
  // By op; -1: not of a message.
  std::vector<int> tags() const {
    std::vector<int> tags;
    for (const PlanOp& planned : planned_) tags.push_back(is_message(planned.op.kind) ? planned.op.tag : -1);
    return tags;
  }

  // --- this rank's statement ---

  StatedOp stated(const Op& op) const {
    StatedOp out;
    out.kind = op.kind;
    out.peer = op.peer;
    out.tag = op.tag;
    out.layout = op.layout.view();
    out.bytes = op.layout.bytes();
    out.element = op.element;
    out.note = op.note;
    out.landing = landing_of(op);
    if (is_transfer(op.kind)) {
      out.path = path_;
      out.wanted_by = "set by use_path";
      if (path_ == Path::automatic) {
        out.path = path_from(fabric_->parameters().path);
        out.wanted_by = "set by parameter path";
      }
      if (out.bytes > 0) {
        const MemoryInfo info = fabric_->device()->inspect(op.address);
        out.kernel_access = info.kernel_access || is_plain(info) ? 1 : 0;  // plain: its stand-in
      }
    }
    return out;
  }

  plan::Landing landing_of(const Op& op) const {
    if (op.layout.bytes() == 0 || op.address == nullptr || op.kind == OpKind::send) return {};
    if (op.kind != OpKind::put) {
      return {fabric_->rank(), reinterpret_cast<std::int64_t>(op.address), op.layout.view()};
    }
    const std::int64_t offset = static_cast<const std::byte*>(op.remote) - op.segment->peer(op.peer);
    return {op.peer, static_cast<std::int64_t>(op.segment->address_at(op.peer)) + offset, op.remote_layout.view()};
  }

  // Puts and gets concern this rank alone. Fills planned_ for them; returns why one cannot be made, or "".
  std::string plan_alone(std::size_t index, const StatedOp& stated) {
    const Op& op = ops_[index];
    const bool puts = op.kind == OpKind::put;
    const Path by_kernel = puts ? Path::store : Path::load;
    path::Transfer transfer;
    transfer.bytes = stated.bytes;
    transfer.device = fabric_->device()->kind();
    (puts ? transfer.source : transfer.destination).kernel_access = stated.kernel_access != 0;
    transfer.source.mapped = transfer.destination.mapped = true;  // the caller got the address from the segment
    const auto pieces = pieces_of(op.remote_layout.view(), op.layout.view(), path::kMaxPieces);
    transfer.pieces = pieces ? std::max<std::uint64_t>(1, pieces->size()) : 0;
    transfer.wanted = by_kernel;
    transfer.wanted_by = puts ? "a put goes straight into the segment" : "a get comes straight out of the segment";
    if (path_ != Path::automatic) {
      transfer.wanted = path_;
      transfer.wanted_by = stated.wanted_by;
    } else if (stated.path == Path::copy || stated.path == Path::memop) {
      transfer.wanted = stated.path;
      transfer.wanted_by = stated.wanted_by;
    } else if (stated.bytes > 0 && stated.kernel_access == 0) {
      transfer.wanted = Path::copy;
      transfer.wanted_by = concat("kernels cannot touch the ", puts ? "source" : "destination");
    }
    if (transfer.wanted != by_kernel && transfer.wanted != Path::copy && transfer.wanted != Path::memop) {
      return concat("path ", name_of(transfer.wanted), " (", transfer.wanted_by, ") cannot carry a ", name_of(op.kind),
                    "; ", name_of(by_kernel), ", copy and memop can");
    }
    const path::Choice choice = choose(fabric_->paths(), transfer);
    planned_[index].path = choice.path;
    planned_[index].why = why(fabric_->paths(), transfer, choice);
    return choice.path == Path::automatic ? planned_[index].why : "";
  }

  void add_problem(const std::string& problem) { problems_ += (problems_.empty() ? "" : "\n  ") + problem; }

  void state_ops(Statement& mine) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      mine.ops.push_back(stated(ops_[i]));
      if (!is_alone(ops_[i].kind)) continue;
      const std::string obstacle = plan_alone(i, mine.ops[i]);
      if (obstacle.empty()) continue;
      add_problem(concat("rank ", fabric_->rank(), " op ", i, ": ", describe(mine.ops[i]), ": ", obstacle));
    }
    for (const auto& call : calls_) mine.calls.push_back(call->state());
  }

  void exchange_statements() {
    Statement mine;
    mine.name = name_;
    mine.number = plans_built.fetch_add(1) + 1;
    mine.device = device_identity(*fabric_->device());
    for (const Op& op : ops_) planned_.push_back({op, Path::automatic, ""});
    try {
      state_ops(mine);
    } catch (const std::exception& error) {
      add_problem(concat("rank ", fabric_->rank(), ": ", error.what()));
    }
    mine.problems = problems_;
    for (const std::string& bytes : fabric_->all_gather("the build of a plan", pack(mine))) {
      statements_.push_back(plan::unpack(bytes));
    }
    for (const Statement& one : statements_) number_ = std::max(number_, one.number);
    std::uint64_t seen = plans_built.load();
    while (seen < number_ && !plans_built.compare_exchange_weak(seen, number_)) {
    }
  }

  // --- what goes between hosts ---

  // The edges within hosts; network_edges_ are the others.
  std::vector<Edge> local_edges() {
    std::vector<Edge> edges = plan::match(statements_);
    network_edges_ = plan::take_network_edges(edges, *fabric_);
    plan::check_network_paths(network_edges_, statements_);
    return edges;
  }

  void make_network_ops() {
    const std::vector<plan::NetworkOps::Move> moves = plan::network_moves(network_edges_, fabric_->rank(), ops_);
    for (const plan::NetworkOps::Move& move : moves) {
      PlanOp& planned = planned_[move.op];
      planned.path = Path::net;
      planned.why = concat("rank ", move.peer, " is on another host (", fabric_->network()->describe(), ")");
    }
    if (moves.empty()) return;
    built_->resources->network = std::make_unique<plan::NetworkOps>(lease_, moves, built_->view);
  }

  // --- which memory each peer can reach ---

  template <class Mine>
  std::vector<PeerExport> export_mine(const Mine& mine) {
    std::vector<PeerExport> peer_exports;
    for (std::size_t i = 0; i < routes_.size(); ++i) {
      const Route& route = routes_[i];
      if (route.local() || !needs_mapping(fabric_->paths(), route.transfer)) continue;
      const int op = mine(route);
      if (op >= 0) peer_exports.push_back(export_to_peer(i, ops_[static_cast<std::size_t>(op)]));
    }
    return peer_exports;
  }

  PeerExport export_to_peer(std::size_t route, const Op& op) {
    PeerExport peer_export;
    peer_export.route = route;
    if (op.layout.bytes() == 0) {
      peer_export.exported = true;
      return peer_export;
    }
    const std::int64_t lowest = op.layout.lowest();
    const auto* first = static_cast<const std::byte*>(op.address) + lowest;
    try {
      const auto seen = fabric_->export_in_time(first, static_cast<std::size_t>(op.layout.highest() - lowest), op.peer);
      peer_export.exported = seen.has_value();
      if (seen) peer_export.address = *seen - static_cast<std::uint64_t>(lowest);
      if (!seen) peer_export.why_not = fabric_->why_not(first, op.peer);
    } catch (const std::exception& error) {  // told to all, with the path that then cannot be
      peer_export.why_not = error.what();
    }
    return peer_export;
  }

  template <class Apply>
  void gather_exports(std::string_view topic, const std::vector<PeerExport>& mine, const Apply& apply) {
    for (const std::string& bytes : fabric_->all_gather(topic, pack(mine))) {
      for (const PeerExport& peer_export : plan::unpack_exports(bytes)) {
        if (peer_export.route >= routes_.size())
          fail(ErrorCode::system, "a rank exports memory for a route that is none");
        apply(routes_[peer_export.route], peer_export);
      }
    }
  }

  void exchange_exports() {
    const int rank = fabric_->rank();
    const auto needed = [&](const Route& route) {
      return !route.local() && needs_mapping(fabric_->paths(), route.transfer);
    };
    if (std::none_of(routes_.begin(), routes_.end(), needed)) return;
    gather_exports("the destinations of a plan", export_mine([&](const Route& route) {
                     return route.edge.destination_rank == rank ? route.edge.destination_op : -1;
                   }),
                   [](Route& route, const PeerExport& peer_export) {
                     route.destination_address = peer_export.address;
                     route.transfer.destination.mapped = peer_export.exported;
                     route.transfer.destination.why_not = peer_export.why_not;
                   });
    // Sources matter only where they are to be loaded from, or where nothing can be stored.
    const auto pulls = [&](const Route& route) {
      return needed(route) && (route.transfer.wanted == Path::load ||
                               (route.transfer.wanted == Path::automatic && !route.transfer.destination.mapped));
    };
    if (std::none_of(routes_.begin(), routes_.end(), pulls)) return;
    gather_exports("the sources of a plan", export_mine([&](const Route& route) {
                     return route.edge.source_rank == rank && pulls(route) ? route.edge.source_op : -1;
                   }),
                   [](Route& route, const PeerExport& peer_export) {
                     route.source_address = peer_export.address;
                     route.transfer.source.mapped = peer_export.exported;
                     route.transfer.source.why_not = peer_export.why_not;
                   });
  }

  // --- the tables ---

  int most_blocks() const {
    const Device& device = *fabric_->device();
    if (device.kind() == DeviceKind::host) return 1;
    const std::int64_t allowed = std::min<std::int64_t>(fabric_->parameters().max_blocks, fabric_->block_limit());
    return static_cast<int>(std::min<std::int64_t>(allowed, plan::kMostParts));
  }

  static bool is_plain(const MemoryInfo& info) { return !info.kernel_access && info.kind == MemoryKind::host; }

  // For all plain buffers, and for sources of other kinds that kernels are to read and cannot.
  std::vector<plan::StandIn> make_stand_ins() {
    constexpr std::size_t kAlignment = 256;
    std::vector<plan::StandIn> all(ops_.size());
    // One allocation for those of a kind, as each takes 2 MiB at least.
    const auto make = [&](const std::vector<std::size_t>& ops, MemoryKind kind, bool plain) {
      std::size_t end = 0;
      std::vector<std::size_t> places;
      for (const std::size_t op : ops) {
        places.push_back(end);
        end += (ops_[op].layout.bytes() + kAlignment - 1) / kAlignment * kAlignment;
      }
      if (end == 0) return;
      const std::shared_ptr<Memory> memory = fabric_->device()->allocate(end, kind);
      for (std::size_t i = 0; i < ops.size(); ++i) all[ops[i]] = {memory->data() + places[i], plain};
      built_->resources->stand_ins.push_back(memory);
    };
    std::vector<std::size_t> plain;
    std::vector<std::size_t> untouchable;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (!is_transfer(op.kind) || op.layout.bytes() == 0) continue;
      if (is_plain(fabric_->device()->inspect(op.address))) plain.push_back(i);
    }
    for (const Route& route : routes_) {
      const Path path = route.choice.path;
      const bool by_kernel = path != Path::copy && path != Path::load && path != Path::memop;
      if (route.edge.source_rank != fabric_->rank() || route.transfer.source.kernel_access || !by_kernel) continue;
      untouchable.push_back(static_cast<std::size_t>(route.edge.source_op));
    }
    make(plain, MemoryKind::pinned, true);
    make(untouchable, MemoryKind::device, false);
    return all;
  }

  std::vector<std::uint64_t> read_counters() const {
    std::vector<std::uint64_t> bases(ops_.size(), 0);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].kind != OpKind::wait || ops_[i].until) continue;
      fabric_->streams()->copy_now(&bases[i], ops_[i].address, sizeof bases[i]);
    }
    return bases;
  }

  void note_paths() {
    for (const Route& route : routes_) {
      const Edge& edge = route.edge;
      if (edge.source_rank == fabric_->rank()) note_path(edge.source_op, route);
      if (edge.destination_rank == fabric_->rank()) note_path(edge.destination_op, route);
    }
  }
  void note_path(int op, const Route& route) {
    planned_[static_cast<std::size_t>(op)].path = route.choice.path;
    planned_[static_cast<std::size_t>(op)].why = why(fabric_->paths(), route.transfer, route.choice);
  }

  // Each rank looks at its own memory, and tells all.
  void check_destinations() {
    const plan::Overlaps found = plan::find_overlaps(statements_, fabric_->rank());
    require(found.story.empty(), found.story, "; ops of a launch run at once");
    built_->unlisted_runs = found.unlisted;
  }

  void finish() {
    note_paths();
    const std::vector<plan::StandIn> stand_ins = make_stand_ins();
    const std::vector<std::uint64_t> bases = read_counters();
    plan::Lowering lowering;
    lowering.rank = fabric_->rank();
    lowering.ops = &ops_;
    lowering.planned = &planned_;
    lowering.routes = &routes_;
    lowering.counter_bases = &bases;
    lowering.stand_ins = &stand_ins;
    lowering.segment = built_->resources->segment.get();
    lowering.words = built_->resources->words.get();
    lowering.number = number_;
    lowering.block_bytes = static_cast<std::uint64_t>(fabric_->parameters().block_bytes);
    lowering.most_blocks = most_blocks();
    lowering.device = fabric_->device()->kind();
    const plan::Program program = plan::lower(lowering);
    built_->resources->tables =
        std::make_unique<plan::PlanTables>(*fabric_->device(), fabric_->streams(), program, ops_.size());
    built_->view = built_->resources->tables->view();
    built_->view.announce_release = program.announce_release;
    built_->view.number = number_;
    built_->view.wait = fabric_->wait_view();
    make_network_ops();
    if (program.brief) {
      built_->brief = built_->resources->tables->brief();
      built_->brief->number = number_;
      built_->brief->wait = fabric_->wait_view();
    }
    for (const Op& op : ops_) {
      if (op.segment != nullptr) built_->resources->of_user.push_back(op.segment);
    }
    built_->resources->wait_memory = fabric_->wait_memory();
    built_->blocks = static_cast<int>(program.blocks.size());
    built_->mover_blocks = program.mover_blocks;
    built_->threads = program.threads;
    built_->kernels = program.no_kernel ? 0 : program.two_kernels ? 2 : 1;
    if (std::ranges::all_of(statements_, [](const Statement& one) { return one.ops.empty(); })) built_->kernels = 0;
    if (built_->kernels == 0) built_->brief.reset();
    if (!program.words.empty()) {
      built_->resources->slots =
          std::make_unique<plan::Slots>(fabric_->device(), *fabric_->streams(), fabric_->watch(), program.words,
                                        built_->kernels > 0 ? plan::WorkBetween::kernels : plan::WorkBetween::nothing);
    }
    built_->resources->host_before = program.host_before;
    built_->resources->host_after = program.host_after;
    built_->before = program.before;
    built_->middle = program.middle;
    built_->after = program.after;
    find_prefetches();
    built_->fabric = fabric_;
    built_->name = name_;
    built_->ops = planned_;
    note_memory();
  }

  // Prepares them one after the other on all ranks, as those that take part may wait for each other: a failure on one
  // ends the build on all.
  void prepare_calls() {
    for (const std::vector<std::int32_t>& ranks : plan::match_calls(statements_).ranks) {
      (void)fabric_->agree("a collective of a plan", [&] {
        if (std::ranges::count(ranks, fabric_->rank()) == 0) return std::string();
        built_->calls.push_back(calls_[built_->calls.size()]->prepare());
        built_->ops.push_back(built_->calls.back().row);
        return std::string();
      });
    }
  }

  void note_memory() {
    const Device& device = *fabric_->device();
    built_->frees = device.frees();  // first: memory freed meanwhile is looked at again
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (op.address == nullptr || (is_transfer(op.kind) && op.layout.bytes() == 0)) continue;
      const void* first = static_cast<const std::byte*>(op.address) + (is_transfer(op.kind) ? op.layout.lowest() : 0);
      if (const std::uint64_t id = device.inspect(first).id; id != 0) built_->known.push_back({i, first, id});
    }
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      for (const void* address : calls_[i]->buffers()) {
        const std::uint64_t id = device.inspect(address).id;
        if (id != 0) built_->known.push_back({ops_.size() + i, address, id});
      }
    }
  }

  // Small transfers fault on fewer pages than a prefetch costs.
  void find_prefetches() {
    if (fabric_->parameters().managed_prefetch != "device") return;
    for (const PlanOp& planned : planned_) {
      const Op& op = planned.op;
      if (!is_transfer(op.kind) || op.layout.bytes() == 0 || planned.path == Path::ll) continue;
      if (fabric_->device()->inspect(op.address).kind != MemoryKind::managed) continue;
      const std::int64_t lowest = op.layout.lowest();
      built_->prefetches.push_back(
          {static_cast<std::byte*>(op.address) + lowest, static_cast<std::size_t>(op.layout.highest() - lowest)});
    }
  }

  std::shared_ptr<Fabric> fabric_;
  std::string name_;
  Path path_;
  std::vector<Op> ops_;
  std::vector<std::shared_ptr<const plan::PlannedCall>> calls_;
  std::string problems_;
  std::shared_ptr<lane::NetworkLanes> lanes_;
  std::shared_ptr<lane::NetworkLanes::LaneLease> lease_;  // for network_edges_, the same on every rank
  std::vector<plan::Edge> network_edges_;
  std::vector<PlanOp> planned_;
  std::vector<Statement> statements_;
  std::vector<Route> routes_;
  std::uint64_t number_ = 0;
  std::unique_ptr<Plan::Implementation> built_;
};

}  // namespace

std::unique_ptr<Plan::Implementation> build_plan(std::shared_ptr<Fabric> fabric, PlanRequest request) {
  return Build(std::move(fabric), std::move(request)).run();
}

}  // namespace onstream
