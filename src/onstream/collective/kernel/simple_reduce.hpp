// Large reductions: each rank loads its share of everybody's data straight from their buffers, adds it up in the order
// of the ranks, and stores the sum where it is wanted. all_reduce, reduce, reduce_scatter and scan differ in the shares
// and in the ranks that want their sums.
//
// The largest all_reduce goes in two halves: each rank sums its share at home, and then gives the sums to one rank
// after the other. Loads alone, and then stores alone, get more out of the links than both together
// (docs/decisions/0010). The copy engine gets even more out of them, if it is asked for (engine_sums.hpp).
//
// Two meetings of all ranks: the posts at the beginning (rendezvous.hpp), and each block's with the same block of the
// other ranks at the end, after which buffers are their owners' again. Where some rank cannot address some buffer, the
// data goes through everybody's stage in chunks, with two meetings each; the sums are the same, bit by bit.
#pragma once

#include "onstream/collective/kernel/engine_sums.hpp"
#include "onstream/collective/protocol/rendezvous.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::collective {

enum class ReduceShare : std::uint32_t {
  to_all,   // all_reduce: each rank sums one part, all want it
  to_root,  // reduce: each rank sums one part, the root wants it
  own,      // reduce_scatter: each rank sums and keeps the part that is its own
  upward    // scan: each rank sums and keeps everything of the ranks up to itself
};

// Where the part of a rank begins, of so many bytes that are dealt to all ranks in multiples of `deal`.
ONSTREAM_BOTH std::uint64_t part_begin(std::uint64_t whole, std::uint64_t deal, std::uint32_t rank,
                                       std::uint32_t size) {
  const std::uint64_t begin = (whole + deal - 1) / deal * rank / size * deal;
  return begin < whole ? begin : whole;
}

// The work of a large reduction, apart from its element type.
struct BulkReduceWork {
  ChannelView view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;  // of the whole vector; of one rank's part for ReduceShare::own
  ReduceShare share = ReduceShare::to_all;
  std::uint32_t root = 0;
  std::uint32_t direct = 0;  // not 0: every peer can address both buffers
  std::uint32_t halves = 0;  // not 0: sums first, and then stores; an all_reduce
  OpKind kind = OpKind::none;
  OpKind named = OpKind::none;  // in faults
  std::uint64_t adds = 0;       // the ranks whose data this rank's sums are of
  std::uint64_t signature = 0;
  // From buffer to buffer: this rank's share in everybody's input, and where its sum goes in the outputs.
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t part_bytes = 0;
  Copier copier;  // of sums of an all_reduce that go by the copy engine
};

template <class Rule, int kMost>
struct BulkReduce : BulkReduceWork {
  static constexpr int kGpuPack = bulk_pack_for(sizeof(typename Rule::Element));
  static constexpr int kHostPack = 1024;
  // The unit in which data is dealt to ranks and cut into chunks: whole elements, at addresses that are as good as the
  // buffer's.
  static constexpr std::uint64_t kDeal = deal_for(sizeof(typename Rule::Element));

  typename Accumulator<Rule, kGpuPack>::Op op = {};
  Factor factor = 0;
  Whereabouts at[kMost];

  static constexpr bool kBegins = true;  // device/cuda/entry.cuh

