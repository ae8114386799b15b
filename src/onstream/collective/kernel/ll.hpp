// Small collectives by LL lines: every rank stores its data into the others' slots, and each takes the data that it
// needs from its own. No fence, no second trip; nobody waits for anything but data.
//
//   ReduceLl    all_reduce, reduce, reduce_scatter, scan: sums in the order of the ranks
//   ExchangeLl     all_gather, broadcast, gather, scatter, all_to_all: moves
//
// A thread has a unit of 8 bytes (16 where elements are) of everybody's data and needs no other thread, so blocks meet
// nobody. In place is fine: a unit is sent before the same thread overwrites it.
#pragma once

#include "onstream/collective/protocol/ll_work.hpp"

namespace onstream::collective {

template <class Rule>
struct ReduceLl : LineWork {
  static constexpr int kUnit = line_pack_for(sizeof(typename Rule::Element));
  using Sum = Accumulator<Rule, kUnit>;
  static constexpr int kData = Sum::kData;
  // Ranks whose packs stay in registers.
  static constexpr int kTogether = kUnit >= 16 * kAtOnce ? 1 : kUnit > 16 ? 16 * kAtOnce / kUnit : kAtOnce;

  typename Sum::Op op = {};
  std::uint64_t adds = 0;  // the ranks whose data this rank's result is of
  Factor factor = 0;

  template <Group G>
  ONSTREAM_EITHER void operator()(const G& group) const {
    if constexpr (kTogether == kAtOnce) {
      const auto all = [&]<int kOthers, Units kUnits>() { run_all<kOthers, kUnits>(group); };
      if (this->among_few(group, units(), all)) return;
    }
    run(group);
  }

 private:
  template <Group G>
  ONSTREAM_EITHER Pack<kUnit> load(std::uint64_t unit, std::uint32_t peer) const {
    const std::uint64_t place = unit * kData;
    const std::uint64_t left = left_of(unit);
    return given(load_pack<G, kUnit>(input + in_stride * peer + place, left, access_width), left);
  }
  // The pack as this rank gives it.
  ONSTREAM_EITHER Pack<kUnit> given(Pack<kUnit> pack, std::uint64_t left) const {
    if (Sum::scales(op)) pack = Sum::scaled(pack, factor);
    return Sum::filled(pack, left);
  }

  ONSTREAM_EITHER std::uint64_t units() const { return (bytes + kData - 1) / kData; }
  ONSTREAM_EITHER std::uint64_t left_of(std::uint64_t unit) const { return Sum::within(bytes - unit * kData); }

  // all_reduce, reduce_scatter.
  template <int kOthers, Units kUnits, Group G>
  ONSTREAM_EITHER void run_all(const G& group) const {
    const Early epoch = take_epoch(group);
    const auto ways = ways_of<kOthers, kUnit>(group, epoch);
    const auto places = places_of<kOthers>(group, input, in_stride, kData);
    std::byte* const result = output + first_of(group) * kData;
    const std::uint64_t begin = first_of(group);
    const std::uint64_t units = begin < this->units() ? this->units() : begin;
    const bool plain = begin < units && is_plain<G, kUnit>(left_of(begin), access_width);
    group.settle(epoch.flags ^ ways.all() ^ places.all() ^ reinterpret_cast<std::uint64_t>(result) ^ units ^
                 (plain ? 1 : 0));
    group.wait_dependency();
    Packs<kOthers, kUnit> mine;
    if (begin < units) fetch_given<G>(mine, places, 0, begin, plain);
    Session<G> session(group, view, {named, bytes, signature}, epoch);
    if (begin < units) exchange_all<kUnits>(group, session, ways, places, result, mine, units, plain);
    session.end();
  }

  template <Group G, int kOthers>
  ONSTREAM_EITHER void fetch_given(Packs<kOthers, kUnit>& mine, const BufferParts<kOthers, const std::byte>& places,
                                   std::uint64_t ahead, std::uint64_t unit, bool plain) const {
    const std::uint64_t left = left_of(unit);
    this->template fetch<G>(mine, places, ahead * kData, left, plain);
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) mine.others[k] = given(mine.others[k], left);
  }

