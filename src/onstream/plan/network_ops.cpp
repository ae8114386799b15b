#include "onstream/plan/network_ops.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "onstream/device/entry.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/plan/kernel/report.hpp"

namespace onstream::plan {

namespace {

const HostGroup kCaller(0, 1);

struct RunNetworkOps {
  NetworkOps* ops = nullptr;

  void operator()(const HostGroup&) const { ops->run(); }
};

const Kernel& network_kernel() {
  static const Kernel kernel{"plan_network", host_entry<RunNetworkOps>, nullptr};
  return kernel;
}

}  // namespace

NetworkOps::NetworkOps(std::shared_ptr<lane::NetworkLanes::LaneLease> lease, std::vector<Move> moves,
                       const PlanView& view)
    : lease_(std::move(lease)), moves_(std::move(moves)), view_(view) {
  std::set<int> peers;
  for (const Move& move : moves_) peers.insert(move.peer);
  for (const int peer : peers) pairs_.push_back(pair_with(peer));
}

lane::PeerExchange::Pair NetworkOps::pair_with(int peer) {
  const auto any = [&](OpKind kind) {
    return std::ranges::any_of(moves_, [&](const Move& move) { return move.peer == peer && move.kind == kind; });
  };
  lane::PeerExchange::Pair pair{};
  pair.lane = &lease_->lanes().view(peer, lease_->first());
  pair.sends = any(OpKind::send);
  pair.receives = any(OpKind::recv);
  pair.out = place(peer, OpKind::send, pair.out_bytes);
  pair.in = place(peer, OpKind::recv, pair.in_bytes);
  return pair;
}

// Where the message of one direction lies: at the op, if it is one without gaps; else where it is packed.
std::byte* NetworkOps::place(int peer, OpKind kind, std::size_t& bytes) {
  std::vector<const Move*> all;
  bytes = 0;
  for (const Move& move : moves_) {
    if (move.peer != peer || move.kind != kind || move.bytes == 0) continue;
    all.push_back(&move);
    bytes += move.bytes;
  }
  if (all.empty()) return nullptr;
  if (all.size() == 1 && all.front()->layout.dims == 0) return all.front()->address;
  std::byte* const message = messages_.emplace_back(bytes).data();
  std::byte* at = message;
  for (const Move* move : all) {
    (kind == OpKind::send ? packs_ : unpacks_).push_back({*move, at});
    at += move->bytes;
  }
  return message;
}

void NetworkOps::copy(const Placed& placed) const {
  const std::uint64_t begin = kCaller.now_ns();
  const Move& move = placed.move;
  const LayoutView plain{move.bytes, 0, {}, {}};
  const CopySide message{placed.packed, &plain};
  const CopySide own{move.address, &move.layout};
  const bool sends = move.kind == OpKind::send;
  copy_part(kCaller, sends ? message : own, sends ? own : message, move.bytes, 1, 0, 1);
  kCaller.add(&view_.ops[move.op].move_ns, kCaller.now_ns() - begin);
}

void NetworkOps::run() {
  const std::uint64_t epoch = kCaller.load_relaxed(view_.epochs) + 1;
  if (running_.exchange(true)) return report_overlap(kCaller, view_.state, view_.number, view_.wait, epoch);
  if (kCaller.load_relaxed(&view_.state->failed) == 0) {
    for (const Placed& placed : packs_) copy(placed);
    const std::uint64_t begin = kCaller.now_ns();
    const lane::PeerExchange::Ended ended = lane::PeerExchange(view_.wait, pairs_, view_.number).run();
    const std::uint64_t waited = kCaller.now_ns() - begin;
    if (ended.status == Status::ok) {
      for (const Placed& placed : unpacks_) copy(placed);
      for (const Move& move : moves_) {
        OpState& op = view_.ops[move.op];
        kCaller.add(move.kind == OpKind::send ? &op.move_ns : &op.wait_ns, waited);
      }
    } else {
      fail(ended, epoch);
    }
  }
  running_.store(false);
}

void NetworkOps::fail(const lane::PeerExchange::Ended& ended, std::uint64_t epoch) const {
  // Sizes were compared when the plan was built: only launches that run at once mix their messages up.
  if (ended.status == Status::misused) return report_overlap(kCaller, view_.state, view_.number, view_.wait, epoch);
  const auto of_peer = [&](OpKind kind) {
    return std::ranges::find_if(moves_, [&](const Move& move) { return move.peer == ended.peer && move.kind == kind; });
  };
  auto stuck = of_peer(OpKind::recv);
  if (stuck == moves_.end()) stuck = of_peer(OpKind::send);
  Task task;
  task.op = stuck->op;
  task.kind = stuck->kind;
  task.peer = stuck->peer;
  task.bytes = stuck->bytes;
  report_wait(kCaller, view_.state, view_.ops, task, view_.number, view_.wait, ended.status, epoch);
  lease_->lanes().proxy().turn();  // a network that has failed ends, and reads and writes these buffers no more
}

void launch_network_ops(Device& device, NetworkOps& ops, Stream stream) {
  onstream::launch(device, network_kernel(), RunNetworkOps{&ops}, {1, 1}, stream);
}

}  // namespace onstream::plan
