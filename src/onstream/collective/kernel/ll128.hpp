// Middling collectives by LL128 lines: 128 bytes that prove their own arrival, 120 of them data. Where lines (ll.hpp)
// carry a flag with every 4 bytes, these carry one with every 120, so they are the fastest until the trips of a meeting
// (simple_*.hpp) no longer count.
//
//   ReduceLl128   all_reduce, in two shots: parts to their owners and sums to all; reduce_scatter, the first shot
//   alone;
//                or all_reduce too (ll128_in_two_shots): then every rank's part is the whole vector
//   ExchangeLl128    all_gather, all_to_all, broadcast
//
// Eight neighbouring threads of a warp, a subgroup, store an LL128 line in one access of 16 bytes each, and load it so.
// It is there whole or not at all: no standard says that, but that is how such an access travels inside a GPU and over
// NVLink (NCCL's protocol LL128 counts on it too), and tests/native/device/kernel/ll128_lines.cpp looks.
// Device::whole_lines_to says where. Subgroups send stripes: two LL128 lines of 240 bytes of data together, which keeps
// data aligned to 16 bytes.
//
// A subgroup has a stripe of everybody's data and needs no other one, so blocks meet nobody. The subgroups of a warp go
// on together: a subgroup without a stripe looks on. In place is fine: a stripe is sent before the same threads
// overwrite it.
#pragma once

#include "onstream/collective/protocol/ll_work.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::collective {

constexpr int kSubgroup = 8;

// One thread's share of a stripe: a pack in the first line and one in the second. The last of the subgroup has one
// pack, a word of it in each line beside the flag. A host thread is a subgroup by itself, and has all.
template <Group G>
struct Slice {
  static constexpr int kPacks = kSerial<G> ? 1 : 2;
  static constexpr int kBytes = kSerial<G> ? static_cast<int>(kStripeData) : 16;
  Pack<kBytes> packs[kPacks];

  ONSTREAM_BODY static int lane(const G& group) { return kSerial<G> ? 0 : group.rank() % kSubgroup; }
  // Where pack i of this thread lies in the stripe's data, and whether it has one.
  ONSTREAM_BODY static std::uint64_t place(const G& group, int i) {
    return static_cast<std::uint64_t>(kSubgroup * i + lane(group)) * 16;
  }
  ONSTREAM_BODY static bool has(const G& group, int i) { return kSerial<G> || i == 0 || lane(group) + 1 < kSubgroup; }
};

// The subgroups of a grid deal the stripes among themselves.
template <Group G>
ONSTREAM_BODY std::uint64_t first_stripe(const G& group) {
  return kSerial<G> ? first_of(group) : first_of(group) / kSubgroup;
}
template <Group G>
ONSTREAM_BODY std::uint64_t stripe_step(const G& group) {
  return kSerial<G> ? step_of(group) : step_of(group) / kSubgroup;
}

template <Group G>
ONSTREAM_BODY void send_slice(const G& group, Line* slot, std::uint64_t stripe, const Slice<G>& slice,
                              std::uint64_t flag) {
  Line* const at = slot + stripe * kStripeLines;
  if constexpr (kSerial<G>) {
    constexpr std::uint64_t kWords = 2 * kLl128Lines - 1;
    auto* words = reinterpret_cast<std::uint64_t*>(at);
    for (int i = 0; i < 2; ++i, words += kWords + 1) {
      std::memcpy(words, slice.packs[0].words + i * kWords, kWords * sizeof(std::uint64_t));
      group.store_release(words + kWords, flag);  // pairs with ArrivingSlice::look
    }
  } else {
    const bool last = !Slice<G>::has(group, 1);
    const Pack<16>& first = slice.packs[0];
    const Pack<16>& second = slice.packs[1];
    group.store_subgroup(at, {first.words[0], last ? flag : first.words[1]});
    group.store_subgroup(at + kLl128Lines, last ? Line{first.words[1], flag} : Line{second.words[0], second.words[1]});
  }
}

// A slice on its way, as it was last seen.
template <Group G>
struct ArrivingSlice {
  Line lines[2];

  ONSTREAM_BODY void look(const G& group, const Line* slot, std::uint64_t stripe) {
    const Line* const at = slot + stripe * kStripeLines;
    lines[0] = group.load_subgroup(at);
    lines[1] = group.load_subgroup(at + kLl128Lines);
  }
  // All threads of a subgroup together know.
  ONSTREAM_BODY bool is_here(const G& group, std::uint64_t flag) const {
    return Slice<G>::has(group, 1) || (lines[0].high == flag && lines[1].high == flag);
  }
  ONSTREAM_BODY Slice<G> slice(const G& group) const {
    Slice<G> out;
    const bool last = !Slice<G>::has(group, 1);
    out.packs[0].words[0] = lines[0].low;
    out.packs[0].words[1] = last ? lines[1].low : lines[0].high;
    out.packs[1].words[0] = lines[1].low;
    out.packs[1].words[1] = lines[1].high;
    return out;
  }
};

