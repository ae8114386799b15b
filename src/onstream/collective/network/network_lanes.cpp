#include "onstream/collective/network/network_lanes.hpp"

#include "onstream/base/error.hpp"
#include "onstream/collective/channel/channel.hpp"

namespace onstream::collective {

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
      remote_(std::make_unique<lane::RemoteLanes>(fabric.network(), net::ServiceNumber::collectives)),
      views_(lane::all_views(fabric, lanes_, remote_.get())),
      calls_(static_cast<std::size_t>(lanes_.count())) {
  require_same_parameters(fabric);
  fabric.barrier("the start of collectives");
}

int NetworkLanes::take(int channels) {
  require(taken_ + channels <= lanes_.count(), "collectives between hosts have ", lanes_.count(),
          " channels in all, those of teams included, and ", taken_, " are taken; raise teams");
  const int first = taken_;
  taken_ += channels;
  return first;
}

const lane::LaneView& NetworkLanes::view(int peer, int lane) const {
  const auto place = static_cast<std::size_t>(peer) * static_cast<std::size_t>(lanes_.count());
  const lane::LaneView& found = views_[place + static_cast<std::size_t>(lane)];
  if (found.remote != nullptr) found.remote->open();
  return found;
}

}  // namespace onstream::collective
