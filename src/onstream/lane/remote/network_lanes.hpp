// The lanes over which collectives and plans of ranks of several hosts exchange data: those of a world, one for each
// channel and for each plan. Made with the world, where it spans hosts.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onstream/lane/lanes.hpp"
#include "onstream/lane/remote/remote_lanes.hpp"

namespace onstream::lane {

class NetworkLanes : public std::enable_shared_from_this<NetworkLanes> {
 public:
  explicit NetworkLanes(Fabric& fabric);  // collective

  // Lanes that follow each other. They go back when the last holder lets go.
  class LaneLease {
   public:
    LaneLease(std::shared_ptr<NetworkLanes> lanes, int first, int count);
    ~LaneLease();
    LaneLease(const LaneLease&) = delete;
    LaneLease& operator=(const LaneLease&) = delete;
    int first() const { return first_; }
    NetworkLanes& lanes() const { return *lanes_; }

   private:
    std::shared_ptr<NetworkLanes> lanes_;
    int first_;
    int count_;
  };
  // Collective over the world: so many lanes, the same on every rank. Throws invalid_argument, on every rank, if no
  // rank has so many left (parameter teams).
  std::shared_ptr<LaneLease> take(Fabric& fabric, int lanes);
  const LaneView& view(int peer, int lane) const;
  // The number of the call that runs on this lane now, from 1 on. Those of one lane run one after the other.
  std::uint64_t count_call(int lane) { return ++calls_[static_cast<std::size_t>(lane)]; }
  net::NetworkProxy& proxy() { return remote_->proxy(); }

 private:
  Lanes lanes_;
  std::unique_ptr<RemoteLanes> remote_;
  std::vector<LaneView> views_;
  std::shared_ptr<const void> wait_memory_;  // a graph may outlive the world
  std::vector<std::uint64_t> calls_;
  std::mutex mutex_;
  std::string taken_;  // by lane: '1' or '0'
};

}  // namespace onstream::lane