template <>
struct ArrivingSlice<HostGroup> {
  const std::uint64_t* words;
  std::uint64_t flags[2];
  static constexpr std::uint64_t kWords = 2 * kLl128Lines - 1;

  void look(const HostGroup& group, const Line* slot, std::uint64_t stripe) {
    words = reinterpret_cast<const std::uint64_t*>(slot + stripe * kStripeLines);
    for (int i = 0; i < 2; ++i) flags[i] = group.load_acquire(words + kWords + i * (kWords + 1));
  }
  bool is_here(const HostGroup&, std::uint64_t flag) const { return flags[0] == flag && flags[1] == flag; }
  Slice<HostGroup> slice(const HostGroup&) const {
    Slice<HostGroup> out;
    for (int i = 0; i < 2; ++i) {
      std::memcpy(out.packs[0].words + i * kWords, words + i * (kWords + 1), kWords * sizeof(std::uint64_t));
    }
    return out;
  }
};

// `bytes` is the length of all_reduce's vector, or of one rank's data for one other.
struct Ll128Work : LineWork {
  std::uint64_t stripes = 0;  // of one rank's part
  std::uint64_t part = 0;     // its bytes; in the input it begins at `in_stride` times the rank
  std::uint64_t whole = 0;    // bytes of all parts; the last ones may be short, or nothing

 protected:
  // Everybody sends to the rank after it first, and comes last itself: if all began with the same rank, its link would
  // be the only busy one.
  ONSTREAM_BODY std::uint32_t in_circle(std::uint32_t number) const { return rank_after(view, number + 1); }

  // LineWork::begin, with each rank's part in that order.
  template <Group G>
  ONSTREAM_BODY BlockParts begin_in_circle(const G& group) const {
    return begin(group, [&](std::uint32_t number) { return in_circle(number); });
  }

  // A stripe of the part that begins at `begin` of some data, of which this thread has a slice.
  template <Group G>
  ONSTREAM_BODY Slice<G> load_slice(const G& group, const std::byte* data, std::uint64_t begin,
                                    std::uint64_t stripe) const {
    const std::uint64_t left = left_of(begin, stripe * kStripeData);
    if (kSerial<G> || !is_packs(left)) return load_ragged(group, data, begin, stripe);
    const std::byte* const from = data + stripe * kStripeData;
    Slice<G> slice{};
    ONSTREAM_UNROLL
    for (int i = 0; i < Slice<G>::kPacks; ++i) {
      using One = Pack<Slice<G>::kBytes>;
      const std::uint64_t place = Slice<G>::place(group, i);
      if (Slice<G>::has(group, i) && place < left) slice.packs[i] = *reinterpret_cast<const One*>(from + place);
    }
    return slice;
  }
  template <Group G>
  ONSTREAM_BODY void store_slice(const G& group, std::byte* data, std::uint64_t begin, std::uint64_t stripe,
                                 const Slice<G>& slice) const {
    const std::uint64_t left = left_of(begin, stripe * kStripeData);
    if (kSerial<G> || !is_packs(left)) return store_ragged(group, data, begin, stripe, slice);
    std::byte* const to = data + stripe * kStripeData;
    ONSTREAM_UNROLL
    for (int i = 0; i < Slice<G>::kPacks; ++i) {
      using One = Pack<Slice<G>::kBytes>;
      const std::uint64_t place = Slice<G>::place(group, i);
      if (Slice<G>::has(group, i) && place < left) *reinterpret_cast<One*>(to + place) = slice.packs[i];
    }
  }

  // Whether a subgroup of this warp has a stripe left; `next` is this one's.
  template <Group G>
  ONSTREAM_BODY bool goes_on(const G& group, std::uint64_t next) const {
    return group.any_of_warp(next < stripes);
  }

  // The ranks are dealt with kRanks at a time; with kAll they are so many, and the compiler knows.
  template <int kRanks, bool kAll>
  ONSTREAM_BODY std::uint32_t ranks() const {
    return kAll ? kRanks : view.size;
  }

