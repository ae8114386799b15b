// A barrier by LL lines: a line without data to every rank, and one from each.
#pragma once

#include "onstream/collective/protocol/ll_work.hpp"

namespace onstream::collective {

// On a GPU each other rank has a thread of its own: a grid has at least as many threads. That thread fences before it
// sends its line, so that the peer sees the stores of earlier work. A rank whose channel has failed still sends: nobody
// takes its lines for data, and it is asked for behind them.
struct BarrierLl : LineWork {
  template <Group G>
  ONSTREAM_EITHER void operator()(const G& group) const {
    using Tells = typename Session<G>::Tells;
    const Early epoch = take_epoch(group);
    const std::uint64_t others = view.size - 1;
    const std::uint64_t first = first_of(group);
    const bool meets = first < others;
    const Ways<1> way = way_to<G>(epoch, meets ? first : 0);
    group.settle(epoch.flags ^ way.all());
    group.wait_dependency();
    const bool fences = meets && !kSerial<G>;
    Session<G> session(group, view, {named, bytes, signature}, epoch, fences ? Tells::addresses : Tells::data);
    if constexpr (kSerial<G>) {
      meet_all(group, session, epoch);
    } else if (meets && session.may_write_to_others()) {
      send_line(group, session, way);
      if (!session.failed()) (void)await_line(group, session, way, first);
    }
    session.end();
  }

 private:
  // The slots of another rank, counted without this one, and of this rank.
  template <Group G>
  ONSTREAM_EITHER Ways<1> way_to(const Early& epoch, std::uint64_t number) const {
    const std::uint32_t peer = peer_of(number);
    const std::uint64_t to = view.parts[peer] + Session<G>::slot_offset(view, epoch, view.rank);
    const std::uint64_t from = view.parts[view.rank] + Session<G>::slot_offset(view, epoch, peer);
    return {{reinterpret_cast<Line*>(to)}, {reinterpret_cast<const Line*>(from)}};
  }
  ONSTREAM_EITHER std::uint32_t peer_of(std::uint64_t number) const {
    return view.size == 1 ? view.rank : other(static_cast<int>(number));
  }

  template <Group G>
  ONSTREAM_EITHER void send_line(const G& group, const Session<G>& session, const Ways<1>& way) const {
    send_pack<G, 8>(group, way.to[0], 0, Pack<8>{}, session.flag());
  }
  template <Group G>
  ONSTREAM_EITHER bool await_line(const G& group, Session<G>& session, const Ways<1>& way, std::uint64_t number) const {
    Pack<8> none[1];
    return receive_from(group, session, way, 0, none, [&](int) { return peer_of(number); });
  }

  // The host's one thread.
  template <Group G>
  void meet_all(const G& group, Session<G>& session, const Early& epoch) const {
    const std::uint64_t others = view.size - 1;
    if (!session.may_write_to_others()) return;
    for (std::uint64_t number = 0; number < others; ++number) {
      send_line(group, session, way_to<G>(epoch, number));
    }
    for (std::uint64_t number = 0; number < others && !session.failed(); ++number) {
      if (!await_line(group, session, way_to<G>(epoch, number), number)) return;
    }
  }
};

}  // namespace onstream::collective
