// Reductions that are passed on (pass.hpp). Round a ring, all_reduce and reduce_scatter: a part begins at one rank,
// each next one adds its own to it, and the last has the sum; all_reduce then passes the sums on round the ring. Along
// a tree, reduce and all_reduce: each rank adds its children's data to its own, and all_reduce then passes the root's
// sum down. By halving, all_reduce and reduce_scatter: each rank adds up a part, and all_reduce then spreads the sums
// by doubling.
//
// A part is added up in the order in which it comes. So sums of floats have other bits than those that rules.hpp adds
// in the order of the ranks. They are the same on every rank, but those of a ring depend on how the data is cut.
// all_reduce from buffer to buffer keeps partial sums in its output; otherwise they lie in the stage.
//
// Partial sums of 16 and 8 bits of floating point are floats, two and four times as long: those always lie in the
// stage, and are rounded once they are whole.
#pragma once

#include "onstream/collective/sleeping/halving.hpp"
#include "onstream/collective/sleeping/ring.hpp"
#include "onstream/collective/sleeping/tree.hpp"

namespace onstream::collective {

template <class Rule>
struct PassReduce : PassWork {
  ReduceOp op = ReduceOp::sum;
  Factor factor = 0;

  static constexpr bool kBegins = true;  // device/cuda/entry.cuh
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const auto held = Rendezvous<G>::begin(group, view, signature);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Rendezvous<G>::tells(group, view));
    Rendezvous<G> meeting(group, view, held);
    if (meeting.open(session, Addresses{*this}, factor, direct != 0)) {
      if (shape == PassShape::tree) {
        climb(group, session, meeting);
      } else if (shape == PassShape::halving) {
        halve(group, session, meeting);
      } else {
        round(group, session, meeting);
      }
    }
    session.end();
  }

 private:
  enum class Sum { partial, whole };
  enum class Is { sum, input, result };  // a partial sum, the input of a rank, a whole sum to pass on

  static constexpr int kLonger = std::is_floating_point_v<typename Rule::Wide>
                                     ? static_cast<int>(sizeof(typename Rule::Wide) / sizeof(typename Rule::Element))
                                     : 1;
  // Partial sums are so many times as long as results.
  ONSTREAM_BODY std::uint64_t longer() const { return op == ReduceOp::min || op == ReduceOp::max ? 1 : kLonger; }

  // One piece: `from`, and `add` to it (null: nothing), to `keep`, and `also` (null: nowhere).
  struct PassTerms {
    const std::byte* from = nullptr;
    const std::byte* add = nullptr;
    std::byte* keep = nullptr;
    std::byte* also = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t owner = 0;  // whose `from` is
    Is from_is = Is::sum;
    Is add_is = Is::input;  // this rank's
    Sum sum = Sum::partial;
  };

  template <Group G>
  ONSTREAM_CALL void round(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const RingPass ring{*this};
    const bool scatters = kind == OpKind::reduce_scatter;
    const bool staged = scatters || !meeting.direct();
    const bool sums_staged = staged || longer() > 1;
    const RingPass::RingCut cut = ring.cut(group, sums_staged, longer());
    const std::uint32_t sums = view.size - 1;  // the step that has the whole sum
    const std::uint32_t last = scatters ? sums : 2 * sums;
    for (std::uint64_t window = group.block(); window < cut.windows; window += group.blocks()) {
      for (std::uint32_t step = staged || last == 0 ? 0 : 1; step <= last; ++step) {
        for (const RingWay way : {RingWay::forward, RingWay::backward}) {
          const RingPass::RingSpan span = RingPass::span(cut, window, way, ring.back(way, scatters ? step + 1 : step));
          if (span.bytes == 0) continue;
          const std::uint32_t from = ring.source_of(way);
          PassTerms terms;
          terms.bytes = span.bytes;
          terms.owner = step == 0 ? view.rank : from;
          terms.from_is = step == 0 || (step == 1 && !staged) ? Is::input : step > sums ? Is::result : Is::sum;
          if (step == 0) {
            terms.from = input + span.offset;
          } else if (staged || (sums_staged && terms.from_is == Is::sum)) {
            terms.from = place(group, meeting, from, RingPass::lot(way), step - 1);
          } else {
            terms.from = posted(meeting, from, step == 1 ? PostLine::input : PostLine::output) + span.offset;
          }
          if (step > 0 && step <= sums) terms.add = input + span.offset;
          terms.sum = step == sums ? Sum::whole : Sum::partial;
          if (!sums_staged || step >= sums) terms.keep = output + (scatters ? span.within : span.offset);
          if (sums_staged && step < (staged ? last : sums))
            terms.also = place(group, meeting, view.rank, RingPass::lot(way), step);
          combine(group, meeting, terms);
        }
        if (!session.meet(ring.neighbours())) return;
      }
    }
  }

  template <Group G>
  ONSTREAM_CALL void climb(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const Tree tree(*this);
    const bool staged = !meeting.direct();
    const bool down = kind == OpKind::all_reduce;
    const std::uint64_t each = piece_of(group, bytes, 1, staged || !down || longer() > 1, longer());
    std::uint64_t epoch = 0;
    for (std::uint64_t window = group.block(); window < tree.windows(each); window += group.blocks(), ++epoch) {
      const Tree::TreeWindow piece = tree.piece(window, each, epoch);
      if (tree.children == 0) give_own(group, meeting, tree, piece, staged);
      for (std::uint32_t step = 0; step < tree.steps; ++step) {
        if (!session.meet(tree.above_in(step))) return;
        if (step + tree.depth + 1 == tree.steps) take_children(group, meeting, tree, piece, staged);
      }
      if (down && !tree.down(group, session, meeting, piece, PostLine::output, staged)) return;
    }
    session.meet();  // every rank has read its data
  }

  // Gives the data of a rank without children: alone in its team, or a leaf, whose input the parent loads where it can.
  template <Group G>
  ONSTREAM_CALL void give_own(const G& group, const Rendezvous<G>& meeting, const Tree& tree,
                              const Tree::TreeWindow& piece, bool staged) const {
    if (!tree.is_root() && !staged) return;
    PassTerms terms;
    terms.bytes = piece.bytes;
    terms.owner = view.rank;
    terms.from = input + piece.offset;
    terms.from_is = Is::input;
    if (tree.is_root()) {
      terms.keep = output + piece.offset;
      terms.sum = Sum::whole;
    } else {
      terms.also = place(group, meeting, view.rank, Lot::first, piece.epoch);
    }
    combine(group, meeting, terms);
  }

  template <Group G>
  ONSTREAM_CALL void take_children(const G& group, const Rendezvous<G>& meeting, const Tree& tree,
                                   const Tree::TreeWindow& piece, bool staged) const {
    const bool down = kind == OpKind::all_reduce;
    const bool passes_output = down && !staged && longer() == 1;
    const bool in_output = passes_output || (tree.is_root() && longer() == 1);
    std::byte* const sum =
        in_output ? output + piece.offset : place(group, meeting, view.rank, Lot::first, piece.epoch);
    std::uint64_t left = tree.children;
    for (std::uint32_t child = 0; child < view.size && left != 0; ++child) {
      if (!has(left, child)) continue;
      const bool first = left == tree.children;
      left &= ~only(child);
      PassTerms terms;
      terms.bytes = piece.bytes;
      terms.owner = child;
      if (tree.is_leaf(child) && !staged) {
        terms.from = posted(meeting, child, PostLine::input) + piece.offset;
        terms.from_is = Is::input;
      } else if (passes_output) {
        terms.from = posted(meeting, child, PostLine::output) + piece.offset;
      } else {
        terms.from = place(group, meeting, child, Lot::first, piece.epoch);
      }
      terms.add = first ? input + piece.offset : sum;
      terms.add_is = first ? Is::input : Is::sum;
      terms.keep = sum;
      if (left == 0 && tree.is_root()) {
        terms.sum = Sum::whole;
        terms.keep = output + piece.offset;
        if (down && staged) terms.also = place(group, meeting, view.rank, Lot::second, piece.epoch);
      }
      combine(group, meeting, terms);
    }
  }

  template <Group G>
  ONSTREAM_CALL void halve(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const bool scatters = kind == OpKind::reduce_scatter;
    const bool staged = scatters || !meeting.direct();
    const Halving halving(*this, staged || longer() > 1 ? PassedFrom::in_stage : PassedFrom::in_output, longer());
    const Halving back(*this, staged ? PassedFrom::in_stage : PassedFrom::in_output, longer());
    const Halving::HalvingCut cut = halving.cut(group);
    std::uint64_t epoch = 0;
    for (std::uint64_t index = group.block(); index < cut.windows; index += group.blocks(), ++epoch) {
      const Halving::HalvingWindow window{index * cut.each, cut.piece, epoch};
      if (!sum_halves(group, session, meeting, halving, window)) return;
      if (!scatters) {
        if (!back.spread(group, session, meeting, window)) return;
      } else if (!halving.all_in_core()) {
        if (!session.meet(halving.mates())) return;
        if (!halving.beyond()) continue;
        const Halving::HalvingSpan own = halving.span(window, halving.mate, 1, 1);
        group.copy_alone(output + window.begin, halving.place(group, meeting, halving.mate, window, own), own.bytes);
      }
    }
    session.meet();  // every rank has read its data
  }

  // The data that a rank adds up for some ranks of the core: its own and a peer's. Where `peer` is the rank itself: its
  // own alone.
  struct Half {
    std::uint32_t peer = 0;
    std::uint32_t first = 0;
    std::uint32_t ranks = 1;
    Is theirs = Is::sum;
    Is mine = Is::sum;
    Sum sum = Sum::partial;
  };

  // False: failed.
  template <Group G>
  ONSTREAM_CALL bool sum_halves(const G& group, Session<G>& session, const Rendezvous<G>& meeting,
                                const Halving& halving, const Halving::HalvingWindow& window) const {
    const std::uint32_t me = view.rank;
    const Half whole{me, 0, halving.core, Is::input, Is::input, view.size == 1 ? Sum::whole : Sum::partial};
    const bool core_alone = !halving.beyond() && !halving.has_mate();  // nobody's sum yet: it gives its input
    if (view.size == 1 || (!meeting.direct() && halving.beyond())) {
      add_up(group, meeting, halving, window, whole);
    } else if (!meeting.direct() && core_alone) {  // the half that it does not add up
      const std::uint32_t top = halving.levels - 1;
      const std::uint32_t other = Halving::first(halving.partner(top), top);
      add_up(group, meeting, halving, window, {me, other, 1u << top, Is::input, Is::input, Sum::partial});
    }
    if (!meeting.direct() && !halving.all_in_core() && !session.meet(halving.mates())) return false;
    if (!halving.beyond() && halving.has_mate()) {
      add_up(group, meeting, halving, window, {halving.mate, 0, halving.core, Is::input, Is::input, Sum::partial});
    }
    Is mine = core_alone ? Is::input : Is::sum;
    for (std::uint32_t level = halving.levels; level-- > 0; mine = Is::sum) {
      if (!session.meet(halving.partners(level))) return false;
      if (halving.beyond()) continue;
      const std::uint32_t peer = halving.partner(level);
      const bool top = level + 1 == halving.levels;
      const Is theirs = top && peer + halving.core >= view.size ? Is::input : Is::sum;
      add_up(group, meeting, halving, window,
             {peer, Halving::first(me, level), 1u << level, theirs, mine, level == 0 ? Sum::whole : Sum::partial});
    }
    return true;
  }

  template <Group G>
  ONSTREAM_CALL void add_up(const G& group, const Rendezvous<G>& meeting, const Halving& halving,
                            const Halving::HalvingWindow& window, const Half& half) const {
    const bool scatters = kind == OpKind::reduce_scatter;
    for (std::uint32_t i = 0; i < halving.spans(half.ranks); ++i) {
      const Halving::HalvingSpan span = halving.span(window, half.first, half.ranks, i);
      if (span.bytes == 0) continue;
      const bool whole = half.sum == Sum::whole;
      const auto in_stage = [&](std::uint32_t rank, StageContents what) {
        return halving.in_stage() ? halving.place(group, meeting, rank, window, span, what) : nullptr;
      };
      std::byte* const sums = in_stage(view.rank, StageContents::sums);
      std::byte* const here = whole ? in_stage(view.rank, StageContents::results) : sums;
      PassTerms terms;
      terms.bytes = span.bytes;
      terms.owner = half.peer;
      terms.sum = half.sum;
      terms.add_is = half.mine;
      if (half.peer == view.rank) {
        terms.from = input + span.offset;
        terms.from_is = Is::input;
      } else {
        terms.from_is = meeting.direct() ? half.theirs : Is::sum;  // data in a stage is scaled already
        if (terms.from_is == Is::input || !halving.in_stage()) {
          const PostLine line = terms.from_is == Is::input ? PostLine::input : PostLine::output;
          terms.from = posted(meeting, half.peer, line) + span.offset;
        } else {
          terms.from = in_stage(half.peer, StageContents::sums);
        }
        terms.add = half.mine == Is::input ? input + span.offset : halving.in_stage() ? sums : output + span.offset;
      }
      if (scatters) {
        const bool own = whole && span.part == view.rank;
        (own ? terms.keep : terms.also) = own ? output + window.begin : here;
      } else {
        if (whole || !halving.in_stage()) terms.keep = output + span.offset;
        terms.also = here;
      }
      combine(group, meeting, terms);
    }
  }

  template <Group G>
  ONSTREAM_BODY static const std::byte* posted(const Rendezvous<G>& meeting, std::uint32_t rank, PostLine line) {
    return reinterpret_cast<const std::byte*>(meeting.posted(rank, line));
  }

  // Every thread has the same packs of a piece each time.
  template <Group G>
  ONSTREAM_CALL void combine(const G& group, const Rendezvous<G>& meeting, const PassTerms& terms) const {
    if constexpr (kLonger > 1) {
      if (longer() > 1 && terms.from_is != Is::result) return combine_unrounded(group, meeting, terms);
    }
    const bool scales = op == ReduceOp::premulsum;
    const bool scales_from = scales && terms.from_is == Is::input;
    const bool scales_add = scales && terms.add_is == Is::input && terms.add != nullptr;
    if (terms.add == nullptr && terms.sum == Sum::partial && !scales_from) {
      if (terms.keep != nullptr) group.copy_alone(terms.keep, terms.from, terms.bytes);
      if (terms.also != nullptr) group.copy_alone(terms.also, terms.from, terms.bytes);
      return;
    }
    Factor theirs = factor;
    if (scales_from && terms.owner != view.rank) theirs = meeting.posted(terms.owner, PostLine::factor);
    constexpr int kBytes = kSerial<G> ? 1024 : 16;
    constexpr int kPacks = kSerial<G> ? 1 : 2;  // under way in a thread
    using Adding = Accumulator<Rule, kBytes>;
    const auto number = [](const void* address) { return reinterpret_cast<std::uint64_t>(address); };
    const std::uint32_t access_width =
        access_width_of(number(terms.from) | number(terms.add) | number(terms.keep) | number(terms.also));
    const std::uint64_t packs = (terms.bytes + kBytes - 1) / kBytes;
    const auto step = static_cast<std::uint64_t>(group.size());
    for (std::uint64_t index = group.rank(); index < packs; index += kPacks * step) {
      Pack<kBytes> from[kPacks];
      Pack<kBytes> add[kPacks];
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        from[p] = load_pack<G, kBytes>(terms.from + place, terms.bytes - place, access_width);
        if (terms.add != nullptr) {
          add[p] = load_pack<G, kBytes>(terms.add + place, terms.bytes - place, access_width);
        }
      }
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        if (scales_from) from[p] = Adding::scaled(from[p], theirs);
        if (scales_add) add[p] = Adding::scaled(add[p], factor);
        Adding sum;
        sum.start(from[p]);
        if (terms.add != nullptr) sum.take(op, add[p]);
        const Pack<kBytes> result = sum.finish(terms.sum == Sum::whole ? op : ReduceOp::sum, view.size);
        if (terms.keep != nullptr) store_pack<G, kBytes>(terms.keep + place, result, terms.bytes - place, access_width);
        if (terms.also != nullptr) store_pack<G, kBytes>(terms.also + place, result, terms.bytes - place, access_width);
      }
    }
  }

  // The same where partial sums are longer than results.
  template <Group G>
  ONSTREAM_CALL void combine_unrounded(const G& group, const Rendezvous<G>& meeting, const PassTerms& terms) const {
    constexpr int kBytes = kSerial<G> ? 1024 : 8;
    constexpr int kPacks = kSerial<G> ? 1 : 2;
    using Adding = Accumulator<Rule, kBytes>;
    const bool scales = op == ReduceOp::premulsum;
    const bool whole = terms.sum == Sum::whole;
    Factor theirs = factor;
    if (scales && terms.owner != view.rank) theirs = meeting.posted(terms.owner, PostLine::factor);
    const auto number = [](const std::byte* address, bool counts) {
      return counts ? reinterpret_cast<std::uint64_t>(address) : 0;
    };
    const std::uint32_t access_width =
        access_width_of(number(terms.from, terms.from_is == Is::input) | number(terms.add, terms.add_is == Is::input) |
                        number(terms.keep, whole) | number(terms.also, whole));
    const auto load = [&](Adding& sum, const std::byte* from, Is is, Factor by, std::uint64_t place) {
      const std::uint64_t left = terms.bytes - place;
      if (is == Is::input) {
        const Pack<kBytes> pack = load_pack<G, kBytes>(from + place, left, access_width);
        sum.start(scales ? Adding::scaled(pack, by) : pack);
      } else {
        using Unrounded = typename Adding::Unrounded;
        sum.start_unrounded(load_pack<G, sizeof(Unrounded)>(from + kLonger * place, kLonger * left, 16));
      }
    };
    const auto store = [&](std::byte* to, const Adding& sum, std::uint64_t place) {
      const std::uint64_t left = terms.bytes - place;
      if (to == nullptr) return;
      if (whole) return store_pack<G, kBytes>(to + place, sum.finish(op, view.size), left, access_width);
      using Unrounded = typename Adding::Unrounded;
      store_pack<G, sizeof(Unrounded)>(to + kLonger * place, sum.unrounded(), kLonger * left, 16);
    };
    const std::uint64_t packs = (terms.bytes + kBytes - 1) / kBytes;
    const auto step = static_cast<std::uint64_t>(group.size());
    for (std::uint64_t index = group.rank(); index < packs; index += kPacks * step) {
      Adding sum[kPacks];
      Adding add[kPacks];
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        load(sum[p], terms.from, terms.from_is, theirs, place);
        if (terms.add != nullptr) load(add[p], terms.add, terms.add_is, factor, place);
      }
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        if (terms.add != nullptr) sum[p].merge(op, add[p]);
        store(terms.keep, sum[p], place);
        store(terms.also, sum[p], place);
      }
    }
  }
};

}  // namespace onstream::collective