  // Sends to the ranks from number `first` in the circle on, but not to this one: `slices` has each one's, or one for
  // all.
  template <int kRanks, bool kAll, int kSlices, Group G>
  ONSTREAM_BODY void send_slices(const G& group, const Session<G>& session, const BlockParts& held, std::uint32_t first,
                                 std::uint64_t stripe, const Slice<G> (&slices)[kSlices]) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kRanks; ++k) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(k);
      if (number + 1 >= ranks<kRanks, kAll>()) continue;
      Line* const slot = session.ll128_slot(kAll ? held.parts[k] : view.parts[in_circle(number)], view.rank);
      send_slice(group, slot, stripe, slices[kSlices == 1 ? 0 : k], session.ll128_flag());
    }
  }

  // All of a warp: waits for a stripe of the ranks from `first` on, but not this one. False: failed.
  template <int kRanks, bool kAll, Group G>
  ONSTREAM_BODY bool receive_slices(const G& group, Session<G>& session, const BlockParts& held, std::uint32_t first,
                                    std::uint64_t stripe, ArrivingSlice<G> (&arriving)[kRanks]) const {
    group.sync_warp();
    const Line* const slots = session.ll128_slot(held.here, first);
    const auto awaited = [&](std::uint32_t peer) { return peer != view.rank && peer < ranks<kRanks, kAll>(); };
    const auto missing = [&] {
      ONSTREAM_UNROLL
      for (int k = 0; k < kRanks; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (awaited(peer)) arriving[k].look(group, slots + session.ll128_distance(k), stripe);
      }
      std::uint64_t absent = 0;
      ONSTREAM_UNROLL
      for (int k = 0; k < kRanks; ++k) {
        const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
        if (awaited(peer) && !arriving[k].is_here(group, session.ll128_flag())) absent |= only(peer);
      }
      return absent;
    };
    return session.await_together(missing);
  }

  // All of a warp: gives each stripe of the others' that arrives `back` stripes behind its place to
  // store(peer, stripe, slice).
  template <int kRanks, bool kAll, Group G, class Store>
  ONSTREAM_BODY void take_all(const G& group, Session<G>& session, const BlockParts& held, std::uint64_t back,
                              const Store& store) const {
    for (std::uint64_t next = first_stripe(group); goes_on(group, next); next += stripe_step(group)) {
      const bool mine = next < stripes;
      const std::uint64_t stripe = mine ? next : stripes - 1;
      for (std::uint32_t first = 0; first < ranks<kRanks, kAll>(); first += kRanks) {
        ArrivingSlice<G> arriving[kRanks];
        if (!receive_slices<kRanks, kAll>(group, session, held, first, stripe + back, arriving)) return;
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
          if (!mine || peer == view.rank || peer >= ranks<kRanks, kAll>()) continue;
          store(peer, stripe, arriving[k].slice(group));
        }
      }
    }
  }

  // Whether the packs of a stripe, of which `left` bytes are there or more, lie at multiples of 16 bytes and are whole.
  ONSTREAM_BODY bool is_packs(std::uint64_t left) const {
    return access_width == 16 && (left >= kStripeData || left % 16 == 0);
  }
  // The bytes from `place` on, of a part that begins at `begin`.
  ONSTREAM_BODY std::uint64_t left_of(std::uint64_t begin, std::uint64_t place) const {
    const std::uint64_t rest = whole > begin ? whole - begin : 0;
    const std::uint64_t length = rest < part ? rest : part;
    return length > place ? length - place : 0;
  }
  // Slices of any bytes: functions, as they are large and rare.
  template <Group G>
  ONSTREAM_CALL Slice<G> load_ragged(const G& group, const std::byte* data, std::uint64_t begin,
                                     std::uint64_t stripe) const {
    const std::uint64_t left = left_of(begin, stripe * kStripeData);
    Slice<G> slice;
    ONSTREAM_UNROLL
    for (int i = 0; i < Slice<G>::kPacks; ++i) {
      const std::uint64_t place = Slice<G>::place(group, i);
      const std::uint64_t rest = Slice<G>::has(group, i) && left > place ? left - place : 0;
      const std::byte* const from = data + stripe * kStripeData + place;
      slice.packs[i] = load_pack<G, Slice<G>::kBytes>(from, rest, access_width);
    }
    return slice;
  }
  template <Group G>
  ONSTREAM_CALL void store_ragged(const G& group, std::byte* data, std::uint64_t begin, std::uint64_t stripe,
                                  Slice<G> slice) const {
    const std::uint64_t left = left_of(begin, stripe * kStripeData);
    ONSTREAM_UNROLL
    for (int i = 0; i < Slice<G>::kPacks; ++i) {
      const std::uint64_t place = Slice<G>::place(group, i);
      if (!Slice<G>::has(group, i) || left <= place) continue;
      store_pack<G, Slice<G>::kBytes>(data + stripe * kStripeData + place, slice.packs[i], left - place, access_width);
    }
  }

  // Calls trade.operator()<kRanks, kAll>(session) for the number of ranks.
  template <Group G, class Trade>
  ONSTREAM_BODY void run(const G& group, const BlockParts& held, const Trade& trade) const {
    Session<G> session(group, view, {named, bytes, signature}, held.epoch);
    if (session.agree() && session.may_write_to(session.others())) {
      constexpr int kTogether = 4;  // slices of more would not stay in registers
      if (view.size == kTogether) {
        trade.template operator()<kTogether, true>(session);
      } else {
        trade.template operator()<kTogether, false>(session);
      }
    }
    session.end();
  }
};

