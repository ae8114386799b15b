// The common part of collectives by lines: where slots are, how a thread sends its units and waits for others', and all
// that it can know before its epoch begins.
#pragma once

#include "onstream/collective/protocol/packs.hpp"
#include "onstream/collective/protocol/session.hpp"

namespace onstream::collective {

// How many ranks' packs one thread has under way.
constexpr int kAtOnce = 8;

struct LineWork {
  ChannelView view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;      // that one rank sends to one other
  std::uint64_t in_stride = 0;  // from one rank's data to the next one's; 0: all get the same
  Flow flow = Flow::all;
  std::uint32_t root = 0;
  std::uint32_t access_width = 1;
  OpKind kind = OpKind::none;
  OpKind named = OpKind::none;  // in faults
  std::uint64_t signature = 0;  // call.hpp; in every flag

  static constexpr bool kBegins = true;  // device/cuda/entry.cuh

  // A block's epoch, and each rank's part.
  struct BlockParts {
    Early epoch;
    std::uint64_t parts[kAtOnce];  // as begin() was told
    std::uint64_t here;            // this rank's own
    std::uint64_t there;           // of the rank of this thread's number, see announce
  };

 protected:
  template <Group G>
  ONSTREAM_EITHER Early take_epoch(const G& group) const {
    return Session<G>::take_epoch(group, view, signature, flow == Flow::all ? Hears::everyone : Hears::some);
  }

  // All threads, first.
  template <Group G>
  ONSTREAM_EITHER BlockParts begin(const G& group) const {
    return begin(group, [](std::uint32_t number) { return number; });
  }
  // The same with the parts of the ranks rank(0), rank(1), ...
  template <Group G, class Rank>
  ONSTREAM_EITHER BlockParts begin(const G& group, const Rank& rank) const {
    BlockParts held;
    held.epoch = take_epoch(group);
    ONSTREAM_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const auto number = static_cast<std::uint32_t>(k);
      held.parts[k] = view.parts[number < view.size ? rank(number) : 0];
    }
    held.here = view.parts[view.rank];
    held.there = part_to_announce_to(group);
    group.wait_dependency();
    return held;
  }

  // The part of `rank`, where `held` has the parts in the ranks' order.
  ONSTREAM_EITHER std::uint64_t part_of(const BlockParts& held, std::uint32_t rank, int k) const {
    return rank < static_cast<std::uint32_t>(kAtOnce) ? held.parts[k] : view.parts[rank];
  }

  // For a Session, where only some hear from some: the word in which this thread's peer announces its start, if this
  // rank writes to it.
  template <Group G>
  ONSTREAM_EITHER const std::uint64_t* early_look(const G& group, const BlockParts& held) const {
    const auto peer = static_cast<std::uint32_t>(group.rank());
    if (flow == Flow::all || peer >= view.size || !has(receivers(flow, view.rank, view.size, root), peer)) {
      return nullptr;
    }
    return Session<G>::announcement_in(view, held.here, peer);
  }
  // Tells all others that this rank has started. `there` is looked up before the epoch begins, as the thread that
  // announces may be one that waits for data.
  template <Group G>
  ONSTREAM_EITHER std::uint64_t part_to_announce_to(const G& group) const {
    const auto peer = static_cast<std::uint32_t>(group.rank());
    return view.parts[peer < view.size ? peer : 0];
  }
  template <Group G>
  ONSTREAM_EITHER void announce(const G& group, const Session<G>& session, std::uint64_t there) const {
    if (group.block() != 0) return;
    for (std::uint32_t peer = group.rank(); peer < view.size; peer += group.size()) {
      if (peer == view.rank) continue;
      session.announce_to(peer == static_cast<std::uint32_t>(group.rank()) ? there : view.parts[peer], view.rank);
    }
  }

  // Sends one unit to the ranks of `to`, each its own or all the same. `load(peer)` gives the pack for a rank. False:
  // failed.
  template <int kBytes, Group G, class Load>
  ONSTREAM_EITHER bool send(const G& group, Session<G>& session, const BlockParts& held, std::uint64_t to,
                            std::uint64_t unit, const Load& load) const {
    for (std::uint32_t first = 0; first < view.size; first += kAtOnce) {
      ONSTREAM_UNROLL_FEW_BYTES
      for (int k = 0; k < kAtOnce; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (peer >= view.size || !has(to, peer)) continue;
        if (!session.may_write(peer)) return false;
        Line* const slot = session.slot(part_of(held, peer, k), view.rank);
        send_pack<G, kBytes>(group, slot, unit, load(peer), session.flag());
      }
    }
    return true;
  }