  template <Group G>
  ONSTREAM_EITHER void operator()(const G& group) const {
    const auto held = Rendezvous<G>::begin(group, view, signature);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Rendezvous<G>::tells(group, view));
    Rendezvous<G> meeting(group, view, held);
    const auto odd = [&](std::uint32_t, PostLine line, std::uint64_t address) {
      if (line == PostLine::input) return (address + in_offset) % kGpuPack != 0;
      return line == PostLine::output && address != 0 && (address + out_offset) % kGpuPack != 0;
    };
    if (meeting.open(session, WhereaboutsTable{at, direct != 0}, factor, direct != 0, odd)) {
      if (meeting.usual()) {
        run_usual(group, session, meeting);
      } else if (meeting.direct()) {
        run_direct(group, session, meeting);
      } else {
        run_staged(group, session, meeting);
      }
    }
    session.end();
  }

 private:
  using Sum = Accumulator<Rule, kGpuPack>;

  // The terms that are added: packs as they are, or packs with factors and a last division, which are calls: data in
  // registers then goes to memory and back.
  enum class TermKind { plain, scaled };

  // Buffers of the ranks, or their stages; or this rank's buffers, whose output holds the data that the others have
  // pushed.
  enum class DataPlace { buffers, stages, pushed };

  // Where a share's data is on each rank, and where its sum goes.
  struct ShareMove {
    std::uint64_t bytes = 0;
    DataPlace from = DataPlace::buffers;
    DataPlace to = DataPlace::buffers;
    std::uint64_t in_offset = 0;
    std::uint64_t out_offset = 0;
    std::uint64_t wants = 0;  // the ranks that get the sum
  };

  ONSTREAM_EITHER std::uint64_t begin_of(std::uint32_t rank, std::uint64_t whole) const {
    return part_begin(whole, kDeal, rank, view.size);
  }

  // This rank's share from buffer to buffer.
  ONSTREAM_EITHER ShareMove direct_piece() const {
    ShareMove piece;
    piece.bytes = part_bytes;
    piece.in_offset = in_offset;
    piece.out_offset = out_offset;
    piece.wants =
        share == ReduceShare::to_all ? below(view.size) : only(share == ReduceShare::to_root ? root : view.rank);
    return piece;
  }

  // So much of it, whose sum this rank alone gets from here: sum_and_give and the engine give it to the others.
  ONSTREAM_EITHER ShareMove piece_for_home(std::uint64_t from, std::uint64_t length) const {
    ShareMove piece = direct_piece();
    piece.wants = only(view.rank);
    piece.bytes = length;
    piece.in_offset += from;
    piece.out_offset += from;
    return piece;
  }

  // Whole packs in every buffer: nothing is asked that the posts have not said.
  template <Group G>
  ONSTREAM_EITHER void run_usual(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const std::uint64_t own =
        (reinterpret_cast<std::uint64_t>(input) + in_offset) | (reinterpret_cast<std::uint64_t>(output) + out_offset);
    const bool whole = own % kGpuPack == 0;
    if constexpr (kSerial<G>) {
      if (!whole || !go_by_engine(meeting)) return run_direct(group, session, meeting);
      sum_by_engine(group, session, meeting);
    } else if constexpr (!Sum::kAddsInPlace) {
      run_direct(group, session, meeting);
    } else {
      const bool plain = whole && adds != 0 && Sum::only_adds(op) && view.size <= kNear;
      if (!plain) return run_direct(group, session, meeting);
      if (go_by_engine(meeting)) return sum_by_engine(group, session, meeting);
      if (halves != 0) {
        sum_and_give(group, meeting);
      } else {
        add_plain(group, meeting, direct_piece(), first_of(group), step_of(group));
      }
      session.meet();
    }
  }

  // Adds up plain sums.
  template <Group G>
  ONSTREAM_EITHER void add_plain(const G& group, const Rendezvous<G>& meeting, const ShareMove& piece,
                                 std::uint64_t begin, std::uint64_t step) const {
    using Sixteen = Pack<kGpuPack>;
    if (view.size == 2) {
      add_up_few<2, 4, Sixteen, TermKind::plain>(group, meeting, piece, begin, step);
    } else if (view.size <= 4) {
      add_up_few<4, 2, Sixteen, TermKind::plain>(group, meeting, piece, begin, step);
    } else {
      add_up_few<kNear, 1, Sixteen, TermKind::plain>(group, meeting, piece, begin, step);
    }
  }

  // Each block gives the sums that it made itself, so it waits for no other one. Nobody else reads the places at other
  // ranks where it stores, in place neither: it was this block that loaded them. The ranks begin with different peers.
  template <Group G>
  ONSTREAM_EITHER_CALL void sum_and_give(const G& group, Rendezvous<G> meeting) const {
    const auto rank = static_cast<std::uint64_t>(group.rank());
    const auto threads = static_cast<std::uint64_t>(group.size());
    each_cut(group, [&](std::uint64_t from, std::uint64_t length) {
      add_plain(group, meeting, piece_for_home(from, length), rank, threads);
    });
    group.sync();
    static_assert(kGpuPack == 16, "cuts are of whole packs");
    const std::byte* const sums = output + out_offset;
    for (std::uint32_t k = 1; k < view.size; ++k) {
      const std::uint32_t peer = rank_after(view, k);
      auto* const theirs = reinterpret_cast<std::byte*>(meeting.posted(peer, PostLine::output) + out_offset);
      each_cut(group,
               [&](std::uint64_t from, std::uint64_t length) { group.copy_alone(theirs + from, sums + from, length); });
    }
  }

  // Sums by the copy engine. This is the last use of the session before its end, so it works on a copy.
  template <Group G>
  ONSTREAM_EITHER_CALL void sum_by_engine(const G& group, Session<G> session, Rendezvous<G> meeting) const {
    EngineSums<G> engine(group, view, copier, meeting, {input, output, out_offset, part_bytes}, session.epoch());
    engine.push();
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      if (!engine.await(session, chunk)) return engine.outlast();
      ShareMove piece = piece_for_home(engine.begin_of(chunk), engine.bytes_of(chunk));
      piece.from = DataPlace::pushed;
      if constexpr (kSerial<G>) {
        add_up_serial(group, meeting, piece);
      } else {
        add_plain(group, meeting, piece, first_of(group), step_of(group));
      }
      engine.added(chunk);
    }
    if (!engine.finish(session)) return engine.outlast();
    session.meet();
  }

  // Whether sums go that way, of buffers in which whole packs lie. All ranks find the same: a rank has a slot if it
  // works out of place, and every rank does.
  template <Group G>
  ONSTREAM_EITHER bool go_by_engine(const Rendezvous<G>& meeting) const {
    bool all = copier.slot != nullptr;
    for (std::uint32_t peer = 0; peer < view.size && all; ++peer) {
      if (peer != view.rank) all = meeting.posted(peer, PostLine::input) != meeting.posted(peer, PostLine::output);
    }
    return all;
  }

  // The cuts of this rank's share that are this block's, as take(from, length).
  template <Group G, class Take>
  ONSTREAM_EITHER void each_cut(const G& group, const Take& take) const {
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    constexpr std::uint64_t kLargest = 128 << 10;
    constexpr std::uint64_t kSmallest = 4 << 10;
    const std::uint64_t even = part_bytes / blocks / 2 / kSmallest * kSmallest;
    const std::uint64_t cut = even < kSmallest ? kSmallest : even < kLargest ? even : kLargest;
    for (std::uint64_t from = cut * static_cast<std::uint64_t>(group.block()); from < part_bytes;
         from += cut * blocks) {
      take(from, part_bytes - from < cut ? part_bytes - from : cut);
    }
  }

  template <Group G>
  ONSTREAM_EITHER void run_direct(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    add_up(group, meeting, direct_piece(), first_of(group), step_of(group));
    session.meet();
  }

  // The last that the session is asked for but its end, so that it works on a copy. Chunk by chunk; block b has every
  // blocks-th chunk, and its own region of the stage. The front half of a region has inputs, the back half sums.
  template <Group G>
  ONSTREAM_EITHER_CALL void run_staged(const G& group, Session<G> session, Rendezvous<G> meeting) const {
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    const std::uint64_t region = view.stage_bytes / blocks / 256 * 256;
    const std::uint64_t place = region * group.block();
    const std::uint64_t parts = share == ReduceShare::own ? view.size : 1;
    const std::uint64_t most = region / 2 / parts / kDeal * kDeal;  // of a chunk
    const std::uint64_t begin = static_cast<std::uint64_t>(group.rank());
    for (std::uint64_t chunk = group.block(); chunk * most < bytes; chunk += blocks) {
      const std::uint64_t from = chunk * most;
      const std::uint64_t length = bytes - from < most ? bytes - from : most;
      auto* const stage = reinterpret_cast<std::byte*>(meeting.stage(view.rank) + place);
      for (std::uint64_t part = 0; part < parts; ++part) {
        group.copy_alone(stage + part * most, input + part * bytes + from, length);
      }
      if (!session.meet()) return;
      ShareMove piece;
      piece.bytes = length;
      piece.from = DataPlace::stages;
      piece.in_offset = place;
      piece.out_offset = from;
      piece.wants = only(view.rank);
      const bool kept = share == ReduceShare::own || share == ReduceShare::upward;
      if (share == ReduceShare::own) piece.in_offset += most * view.rank;
      if (!kept) {
        const std::uint64_t first = begin_of(view.rank, length);
        piece.to = DataPlace::stages;
        piece.in_offset += first;
        piece.out_offset = place + region / 2 + first;
        piece.bytes = begin_of(view.rank + 1, length) - first;
      }
      add_up(group, meeting, piece, begin, group.size());
      if (!session.meet()) return;
      if (kept || (share == ReduceShare::to_root && view.rank != root)) continue;
      for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        const std::uint64_t first = begin_of(rank, length);
        const auto* sums = reinterpret_cast<const std::byte*>(meeting.stage(rank) + place + region / 2);
        group.copy_alone(output + from + first, sums + first, begin_of(rank + 1, length) - first);
      }
    }
    // The last sums were read by all before the stage is used again: in the next collective's first meeting.
  }

  template <Group G>
  ONSTREAM_EITHER std::uint64_t source(const Rendezvous<G>& meeting, const ShareMove& piece, std::uint32_t rank) const {
    if (piece.from == DataPlace::stages) return meeting.stage(rank) + piece.in_offset;
    if (rank == view.rank) return reinterpret_cast<std::uint64_t>(input) + piece.in_offset;
    if (piece.from == DataPlace::pushed) {
      return reinterpret_cast<std::uint64_t>(output) + rank * part_bytes + piece.in_offset - in_offset;
    }
    return meeting.posted(rank, PostLine::input) + piece.in_offset;
  }
  template <Group G>
  ONSTREAM_EITHER std::uint64_t target(const Rendezvous<G>& meeting, const ShareMove& piece, std::uint32_t rank) const {
    if (piece.to == DataPlace::stages) return meeting.stage(rank) + piece.out_offset;
    if (rank == view.rank) return reinterpret_cast<std::uint64_t>(output) + piece.out_offset;
    return meeting.posted(rank, PostLine::output) + piece.out_offset;
  }

  // Sums one piece: packs begin, begin + step, ... of it. Not inlined: it is large.
  template <Group G>
  ONSTREAM_EITHER_CALL void add_up(const G& group, Rendezvous<G> meeting, ShareMove piece, std::uint64_t begin,
                                   std::uint64_t step) const {
    if (adds == 0) return;  // an exclusive scan's first rank
    if constexpr (kSerial<G>) {
      add_up_serial(group, meeting, piece);
    } else if constexpr (!Sum::kAddsInPlace) {
      add_up_many(group, meeting, piece, begin, step);
    } else {
      const bool few = Sum::sums(op) && view.size <= kNear;
      const std::uint32_t access_width = few ? access_width_of_all(meeting, piece) : 0;
      if (access_width < sizeof(std::uint32_t)) {
        add_up_many(group, meeting, piece, begin, step);
      } else if (access_width < kGpuPack) {
        add_up_few<kNear, 1, std::uint32_t, TermKind::scaled>(group, meeting, piece, begin, step);
      } else {
        add_up_few<kNear, 1, Pack<kGpuPack>, TermKind::scaled>(group, meeting, piece, begin, step);
      }
    }
  }

  template <Group G>
  ONSTREAM_EITHER Factor factor_of(const Rendezvous<G>& meeting, std::uint32_t rank) const {
    if (!Sum::scales(op)) return 0;
    return rank == view.rank ? factor : meeting.posted(rank, PostLine::factor);
  }

  // The access width of every address from and to which a piece is added up.
  template <Group G>
  ONSTREAM_EITHER std::uint32_t access_width_of_all(const Rendezvous<G>& meeting, const ShareMove& piece) const {
    std::uint64_t all = 0;
    for (std::uint32_t rank = 0; rank < view.size; ++rank) {
      if (has(adds, rank)) all |= source(meeting, piece, rank);
      if (has(piece.wants, rank)) all |= target(meeting, piece, rank);
    }
    return access_width_of(all);
  }

  // Sums of up to kRanks ranks, whose addresses stay in registers; kPacks packs of each are under way in a thread, by
  // accesses of a Word. No call and no branch between the loads, so that all of them leave before the first is waited
  // for. A last, shorter pack is left to add_up_many().
  template <int kRanks, int kPacks, class Word, TermKind kTerms, Group G>
  ONSTREAM_EITHER void add_up_few(const G& group, const Rendezvous<G>& meeting, const ShareMove& piece,
                                  std::uint64_t begin, std::uint64_t step) const {
    using Sixteen = Pack<kGpuPack>;
    const Sixteen* from[kRanks];
    Sixteen* to[kRanks];
    Factor by[kRanks];
    ONSTREAM_UNROLL
    for (int k = 0; k < kRanks; ++k) {
      const std::uint32_t rank = static_cast<std::uint32_t>(k);
      const bool adds_it = rank < view.size && has(adds, rank);
      const bool wants_it = rank < view.size && has(piece.wants, rank);
      from[k] = reinterpret_cast<const Sixteen*>(adds_it ? source(meeting, piece, rank) : 0);
      to[k] = reinterpret_cast<Sixteen*>(wants_it ? target(meeting, piece, rank) : 0);
      by[k] = kTerms == TermKind::scaled && adds_it ? factor_of(meeting, rank) : 0;
    }
    const std::uint64_t whole = piece.bytes / kGpuPack;
    const typename Sum::Op reduction = op;  // registers, as the arguments lie in memory
    const std::uint32_t ranks = view.size;
    for (; begin < whole; begin += kPacks * step) {
      Sixteen in[kPacks][kRanks];
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t index = begin + p * step;
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          in[p][k] = Sixteen{};
          if (from[k] != nullptr && index < whole) in[p][k] = load_words<Word>(from[k] + index);
        }
      }
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t index = begin + p * step;
        if (index >= whole) break;
        Sum sum;
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          if (from[k] == nullptr) continue;
          if (kTerms == TermKind::scaled && Sum::scales(reduction)) in[p][k] = Sum::scaled(in[p][k], by[k]);
          if (k == 0) {  // everything begins with the first rank
            sum.start(in[p][k]);
          } else {
            sum.add(reduction, in[p][k]);
          }
        }
        const Sixteen result = kTerms == TermKind::plain ? sum.finish() : sum.finish(reduction, ranks);
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          if (to[k] != nullptr) store_words<Word>(to[k] + index, result);
        }
      }
    }
    // The flights of a thread need not end where the packs do; the shorter pack behind them all is somebody's.
    if (piece.bytes % kGpuPack != 0 && begin % step == whole % step) add_up_many(group, meeting, piece, whole, step);
  }

  // Reduces by any reduction over any number of ranks, one after the other.
  template <Group G>
  ONSTREAM_EITHER_CALL void add_up_many(const G&, Rendezvous<G> meeting, ShareMove piece, std::uint64_t begin,
                                        std::uint64_t step) const {
    constexpr int kBytes = kGpuPack;
    constexpr std::uint64_t kData = Sum::kData;
    const std::uint64_t packs = (piece.bytes + kData - 1) / kData;
    for (std::uint64_t index = begin; index < packs; index += step) {
      const std::uint64_t place = index * kData;
      const std::uint64_t left = Sum::within(piece.bytes - place);
      Sum sum;
      for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        if (!has(adds, rank)) continue;
        const std::uint64_t from = source(meeting, piece, rank);
        Pack<kBytes> pack =
            load_pack<G, kBytes>(reinterpret_cast<const std::byte*>(from) + place, left, access_width_of(from | kData));
        if (Sum::scales(op)) pack = Sum::scaled(pack, factor_of(meeting, rank));
        pack = Sum::filled(pack, left);
        if (rank == 0) {
          sum.start(pack);
        } else {
          sum.take(op, pack);
        }
      }
      const Pack<kBytes> result = sum.finish(op, view.size);
      for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        if (!has(piece.wants, rank)) continue;
        const std::uint64_t to = target(meeting, piece, rank);
        store_pack<G, kBytes>(reinterpret_cast<std::byte*>(to) + place, result, left, access_width_of(to | kData));
      }
    }
  }

  // The host's one thread: packs as large as a cache likes.
  template <Group G>
  void add_up_serial(const G&, const Rendezvous<G>& meeting, const ShareMove& piece) const {
    using Many = Accumulator<Rule, kHostPack>;
    std::uint64_t from[kMostRanks];
    std::uint64_t to[kMostRanks];
    for (std::uint32_t rank = 0; rank < view.size; ++rank) {
      from[rank] = source(meeting, piece, rank);
      to[rank] = has(piece.wants, rank) ? target(meeting, piece, rank) : 0;
    }
    for (std::uint64_t place = 0; place < piece.bytes; place += Many::kData) {
      const std::uint64_t left = Many::within(piece.bytes - place);
      Many sum;
      for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        if (has(adds, rank)) {
          take_serial(sum, rank == 0, from[rank] + place, left, factor_of(meeting, rank));
        }
      }
      const Pack<kHostPack> result = sum.finish(op, view.size);
      for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        if (to[rank] == 0) continue;
        store_pack<G, kHostPack>(reinterpret_cast<std::byte*>(to[rank]) + place, result, left, 1);
      }
    }
  }

  // Adds one pack where it lies, or the last, shorter one.
  void take_serial(Accumulator<Rule, kHostPack>& sum, bool first, std::uint64_t from, std::uint64_t left,
                   Factor by) const {
    using Many = Accumulator<Rule, kHostPack>;
    const auto* in = reinterpret_cast<const std::byte*>(from);
    Pack<kHostPack> copy;
    if (Many::scales(op) || left < Many::kData) {
      copy = load_pack<HostGroup, kHostPack>(in, left, 1);
      if (Many::scales(op)) copy = Many::scaled(copy, by);
      copy = Many::filled(copy, left);
      in = reinterpret_cast<const std::byte*>(&copy);
    }
    if (first) {
      sum.start(in);
    } else {
      sum.take(op, in);
    }
  }
};

}  // namespace onstream::collective
