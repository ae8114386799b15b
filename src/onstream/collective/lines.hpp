// Small collectives by flagged lines: every rank stores what it has into the others' slots, and each takes what it
// needs from its own. No fence, no second trip; nobody waits for anything but data.
//
//   ReduceLines    all_reduce, reduce, reduce_scatter, scan: sums in the order of the ranks
//   TradeLines     all_gather, broadcast, gather, scatter, all_to_all, barrier: moves
//
// A thread has a unit of 8 bytes (16 where elements are) of everybody's data and needs no other thread, so blocks meet
// nobody. In place is fine: a unit is sent before the same thread overwrites it.
#pragma once

#include "onstream/collective/packs.hpp"
#include "onstream/collective/session.hpp"

namespace onstream::collective {

// How many ranks' packs one thread has under way.
constexpr int kAtOnce = 8;

struct LineWork {
  View view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;      // that one rank sends to one other
  std::uint64_t in_stride = 0;  // from what goes to one rank to what goes to the next; 0: all get the same
  Flow flow = Flow::all;
  std::uint32_t root = 0;
  std::uint32_t grain = 1;
  OpKind kind = OpKind::none;
  OpKind named = OpKind::none;  // in faults
  std::uint64_t signature = 0;  // call.hpp; in every flag

  // Where everybody's slots for this rank's data are, before the parity is known. A table that never changes.
  struct Held {
    std::uint64_t parts[kAtOnce];
    std::uint64_t here;  // this rank's own
  };

  template <class Group>
  ONSTREAM_EITHER Held prepare(const Group&) const {
    Held held;
    ONSTREAM_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      held.parts[k] = view.parts[static_cast<std::uint32_t>(k) < view.size ? static_cast<std::uint32_t>(k) : 0];
    }
    held.here = view.parts[view.rank];
    return held;
  }

  ONSTREAM_EITHER std::uint64_t part_of(const Held& held, std::uint32_t rank, int k) const {
    return rank < static_cast<std::uint32_t>(kAtOnce) ? held.parts[k] : view.parts[rank];
  }

