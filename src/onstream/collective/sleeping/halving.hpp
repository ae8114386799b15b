// Recursive halving and doubling (Thakur, Rabenseifner, Gropp 2005), a shape of pass.hpp.
//
// The largest power of two of the ranks are the core. Halving: step by step each of them adds up one half of its data
// of the step before, with the data of a partner that does the other half and is half as far away. Doubling goes back
// the same way, and each partner takes the other's data. A rank beyond the core has a mate in it, which adds its data
// first and gives it the results last. In each step a rank meets the one whose data it takes, and no other.
#pragma once

#include "onstream/collective/sleeping/pass.hpp"

namespace onstream::collective {

// Where the data to be passed on lies.
enum class PassedFrom : std::uint32_t { in_output, in_stage };

// The contents of a stage: partial sums, which may be longer than results, or data that is passed on as it is.
enum class StageContents : std::uint32_t { sums, results };

struct Halving {
  const PassWork& work;
  PassedFrom kept;
  std::uint64_t longer;  // partial sums are so many times as long as results
  std::uint32_t core;
  std::uint32_t mate;  // or view.size: none
  std::uint32_t levels = 0;

  ONSTREAM_BODY Halving(const PassWork& of, PassedFrom where, std::uint64_t times = 1)
      : work(of), kept(where), longer(times), core(of.core()), mate(of.mate()) {
    for (std::uint32_t ranks = core; ranks > 1; ranks /= 2) ++levels;
  }

  ONSTREAM_BODY bool beyond() const { return work.view.rank >= core; }
  ONSTREAM_BODY bool has_mate() const { return mate < work.view.size; }
  ONSTREAM_BODY bool all_in_core() const { return core == work.view.size; }
  ONSTREAM_BODY bool in_stage() const { return kept == PassedFrom::in_stage; }
  ONSTREAM_BODY std::uint64_t mates() const { return has_mate() ? only(mate) : 0; }
  ONSTREAM_BODY std::uint32_t partner(std::uint32_t level) const { return work.view.rank ^ 1u << level; }
  ONSTREAM_BODY std::uint64_t partners(std::uint32_t level) const { return beyond() ? 0 : only(partner(level)); }
  // The first of the ranks of the core that `rank` has the data of, below this level.
  ONSTREAM_BODY static std::uint32_t first(std::uint32_t rank, std::uint32_t level) { return rank >> level << level; }

  // A window is a piece for each rank of the core, in a row (all_reduce), or a piece of each rank's part.
  ONSTREAM_BODY bool in_a_row() const { return work.kind == OpKind::all_reduce; }
  ONSTREAM_BODY std::uint64_t held() const { return in_a_row() ? core : work.view.size; }  // pieces
  struct HalvingCut {
    std::uint64_t piece = 0;
    std::uint64_t each = 0;  // of a window, where it is counted
    std::uint64_t windows = 0;
  };
  template <Group G>
  ONSTREAM_BODY HalvingCut cut(const G& group) const {
    const std::uint64_t pieces = in_a_row() ? core : 1;
    const std::uint64_t dealt = pieces * static_cast<std::uint64_t>(group.blocks());
    const std::uint64_t even = ((work.bytes + dealt - 1) / dealt + 15) / 16 * 16;
    const std::uint64_t most =
        in_stage() ? epoch_bytes(group) / held() / (longer == 1 ? 1 : longer + 1) / 16 * 16 : PassWork::kMostPiece;
    HalvingCut cut;
    cut.piece = even < most ? even : most;
    cut.each = pieces * cut.piece;
    cut.windows = (work.bytes + cut.each - 1) / cut.each;
    return cut;
  }
  struct HalvingWindow {
    std::uint64_t begin = 0;  // in the vector, or in each part
    std::uint64_t piece = 0;
    std::uint64_t epoch = 0;
  };

