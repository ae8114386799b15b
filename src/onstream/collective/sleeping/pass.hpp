// Collectives in which data is passed from rank to neighbour: round a ring (ring.hpp), along a tree (tree.hpp), or to
// partners half as far away each time (halving.hpp).
//
// A rank loads a neighbour's data, from the neighbour's buffers or, where some rank cannot address some buffer, from
// its stage. Data is dealt to blocks in windows, which are cut so that a window's part has room in the stage. Both
// sides meet before: then the data to be loaded is there, and the data that was there before has been read. All ranks
// of a collective have equally many meetings (Session::meet), also those with nobody.
#pragma once

#include "onstream/collective/protocol/rendezvous.hpp"

namespace onstream::collective {

enum class PassShape : std::uint32_t { ring, tree, halving };

// Which of a block's places in a rank's stage. There are two of each, used alternately.
enum class Lot : std::uint32_t { first, second };

struct PassWork {
  static constexpr int kMostNear = 7;  // neighbours: the parent and six children in a tree of 64 ranks, six partners
  static constexpr std::uint64_t kMostPiece = 128 << 10;

  ChannelView view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;   // of a part, or of the vector that all_reduce deals to all ranks
  std::uint32_t direct = 0;  // not 0: all neighbours can address this rank's buffers
  std::uint32_t root = 0;    // 0 where there is none
  OpKind kind = OpKind::none;
  OpKind named = OpKind::none;  // in faults
  PassShape shape = PassShape::ring;
  std::uint64_t signature = 0;
  Whereabouts near[kMostNear];  // where the neighbours find this rank's buffers

  // --- a ring: the ranks in their order ---
  ONSTREAM_BOTH std::uint32_t next() const { return view.rank + 1 == view.size ? 0 : view.rank + 1; }
  ONSTREAM_BOTH std::uint32_t previous() const { return view.rank == 0 ? view.size - 1 : view.rank - 1; }

  // --- a binomial tree: ranks are numbered from the root; without its lowest bit a number is its parent's ---
  ONSTREAM_BOTH std::uint32_t number() const { return (view.rank + view.size - root) % view.size; }
  ONSTREAM_BOTH std::uint32_t rank_of(std::uint32_t number) const { return (number + root) % view.size; }
  // Whether `number` with bit `bit` is its child.
  ONSTREAM_BOTH bool has_child(std::uint32_t number, int bit) const {
    const std::uint32_t one = 1u << bit;
    return (number & (2 * one - 1)) == 0 && number + one < view.size;
  }

  // --- halving: the core is the largest power of two of the ranks; a rank beyond it has a mate there ---
  ONSTREAM_BOTH std::uint32_t core() const {
    std::uint32_t ranks = 1;
    while (2 * ranks <= view.size) ranks *= 2;
    return ranks;
  }
  ONSTREAM_BOTH std::uint32_t mate() const {  // or view.size
    const std::uint32_t ranks = core();
    const std::uint32_t other = view.rank < ranks ? view.rank + ranks : view.rank - ranks;
    return other < view.size ? other : view.size;
  }

  // Neighbour i of kMostNear, or view.size: nobody.
  ONSTREAM_BOTH std::uint32_t neighbour(int i) const {
    if (shape == PassShape::ring) return i == 0 ? next() : i == 1 ? previous() : view.size;
    if (shape == PassShape::halving) {
      if (i + 1 == kMostNear) return mate();
      const std::uint32_t ranks = core();
      return view.rank < ranks && 1u << i < ranks ? view.rank ^ 1u << i : view.size;
    }
    const std::uint32_t mine = number();
    if (i == 0) return mine == 0 ? view.size : rank_of(mine & (mine - 1));
    return has_child(mine, i - 1) ? rank_of(mine | 1u << (i - 1)) : view.size;
  }

  // For Rendezvous::open.
  struct Addresses {
    const PassWork& work;
    ONSTREAM_BODY Whereabouts operator[](std::uint32_t peer) const {
      ONSTREAM_ROLLED
      for (int i = 0; i < kMostNear; ++i) {
        if (work.neighbour(i) == peer) return work.near[i];
      }
      return {};
    }
  };

  // A block's own part of the stage, and in a rank's stage the place of a piece.
  template <Group G>
  ONSTREAM_BODY std::uint64_t region(const G& group) const {
    return view.stage_bytes / static_cast<std::uint64_t>(group.blocks()) / 256 * 256;
  }
  template <Group G>
  ONSTREAM_BODY std::byte* place(const G& group, const Rendezvous<G>& meeting, std::uint32_t rank, Lot lot,
                                 std::uint64_t epoch) const {
    const std::uint64_t index = 2 * static_cast<std::uint64_t>(lot) + (epoch & 1);
    const std::uint64_t each = region(group) / 4 / 16 * 16;
    return reinterpret_cast<std::byte*>(meeting.stage(rank) + region(group) * group.block() + index * each);
  }
  // The length of a piece, if `all` bytes are cut into `pieces` pieces for each block and window. Data in the stage is
  // `longer` times as long.
  template <Group G>
  ONSTREAM_BODY std::uint64_t piece_of(const G& group, std::uint64_t all, std::uint64_t pieces, bool staged,
                                       std::uint64_t longer = 1) const {
    const std::uint64_t dealt = pieces * static_cast<std::uint64_t>(group.blocks());
    const std::uint64_t most = staged ? region(group) / 4 / longer / 16 * 16 : kMostPiece;
    const std::uint64_t even = ((all + dealt - 1) / dealt + 15) / 16 * 16;
    return even < most ? even : most;
  }
};

}  // namespace onstream::collective
