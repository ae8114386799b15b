// The sends and receives of a plan whose peers are on other hosts. A launch has one network message for each such peer
// and direction, however many ops go there: several ops, or a layout with gaps, are packed into it.
//
// A launch makes this exchange ahead of its kernel. So launches of one plan cannot wait for each other in a circle: an
// exchange waits for exchanges alone. Two plans that the ranks launch in different orders can, where one host would run
// them (docs/hosts.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "onstream/lane/remote/network_lanes.hpp"
#include "onstream/lane/remote/peer_exchange.hpp"
#include "onstream/layout.hpp"
#include "onstream/plan/kernel/view.hpp"

namespace onstream::plan {

class NetworkOps {
 public:
  // One send or receive.
  struct Move {
    std::uint32_t op;  // index in the plan
    OpKind kind;
    int peer;
    std::byte* address;
    LayoutView layout;
    std::uint64_t bytes;
  };

  // The moves of one peer come in the order of the sender's ops, on both ranks. Faults, times and the number of the
  // launch lie where `view` says.
  NetworkOps(std::shared_ptr<lane::NetworkLanes::LaneLease> lease, std::vector<Move> moves, const PlanView& view);
  NetworkOps(const NetworkOps&) = delete;
  NetworkOps& operator=(const NetworkOps&) = delete;

  // One launch's part, by a thread of the host. A failure is left in the plan's state, where the kernel finds it.
  void run();
  std::size_t peers() const { return pairs_.size(); }

 private:
  // A move, and its place in the message of its peer. Not packed: the message lies where the op has it.
  struct Placed {
    Move move;
    std::byte* packed;
  };
  lane::PeerExchange::Pair pair_with(int peer);
  std::byte* place(int peer, OpKind kind, std::size_t& bytes);
  void copy(const Placed& placed) const;
  void fail(const lane::PeerExchange::Ended& ended, std::uint64_t epoch) const;

  std::shared_ptr<lane::NetworkLanes::LaneLease> lease_;
  std::vector<Move> moves_;
  const PlanView view_;
  std::vector<std::vector<std::byte>> messages_;  // that are packed
  std::vector<Placed> packs_;
  std::vector<Placed> unpacks_;
  std::vector<lane::PeerExchange::Pair> pairs_;
  std::atomic<bool> running_ = false;
};

// Enqueues run(). `ops` lives as long as the stream's work.
void launch_network_ops(Device& device, NetworkOps& ops, Stream stream);

}  // namespace onstream::plan
