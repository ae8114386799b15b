// The tree of pass.hpp: binomial, so that a rank has at most log2 of all ranks above it, and as many below.
//
// Window after window goes up or down. All ranks count the levels alike: in one step those of one depth meet those of
// the next, and everybody else passes by.
#pragma once

#include "onstream/collective/sleeping/pass.hpp"

namespace onstream::collective {

struct Tree {
  const PassWork& work;
  std::uint64_t children = 0;  // of this rank, as ranks
  std::uint32_t parent = 0;
  std::uint32_t depth = 0;
  std::uint32_t steps = 0;  // no rank is deeper

  ONSTREAM_BODY explicit Tree(const PassWork& of) : work(of) {
    const std::uint32_t mine = work.number();
    parent = work.rank_of(mine & (mine - 1));
    for (std::uint32_t bits = mine; bits != 0; bits &= bits - 1) ++depth;
    for (std::uint32_t bits = work.view.size - 1; bits != 0; bits >>= 1) ++steps;
    for (int i = 1; i < PassWork::kMostNear; ++i) {
      const std::uint32_t child = work.neighbour(i);
      if (child < work.view.size) children |= only(child);
    }
  }

  ONSTREAM_BODY bool is_root() const { return depth == 0; }
  ONSTREAM_BODY bool is_leaf(std::uint32_t rank) const {
    const std::uint32_t number = (rank + work.view.size - work.root) % work.view.size;
    return !work.has_child(number, 0);
  }
  // The set of ranks to meet in a step of the way down: children when it is this depth's turn, the parent one step
  // before.
  ONSTREAM_BODY std::uint64_t below_in(std::uint32_t step) const {
    return (step == depth ? children : 0) | (step + 1 == depth ? only(parent) : 0);
  }
  ONSTREAM_BODY std::uint64_t above_in(std::uint32_t step) const {
    return (step + depth + 1 == steps ? children : 0) | (!is_root() && step + depth == steps ? only(parent) : 0);
  }

  // One window.
  struct TreeWindow {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t epoch = 0;
  };
  ONSTREAM_BODY std::uint64_t windows(std::uint64_t each) const { return (work.bytes + each - 1) / each; }
  ONSTREAM_BODY TreeWindow piece(std::uint64_t window, std::uint64_t each, std::uint64_t epoch) const {
    const std::uint64_t offset = window * each;
    const std::uint64_t left = work.bytes - offset;
    return {offset, left < each ? left : each, epoch};
  }

  // One window on its way from the root to all: it lies in the root's `line` or, staged, in its second lot. False:
  // failed.
  template <Group G>
  ONSTREAM_CALL bool down(const G& group, Session<G>& session, const Rendezvous<G>& meeting, const TreeWindow& piece,
                          PostLine line, bool staged) const {
    for (std::uint32_t step = 0; step < steps; ++step) {
      if (!session.meet(below_in(step))) return false;
      if (step + 1 != depth) continue;
      const PostLine which = parent == work.root ? line : PostLine::output;
      const std::byte* const source =
          staged ? work.place(group, meeting, parent, Lot::second, piece.epoch)
                 : reinterpret_cast<const std::byte*>(meeting.posted(parent, which)) + piece.offset;
      group.copy_alone(work.output + piece.offset, source, piece.bytes);
      if (!staged || children == 0) continue;
      group.copy_alone(work.place(group, meeting, work.view.rank, Lot::second, piece.epoch), source, piece.bytes);
    }
    return true;
  }
};

}  // namespace onstream::collective