template <class Rule>
struct ReduceLl128 : Ll128Work {
  ReduceOp op = {};
  Factor factor = 0;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const BlockParts held = this->begin_in_circle(group);
    run(group, held, [&]<int kRanks, bool kAll>(Session<G>& session) {
      if (!first_shot<kRanks, kAll>(group, session, held)) return;
      if (!has_second_shot()) return;
      const auto keep = [&](std::uint32_t peer, std::uint64_t stripe, const Slice<G>& sum) {
        store(group, peer, stripe, sum);
      };
      this->template take_all<kRanks, kAll>(group, session, held, back(), keep);
    });
  }

 private:
  ONSTREAM_BODY bool has_second_shot() const { return kind == OpKind::all_reduce && in_stride != 0; }
  // Stripes from a part on its way to its sum.
  ONSTREAM_BODY std::uint64_t back() const { return stripes_in(view.ll128_lines) / 2; }

  template <Group G>
  ONSTREAM_BODY Slice<G> load(const G& group, std::uint32_t peer, std::uint64_t stripe) const {
    const std::uint64_t begin = peer * in_stride;
    return load_slice(group, input + begin, begin, stripe);
  }
  // Scales this rank's input, as a premulsum does.
  template <Group G>
  ONSTREAM_BODY void scale(Slice<G>& slice) const {
    ONSTREAM_UNROLL
    for (int i = 0; i < Slice<G>::kPacks; ++i) {
      slice.packs[i] = Accumulator<Rule, Slice<G>::kBytes>::scaled(slice.packs[i], factor);
    }
  }
  // A part's sum, in all_reduce beside those of the others.
  template <Group G>
  ONSTREAM_BODY void store(const G& group, std::uint32_t peer, std::uint64_t stripe, const Slice<G>& slice) const {
    const std::uint64_t begin = peer * in_stride;
    store_slice(group, output + (has_second_shot() ? begin : 0), begin, stripe, slice);
  }

  // Sends all parts, sums this rank's own in the order of the ranks, and sends the sum if all want it.
  template <int kRanks, bool kAll, Group G>
  ONSTREAM_BODY bool first_shot(const G& group, Session<G>& session, const BlockParts& held) const {
    using Sum = Accumulator<Rule, Slice<G>::kBytes>;
    const std::uint64_t step = stripe_step(group);
    for (std::uint64_t next = first_stripe(group); goes_on(group, next); next += step) {
      const bool mine = next < stripes;
      const std::uint64_t stripe = mine ? next : stripes - 1;
      for (std::uint32_t first = 0; first < ranks<kRanks, kAll>(); first += kRanks) {
        Slice<G> parts[kRanks] = {};  // all on their way before the first is sent
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          const std::uint32_t number = first + static_cast<std::uint32_t>(k);
          if (number + 1 < ranks<kRanks, kAll>()) parts[k] = load(group, this->in_circle(number), stripe);
        }
        if (Sum::scales(op)) {
          ONSTREAM_UNROLL
          for (int k = 0; k < kRanks; ++k) scale(parts[k]);
        }
        group.sync_warp();
        if (mine) this->template send_slices<kRanks, kAll>(group, session, held, first, stripe, parts);
      }
    }
    for (std::uint64_t next = first_stripe(group); goes_on(group, next); next += step) {
      const bool mine = next < stripes;
      const std::uint64_t stripe = mine ? next : stripes - 1;
      Slice<G> own = load(group, view.rank, stripe);
      if (Sum::scales(op)) scale(own);
      Sum sums[Slice<G>::kPacks];
      for (std::uint32_t first = 0; first < ranks<kRanks, kAll>(); first += kRanks) {
        ArrivingSlice<G> arriving[kRanks];
        if (!this->template receive_slices<kRanks, kAll>(group, session, held, first, stripe, arriving)) return false;
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          const std::uint32_t peer = first + static_cast<std::uint32_t>(k);
          if (peer >= ranks<kRanks, kAll>()) continue;
          const Slice<G> slice = peer == view.rank ? own : arriving[k].slice(group);
          ONSTREAM_UNROLL
          for (int i = 0; i < Slice<G>::kPacks; ++i) {
            if (peer == 0) {
              sums[i].start(slice.packs[i]);
            } else {
              sums[i].take(op, slice.packs[i]);
            }
          }
        }
      }
      Slice<G> result[1];
      ONSTREAM_UNROLL
      for (int i = 0; i < Slice<G>::kPacks; ++i) result[0].packs[i] = sums[i].finish(op, ranks<kRanks, kAll>());
      group.sync_warp();
      if (!mine) continue;
      for (std::uint32_t first = 0; has_second_shot() && first < ranks<kRanks, kAll>(); first += kRanks) {
        this->template send_slices<kRanks, kAll>(group, session, held, first, stripe + back(), result);
      }
      store(group, view.rank, stripe, result[0]);
    }
    return true;
  }
};

