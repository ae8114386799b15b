// Moves around a ring (ring.hpp): all_gather passes every part on until it has been everywhere; broadcast is a chain
// from the root in each direction, with as many windows on their way as there are ranks.
#pragma once

#include "onstream/collective/ring.hpp"

namespace onstream::collective {

struct RingMove : RingWork {
  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    Session<Group> session(group, view, {kind, bytes});
    Meeting<Group> meeting(group, view, session);
    if (!session.failed() && meeting.open(Addresses{*this}, 0, signature, direct != 0)) {
      if (kind == OpKind::broadcast) {
        if (view.rank == root && input != output) group.copy(output, input, bytes);
        pass_down(group, session, meeting);
      } else {
        std::byte* const own = output + view.rank * bytes;
        if (input != own) group.copy(own, input, bytes);
        pass_round(group, session, meeting);
      }
    }
    session.end(Session<Group>::Hears::everyone);
  }

 private:
  template <class Group>
  ONSTREAM_BODY void pass_round(const Group& group, Session<Group>& session, const Meeting<Group>& meeting) const {
    const bool staged = !meeting.direct();
    const Cut cut = this->cut(group, staged);
    for (std::uint64_t window = group.block(); window < cut.windows; window += group.blocks()) {
      for (std::uint32_t step = staged ? 0 : 1; step < view.size; ++step) {
        for (int i = 0; i < 2; ++i) {
          const auto way = static_cast<Way>(i);
          const Span span = this->span(cut, window, way, back(way, step));
          const bool last = step + 1 == view.size;
          if (step == 0) {
            group.copy_alone(place(group, meeting, cut, view.rank, way, 0), input + span.within, span.bytes);
            continue;
          }
          const std::uint32_t from = source_of(way);
          const std::byte* source = nullptr;
          if (staged) {
            source = place(group, meeting, cut, from, way, step - 1);
          } else if (step == 1) {  // what is its own
            source = reinterpret_cast<const std::byte*>(meeting.posted(from, PostLine::input)) + span.within;
          } else {
            source = reinterpret_cast<const std::byte*>(meeting.posted(from, PostLine::output)) + span.offset;
          }
          group.copy_alone(output + span.offset, source, span.bytes);
          if (staged && !last) group.copy_alone(place(group, meeting, cut, view.rank, way, step), source, span.bytes);
        }
        if (!session.meet(neighbours())) return;
      }
    }
  }

  // In step t the rank that is k behind the root takes the block's window number t - k.
  template <class Group>
  ONSTREAM_BODY void pass_down(const Group& group, Session<Group>& session, const Meeting<Group>& meeting) const {
    const bool staged = !meeting.direct();
    const Cut cut = this->cut(group, staged);
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    const auto block = static_cast<std::uint64_t>(group.block());
    const std::uint64_t mine = block < cut.windows ? (cut.windows - block + blocks - 1) / blocks : 0;
    const std::uint64_t steps = mine == 0 ? 0 : mine + view.size - 1;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (int i = 0; i < 2; ++i) {
        const auto way = static_cast<Way>(i);
        const std::uint32_t behind =
            (way == Way::forward ? view.rank + view.size - root : root + view.size - view.rank) % view.size;
        if (step < behind || step - behind >= mine) continue;
        const Span span = this->span(cut, block + (step - behind) * blocks, way, 0);
        std::byte* const here = place(group, meeting, cut, view.rank, way, static_cast<std::uint32_t>(step & 1));
        if (behind == 0) {
          if (staged) group.copy_alone(here, input + span.within, span.bytes);
          continue;
        }
        const std::uint32_t from = source_of(way);
        const PostLine which = behind == 1 ? PostLine::input : PostLine::output;
        const auto* source = staged ? place(group, meeting, cut, from, way, static_cast<std::uint32_t>((step + 1) & 1))
                                    : reinterpret_cast<const std::byte*>(meeting.posted(from, which)) + span.within;
        group.copy_alone(output + span.within, source, span.bytes);
        if (staged && behind + 1 < view.size) group.copy_alone(here, source, span.bytes);
      }
      if (!session.meet(neighbours())) return;
    }
  }
};

}  // namespace onstream::collective
