// A barrier by flagged lines: a line without data to every rank, and one from each.
#pragma once

#include "onstream/collective/line_work.hpp"

namespace onstream::collective {

// Each thread meets every step_of()-th of the others, of few ranks on a GPU one. What earlier work stored it tells of
// by a fence before its first line. A rank whose channel has failed still sends: nobody takes its lines for data, and
// it is asked for behind them.
struct Barrier : LineWork {
  template <class Group>
  ONSTREAM_EITHER void operator()(const Group& group) const {
    using Tells = typename Session<Group>::Tells;
    const Early turn = take_turn(group);
    const std::uint64_t others = view.size - 1;
    const std::uint64_t first = first_of(group);
    const Ways<1> way = way_to<Group>(turn, first < others ? first : 0);
    group.settle(turn.flags ^ way.all());
    group.await_earlier();
    const bool fences = first < others && !kSerial<Group>;
    Session<Group> session(group, view, {named, bytes, signature}, turn, fences ? Tells::addresses : Tells::data);
    if (first < others) meet(group, session, turn, way);
    session.end();
  }

 private:
  // The slots of another rank, counted without this one, and of this rank.
  template <class Group>
  ONSTREAM_EITHER Ways<1> way_to(const Early& turn, std::uint64_t number) const {
    const std::uint32_t peer = peer_of(number);
    const std::uint64_t to = view.parts[peer] + Session<Group>::slot_offset(view, turn, view.rank);
    const std::uint64_t from = view.parts[view.rank] + Session<Group>::slot_offset(view, turn, peer);
    return {{reinterpret_cast<Line*>(to)}, {reinterpret_cast<const Line*>(from)}};
  }
  ONSTREAM_EITHER std::uint32_t peer_of(std::uint64_t number) const {
    return view.size == 1 ? view.rank : other(static_cast<int>(number));
  }

  template <class Group>
  ONSTREAM_EITHER void meet(const Group& group, Session<Group>& session, const Early& turn, Ways<1> way) const {
    const std::uint64_t others = view.size - 1;
    const std::uint64_t first = first_of(group);
    const std::uint64_t step = step_of(group);
    ONSTREAM_ROLLED
    for (std::uint64_t number = first; number < others; number += step) {
      if (number != first) way = way_to<Group>(turn, number);
      if (!session.may_write(peer_of(number))) return;
      send_pack<Group, 8>(group, way.to[0], 0, Pack<8>{}, session.flag());
    }
    if (session.failed()) return;
    ONSTREAM_ROLLED
    for (std::uint64_t number = first; number < others; number += step) {
      if (others > step) way = way_to<Group>(turn, number);
      Pack<8> none[1];
      if (!receive_from(group, session, way, 0, none, [&](int) { return peer_of(number); })) return;
    }
  }
};

}  // namespace onstream::collective