  // Waits for one unit of the ranks [first, first + kCount) that are in `from`, and gives each to take(peer, pack), in
  // order; `own` too if it is among them, without waiting. False: failed.
  template <int kBytes, int kCount = kAtOnce, Group G, class Take>
  ONSTREAM_EITHER bool receive(const G& group, Session<G>& session, std::uint64_t here, std::uint32_t first,
                               std::uint64_t from, std::uint64_t unit, const Take& take) const {
    Arriving<kBytes> arriving[kCount];
    const auto awaited = [&](std::uint32_t peer) { return has_among<kCount>(from, peer); };
    if (!await_packs(group, session, session.slot(here, first), first, unit, awaited, arriving)) return false;
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) take(first + static_cast<std::uint32_t>(k), arriving[k]);
    return true;
  }

  // --- among so many ranks that the compiler knows, all of which hear from all ---
  //
  // Everything but the data is known before the epoch begins, and stays in registers: behind that there are a load, the
  // stores, the wait and the result. The other ranks are counted in their order, without this one.
  ONSTREAM_EITHER std::uint32_t other(int k) const {
    const auto number = static_cast<std::uint32_t>(k);
    return number < view.rank ? number : number + 1;
  }

  // Calls run.operator()<kOthers>() for as many others as there are. False: there is no code for so many, or not all
  // hear from all.
  template <class Run>
  ONSTREAM_EITHER bool among_few(const Run& run) const {
    if (flow != Flow::all) return false;
    if (view.size == 2) {
      run.template operator()<1>();
    } else if (view.size == 4) {
      run.template operator()<3>();
    } else if (view.size == kAtOnce) {
      run.template operator()<kAtOnce - 1>();
    } else {
      return false;
    }
    return true;
  }
  // The same for so many units, and whether some threads have more than one.
  enum class Units { one, several };
  template <Group G, class Run>
  ONSTREAM_EITHER bool among_few(const G& group, std::uint64_t units, const Run& run) const {
    return among_few([&]<int kOthers>() {
      if (units <= step_of(group)) {
        run.template operator()<kOthers, Units::one>();
      } else {
        run.template operator()<kOthers, Units::several>();
      }
    });
  }

  // For group.settle().
  template <class T, int kCount>
  ONSTREAM_EITHER static std::uint64_t all_of(T* const (&addresses)[kCount]) {
    std::uint64_t all = 0;
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) all ^= reinterpret_cast<std::uint64_t>(addresses[k]);
    return all;
  }

  // Where a thread's first unit lies: in the slot that each of the others reads, and in those that this rank reads.
  template <int kOthers>
  struct Ways {
    Line* to[kOthers];
    const Line* from[kOthers];
    ONSTREAM_EITHER std::uint64_t all() const { return all_of(to) ^ all_of(from); }
  };
  template <int kOthers, int kBytes, Group G>
  ONSTREAM_EITHER Ways<kOthers> ways_of(const G& group, Early epoch) const {
    Ways<kOthers> ways;
    const std::uint64_t line = first_of(group) * (kBytes / 8);
    const std::uint64_t mine = Session<G>::slot_offset(view, epoch, view.rank);
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) {
      const std::uint64_t theirs = Session<G>::slot_offset(view, epoch, other(k));
      ways.to[k] = reinterpret_cast<Line*>(view.parts[other(k)] + mine) + line;
      ways.from[k] = reinterpret_cast<const Line*>(view.parts[view.rank] + theirs) + line;
    }
    return ways;
  }

  // And in a buffer: this rank's part, and those of the others, `stride` bytes from one rank's to the next one's.
  template <int kOthers, class Byte>
  struct BufferParts {
    Byte* own;
    Byte* others[kOthers];
    ONSTREAM_EITHER std::uint64_t all() const { return reinterpret_cast<std::uint64_t>(own) ^ all_of(others); }
  };
  template <int kOthers, class Byte, Group G>
  ONSTREAM_EITHER BufferParts<kOthers, Byte> places_of(const G& group, Byte* buffer, std::uint64_t stride,
                                                       std::uint64_t unit_bytes) const {
    BufferParts<kOthers, Byte> places;
    Byte* const first = buffer + first_of(group) * unit_bytes;
    places.own = first + stride * view.rank;
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) places.others[k] = first + stride * other(k);
    return places;
  }

  // A thread's unit for each of the others, and of this rank's own.
  template <int kOthers, int kBytes>
  struct Packs {
    Pack<kBytes> own = {};
    Pack<kBytes> others[kOthers] = {};
  };
  // `left` bytes of each, `ahead` bytes behind the places. Data that all get is loaded once.
  template <Group G, int kOthers, int kBytes>
  ONSTREAM_EITHER void fetch(Packs<kOthers, kBytes>& packs, const BufferParts<kOthers, const std::byte>& places,
                             std::uint64_t ahead, std::uint64_t left, bool plain) const {
    using One = Pack<kBytes>;
    if (in_stride == 0) {
      packs.own = plain ? *reinterpret_cast<const One*>(places.own + ahead)
                        : load_pack<G, kBytes>(places.own + ahead, left, access_width);
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) packs.others[k] = packs.own;
    } else if (plain) {
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) packs.others[k] = *reinterpret_cast<const One*>(places.others[k] + ahead);
      packs.own = *reinterpret_cast<const One*>(places.own + ahead);
    } else {
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k)
        packs.others[k] = load_pack<G, kBytes>(places.others[k] + ahead, left, access_width);
      packs.own = load_pack<G, kBytes>(places.own + ahead, left, access_width);
    }
  }

  // `ahead` units behind a thread's first one.
  template <int kBytes, int kOthers, Group G>
  ONSTREAM_EITHER void send_to_others(const G& group, const Ways<kOthers>& ways, std::uint64_t ahead,
                                      const Pack<kBytes> (&packs)[kOthers], const Flag& flag) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) send_pack<G, kBytes>(group, ways.to[k], ahead, packs[k], flag);
  }
  template <int kBytes, int kOthers, Group G>
  ONSTREAM_EITHER bool receive_from_others(const G& group, Session<G>& session, const Ways<kOthers>& ways,
                                           std::uint64_t ahead, Pack<kBytes> (&packs)[kOthers]) const {
    return receive_from(group, session, ways, ahead, packs, [&](int k) { return other(k); });
  }
  // Receives from the ranks rank(k).
  template <int kBytes, int kOthers, Group G, class Rank>
  ONSTREAM_EITHER bool receive_from(const G& group, Session<G>& session, const Ways<kOthers>& ways, std::uint64_t ahead,
                                    Pack<kBytes> (&packs)[kOthers], const Rank& rank) const {
    Arriving<kBytes> arriving[kOthers];
    const auto ready = [&] {
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) arriving[k].look(group, ways.from[k], ahead);
      bool all = true;
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) all = all && arriving[k].is_here(session.flag());
      return all;
    };
    const auto absent = [&] {
      std::uint64_t ranks = 0;
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) ranks |= arriving[k].is_here(session.flag()) ? 0 : only(rank(k));
      return ranks;
    };
    if (!session.await_ranks(ready, absent)) return false;
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) packs[k] = arriving[k].pack();
    return true;
  }
  template <Group G, int kBytes>
  ONSTREAM_EITHER void store_one(std::byte* to, const Pack<kBytes>& pack, std::uint64_t left, bool plain) const {
    if (plain) {
      *reinterpret_cast<Pack<kBytes>*>(to) = pack;
    } else {
      store_pack<G, kBytes>(to, pack, left, access_width);
    }
  }

  // The sum of all ranks' packs, in the order of the ranks.
  template <class Sum, int kOthers, int kBytes, class Op>
  ONSTREAM_EITHER Pack<kBytes> sum_of_all(const Op& op, const Packs<kOthers, kBytes>& packs) const {
    Sum sum;
    ONSTREAM_UNROLL
    for (int k = 0; k <= kOthers; ++k) {
      const auto rank = static_cast<std::uint32_t>(k);
      Pack<kBytes> pack = packs.others[k < kOthers ? k : k - 1];
      if (k > 0 && rank > view.rank) pack = packs.others[k > 0 ? k - 1 : 0];
      if (rank == view.rank) pack = packs.own;
      if (k == 0) {
        sum.start(pack);
      } else {
        sum.take(op, pack);
      }
    }
    return sum.finish(op, kOthers + 1);
  }

 private:
  // Waits for one unit of those of kCount ranks, from `first` on, that awaited(peer) names; `slots` is the first's.
  template <int kCount, int kBytes, Group G, class Awaited>
  ONSTREAM_EITHER bool await_packs(const G& group, Session<G>& session, const Line* slots, std::uint32_t first,
                                   std::uint64_t unit, const Awaited& awaited,
                                   Arriving<kBytes> (&arriving)[kCount]) const {
    const auto missing = [&] {
      ONSTREAM_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (awaited(peer)) arriving[k].look(group, slots + session.distance(k), unit);
      }
      std::uint64_t absent = 0;
      ONSTREAM_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (awaited(peer) && !arriving[k].is_here(session.flag())) absent |= only(peer);
      }
      return absent;
    };
    return session.await_all(missing);
  }
};

}  // namespace onstream::collective