  template <Units kUnits, int kOthers, Group G>
  ONSTREAM_EITHER void exchange_all(const G& group, Session<G>& session, const Ways<kOthers>& ways,
                                    const BufferParts<kOthers, const std::byte>& places, std::byte* result,
                                    Packs<kOthers, kUnit>& mine, std::uint64_t units, bool plain) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t more = units - first_of(group);
    if (session.failed() || !session.may_write_to_others()) return;
    std::uint64_t ahead = 0;
    do {
      const std::uint64_t unit = first_of(group) + ahead;
      if (ahead != 0) fetch_given<G>(mine, places, ahead, unit, is_plain<G, kUnit>(left_of(unit), access_width));
      this->send_to_others(group, ways, ahead, mine.others, session.flag());
      ahead += step;
    } while (kUnits == Units::several && ahead < more);
    ahead = 0;
    do {
      const std::uint64_t left = left_of(first_of(group) + ahead);
      if constexpr (kUnits == Units::several) {
        mine.own = load_pack<G, kUnit>(places.own + ahead * kData, left, access_width);
        plain = is_plain<G, kUnit>(left, access_width);
      }
      mine.own = given(mine.own, left);
      if (!this->receive_from_others(group, session, ways, ahead, mine.others)) return;
      const Pack<kUnit> sum = this->template sum_of_all<Sum>(op, mine);
      store_one<G>(result + ahead * kData, sum, left, plain);
      ahead += step;
    } while (kUnits == Units::several && ahead < more);
  }

  template <Group G>
  ONSTREAM_EITHER void run(const G& group) const {
    const BlockParts held = begin(group);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Session<G>::Tells::data,
                       early_look(group, held));
    trade(group, session, held);
    session.end();
  }

  // For every flow.
  template <Group G>
  ONSTREAM_EITHER void trade(const G& group, Session<G>& session, const BlockParts& held) const {
    const std::uint64_t begin = first_of(group);
    const std::uint64_t step = step_of(group);
    const std::uint64_t units = this->units();
    const std::uint64_t to = receivers(flow, view.rank, view.size, root);
    if (session.failed() || !session.may_write_to(to)) return;
    const std::uint64_t from = senders(flow, view.rank, view.size, root);
    for (std::uint64_t unit = begin; unit < units; unit += step) {
      const auto for_peer = [&](std::uint32_t peer) { return load<G>(unit, peer); };
      if (!this->template send<kUnit>(group, session, held, to, unit, for_peer)) return;
    }
    if (flow != Flow::all) this->announce(group, session, held.there);
    for (std::uint64_t unit = begin; unit < units && !session.failed(); unit += step) {
      Sum sum;
      bool begun = false;
      for (std::uint32_t first = 0; first < view.size; first += kTogether) {
        const auto add = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
          if (!has_among<kTogether>(adds, peer)) return;
          const Pack<kUnit> pack = peer == view.rank ? load<G>(unit, peer) : arrived.pack();
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

  template <Group G>
  ONSTREAM_EITHER void store(const G&, std::uint64_t unit, const Pack<kUnit>& pack) const {
    store_pack<G, kUnit>(output + unit * kData, pack, Sum::within(bytes - unit * kData), access_width);
  }
};

struct ExchangeLl : LineWork {
  static constexpr int kUnit = 8;

  std::uint64_t out_stride = 0;  // in the output, from one rank's data to the next one's
  std::uint32_t keeps = 0;       // not 0: this rank's own data goes to its own output too

  template <Group G>
  ONSTREAM_EITHER void operator()(const G& group) const {
    const auto all = [&]<int kOthers, Units kUnits>() { run_all<kOthers, kUnits>(group); };
    if (among_few(group, units(), all)) return;
    if (kind == OpKind::broadcast && view.size <= kAtOnce) {
      if (view.rank == root) {
        send_from_root(group);
      } else {
        take_from_root(group);
      }
    } else {
      run(group);
    }
  }

 private:
  ONSTREAM_EITHER std::uint64_t units() const { return (bytes + kUnit - 1) / kUnit; }

  template <Group G>
  ONSTREAM_EITHER Pack<kUnit> load(std::uint64_t unit, std::uint32_t peer) const {
    const std::uint64_t place = unit * kUnit;
    return load_pack<G, kUnit>(input + in_stride * peer + place, bytes - place, access_width);
  }

  // all_gather, all_to_all.
  template <int kOthers, Units kUnits, Group G>
  ONSTREAM_EITHER void run_all(const G& group) const {
    const Early epoch = take_epoch(group);
    const auto ways = ways_of<kOthers, kUnit>(group, epoch);
    const auto sources = places_of<kOthers>(group, input, in_stride, kUnit);
    const auto results = places_of<kOthers>(group, output, out_stride, kUnit);
    const std::uint64_t begin = first_of(group);
    const std::uint64_t units = begin < this->units() ? this->units() : begin;
    const bool plain = begin < units && is_plain<G, kUnit>(bytes - begin * kUnit, access_width);
    group.settle(epoch.flags ^ ways.all() ^ sources.all() ^ results.all() ^ units ^ (plain ? 1 : 0));
    group.wait_dependency();
    Packs<kOthers, kUnit> mine;
    if (begin < units) this->template fetch<G>(mine, sources, 0, bytes - begin * kUnit, plain);
    Session<G> session(group, view, {named, bytes, signature}, epoch);
    if (begin < units) exchange_all<kUnits>(group, session, ways, sources, results, mine, units, plain);
    session.end();
  }

  template <Units kUnits, int kOthers, Group G>
  ONSTREAM_EITHER void exchange_all(const G& group, Session<G>& session, const Ways<kOthers>& ways,
                                    const BufferParts<kOthers, const std::byte>& sources,
                                    const BufferParts<kOthers, std::byte>& results, Packs<kOthers, kUnit>& mine,
                                    std::uint64_t units, bool plain) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t more = units - first_of(group);
    if (session.failed() || !session.may_write_to_others()) return;
    std::uint64_t ahead = 0;
    do {
      const std::uint64_t left = bytes - (first_of(group) + ahead) * kUnit;
      if (ahead != 0) {
        plain = is_plain<G, kUnit>(left, access_width);
        fetch<G>(mine, sources, ahead * kUnit, left, plain);
      }
      send_to_others(group, ways, ahead, mine.others, session.flag());
      if (keeps != 0) store_one<G>(results.own + ahead * kUnit, mine.own, left, plain);
      ahead += step;
    } while (kUnits == Units::several && ahead < more);
    ahead = 0;
    do {
      const std::uint64_t left = bytes - (first_of(group) + ahead) * kUnit;
      if constexpr (kUnits == Units::several) plain = is_plain<G, kUnit>(left, access_width);
      if (!receive_from_others(group, session, ways, ahead, mine.others)) return;
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) {
        store_one<G>(results.others[k] + ahead * kUnit, mine.others[k], left, plain);
      }
      ahead += step;
    } while (kUnits == Units::several && ahead < more);
  }

  // broadcast among few. Whether the root may send is asked beside the load of its data.
  template <Group G>
  ONSTREAM_EITHER void send_from_root(const G& group) const {
    constexpr int kOthers = kAtOnce - 1;
    const Early epoch = take_epoch(group);
    Line* to[kOthers];
    const std::uint64_t line = first_of(group);
    const std::uint64_t slot = Session<G>::slot_offset(view, epoch, view.rank);
    ONSTREAM_UNROLL
    for (int k = 0; k < kOthers; ++k) {
      to[k] = other(k) < view.size ? reinterpret_cast<Line*>(view.parts[other(k)] + slot) + line : nullptr;
    }
    const std::byte* const from = input + line * kUnit;
    const bool plain = line < units() && is_plain<G, kUnit>(bytes - line * kUnit, access_width);
    const std::uint64_t there = part_to_announce_to(group);
    group.settle(epoch.flags ^ all_of(to) ^ reinterpret_cast<std::uint64_t>(from) ^ there ^ (plain ? 1 : 0));
    group.wait_dependency();
    Pack<kUnit> own{};
    if (plain) own = *reinterpret_cast<const Pack<kUnit>*>(from);
    Session<G> session(group, view, {named, bytes, signature}, epoch);
    const bool may_write = session.template may_write_now<kAtOnce>();
    if (!session.failed() && (may_write || session.template may_write_together<kAtOnce>())) {
      for (std::uint64_t unit = line; unit < units(); unit += step_of(group)) {
        if (unit != line || !plain) own = load<G>(unit, 0);
        ONSTREAM_UNROLL
        for (int k = 0; k < kOthers; ++k) {
          if (to[k] != nullptr) send_pack<G, kUnit>(group, to[k], unit - line, own, session.flag());
        }
        if (keeps != 0) store<G>(unit, view.rank, own);
      }
      announce(group, session, there);
    }
    session.end();
  }

  template <Group G>
  ONSTREAM_EITHER void take_from_root(const G& group) const {
    const Early epoch = take_epoch(group);
    const std::uint64_t line = first_of(group);
    const std::uint64_t slot = Session<G>::slot_offset(view, epoch, root);
    const Ways<1> way{{nullptr}, {reinterpret_cast<const Line*>(view.parts[view.rank] + slot) + line}};
    std::byte* const to = output + line * kUnit;
    const std::uint64_t there = part_to_announce_to(group);
    group.settle(epoch.flags ^ way.all() ^ reinterpret_cast<std::uint64_t>(to) ^ there);
    group.wait_dependency();
    Session<G> session(group, view, {named, bytes, signature}, epoch);
    announce(group, session, there);
    for (std::uint64_t unit = line; unit < units(); unit += step_of(group)) {
      const std::uint64_t left = bytes - unit * kUnit;
      const bool plain = is_plain<G, kUnit>(left, access_width);
      Pack<kUnit> pack[1];
      if (!receive_from(group, session, way, unit - line, pack, [&](int) { return root; })) break;
      store_one<G>(to + (unit - line) * kUnit, pack[0], left, plain);
    }
    session.end();
  }

  // For every flow.
  template <Group G>
  ONSTREAM_EITHER void run(const G& group) const {
    const BlockParts held = LineWork::begin(group);
    const std::uint64_t begin = first_of(group);
    Pack<kUnit> own{};  // as in run_all
    if (has_one_for_all() && begin < units()) own = load<G>(begin, 0);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Session<G>::Tells::data,
                       early_look(group, held));
    trade(group, session, held, own, begin);
    session.end();
  }

  // Whether all that get something of this rank get the same.
  ONSTREAM_EITHER bool has_one_for_all() const {
    return in_stride == 0 && (receivers(flow, view.rank, view.size, root) != 0 || keeps != 0);
  }

  // `own` is the first unit, where has_one_for_all().
  template <Group G>
  ONSTREAM_EITHER void trade(const G& group, Session<G>& session, const BlockParts& held, Pack<kUnit> own,
                             std::uint64_t begin) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t to = receivers(flow, view.rank, view.size, root);
    const std::uint64_t from = senders(flow, view.rank, view.size, root);
    if (session.failed() || !session.may_write_to(to)) return;
    for (std::uint64_t unit = begin; unit < units(); unit += step) {
      if (in_stride == 0) {
        if (unit != begin && has_one_for_all()) own = load<G>(unit, 0);
        if (!send<kUnit>(group, session, held, to, unit, [&](std::uint32_t) { return own; })) return;
        if (keeps != 0) store<G>(unit, view.rank, own);
      } else {
        const auto for_peer = [&](std::uint32_t peer) { return load<G>(unit, peer); };
        if (!send<kUnit>(group, session, held, to, unit, for_peer)) return;
        if (keeps != 0) store<G>(unit, view.rank, load<G>(unit, view.rank));
      }
    }
    if (flow != Flow::all) announce(group, session, held.there);
    if (from == 0) return;
    for (std::uint64_t unit = begin; unit < units() && !session.failed(); unit += step) {
      const auto take = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
        if (has(from, peer)) store<G>(unit, peer, arrived.pack());
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

  template <Group G>
  ONSTREAM_EITHER void store(std::uint64_t unit, std::uint32_t peer, const Pack<kUnit>& pack) const {
    const std::uint64_t place = unit * kUnit;
    store_pack<G, kUnit>(output + out_stride * peer + place, pack, bytes - place, access_width);
  }
};

}  // namespace onstream::collective
