// What the ring collectives share: who is next to whom, how the data is cut up, and when neighbours meet.
//
// The ring is the ranks of the team in their order. Data is dealt to blocks in windows; half of a window goes round
// forward, half backward, so that both directions of every link are busy. In each step a rank loads what a neighbour
// had at the end of the step before, from its buffers or, where some rank cannot address some buffer, from its stage,
// and then meets both neighbours: nobody else. A window in the stage has two places for each direction, used by turns:
// a neighbour has read one when it has ended the step behind.
#pragma once

#include "onstream/collective/meeting.hpp"

namespace onstream::collective {

struct RingWork {
  View view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;   // as in a call: of a part, or of the vector that all_reduce deals to all ranks
  std::uint32_t direct = 0;  // not 0: both neighbours can address this rank's buffers
  std::uint32_t root = 0;
  OpKind kind = OpKind::none;
  std::uint64_t signature = 0;
  Whereabouts for_next;  // where the neighbours find this rank's buffers
  Whereabouts for_previous;

 protected:
  static constexpr std::uint64_t kMostPiece = 128 << 10;

  // Clockwise data comes from the rank before.
  enum class Way : std::uint32_t { forward, backward };

  ONSTREAM_BODY std::uint32_t next() const { return view.rank + 1 == view.size ? 0 : view.rank + 1; }
  ONSTREAM_BODY std::uint32_t previous() const { return view.rank == 0 ? view.size - 1 : view.rank - 1; }
  ONSTREAM_BODY std::uint32_t source_of(Way way) const { return way == Way::forward ? previous() : next(); }
  ONSTREAM_BODY std::uint64_t neighbours() const { return (only(next()) | only(previous())) & ~only(view.rank); }

  // For Meeting::open.
  struct Addresses {
    const RingWork& work;
    ONSTREAM_BODY Whereabouts operator[](std::uint32_t peer) const {
      if (peer == work.next()) return work.for_next;
      return peer == work.previous() ? work.for_previous : Whereabouts{};
    }
  };

  // The rank `steps` before this one, seen against the way.
  ONSTREAM_BODY std::uint32_t back(Way way, std::uint32_t steps) const {
    const std::uint32_t by = steps % view.size;
    const std::uint32_t place = way == Way::forward ? view.rank + view.size - by : view.rank + by;
    return place % view.size;
  }

  // How parts are cut: in windows of two pieces, one for each way.
  struct Cut {
    std::uint64_t part = 0;   // bytes of a part, the last ones may have less
    std::uint64_t whole = 0;  // bytes of all parts, where they lie in a row and the last ones have less; else 0
    std::uint64_t piece = 0;
    std::uint64_t windows = 0;
  };
  template <class Group>
  ONSTREAM_BODY Cut cut(const Group& group, bool staged) const {
    Cut cut;
    cut.part = bytes;
    if (kind == OpKind::all_reduce) {
      cut.part = ((bytes + view.size - 1) / view.size + 15) / 16 * 16;
      cut.whole = bytes;
    }
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    const std::uint64_t most = staged ? region(group) / 4 / 16 * 16 : kMostPiece;
    const std::uint64_t even = (cut.part + 2 * blocks - 1) / (2 * blocks);
    cut.piece = even < most ? (even + 15) / 16 * 16 : most;
    cut.windows = (cut.part + 2 * cut.piece - 1) / (2 * cut.piece);
    return cut;
  }

  // Of a part, what one window has for one way.
  struct Span {
    std::uint64_t offset = 0;  // in the buffer of all parts
    std::uint64_t within = 0;  // in the part
    std::uint64_t bytes = 0;
  };
  ONSTREAM_BODY Span span(const Cut& cut, std::uint64_t window, Way way, std::uint32_t part) const {
    Span span;
    span.within = (2 * window + static_cast<std::uint64_t>(way)) * cut.piece;
    span.offset = part * cut.part + span.within;
    const std::uint64_t rest = cut.whole == 0 || (part + 1) * cut.part <= cut.whole ? cut.part
                               : part * cut.part < cut.whole                        ? cut.whole - part * cut.part
                                                                                    : 0;
    const std::uint64_t left = span.within < rest ? rest - span.within : 0;
    span.bytes = left < cut.piece ? left : cut.piece;
    return span;
  }

  // A block's own part of the stage.
  template <class Group>
  ONSTREAM_BODY std::uint64_t region(const Group& group) const {
    return view.stage_bytes / static_cast<std::uint64_t>(group.blocks()) / 256 * 256;
  }
  template <class Group>
  ONSTREAM_BODY std::byte* place(const Group& group, const Meeting<Group>& meeting, const Cut& cut, std::uint32_t rank,
                                 Way way, std::uint32_t step) const {
    const std::uint64_t index = 2 * static_cast<std::uint64_t>(way) + (step & 1);
    return reinterpret_cast<std::byte*>(meeting.stage(rank) + region(group) * group.block() + index * cut.piece);
  }
};

}  // namespace onstream::collective
