// Hosts: which ranks share this rank's host, and the network to all others.
//
// A world of one host has no network, and nothing of it is loaded. Parameter host_ranks makes hosts of any so many
// ranks, for tests on one machine. The end is told over the mesh: a rank that leaves says how many network messages it
// has sent, and counts as gone when they have come.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/launch.hpp"
#include "onstream/parameters.hpp"
#include "onstream/transport/net/proxy.hpp"

namespace onstream {

class Hosts {
 public:
  struct Hooks {
    std::function<void(int peer)> on_left;
    std::function<void(int peer, const std::string& why)> on_death;
    std::function<void(const std::string& why)> on_failure;
  };

  // Before the mesh starts.
  Hosts(const Launch& launch, const Parameters& parameters, Mesh& mesh, Hooks hooks);

  bool several() const { return several_; }
  bool is_remote(int peer) const { return host_of(peer) != host_of(rank_); }
  // Ranks of one host have one number.
  int host_of(int peer) const { return hosts_.at(static_cast<std::size_t>(peer)); }
  // Why no op of this rank loads from and stores to memory of that one; "" if they share a host.
  std::string why_apart(int peer) const;
  const std::shared_ptr<net::NetworkProxy>& network() const { return network_; }  // null before connect()

  // Collective, once the mesh has started.
  void connect(Deadline deadline);
  // A peer has said goodbye over the mesh.
  void note_goodbye(int peer);
  // Now and then, in the mesh's thread: ranks that the network has lost, and that the mesh still has.
  void tick();
  // The world has failed.
  void fail() {
    if (started_.load(std::memory_order_acquire)) network_->fail();
  }
  // This rank leaves: before its own goodbye.
  void leave();

 private:
  struct LostPeer {
    std::string why;
    Deadline limit;
  };

  void open(Deadline deadline);
  bool turns() const;

  const Launch& launch_;
  const Parameters& parameters_;
  const int rank_;
  const int size_;
  Mesh& mesh_;
  Hooks hooks_;
  std::vector<int> hosts_;
  bool several_ = false;
  std::mutex mutex_;
  std::map<int, LostPeer> lost_;
  std::map<int, std::uint64_t> announced_;  // by leaving peers: network messages in all
  std::shared_ptr<net::NetworkProxy> network_;
  std::atomic<bool> started_ = false;  // from then on network_ does not change
};

}  // namespace onstream
