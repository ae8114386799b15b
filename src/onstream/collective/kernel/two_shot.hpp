// An all_reduce by LL lines in two shots, for sizes where sending everything to everybody takes too long: each
// rank gets one part of everybody's data, sums it in the order of the ranks, and sends the sum to all.
//
// Nobody meets: a thread has the same unit of every part, sends it, sums its own part's, and takes the others' sums.
// The first shot uses the front half of the slots, the second the back half.
#pragma once

#include "onstream/collective/protocol/ll_work.hpp"

namespace onstream::collective {

template <class Rule>
struct TwoShotLl : LineWork {
  static constexpr int kUnit = line_pack_for(sizeof(typename Rule::Element));
  static constexpr std::uint64_t kUnitLines = kUnit / 8;
  using Sum = Accumulator<Rule, kUnit>;
  static constexpr int kData = Sum::kData;

  typename Sum::Op op = {};
  Factor factor = 0;

  template <Group G>
  ONSTREAM_EITHER void operator()(const G& group) const {
    if (this->among_few([&]<int kOthers>() { run_all<kOthers>(group); })) return;
    const BlockParts held = begin(group);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch);
    if (!session.failed()) run(group, session, held);
    session.end();
  }

 private:
  // Runs among so many ranks: the compiler knows the number.
  template <int kOthers, Group G>
  ONSTREAM_EITHER void run_all(const G& group) const {
    const Early epoch = take_epoch(group);
    const auto ways = ways_of<kOthers, kUnit>(group, epoch);
    group.settle(epoch.flags ^ ways.all());
    group.wait_dependency();
    Session<G> session(group, view, {named, bytes, signature}, epoch);
    if (!session.failed() && session.may_write_to_others()) exchange_all(group, session, ways);
    session.end();
  }

  template <int kOthers, Group G>
  ONSTREAM_EITHER void exchange_all(const G& group, Session<G>& session, const Ways<kOthers>& ways) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t begin = first_of(group);
    const std::uint64_t each = ((bytes + kData - 1) / kData + kOthers) / (kOthers + 1);
    const std::uint64_t back = view.slot_lines / 2 / kUnitLines;
    for (std::uint64_t unit = begin; unit < each; unit += step) {
      Pack<kUnit> parts[kOthers];  // all are on their way before the first is sent
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) parts[k] = load<G>(other(k) * each + unit);
      this->send_to_others(group, ways, unit - begin, parts, session.flag());
    }
    for (std::uint64_t unit = begin; unit < each; unit += step) {
      const std::uint64_t mine = view.rank * each + unit;
      Packs<kOthers, kUnit> all;
      all.own = load<G>(mine);
      if (!this->receive_from_others(group, session, ways, unit - begin, all.others)) return;
      Pack<kUnit> result = all.own;
      if (Sum::kTakesAnything || mine * kData < bytes) result = this->template sum_of_all<Sum>(op, all);
      Pack<kUnit> same[kOthers];
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) same[k] = result;
      this->send_to_others(group, ways, unit - begin + back, same, session.flag());
      store<G>(mine, result);
    }
    for (std::uint64_t unit = begin; unit < each; unit += step) {
      Pack<kUnit> sums[kOthers];
      if (!this->receive_from_others(group, session, ways, unit - begin + back, sums)) return;
      ONSTREAM_UNROLL
      for (int k = 0; k < kOthers; ++k) store<G>(other(k) * each + unit, sums[k]);
    }
  }

  template <Group G>
  ONSTREAM_EITHER void run(const G& group, Session<G>& session, const BlockParts& held) const {
    const std::uint64_t step = step_of(group);
    const std::uint64_t begin = first_of(group);
    const std::uint64_t units = (bytes + kData - 1) / kData;
    const std::uint64_t each = (units + view.size - 1) / view.size;
    const std::uint64_t back = view.slot_lines / 2;
    const std::uint64_t here = held.here;
    const std::uint64_t others = session.others();
    for (std::uint64_t unit = begin; unit < each; unit += step) {
      const auto for_peer = [&](std::uint32_t peer) { return load<G>(peer * each + unit); };
      if (!send<kUnit>(group, session, held, others, unit, for_peer)) return;
    }
    for (std::uint64_t unit = begin; unit < each && !session.failed(); unit += step) {
      const Pack<kUnit> own = load<G>(view.rank * each + unit);
      const bool sums = Sum::kTakesAnything || (view.rank * each + unit) * kData < bytes;
      Sum sum;
      for (std::uint32_t first = 0; first < view.size; first += kAtOnce) {
        const auto add = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
          if (peer >= view.size || !sums) return;
          const Pack<kUnit> pack = peer == view.rank ? own : arrived.pack();
          if (peer == 0) {
            sum.start(pack);
          } else {
            sum.take(op, pack);
          }
        };
        if (!receive<kUnit>(group, session, here, first, others, unit, add)) return;
      }
      const Pack<kUnit> result = sums ? sum.finish(op, view.size) : own;
      const auto same = [&](std::uint32_t) { return result; };
      if (!send<kUnit>(group, session, held, others, unit + back / kUnitLines, same)) return;
      store<G>(view.rank * each + unit, result);
    }
    for (std::uint64_t unit = begin; unit < each && !session.failed(); unit += step) {
      for (std::uint32_t first = 0; first < view.size; first += kAtOnce) {
        const auto take = [&](std::uint32_t peer, const Arriving<kUnit>& arrived) {
          if (has(others, peer)) store<G>(peer * each + unit, arrived.pack());
        };
        if (!receive<kUnit>(group, session, here, first, others, unit + back / kUnitLines, take)) return;
      }
    }
  }

  template <Group G>
  ONSTREAM_EITHER Pack<kUnit> load(std::uint64_t unit) const {
    const std::uint64_t place = unit * kData;
    const std::uint64_t left = place < bytes ? Sum::within(bytes - place) : 0;
    Pack<kUnit> pack = load_pack<G, kUnit>(input + place, left, access_width);
    if (Sum::scales(op)) pack = Sum::scaled(pack, factor);
    return Sum::filled(pack, left);
  }
  template <Group G>
  ONSTREAM_EITHER void store(std::uint64_t unit, const Pack<kUnit>& pack) const {
    const std::uint64_t place = unit * kData;
    if (place < bytes) store_pack<G, kUnit>(output + place, pack, Sum::within(bytes - place), access_width);
  }
};

}  // namespace onstream::collective
