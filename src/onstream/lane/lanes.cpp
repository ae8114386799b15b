#include "onstream/lane/lanes.hpp"

#include <algorithm>
#include <bit>

#include "onstream/base/error.hpp"
#include "onstream/lane/host/shared_copy.hpp"

namespace onstream {

namespace {

// This rank's own counters of one lane, next to each other.
struct LaneCounters {
  lane::Sending sending;
  lane::Receiving receiving;
  lane::BlockTeam crew;
};

// Of the host device there is no block to spread over.
std::size_t spread_lanes_of(const Fabric& fabric) {
  if (fabric.device()->kind() == DeviceKind::host) return 0;
  return static_cast<std::size_t>(std::min(fabric.parameters().spread_tags, fabric.parameters().tags));
}

// Throws invalid_argument if they differ.
LaneShape shape_of_messages(Fabric& fabric) {
  const Parameters& parameters = fabric.parameters();
  LaneShape shape{};
  shape.lanes = static_cast<std::size_t>(parameters.tags);
  shape.ring_bytes = static_cast<std::size_t>(parameters.tag_bytes);
  shape.spread_lanes = spread_lanes_of(fabric);
  shape.spread_bytes = std::max(2 * shape.ring_bytes,  // sends run ahead there no less than elsewhere
                                static_cast<std::size_t>(parameters.spread_tag_bytes));
  shape.receives = static_cast<std::size_t>(parameters.tag_receives);
  const std::string mine = concat(
      "tags=", shape.lanes, " tag_bytes=", shape.ring_bytes, " spread_tags=", shape.spread_lanes,
      " spread_tag_bytes=", shape.spread_bytes, " spread_min_bytes=", parameters.spread_min_bytes,
      " spread_max_bytes=", parameters.spread_max_bytes, " tag_receives=", shape.receives,
      " ll_max_bytes=", parameters.ll_max_bytes, " host_ll_max_bytes=", parameters.host_ll_max_bytes,
      " copy_min_bytes=", parameters.copy_min_bytes, " path=", parameters.path,
      " attach_min_bytes=", parameters.attach_min_bytes, " message_copy_min_bytes=", parameters.message_copy_min_bytes,
      " load_min_bytes=", parameters.load_min_bytes, " rules of path_file=", fabric.paths().digest());
  const std::vector<std::string> all = fabric.all_gather("the comparison of parameters", mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    require(all[rank] == all[0], "tag parameters must be the same on every rank: rank 0 has ", all[0], ", rank ", rank,
            " has ", all[rank]);
  }
  return shape;
}

}  // namespace

Lanes::Lanes(Fabric& fabric) : Lanes(fabric, shape_of_messages(fabric)) {}

Lanes::Lanes(Fabric& fabric, const LaneShape& shape)
    : rank_(fabric.rank()),
      size_(static_cast<std::size_t>(fabric.size())),
      lanes_(shape.lanes),
      ring_units_(shape.ring_bytes / lane::kUnitBytes),
      spread_lanes_(shape.spread_lanes),
      spread_units_(shape.spread_bytes / lane::kUnitBytes),
      receives_(shape.receives) {
  const std::size_t slots = size_ * lanes_;
  returned_offset_ = size_ * units_below(lanes_) * lane::kUnitBytes;
  descriptors_offset_ = returned_offset_ + slots * sizeof(lane::Returned);
  acks_offset_ = descriptors_offset_ + slots * lane::descriptors_of(receives_) * sizeof(lane::ReceiveDescriptor);
  // The host device alone has shares (lane/host/shared_copy.hpp), behind the acks.
  const bool on_host = fabric.device()->kind() == DeviceKind::host;
  acks_bytes_ = lane::acks_of(receives_) * sizeof(std::uint64_t) + (on_host ? lane::share_bytes(receives_) : 0);
  // Memory that no peer writes lies behind it all: an allocation of its own would take whole pages.
  own_offset_ =
      (acks_offset_ + slots * acks_bytes_ + alignof(LaneCounters) - 1) / alignof(LaneCounters) * alignof(LaneCounters);
  shared_ = fabric.segment(own_offset_ + slots * (sizeof(LaneCounters) + receives_ * sizeof(lane::Posted)),
                           MemoryKind::device);
}

std::size_t Lanes::units_below(std::size_t lane) const {
  const std::size_t spread = std::min(lane, spread_lanes_);
  return spread * spread_units_ + (lane - spread) * ring_units_;
}

std::size_t Lanes::ring_offset(int rank, int lane) const {
  const std::size_t before = static_cast<std::size_t>(rank) * units_below(lanes_);
  return (before + units_below(static_cast<std::size_t>(lane))) * lane::kUnitBytes;
}

std::size_t Lanes::device_bytes() const { return shared_->bytes(); }

// Memory that `a` writes for `b` lies in b's part, in a's slot.
lane::LaneView Lanes::view(int peer, int lane) const {
  std::byte* local = shared_->local();
  const std::size_t mine = slot(peer, lane);     // the peer's slot in my part
  const std::size_t theirs = slot(rank_, lane);  // my slot in the peer's part
  auto* own = reinterpret_cast<LaneCounters*>(local + own_offset_) + mine;

  lane::LaneView view;
  view.sending = &own->sending;
  view.returned = reinterpret_cast<lane::Returned*>(local + returned_offset_) + mine;
  view.descriptors =
      reinterpret_cast<lane::ReceiveDescriptor*>(local + descriptors_offset_) + mine * lane::descriptors_of(receives_);
  view.acks = reinterpret_cast<std::uint64_t*>(local + acks_offset_ + mine * acks_bytes_);

  view.receiving = &own->receiving;
  view.ring = reinterpret_cast<Line*>(local + ring_offset(peer, lane));
  view.posted =
      reinterpret_cast<lane::Posted*>(local + own_offset_ + size_ * lanes_ * sizeof(LaneCounters)) + mine * receives_;
  view.crew = &own->crew;
  view.ring_shift = static_cast<std::uint64_t>(std::countr_zero(ring_units(lane)));
  view.receives = receives_;
  view.peer = peer;
  view.lane = lane;
  if (!shared_->direct(peer)) return view;  // on another host: lane/remote/remote_lanes.hpp completes it
  std::byte* remote = shared_->peer(peer);
  view.peer_ring = reinterpret_cast<Line*>(remote + ring_offset(rank_, lane));
  view.peer_returned = reinterpret_cast<lane::Returned*>(remote + returned_offset_) + theirs;
  view.peer_descriptors = reinterpret_cast<lane::ReceiveDescriptor*>(remote + descriptors_offset_) +
                          theirs * lane::descriptors_of(receives_);
  view.peer_acks = reinterpret_cast<std::uint64_t*>(remote + acks_offset_ + theirs * acks_bytes_);
  return view;
}

}  // namespace onstream