 protected:
  // For a Session, where only some hear from some: what this thread's peer announces, if this rank writes to it.
  template <class Group>
  ONSTREAM_EITHER const std::uint64_t* early_look(const Group& group, const Held& held) const {
    const auto peer = static_cast<std::uint32_t>(group.rank());
    if (flow == Flow::all || peer >= view.size || !has(receivers(flow, view.rank, view.size, root), peer)) {
      return nullptr;
    }
    return Session<Group>::announcement_in(view, held.here, peer);
  }
  // Tells all others that this rank has started.
  template <class Group>
  ONSTREAM_EITHER void announce(const Group& group, const Session<Group>& session, const Held& held) const {
    if (group.block() != 0) return;
    const auto mine = static_cast<std::uint32_t>(group.rank());
    const auto threads = static_cast<std::uint32_t>(group.size());
    ONSTREAM_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const auto peer = static_cast<std::uint32_t>(k);
      const bool tells = threads < static_cast<std::uint32_t>(kAtOnce) ? mine == 0 : mine == peer;
      if (tells && peer < view.size && peer != view.rank) session.announce_to(held.parts[k], view.rank);
    }
    for (std::uint32_t peer = kAtOnce + mine; peer < view.size; peer += threads) {
      if (peer != view.rank) session.announce_to(view.parts[peer], view.rank);
    }
  }

  // What this rank has for each other, by load(peer).
  template <int kRanks, int kBytes, class Load>
  ONSTREAM_EITHER void fetch(Pack<kBytes> (&mine)[kRanks], const Load& load) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kRanks; ++k) {
      mine[k] = k > 0 && in_stride == 0 ? mine[0] : load(static_cast<std::uint32_t>(k));
    }
  }

  // What arrived of all, and this rank's own, in the order of the ranks.
  template <class Sum, int kRanks, int kBytes, class Op>
  ONSTREAM_EITHER Pack<kBytes> sum_of_all(const Op& op, const Pack<kBytes>& own,
                                          const Arriving<kBytes> (&arriving)[kRanks]) const {
    Sum sum;
    ONSTREAM_UNROLL
    for (int k = 0; k < kRanks; ++k) {
      const Pack<kBytes> pack = static_cast<std::uint32_t>(k) == view.rank ? own : arriving[k].pack();
      if (k == 0) {
        sum.start(pack);
      } else {
        sum.take(op, pack);
      }
    }
    return sum.finish(op, kRanks);
  }

  // Sends one unit to the ranks of `to`, each its own or all the same. `load(peer)` gives the pack for a rank.
  template <int kBytes, class Group, class Load>
  ONSTREAM_EITHER void send(const Group& group, Session<Group>& session, const Held& held, std::uint64_t to,
                            std::uint64_t unit, const Load& load) const {
    for (std::uint32_t first = 0; first < view.size; first += kAtOnce) {
      ONSTREAM_UNROLL_FEW_BYTES
      for (int k = 0; k < kAtOnce; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (peer >= view.size || !has(to, peer)) continue;
        if (!session.may_write(peer)) return;
        Line* const slot = session.slot(part_of(held, peer, k), view.rank);
        send_pack<Group, kBytes>(group, slot, unit, load(peer), session.flag());
      }
    }
  }

  // Waits for one unit of the ranks [first, first + kCount) that are in `from`, and gives each to take(peer, pack), in
  // order; `own` too if it is among them, without waiting. False: failed.
  template <int kBytes, int kCount = kAtOnce, class Group, class Take>
  ONSTREAM_EITHER bool receive(const Group& group, Session<Group>& session, std::uint64_t here, std::uint32_t first,
                               std::uint64_t from, std::uint64_t unit, const Take& take) const {
    Arriving<kBytes> arriving[kCount];
    const auto awaited = [&](std::uint32_t peer) { return has_among<kCount>(from, peer); };
    if (!await_packs(group, session, session.slot(here, first), first, unit, awaited, arriving)) return false;
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) take(first + static_cast<std::uint32_t>(k), arriving[k]);
    return true;
  }

  // The same two among so many ranks, all of which hear from all: the number is known to the compiler, and nothing else
  // is asked. False: failed.
  template <int kRanks, int kBytes, class Group, class Load>
  ONSTREAM_EITHER bool send_to_all(const Group& group, Session<Group>& session, const Held& held, std::uint64_t unit,
                                   const Load& load) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kRanks; ++k) {
      const std::uint32_t peer = static_cast<std::uint32_t>(k);
      if (peer == view.rank) continue;
      if (!session.may_write(peer)) return false;
      Line* const slot = session.slot(held.parts[k], view.rank);
      send_pack<Group, kBytes>(group, slot, unit, load(peer), session.flag());
    }
    return true;
  }
  template <int kRanks, int kBytes, class Group>
  ONSTREAM_EITHER bool receive_from_all(const Group& group, Session<Group>& session, const Line* slots,
                                        std::uint64_t unit, Arriving<kBytes> (&arriving)[kRanks]) const {
    const auto awaited = [&](std::uint32_t peer) { return peer != view.rank; };
    return await_packs(group, session, slots, 0, unit, awaited, arriving);
  }

 private:
  // Waits for one unit of those of kCount ranks, from `first` on, that awaited(peer) names; `slots` is the first's.
  template <int kCount, int kBytes, class Group, class Awaited>
  ONSTREAM_EITHER bool await_packs(const Group& group, Session<Group>& session, const Line* slots, std::uint32_t first,
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

template <class Rule>
struct ReduceLines : LineWork {
  static constexpr int kUnit = line_pack_for(sizeof(typename Rule::Element));
  using Sum = Accumulator<Rule, kUnit>;
  static constexpr int kData = Sum::kData;
  // Ranks whose packs stay in registers.
  static constexpr int kTogether = kUnit >= 16 * kAtOnce ? 1 : kUnit > 16 ? 16 * kAtOnce / kUnit : kAtOnce;

  typename Sum::Op op = {};
  std::uint64_t adds = 0;  // the ranks whose data this rank's result is of
  Factor factor = 0;

  template <class Group>
  ONSTREAM_EITHER void operator()(const Group& group) const {
    (*this)(group, prepare(group));
  }

  template <class Group>
  ONSTREAM_EITHER void operator()(const Group& group, const Held& held) const {
    if constexpr (kTogether < kAtOnce) {
      run(group, held);
    } else if (flow == Flow::all && view.size == 2) {
      run_all<2>(group, held);
    } else if (flow == Flow::all && view.size == 4) {
      run_all<4>(group, held);
    } else if (flow == Flow::all && view.size == kAtOnce) {
      run_all<kAtOnce>(group, held);
    } else {
      run(group, held);
    }
  }

 private:
  template <class Group>
  ONSTREAM_EITHER Pack<kUnit> load(std::uint64_t unit, std::uint32_t peer) const {
    const std::uint64_t place = unit * kData;
    const std::uint64_t left = Sum::within(bytes - place);
    Pack<kUnit> pack = load_pack<Group, kUnit>(input + in_stride * peer + place, left, grain);
    if (Sum::scales(op)) pack = Sum::scaled(pack, factor);
    return Sum::filled(pack, left);
  }

  ONSTREAM_EITHER std::uint64_t units() const { return (bytes + kData - 1) / kData; }

  // all_reduce, reduce_scatter.
  template <int kRanks, class Group>
  ONSTREAM_EITHER void run_all(const Group& group, const Held& held) const {
    Session<Group> session(group, view, {named, bytes, signature});
    const std::uint64_t begin = first_of(group);
    Pack<kUnit> mine[kRanks] = {};  // for each rank
    if (begin < units()) fetch_unit<Group>(mine, begin);
    if (!session.failed()) trade_all(group, session, held, mine, begin);
    session.end(Session<Group>::Hears::everyone);
  }

  template <class Group, int kRanks>
  ONSTREAM_EITHER void fetch_unit(Pack<kUnit> (&mine)[kRanks], std::uint64_t unit) const {
    this->fetch(mine, [&](std::uint32_t peer) { return load<Group>(unit, peer); });
  }

  template <int kRanks, class Group>
  ONSTREAM_EITHER void trade_all(const Group& group, Session<Group>& session, const Held& held,
                                 Pack<kUnit> (&mine)[kRanks], std::uint64_t begin) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t units = this->units();
    for (std::uint64_t unit = begin; unit < units; unit += step) {
      if (unit != begin) fetch_unit<Group>(mine, unit);
      const auto for_peer = [&](std::uint32_t peer) { return mine[peer]; };
      if (!this->template send_to_all<kRanks, kUnit>(group, session, held, unit, for_peer)) return;
    }
    const Line* const slots = session.slot(held.here, 0);
    for (std::uint64_t unit = begin; unit < units; unit += step) {
      // Again, while the others' are on their way: mine[rank] would have all of `mine` in memory.
      const Pack<kUnit> own = load<Group>(unit, view.rank);
      Arriving<kUnit> arriving[kRanks];
      if (!this->receive_from_all(group, session, slots, unit, arriving)) return;
      store(group, unit, this->template sum_of_all<Sum>(op, own, arriving));
    }
  }

  template <class Group>
  ONSTREAM_EITHER void run(const Group& group, const Held& held) const {
    Session<Group> session(group, view, {named, bytes, signature}, Session<Group>::Tells::data,
                           early_look(group, held));
    trade(group, session, held);
    session.end(flow == Flow::all ? Session<Group>::Hears::everyone : Session<Group>::Hears::some);
  }

  // Whatever the flow.
  template <class Group>
  ONSTREAM_EITHER void trade(const Group& group, Session<Group>& session, const Held& held) const {
    const std::uint64_t begin = first_of(group);
    const std::uint64_t step = step_of(group);
    const std::uint64_t units = this->units();
    const std::uint64_t to = receivers(flow, view.rank, view.size, root);
    if (!session.may_write_to(to)) return;
    const std::uint64_t from = senders(flow, view.rank, view.size, root);
    for (std::uint64_t unit = begin; unit < units && !session.failed(); unit += step) {
      this->template send<kUnit>(group, session, held, to, unit,
                                 [&](std::uint32_t peer) { return load<Group>(unit, peer); });
    }
    if (flow != Flow::all) this->announce(group, session, held);
    for (std::uint64_t unit = begin; unit < units && !session.failed(); unit += step) {
      Sum sum;
      bool begun = false;
      for (std::uint32_t first = 0; first < view.size; first += kTogether) {
        const auto add = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
          if (!has_among<kTogether>(adds, peer)) return;
          const Pack<kUnit> pack = peer == view.rank ? load<Group>(unit, peer) : arrived.pack();
          if (begun) {
            sum.take(op, pack);
          } else {
            sum.start(pack);
            begun = true;
          }
        };
        if (!this->template receive<kUnit, kTogether>(group, session, held.here, first, from, unit, add)) return;
      }
      if (begun) store(group, unit, sum.finish(op, view.size));
    }
  }

  template <class Group>
  ONSTREAM_EITHER void store(const Group&, std::uint64_t unit, const Pack<kUnit>& pack) const {
    store_pack<Group, kUnit>(output + unit * kData, pack, Sum::within(bytes - unit * kData), grain);
  }
};

