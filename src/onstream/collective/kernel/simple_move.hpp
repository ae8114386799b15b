// Large moves: each rank stores its data straight into the others' buffers. all_gather, all_to_all, gather, scatter and
// those with a count for every rank are one list of portions; broadcast goes by way of all ranks or from rank to rank,
// so that the root sends everything once only. The copy engine may send the data to peers, except in a broadcast among
// more than two: the first block asks for it, peer by peer.
//
// Meetings and the stage are as in simple_reduce.hpp. A rank posts, as its output for a peer, where that peer's data
// goes, and with it how many bytes it expects. Where a peer has another number of bytes for it, as can be in an
// all_to_all_v, all fail before that peer stores anything there.
#pragma once

#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/protocol/rendezvous.hpp"
#include "onstream/device/kernel/copy_slot.hpp"

namespace onstream::collective {

// Blocks get whole units: their copies begin where packets do.
ONSTREAM_BOTH std::uint64_t whole_units(std::uint64_t bytes) {
  constexpr std::uint64_t kUnit = 128;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

// Copies to peers, and within this rank beside them: the link to the peers and this rank's memory are then busy at the
// same time, where one after the other would cost the sum of both. It goes in cuts, and behind each one to a peer comes
// as much of this rank's own as the cut was of `for_peers`, all that goes to peers.
template <Group G>
class CopiesBeside {
 public:
  ONSTREAM_BODY CopiesBeside(const G& group, std::byte* to, const std::byte* from, std::uint64_t bytes,
                             std::uint64_t for_peers)
      : group_(group),
        to_(to),
        from_(from),
        left_(to == from ? 0 : bytes),
        own_for_each_(for_peers == 0 ? 0 : static_cast<float>(left_) / static_cast<float>(for_peers)) {}

  ONSTREAM_BODY void to_peer(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    const auto blocks = static_cast<std::uint64_t>(group_.blocks());
    const std::uint64_t most = kBlockBytes * blocks;
    for (std::uint64_t at = 0; at < bytes; at += most) {
      const std::uint64_t now = bytes - at < most ? bytes - at : most;
      const std::uint64_t each = whole_units((now + blocks - 1) / blocks);
      const std::uint64_t begin = each * static_cast<std::uint64_t>(group_.block());
      if (begin < now) {
        group_.copy_alone(to + at + begin, from + at + begin, now - begin < each ? now - begin : each);
      }
      if (left_ > 0) own(whole_units(static_cast<std::uint64_t>(static_cast<float>(now) * own_for_each_)));
    }
  }
  ONSTREAM_BODY void finish() { own(left_); }

 private:
  static constexpr std::uint64_t kBlockBytes = 1 << 18;  // of a cut

  ONSTREAM_BODY void own(std::uint64_t most) {
    const std::uint64_t now = most < left_ ? most : left_;
    if (now == 0) return;
    group_.copy(to_, from_, now);
    to_ += now;
    from_ += now;
    left_ -= now;
  }

  const G& group_;
  std::byte* to_;
  const std::byte* from_;
  std::uint64_t left_;
  float own_for_each_;  // byte for a peer
};

template <int kMost>
struct BulkMove {
  ChannelView view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;   // for faults; of a broadcast, all
  std::uint32_t direct = 0;  // not 0: every peer can address both buffers
  std::uint64_t each = 0;    // of a broadcast among more than two, the bytes that a block sends at once; else 0
  std::uint32_t chain = 0;   // not 0: that goes from rank to rank
  std::uint32_t root = 0;
  OpKind kind = OpKind::none;
  OpKind named = OpKind::none;  // in faults
  std::uint64_t signature = 0;
  Copier copier;
  std::uint64_t outputs[kMost] = {};  // where each peer finds the place for its data here
  Portion portions[kMost];

  static constexpr bool kBegins = true;  // device/cuda/entry.cuh

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const auto held = Rendezvous<G>::begin(group, view, signature);
    Session<G> session(group, view, {named, bytes, signature}, held.epoch, Rendezvous<G>::tells(group, view));
    Rendezvous<G> meeting(group, view, held);
    // The longest that this rank has, for the stage: its chunks are as many on every rank.
    std::uint64_t longest = 0;
    for (std::uint32_t rank = 0; rank < view.size; ++rank) {
      if (rank != view.rank && portions[rank].send_bytes > longest) longest = portions[rank].send_bytes;
    }
    const auto odd = [&](std::uint32_t peer, PostLine line, std::uint64_t word) {
      return line == PostLine::input && kind == OpKind::all_to_all_v && word != portions[peer].send_bytes;
    };
    if (meeting.open(session, PeerPost{*this}, longest, direct != 0, odd) && agrees_on_counts(session, meeting)) {
      if (!meeting.direct()) {
        own_beside(group, 0).finish();
        run_staged(group, session, meeting, longest);
      } else if (chain != 0) {
        pass_on(group, session, meeting);
      } else if (each != 0) {
        broadcast(group, session, meeting);
      } else {
        run_direct(group, session, meeting);
      }
    }
    session.end();
  }

 private:
  // The words that this rank posts for a peer: how many bytes it expects of it, and where they go if the peer can
  // address that.
  struct PeerPost {
    const BulkMove& move;
    ONSTREAM_BODY Whereabouts operator[](std::uint32_t peer) const {
      return {move.portions[peer].receive_bytes, move.direct != 0 ? move.outputs[peer] : 0};
    }
  };

  // All threads: false where a peer expects another number of bytes than this rank has for it.
  template <Group G>
  ONSTREAM_BODY bool agrees_on_counts(Session<G>& session, const Rendezvous<G>& meeting) const {
    if (meeting.usual() || kind != OpKind::all_to_all_v) return true;
    for (std::uint32_t peer = 0; peer < view.size; ++peer) {
      if (peer == view.rank) continue;
      const std::uint64_t expected = meeting.posted(peer, PostLine::input);
      if (expected == portions[peer].send_bytes) continue;
      session.lengths_differ(peer, portions[peer].send_bytes, expected);
      return false;
    }
    return true;
  }

  // This rank's own portion, where it comes from and goes to, beside so many bytes for peers.
  template <Group G>
  ONSTREAM_BODY CopiesBeside<G> own_beside(const G& group, std::uint64_t for_peers) const {
    const Portion& own = portions[view.rank];
    return {group, output + own.receive_offset, input + own.send_offset, own.send_bytes, for_peers};
  }

  // Everybody begins with another peer.
  template <Group G>
  ONSTREAM_BODY void run_direct(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    std::uint64_t for_peers = 0;
    for (std::uint32_t peer = 0; peer < view.size; ++peer) {
      if (peer != view.rank) for_peers += portions[peer].send_bytes;
    }
    const auto to_peers = [&](const auto& copy) {
      for (std::uint32_t k = 1; k < view.size; ++k) {
        const std::uint32_t peer = rank_after(view, k);
        const Portion& portion = portions[peer];
        if (portion.send_bytes == 0) continue;
        copy(reinterpret_cast<std::byte*>(meeting.posted(peer, PostLine::output)), input + portion.send_offset,
             portion.send_bytes);
      }
    };
    if (copier.slot != nullptr) {
      if (!move_by_engine(group, session, meeting)) return;
    } else if (copies_as_much(for_peers) && group.blocks() > 1) {
      const auto part = static_cast<std::uint32_t>(group.block()) / 2;
      const auto owners = static_cast<std::uint32_t>(group.blocks()) / 2;
      const std::uint32_t pushers = static_cast<std::uint32_t>(group.blocks()) - owners;
      if (group.block() % 2 == 0) {
        to_peers([&](std::byte* to, const std::byte* from, std::uint64_t length) {
          group.copy(to, from, length, part, pushers);
        });
      } else {
        const Portion& own = portions[view.rank];
        group.copy(output + own.receive_offset, input + own.send_offset, own.send_bytes, part, owners);
      }
    } else {
      CopiesBeside<G> copies = own_beside(group, for_peers);
      to_peers([&](std::byte* to, const std::byte* from, std::uint64_t length) { copies.to_peer(to, from, length); });
      copies.finish();
    }
    session.meet();
  }

  // The engine sends to one peer after the other: it is slower when it alternates (docs/decisions/0010). It starts
  // late, so the kernel sends the lead, the beginning of the first peer's data, and copies the data that the rank
  // keeps. False: failed.
  template <Group G>
  ONSTREAM_BODY bool move_by_engine(const G& group, Session<G>& session, const Rendezvous<G>& meeting) const {
    const bool speaks = group.block() == 0 && group.rank() == 0;
    std::uint64_t number = speaks ? copier.last_number(group) : 0;
    std::uint32_t last = view.size - 1;
    while (last > 1 && portions[rank_after(view, last)].send_bytes == 0) --last;
    std::byte* first = nullptr;
    const std::byte* first_from = nullptr;
    for (std::uint32_t k = 1; k < view.size; ++k) {
      const std::uint32_t peer = rank_after(view, k);
      if (portions[peer].send_bytes == 0) continue;
      const std::uint64_t to = meeting.posted(peer, PostLine::output);
      const std::byte* const from = input + portions[peer].send_offset;
      const std::uint64_t lead = first == nullptr ? copier.lead : 0;
      if (speaks) copier.ask(group, ++number, to + lead, from + lead, portions[peer].send_bytes - lead, k == last);
      if (first == nullptr) {
        first = reinterpret_cast<std::byte*>(to);
        first_from = from;
      }
    }
    group.copy(first, first_from, copier.lead);
    const Portion& own = portions[view.rank];
    std::byte* const kept = output + own.receive_offset;
    if (own.send_bytes > 0 && kept != input + own.send_offset) {
      group.copy(kept, input + own.send_offset, own.send_bytes);
    }
    if (speaks && !session.await(view.rank, [&] { return copier.is_done(group, view.wait, number); })) {
      copier.outlast(group, view.wait, number);
    }
    return session.agree();
  }

  // Whether this rank copies about as much to itself as to all peers, as of two ranks each does: then every other block
  // does that alone, as blocks that alternate between both leave the link idle (docs/decisions/0010).
  ONSTREAM_BODY bool copies_as_much(std::uint64_t for_peers) const {
    const Portion& own = portions[view.rank];
    const bool moves = output + own.receive_offset != input + own.send_offset;
    return moves && for_peers > 0 && own.send_bytes >= for_peers && own.send_bytes / 2 <= for_peers;
  }

  // Each block has a segment of so many bytes and goes through it in steps; step(from, length) is false where it
  // failed. Every other block begins with half a step: while some wait until their stores have arrived, others then
  // store.
  template <Group G, class Step>
  ONSTREAM_BODY bool in_steps(const G& group, std::uint64_t length, const Step& step) const {
    const auto block = static_cast<std::uint32_t>(group.block());
    const std::uint64_t segment = whole_units((length + group.blocks() - 1) / group.blocks());
    const std::uint64_t end = least(segment * (block + 1), length);
    std::uint64_t now = block % 2 == 0 || segment <= each ? each : each / 2;
    for (std::uint64_t from = segment * block; from < end; from += now, now = each) {
      if (!step(from, least(now, end - from))) return false;
    }
    return true;
  }

  // The root sends every other rank its shard, and each forwards that to the others. The root tells of each step, and
  // nobody waits for the ranks that forward. The root stores its own copy together with the data that it sends. This
  // and pass_on are the last use of the session before its end, so that they work on a copy.
  template <Group G>
  ONSTREAM_CALL void broadcast(const G& group, Session<G> session, Rendezvous<G> meeting) const {
    const std::uint32_t shards = view.size - 1;
    const std::uint32_t mine = (view.rank + view.size - root - 1) % view.size;
    const auto block = static_cast<std::uint32_t>(group.block());
    const std::uint64_t shard = whole_units((bytes + shards - 1) / shards);
    const bool good = in_steps(group, shard, [&](std::uint64_t from, std::uint64_t length) {
      if (view.rank == root) {
        for (std::uint32_t k = 0; k < shards; ++k) {
          const std::uint32_t number = (k + block) % shards;
          send(group, meeting, (root + 1 + number) % view.size, number * shard + from, length);
        }
        session.tell(session.others());
        return true;
      }
      session.pass(1);
      if (!session.await_told(only(root), session.step())) return false;
      for (std::uint32_t k = 1; k < shards; ++k) {
        const std::uint32_t ahead = 1 + (k + block) % (shards - 1);
        send(group, meeting, (root + 1 + (mine + ahead) % shards) % view.size, mine * shard + from, length);
      }
      return true;
    });
    if (good) session.meet();
  }

  // Passes the data from rank to rank, so that each stores to one other alone: links carry that best
  // (docs/decisions/0010).
  template <Group G>
  ONSTREAM_CALL void pass_on(const G& group, Session<G> session, Rendezvous<G> meeting) const {
    const std::uint32_t next = rank_after(view, 1);
    const std::uint32_t before = rank_after(view, view.size - 1);
    const bool good = in_steps(group, bytes, [&](std::uint64_t from, std::uint64_t length) {
      if (next == root) {  // nobody is behind it; the meeting in the end tells it that all has come
        session.pass(1);
        return true;
      }
      if (view.rank != root && !session.await_told(only(before), session.step() + 1)) return false;
      send(group, meeting, next, from, length);
      session.tell(only(next));
      return true;
    });
    if (good) session.meet();
  }

  // Sends the data of a broadcast that lies `place` bytes into it.
  template <Group G>
  ONSTREAM_BODY void send(const G& group, const Rendezvous<G>& meeting, std::uint32_t peer, std::uint64_t place,
                          std::uint64_t length) const {
    if (place >= bytes) return;
    auto* const to = reinterpret_cast<std::byte*>(meeting.posted(peer, PostLine::output)) + place;
    length = least(length, bytes - place);
    if (view.rank != root) {
      group.copy_alone(to, output + place, length);
    } else if (output == input) {
      group.copy_alone(to, input + place, length);
    } else {
      group.copy_twice(to, output + place, input + place, length);
    }
  }

  // The last that the session is asked for but its end, so that it works on a copy. Chunk by chunk; block b has every
  // blocks-th chunk, and its own region of the stage, with a place for each receiver.
  template <Group G>
  ONSTREAM_CALL void run_staged(const G& group, Session<G> session, Rendezvous<G> meeting,
                                std::uint64_t longest) const {
    for (std::uint32_t rank = 0; rank < view.size; ++rank) {
      if (rank == view.rank) continue;
      const std::uint64_t theirs = meeting.posted(rank, PostLine::factor);
      longest = theirs > longest ? theirs : longest;
    }
    const auto blocks = static_cast<std::uint64_t>(group.blocks());
    const std::uint64_t region = view.stage_bytes / blocks / 256 * 256;
    const std::uint64_t most = region / view.size / 16 * 16;
    const std::uint64_t place = region * group.block();
    for (std::uint64_t chunk = group.block(); chunk * most < longest; chunk += blocks) {
      const std::uint64_t from = chunk * most;
      auto* const stage = reinterpret_cast<std::byte*>(meeting.stage(view.rank) + place);
      for (std::uint32_t peer = 0; peer < view.size; ++peer) {
        const Portion& portion = portions[peer];
        if (peer == view.rank || portion.send_bytes <= from) continue;
        group.copy_alone(stage + peer * most, input + portion.send_offset + from,
                         least(portion.send_bytes - from, most));
      }
      if (!session.meet()) return;
      for (std::uint32_t k = 1; k < view.size; ++k) {
        const std::uint32_t peer = rank_after(view, k);
        const Portion& portion = portions[peer];
        if (portion.receive_bytes <= from) continue;
        const auto* theirs = reinterpret_cast<const std::byte*>(meeting.stage(peer) + place);
        group.copy_alone(output + portion.receive_offset + from, theirs + view.rank * most,
                         least(portion.receive_bytes - from, most));
      }
      if (!session.meet()) return;
    }
  }
};

}  // namespace onstream::collective
