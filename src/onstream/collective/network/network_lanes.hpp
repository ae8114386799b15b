// The lanes over which collectives of ranks of several hosts exchange data: those of a world, one for each channel.
// Made with the world, where it spans hosts.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "onstream/lane/lanes.hpp"
#include "onstream/lane/remote/remote_lanes.hpp"

namespace onstream::collective {

class NetworkLanes {
 public:
  explicit NetworkLanes(Fabric& fabric);  // collective

  // Collective over the world: the lanes of so many channels of a team, from the answer on. Throws invalid_argument if
  // there are no more (parameter teams).
  int take(int channels);
  const lane::LaneView& view(int peer, int lane) const;
  // The number of the collective that runs on this lane now, from 1 on. Those of one lane run one after the other.
  std::uint64_t count_call(int lane) { return ++calls_[static_cast<std::size_t>(lane)]; }
  net::NetworkProxy& proxy() { return remote_->proxy(); }

 private:
  Lanes lanes_;
  std::unique_ptr<lane::RemoteLanes> remote_;
  std::vector<lane::LaneView> views_;
  std::vector<std::uint64_t> calls_;
  int taken_ = 0;
};

}  // namespace onstream::collective