struct TradeLines : LineWork {
  static constexpr int kUnit = 8;

  std::uint64_t out_stride = 0;  // in the output, from what came from one rank to what came from the next
  std::uint32_t keeps = 0;       // not 0: this rank's own data goes to its own output too

  template <class Group>
  ONSTREAM_EITHER void operator()(const Group& group) const {
    (*this)(group, prepare(group));
  }

  template <class Group>
  ONSTREAM_EITHER void operator()(const Group& group, const Held& held) const {
    if (flow == Flow::all && view.size == 2) {
      run_all<2>(group, held);
    } else if (flow == Flow::all && view.size == 4) {
      run_all<4>(group, held);
    } else if (flow == Flow::all && view.size == kAtOnce) {
      run_all<kAtOnce>(group, held);
    } else {
      run(group, held);
    }
  }

 private:
  // Nothing to move is still told (a barrier).
  ONSTREAM_EITHER std::uint64_t units() const { return bytes == 0 ? 1 : (bytes + kUnit - 1) / kUnit; }

  template <class Group>
  ONSTREAM_EITHER Pack<kUnit> load(std::uint64_t unit, std::uint32_t peer) const {
    const std::uint64_t place = unit * kUnit;
    if (bytes == 0) return {};
    return load_pack<Group, kUnit>(input + in_stride * peer + place, bytes - place, grain);
  }

