// The ring of pass.hpp: the ranks of the team in their order.
//
// Half of a window goes round forward, half backward, so that both directions of every link are busy. In each step a
// rank loads the data that a neighbour had at the end of the step before, and then meets both neighbours.
#pragma once

#include "onstream/collective/sleeping/pass.hpp"

namespace onstream::collective {

// Forward, data comes from the rank before.
enum class RingWay : std::uint32_t { forward, backward };

struct RingPass {
  const PassWork& work;

  ONSTREAM_BODY static Lot lot(RingWay way) { return way == RingWay::forward ? Lot::first : Lot::second; }
  ONSTREAM_BODY std::uint32_t source_of(RingWay way) const {
    return way == RingWay::forward ? work.previous() : work.next();
  }
  ONSTREAM_BODY std::uint64_t neighbours() const {
    return (only(work.next()) | only(work.previous())) & ~only(work.view.rank);
  }
  // The rank `steps` before this one, seen against the way.
  ONSTREAM_BODY std::uint32_t back(RingWay way, std::uint32_t steps) const {
    const std::uint32_t size = work.view.size;
    const std::uint32_t by = steps % size;
    return (way == RingWay::forward ? work.view.rank + size - by : work.view.rank + by) % size;
  }

  // How parts are cut: in windows of two pieces, one for each way.
  struct RingCut {
    std::uint64_t part = 0;   // bytes of a part
    std::uint64_t whole = 0;  // of all parts, where they lie in a row and the last ones have less; else 0
    std::uint64_t piece = 0;
    std::uint64_t windows = 0;
  };
  template <Group G>
  ONSTREAM_BODY RingCut cut(const G& group, bool staged, std::uint64_t longer = 1) const {
    RingCut cut;
    cut.part = work.bytes;
    if (work.kind == OpKind::all_reduce) {
      cut.part = ((work.bytes + work.view.size - 1) / work.view.size + 15) / 16 * 16;
      cut.whole = work.bytes;
    }
    cut.piece = work.piece_of(group, cut.part, 2, staged, longer);
    cut.windows = (cut.part + 2 * cut.piece - 1) / (2 * cut.piece);
    return cut;
  }

  // The span of a part that one window moves one way.
  struct RingSpan {
    std::uint64_t offset = 0;  // in the buffer of all parts
    std::uint64_t within = 0;  // in the part
    std::uint64_t bytes = 0;
  };
  ONSTREAM_BODY static RingSpan span(const RingCut& cut, std::uint64_t window, RingWay way, std::uint32_t part) {
    RingSpan span;
    span.within = (2 * window + static_cast<std::uint64_t>(way)) * cut.piece;
    span.offset = part * cut.part + span.within;
    std::uint64_t rest = cut.part;
    if (cut.whole != 0) {
      const std::uint64_t begin = part * cut.part;
      const std::uint64_t left = begin < cut.whole ? cut.whole - begin : 0;
      rest = left < cut.part ? left : cut.part;
    }
    const std::uint64_t left = span.within < rest ? rest - span.within : 0;
    span.bytes = left < cut.piece ? left : cut.piece;
    return span;
  }
};

}  // namespace onstream::collective
