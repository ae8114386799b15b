// Moves that are passed on (pass.hpp). Round a ring, all_gather passes every part on until it has been everywhere, and
// broadcast is a chain from the root in each direction, with as many windows on their way as there are ranks. Along a
// tree there is broadcast alone, by doubling all_gather.
#pragma once

#include "onstream/collective/sleeping/halving.hpp"
#include "onstream/collective/sleeping/ring.hpp"
#include "onstream/collective/sleeping/tree.hpp"

namespace onstream::collective {

struct PassMove : PassWork {
  static constexpr bool kBegins = true;  // device/cuda/entry.cuh
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const auto held = Rendezvous<G>::begin(group, view, signature);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Rendezvous<G>::tells(group, view));
    Rendezvous<G> meeting(group, view, held);
    if (meeting.open(session, Addresses{*this}, 0, direct != 0)) {
      if (kind != OpKind::broadcast) {
        std::byte* const own = output + view.rank * bytes;
        if (input != own) group.copy(own, input, bytes);
        if (shape == PassShape::halving) {
          spread(group, session, meeting);
        } else {
          round(group, session, meeting);
        }
      } else {
        if (view.rank == root && input != output) group.copy(output, input, bytes);
        if (shape == PassShape::tree) {
          down(group, session, meeting);
        } else {
          along(group, session, meeting);
        }
      }
    }
    session.end();
  }

 private:
  template <Group G>
  ONSTREAM_CALL void round(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const RingPass ring{*this};
    const bool staged = !meeting.direct();
    const RingPass::RingCut cut = ring.cut(group, staged);
    for (std::uint64_t window = group.block(); window < cut.windows; window += group.blocks()) {
      for (std::uint32_t step = staged ? 0 : 1; step < view.size; ++step) {
        for (const RingWay way : {RingWay::forward, RingWay::backward}) {
          const RingPass::RingSpan span = RingPass::span(cut, window, way, ring.back(way, step));
          std::byte* const here = place(group, meeting, view.rank, RingPass::lot(way), step);
          if (step == 0) {
            group.copy_alone(here, input + span.within, span.bytes);
            continue;
          }
          const std::uint32_t from = ring.source_of(way);
          const std::byte* source = nullptr;
          if (staged) {
            source = place(group, meeting, from, RingPass::lot(way), step - 1);
          } else if (step == 1) {  // its own part
            source = reinterpret_cast<const std::byte*>(meeting.posted(from, PostLine::input)) + span.within;
          } else {
            source = reinterpret_cast<const std::byte*>(meeting.posted(from, PostLine::output)) + span.offset;
          }
          group.copy_alone(output + span.offset, source, span.bytes);
          if (staged && step + 1 < view.size) group.copy_alone(here, source, span.bytes);
        }
        if (!session.meet(ring.neighbours())) return;
      }
    }
  }

  template <Group G>
  ONSTREAM_CALL void spread(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const bool staged = !meeting.direct();
    const Halving halving(*this, staged ? PassedFrom::in_stage : PassedFrom::in_output);
    const Halving::HalvingCut cut = halving.cut(group);
    std::uint64_t epoch = 0;
    for (std::uint64_t index = group.block(); index < cut.windows; index += group.blocks(), ++epoch) {
      const Halving::HalvingWindow window{index * cut.each, cut.piece, epoch};
      if (staged) {
        const std::uint32_t of = halving.beyond() ? halving.mate : view.rank;
        const Halving::HalvingSpan own = halving.span(window, of, 1, halving.beyond() ? 1 : 0);
        group.copy_alone(halving.place(group, meeting, view.rank, window, own), input + window.begin, own.bytes);
        if (!halving.all_in_core() && !session.meet(halving.mates())) return;
      }
      if (!halving.beyond() && halving.has_mate()) {
        halving.take(group, meeting, window, halving.mate, view.rank, 1, Halving::Passes::on);
      }
      if (!halving.spread(group, session, meeting, window)) return;
    }
    session.meet();  // every rank has read its data
  }

  // In step t the rank that is k behind the root takes the block's window number t - k.
  template <Group G>
  ONSTREAM_CALL void along(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const RingPass ring{*this};
    const bool staged = !meeting.direct();
    const RingPass::RingCut cut = ring.cut(group, staged);
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    const auto block = static_cast<std::uint64_t>(group.block());
    const std::uint64_t mine = block < cut.windows ? (cut.windows - block + blocks - 1) / blocks : 0;
    const std::uint64_t steps = mine == 0 ? 0 : mine + view.size - 1;
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (const RingWay way : {RingWay::forward, RingWay::backward}) {
        const std::uint32_t after = number();
        const std::uint32_t behind = way == RingWay::forward || after == 0 ? after : view.size - after;
        if (step < behind || step - behind >= mine) continue;
        const RingPass::RingSpan span = RingPass::span(cut, block + (step - behind) * blocks, way, 0);
        std::byte* const here = place(group, meeting, view.rank, RingPass::lot(way), step);
        if (behind == 0) {
          if (staged) group.copy_alone(here, input + span.within, span.bytes);
          continue;
        }
        const std::uint32_t from = ring.source_of(way);
        const PostLine which = behind == 1 ? PostLine::input : PostLine::output;
        const std::byte* const source =
            staged ? place(group, meeting, from, RingPass::lot(way), step - 1)
                   : reinterpret_cast<const std::byte*>(meeting.posted(from, which)) + span.within;
        group.copy_alone(output + span.within, source, span.bytes);
        if (staged && behind + 1 < view.size) group.copy_alone(here, source, span.bytes);
      }
      if (!session.meet(ring.neighbours())) return;
    }
  }

  template <Group G>
  ONSTREAM_CALL void down(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const Tree tree(*this);
    const bool staged = !meeting.direct();
    const std::uint64_t each = piece_of(group, bytes, 1, staged);
    std::uint64_t epoch = 0;
    for (std::uint64_t window = group.block(); window < tree.windows(each); window += group.blocks(), ++epoch) {
      const Tree::TreeWindow piece = tree.piece(window, each, epoch);
      if (staged && tree.is_root()) {
        group.copy_alone(place(group, meeting, view.rank, Lot::second, epoch), input + piece.offset, piece.bytes);
      }
      if (!tree.down(group, session, meeting, piece, PostLine::input, staged)) return;
    }
    session.meet();  // every rank has read its data
  }
};

}  // namespace onstream::collective