  // all_gather, all_to_all, barrier.
  template <int kRanks, class Group>
  ONSTREAM_EITHER void run_all(const Group& group, const Held& held) const {
    const std::uint64_t begin = first_of(group);
    Pack<kUnit> mine[kRanks] = {};  // for each rank; on their way before the turn is asked for
    if (begin < units()) fetch_unit<Group>(mine, begin);
    Session<Group> session(group, view, {named, bytes, signature});
    if (!session.failed()) trade_all(group, session, held, mine, begin);
    session.end(Session<Group>::Hears::everyone);
  }

  template <class Group, int kRanks>
  ONSTREAM_EITHER void fetch_unit(Pack<kUnit> (&mine)[kRanks], std::uint64_t unit) const {
    this->fetch(mine, [&](std::uint32_t peer) { return load<Group>(unit, peer); });
  }

  template <int kRanks, class Group>
  ONSTREAM_EITHER void trade_all(const Group& group, Session<Group>& session, const Held& held,
                                 Pack<kUnit> (&mine)[kRanks], std::uint64_t begin) const {
    const std::uint64_t step = step_of(group);
    for (std::uint64_t unit = begin; unit < units(); unit += step) {
      if (unit != begin) fetch_unit<Group>(mine, unit);
      const auto for_peer = [&](std::uint32_t peer) { return mine[peer]; };
      if (!send_to_all<kRanks, kUnit>(group, session, held, unit, for_peer)) return;
      ONSTREAM_UNROLL
      for (int k = 0; k < kRanks; ++k) {
        if (keeps != 0 && static_cast<std::uint32_t>(k) == view.rank) store<Group>(unit, view.rank, mine[k]);
      }
    }
    const Line* const slots = session.slot(held.here, 0);
    for (std::uint64_t unit = begin; unit < units(); unit += step) {
      Arriving<kUnit> arriving[kRanks];
      if (!receive_from_all(group, session, slots, unit, arriving)) return;
      ONSTREAM_UNROLL
      for (int k = 0; k < kRanks; ++k) {
        const std::uint32_t peer = static_cast<std::uint32_t>(k);
        if (peer != view.rank) store<Group>(unit, peer, arriving[k].pack());
      }
    }
  }

