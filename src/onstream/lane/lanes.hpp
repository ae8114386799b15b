// The lanes of a world: their memory, and the view of each that kernels get.
//
// One symmetric segment holds the memory that peers write (rings, credits, receive descriptors, acks) and, behind it,
// the counters that only this rank's kernels touch. Nothing here changes after construction.
#pragma once

#include <memory>

#include "onstream/lane/memory/lane.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

struct LaneShape {
  std::size_t lanes;  // of each pair of ranks
  std::size_t ring_bytes;
  std::size_t spread_lanes;  // of these, the first ones, which have rings of spread_bytes
  std::size_t spread_bytes;
  std::size_t receives;
};

class Lanes {
 public:
  // Of messages, by the parameters. Collective. Throws invalid_argument if the ranks' lane parameters differ.
  explicit Lanes(Fabric& fabric);
  // Any others. Collective; the shape is the same on every rank.
  Lanes(Fabric& fabric, const LaneShape& shape);

  int count() const { return static_cast<int>(lanes_); }
  lane::LaneView view(int peer, int lane) const;
  // Payload of the largest message that may travel in a lane's ring: the receiver keeps back up to a quarter of the
  // credit, and on a lane that spreads also that of the last spread message (lane/spread.hpp).
  std::size_t ring_capacity(int lane) const {
    const std::size_t units = spreads(lane) ? spread_units_ / 8 * 3 : ring_units_ / 4 * 3;
    return (units * lane::kUnitLines - 1) * kLineData;
  }
  // Whether messages may be spread over several blocks there (lane/spread.hpp).
  bool spreads(int lane) const { return lane < spread_count(); }
  int spread_count() const { return static_cast<int>(spread_lanes_); }  // the first ones
  std::size_t device_bytes() const;

 private:
  std::size_t slot(int rank, int lane) const {
    return static_cast<std::size_t>(rank) * lanes_ + static_cast<std::size_t>(lane);
  }
  std::size_t ring_units(int lane) const { return spreads(lane) ? spread_units_ : ring_units_; }
  // Of all lanes of one peer below `lane`.
  std::size_t units_below(std::size_t lane) const;
  std::size_t ring_offset(int rank, int lane) const;

  int rank_;
  std::size_t size_;
  std::size_t lanes_;
  std::size_t ring_units_;
  std::size_t spread_lanes_;
  std::size_t spread_units_;
  std::size_t receives_;
  std::size_t returned_offset_;
  std::size_t descriptors_offset_;
  std::size_t acks_offset_;
  std::size_t acks_bytes_;  // of one lane and peer, with the shares behind them
  std::size_t own_offset_;
  std::shared_ptr<Segment> shared_;
};

}  // namespace onstream
