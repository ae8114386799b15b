#include "onstream/lane/remote/network_lanes.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"

namespace onstream::lane {

namespace {

LaneShape shape_of(const Fabric& fabric) {
  constexpr std::size_t kRingBytes = 32768;
  constexpr std::size_t kReceives = 64;  // large parts of one peer that may be under way
  const Parameters& parameters = fabric.parameters();
  return {static_cast<std::size_t>(parameters.collective_channels + parameters.teams), kRingBytes, 0, kRingBytes,
          kReceives};
}

}  // namespace

NetworkLanes::NetworkLanes(Fabric& fabric)
    : lanes_(fabric, shape_of(fabric)),
      remote_(std::make_unique<RemoteLanes>(fabric.network(), net::ServiceNumber::exchanges)),
      views_(all_views(fabric, lanes_, remote_.get())),
      wait_memory_(fabric.wait_memory()),
      calls_(static_cast<std::size_t>(lanes_.count())),
      taken_(static_cast<std::size_t>(lanes_.count()), '0') {
  fabric.barrier("the start of exchanges between hosts");
}

std::shared_ptr<NetworkLanes::LaneLease> NetworkLanes::take(Fabric& fabric, int lanes) {
  const auto mine = [this] {
    const std::lock_guard lock(mutex_);
    return taken_;
  };
  std::string taken(taken_.size(), '0');
  for (const std::string& theirs : fabric.all_gather("lanes between hosts", mine())) {
    for (std::size_t lane = 0; lane < taken.size(); ++lane) {
      if (theirs.at(lane) == '1') taken[lane] = '1';
    }
  }
  const std::size_t first = taken.find(std::string(static_cast<std::size_t>(lanes), '0'));
  require(first != std::string::npos, "teams, neighbourhoods and plans between hosts have ", lanes_.count(),
          " channels in all, and ", std::ranges::count(taken, '1'), " are taken; raise teams, or let some go");
  return std::make_shared<LaneLease>(shared_from_this(), static_cast<int>(first), lanes);
}

NetworkLanes::LaneLease::LaneLease(std::shared_ptr<NetworkLanes> lanes, int first, int count)
    : lanes_(std::move(lanes)), first_(first), count_(count) {
  const std::lock_guard lock(lanes_->mutex_);
  std::fill_n(lanes_->taken_.begin() + first_, count_, '1');
}

NetworkLanes::LaneLease::~LaneLease() {
  const std::lock_guard lock(lanes_->mutex_);
  std::fill_n(lanes_->taken_.begin() + first_, count_, '0');
}

const LaneView& NetworkLanes::view(int peer, int lane) const {
  const auto place = static_cast<std::size_t>(peer) * static_cast<std::size_t>(lanes_.count());
  const LaneView& found = views_[place + static_cast<std::size_t>(lane)];
  if (found.remote != nullptr) found.remote->open();
  return found;
}

}  // namespace onstream::lane