  // Whatever the flow.
  template <class Group>
  ONSTREAM_EITHER void run(const Group& group, const Held& held) const {
    const std::uint64_t begin = first_of(group);
    Pack<kUnit> own{};  // as in run_all
    if (has_one_for_all() && begin < units()) own = load<Group>(begin, 0);
    Session<Group> session(group, view, {named, bytes, signature}, Session<Group>::Tells::data,
                           early_look(group, held));
    trade(group, session, held, own, begin);
    session.end(flow == Flow::all ? Session<Group>::Hears::everyone : Session<Group>::Hears::some);
  }

  // Whether all that get something of this rank get the same.
  ONSTREAM_EITHER bool has_one_for_all() const {
    return in_stride == 0 && (receivers(flow, view.rank, view.size, root) != 0 || keeps != 0);
  }

  // `own` is what has_one_for_all() says of the first unit.
  template <class Group>
  ONSTREAM_EITHER void trade(const Group& group, Session<Group>& session, const Held& held, Pack<kUnit> own,
                             std::uint64_t begin) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t to = receivers(flow, view.rank, view.size, root);
    const std::uint64_t from = senders(flow, view.rank, view.size, root);
    if (!session.may_write_to(to)) return;
    for (std::uint64_t unit = begin; unit < units() && !session.failed(); unit += step) {
      if (in_stride == 0) {
        if (unit != begin && has_one_for_all()) own = load<Group>(unit, 0);
        send<kUnit>(group, session, held, to, unit, [&](std::uint32_t) { return own; });
        if (keeps != 0) store<Group>(unit, view.rank, own);
      } else {
        send<kUnit>(group, session, held, to, unit, [&](std::uint32_t peer) { return load<Group>(unit, peer); });
        if (keeps != 0) store<Group>(unit, view.rank, load<Group>(unit, view.rank));
      }
    }
    if (flow != Flow::all) announce(group, session, held);
    if (from == 0) return;
    for (std::uint64_t unit = begin; unit < units() && !session.failed(); unit += step) {
      const auto take = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
        if (has(from, peer)) store<Group>(unit, peer, arrived.pack());
      };
      if (flow == Flow::from_root) {
        if (!receive<kUnit, 1>(group, session, held.here, root, from, unit, take)) return;
        continue;
      }
      for (std::uint32_t first = 0; first < view.size; first += kAtOnce) {
        if (!receive<kUnit>(group, session, held.here, first, from, unit, take)) return;
      }
    }
  }

  template <class Group>
  ONSTREAM_EITHER void store(std::uint64_t unit, std::uint32_t peer, const Pack<kUnit>& pack) const {
    if (bytes == 0) return;
    const std::uint64_t place = unit * kUnit;
    store_pack<Group, kUnit>(output + out_stride * peer + place, pack, bytes - place, grain);
  }
};

}  // namespace onstream::collective