  // The data of some ranks of the core in a window: a span where they lie in a row, else one for each part, and those
  // of their mates.
  struct HalvingSpan {
    std::uint64_t offset = 0;  // in the buffer of all parts
    std::uint64_t place = 0;   // among results in the stage
    std::uint64_t bytes = 0;
    std::uint32_t part = 0;
  };
  ONSTREAM_BODY std::uint32_t spans(std::uint32_t ranks) const { return in_a_row() ? 1 : 2 * ranks; }
  ONSTREAM_BODY HalvingSpan span(const HalvingWindow& window, std::uint32_t from, std::uint32_t ranks,
                                 std::uint32_t i) const {
    HalvingSpan span;
    span.part = from;
    if (!in_a_row()) span.part += i < ranks ? i : core + i - ranks;
    span.place = span.part * window.piece;
    span.offset = window.begin + span.part * (in_a_row() ? window.piece : work.bytes);
    const std::uint64_t end = in_a_row() ? work.bytes : work.bytes - window.begin + span.offset;
    const std::uint64_t left = span.offset < end ? end - span.offset : 0;
    const std::uint64_t most = in_a_row() ? ranks * window.piece : window.piece;
    span.bytes = span.part >= work.view.size ? 0 : left < most ? left : most;
    return span;
  }

  // A rank's stage has room for two windows, used alternately: the writer of one has met all readers of the one before
  // the last.
  template <Group G>
  ONSTREAM_BODY std::uint64_t epoch_bytes(const G& group) const {
    return work.region(group) / 2 / 16 * 16;
  }
  template <Group G>
  ONSTREAM_BODY std::byte* place(const G& group, const Rendezvous<G>& meeting, std::uint32_t rank,
                                 const HalvingWindow& window, const HalvingSpan& span,
                                 StageContents what = StageContents::results) const {
    const std::uint64_t sums = longer == 1 ? 0 : longer * held() * window.piece;  // results lie behind them
    const std::uint64_t place = what == StageContents::sums ? longer * span.place : sums + span.place;
    return reinterpret_cast<std::byte*>(meeting.stage(rank) + work.region(group) * group.block() +
                                        (window.epoch & 1) * epoch_bytes(group) + place);
  }

  // Takes the data of so many ranks of the core, beginning with `from`, from `peer`. In an all_gather a rank's own part
  // is its input.
  enum class Passes { on, nothing };
  template <Group G>
  ONSTREAM_CALL void take(const G& group, const Rendezvous<G>& meeting, const HalvingWindow& window, std::uint32_t peer,
                          std::uint32_t from, std::uint32_t ranks, Passes passes) const {
    for (std::uint32_t i = 0; i < spans(ranks); ++i) {
      const HalvingSpan span = this->span(window, from, ranks, i);
      if (span.bytes == 0 || (!in_a_row() && span.part == work.view.rank)) continue;
      const bool own = !in_a_row() && span.part == peer;
      const std::byte* source = place(group, meeting, peer, window, span);
      if (!in_stage()) {
        source = reinterpret_cast<const std::byte*>(meeting.posted(peer, own ? PostLine::input : PostLine::output)) +
                 (own ? window.begin : span.offset);
      }
      group.copy_alone(work.output + span.offset, source, span.bytes);
      if (in_stage() && passes == Passes::on) {
        group.copy_alone(place(group, meeting, work.view.rank, window, span), source, span.bytes);
      }
    }
  }

  // Doubling: all get a window that each rank of the core has its own part of, and its mate's. False: failed.
  template <Group G>
  ONSTREAM_CALL bool spread(const G& group, Session<G>& session, const Rendezvous<G>& meeting,
                            const HalvingWindow& window) const {
    for (std::uint32_t level = 0; level < levels; ++level) {
      if (!session.meet(partners(level))) return false;
      if (beyond()) continue;
      const Passes passes = level + 1 < levels || has_mate() ? Passes::on : Passes::nothing;
      take(group, meeting, window, partner(level), first(partner(level), level), 1u << level, passes);
    }
    if (all_in_core()) return true;
    if (!session.meet(mates())) return false;
    if (beyond()) take(group, meeting, window, mate, 0, core, Passes::nothing);
    return true;
  }
};

}  // namespace onstream::collective