struct ExchangeLl128 : Ll128Work {
  std::uint64_t out_stride = 0;  // in the output, from one rank's data to the next one's
  std::uint32_t keeps = 0;       // not 0: this rank's own data goes to its own output too

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const BlockParts held = begin_in_circle(group);
    if (flow == Flow::from_root) return run_from_root(group, held);
    run(group, held, [&]<int kRanks, bool kAll>(Session<G>& session) {
      send_all<kRanks, kAll>(group, session, held);
      const auto keep = [&](std::uint32_t peer, std::uint64_t stripe, const Slice<G>& data) {
        store(group, peer, stripe, data);
      };
      this->template take_all<kRanks, kAll>(group, session, held, 0, keep);
    });
  }

 private:
  template <Group G>
  ONSTREAM_BODY Slice<G> load(const G& group, std::uint32_t peer, std::uint64_t stripe) const {
    return load_slice(group, input + in_stride * peer, 0, stripe);
  }
  template <Group G>
  ONSTREAM_BODY void store(const G& group, std::uint32_t peer, std::uint64_t stripe, const Slice<G>& slice) const {
    store_slice(group, output + out_stride * peer, 0, stripe, slice);
  }

  // broadcast.
  template <Group G>
  ONSTREAM_BODY void run_from_root(const G& group, const BlockParts& held) const {
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Session<G>::Tells::data,
                       early_look(group, held));
    const bool good = session.agree() && session.may_write_to(receivers(flow, view.rank, view.size, root));
    if (good && view.rank == root) send_all<1, false>(group, session, held);
    if (good) announce(group, session, held.there);
    if (good && view.rank != root) take_from_root(group, session, held);
    session.end();
  }

  template <Group G>
  ONSTREAM_BODY void take_from_root(const G& group, Session<G>& session, const BlockParts& held) const {
    for (std::uint64_t next = first_stripe(group); goes_on(group, next); next += stripe_step(group)) {
      const bool mine = next < stripes;
      const std::uint64_t stripe = mine ? next : stripes - 1;
      ArrivingSlice<G> arriving[1];
      if (!this->template receive_slices<1, false>(group, session, held, root, stripe, arriving)) return;
      if (mine) store(group, root, stripe, arriving[0].slice(group));
    }
  }

  template <int kRanks, bool kAll, Group G>
  ONSTREAM_BODY void send_all(const G& group, Session<G>& session, const BlockParts& held) const {
    for (std::uint64_t next = first_stripe(group); goes_on(group, next); next += stripe_step(group)) {
      const bool mine = next < stripes;
      const std::uint64_t stripe = mine ? next : stripes - 1;
      for (std::uint32_t first = 0; first < ranks<kRanks, kAll>(); first += kRanks) {
        Slice<G> parts[kRanks] = {};  // all on their way before the first is sent
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          const std::uint32_t number = first + static_cast<std::uint32_t>(k);
          if (k > 0 && in_stride == 0) {
            parts[k] = parts[0];
          } else if (number < ranks<kRanks, kAll>()) {
            parts[k] = load(group, in_circle(number), stripe);
          }
        }
        group.sync_warp();
        if (mine) this->template send_slices<kRanks, kAll>(group, session, held, first, stripe, parts);
        ONSTREAM_UNROLL
        for (int k = 0; k < kRanks; ++k) {
          if (mine && keeps != 0 && first + static_cast<std::uint32_t>(k) + 1 == ranks<kRanks, kAll>()) {
            store(group, view.rank, stripe, parts[k]);
          }
        }
      }
    }
  }
};

}  // namespace onstream::collective
