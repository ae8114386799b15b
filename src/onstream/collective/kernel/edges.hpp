// Moves along the edges of a neighbourhood: each rank's data for its destinations goes into the buffers of the ranks
// that name it as a source. Only the two ends of an edge wait for it.
//
// A Session counts ranks; here it counts ends of edges. No rank has more than `half` edges in a direction: ends 0 to
// half - 1 are those it hears from, half to 2 * half - 1 those it sends to, and 2 * half is the rank itself. A rank's
// data for the other end of an edge lies there under that end's number, `place`. So a slot, a post and a word belong to
// one edge, and double edges, or edges to oneself, are like any others.
//
// The source sends a header along every edge, and behind it small data, as LL lines: one trip. For large data the
// destination posts where it shall go, the source's blocks store there, and each tells that it is through. Where the
// source cannot store there the data goes chunk by chunk through the destination's stage, in rounds that all ranks make
// in the same order. Either end sees how many bytes the other expects before anything is stored.
#pragma once

#include "onstream/collective/protocol/packs.hpp"
#include "onstream/collective/protocol/session.hpp"

namespace onstream::collective {

constexpr int kFewEdges = 8;
constexpr int kMostEdges = 64;  // of one rank, in one direction

// This rank's end of an edge along which it sends, or receives.
struct OutEdge {
  std::uint64_t offset = 0;  // in the input
  std::uint64_t bytes = 0;
  std::uint32_t end = 0;
  std::uint32_t place = 0;  // number of the other end, at the other rank
};
struct InEdge {
  std::uint64_t offset = 0;  // in the output
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;  // where the source finds the output; 0: it cannot
  std::uint32_t end = 0;
  std::uint32_t place = 0;
};

template <int kMost>
struct MoveEdges {
  ChannelView view;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t signature = 0;
  OpKind kind = OpKind::none;
  std::uint64_t bytes = 0;         // for faults
  std::uint64_t small = 0;         // edges of up to so many bytes go by lines
  std::uint32_t access_width = 1;  // of the small ones
  std::uint32_t half = 0;
  std::uint32_t outs = 0;
  std::uint32_t ins = 0;
  std::uint32_t out_lines = 1;  // the most lines that go, or come, along one edge
  std::uint32_t in_lines = 1;
  std::uint32_t announces = 0;  // not 0: this rank sends to some that it does not hear from, or the other way round
  OutEdge out[kMost];
  InEdge in[kMost];

  static constexpr bool kBegins = true;  // device/cuda/entry.cuh
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const Hears hears = announces == 0 ? Hears::everyone : Hears::some;
    const Early epoch = Session<G>::take_epoch(group, view, signature, hears);
    group.wait_dependency();
    Session<G> session(group, view, {kind, bytes, signature}, epoch);
    if (session.agree()) run(group, session);
    session.end();
  }

 private:
  static constexpr std::uint64_t kLengthBits = 48;
  static constexpr std::uint64_t kRounds = std::uint64_t{1} << 24;  // of the stage, and counts of one epoch

  ONSTREAM_BODY bool is_small(std::uint64_t length) const { return length <= small; }
  ONSTREAM_BODY std::uint32_t lines_of(std::uint64_t length) const {
    return 1 + (is_small(length) ? static_cast<std::uint32_t>((length + kLineData - 1) / kLineData) : 0);
  }
  ONSTREAM_BODY std::uint64_t here() const { return view.parts[view.rank]; }
  // The word in `part` by which a block of the other end tells that it is through, and how far that end is with the
  // stage.
  ONSTREAM_BODY std::uint64_t* word(std::uint64_t part, int block, std::uint32_t end) const {
    return reinterpret_cast<std::uint64_t*>(part + view.places.words) + static_cast<std::uint32_t>(block) * view.size +
           end;
  }

  template <Group G>
  ONSTREAM_BODY void run(const G& group, Session<G>& session) const {
    if (group.block() == 0) open(group, session);
    send_lines(group, session);
    if (!move_large(group, session)) return;
    take_lines(group, session);
    if (!session.agree() || group.block() != 0) return;
    await_large(group, session);
    if (session.agree()) move_staged(group, session);
  }

  // Tells the sources that this rank is here, and where large data shall go.
  template <Group G>
  ONSTREAM_BODY void open(const G& group, Session<G>& session) const {
    // A source that has read the post sees the stores of earlier kernels here.
    if (!kSerial<G> && static_cast<std::uint32_t>(group.rank()) < ins) group.fence();
    for (std::uint32_t i = group.rank(); i < ins; i += group.size()) {
      const InEdge& edge = in[i];
      const std::uint64_t source = view.parts[edge.end];
      if (announces != 0) session.announce_to(source, edge.place);
      if (is_small(edge.bytes)) continue;
      Line* const post = session.post(source, edge.place);
      const std::uint32_t flag = session.epoch_flag();
      group.store_line(post + static_cast<int>(PostLine::output), flag_line(edge.at, flag));
      group.store_line(post + static_cast<int>(PostLine::factor), flag_line(edge.bytes, flag));
      group.store_line(post + static_cast<int>(PostLine::call), flag_line(session.signature(), flag));
    }
  }

  // Sends a header along every edge, which says how much follows in how many blocks; and small data.
  template <Group G>
  ONSTREAM_BODY void send_lines(const G& group, Session<G>& session) const {
    const std::uint32_t threads = static_cast<std::uint32_t>(group.size() * group.blocks());
    const std::uint32_t all = outs * out_lines;
    for (std::uint32_t i = static_cast<std::uint32_t>(group.block() * group.size() + group.rank()); i < all;
         i += threads) {
      const OutEdge& edge = out[i / out_lines];
      const std::uint32_t line = i % out_lines;
      if (line >= lines_of(edge.bytes)) continue;
      if (!session.may_write(edge.end)) return;
      std::uint64_t data = edge.bytes | static_cast<std::uint64_t>(group.blocks()) << kLengthBits;
      if (line > 0) {
        const std::uint64_t place = std::uint64_t{line - 1} * kLineData;
        data = load_pack<G, kLineData>(input + edge.offset + place, edge.bytes - place, access_width).words[0];
      }
      group.store_line(session.slot(view.parts[edge.end], edge.place) + line, flag_line(data, session.flag()));
    }
  }

  template <Group G>
  ONSTREAM_BODY void take_lines(const G& group, Session<G>& session) const {
    const std::uint32_t threads = static_cast<std::uint32_t>(group.size() * group.blocks());
    const std::uint32_t all = ins * in_lines;
    for (std::uint32_t i = static_cast<std::uint32_t>(group.block() * group.size() + group.rank()); i < all;
         i += threads) {
      if (session.failed()) return;
      const InEdge& edge = in[i / in_lines];
      const std::uint32_t line = i % in_lines;
      if (line >= lines_of(edge.bytes)) continue;
      std::uint64_t data = 0;
      if (!await_line(group, session, edge, line, data)) return;
      if (line == 0) {
        if (!agrees(session, edge.end, edge.bytes, data % (std::uint64_t{1} << kLengthBits))) return;
        continue;
      }
      const std::uint64_t place = std::uint64_t{line - 1} * kLineData;
      Pack<kLineData> pack;
      pack.words[0] = data;
      store_pack<G, kLineData>(output + edge.offset + place, pack, edge.bytes - place, access_width);
    }
  }

  template <Group G>
  ONSTREAM_BODY bool await_line(const G& group, Session<G>& session, const InEdge& edge, std::uint32_t line,
                                std::uint64_t& data) const {
    const Line* const slot = session.slot(here(), edge.end) + line;
    const Flag flag = session.flag();
    Line now;
    const auto arrived = [&] {
      now = group.load_line(slot);
      return has_flag(now, flag);
    };
    if (!session.await(edge.end, arrived)) return false;
    data = line_data(now);
    return true;
  }

  // The calling thread: whether both ends give the same length.
  template <Group G>
  ONSTREAM_BODY static bool agrees(Session<G>& session, std::uint32_t end, std::uint64_t mine, std::uint64_t theirs) {
    if (mine == theirs) return true;
    session.lengths_differ(end, mine, theirs);
    return false;
  }

  // All threads of all blocks: from buffer to buffer. False: failed.
  template <Group G>
  ONSTREAM_BODY bool move_large(const G& group, Session<G>& session) const {
    bool some = false;
    for (std::uint32_t i = 0; i < outs; ++i) some = some || !is_small(out[i].bytes);
    if (!some) return true;
    for (std::uint32_t i = group.rank(); i < outs && !session.failed(); i += group.size()) {
      const OutEdge& edge = out[i];
      if (is_small(edge.bytes)) continue;
      const Line* const post = session.post(here(), edge.end);
      const std::uint32_t flag = session.epoch_flag();
      const auto posted = [&] {
        bool all = true;
        for (int line = static_cast<int>(PostLine::output); line < kPostLines; ++line) {
          const Line now{group.load_acquire(&post[line].low), group.load_acquire(&post[line].high)};
          all = all && has_flag(now, flag);
        }
        return all;
      };
      if (!session.await(edge.end, posted)) break;
      const std::uint64_t call = line_data(group.load_line(post + static_cast<int>(PostLine::call)));
      const std::uint64_t theirs = line_data(group.load_line(post + static_cast<int>(PostLine::factor)));
      if (call >> 1 != session.signature() >> 1) {
        (void)session.differ(edge.end);
      } else {
        (void)agrees(session, edge.end, edge.bytes, theirs);
      }
    }
    if (!session.agree()) return false;
    for (std::uint32_t k = 0; k < outs; ++k) {
      const OutEdge& edge = out[k];
      const std::uint64_t at = is_small(edge.bytes) ? 0 : posted_address(group, session, edge);
      if (at != 0) group.copy(reinterpret_cast<void*>(at), input + edge.offset, edge.bytes);
    }
    group.sync();
    for (std::uint32_t i = group.rank(); i < outs; i += group.size()) {
      const OutEdge& edge = out[i];
      if (is_small(edge.bytes) || posted_address(group, session, edge) == 0) continue;
      // Pairs with await_large; the barrier above brings the other threads' stores along.
      group.store_release(word(view.parts[edge.end], group.block(), edge.place), session.epoch() * kRounds);
    }
    return true;
  }

  template <Group G>
  ONSTREAM_BODY std::uint64_t posted_address(const G& group, const Session<G>& session, const OutEdge& edge) const {
    return line_data(group.load_line(session.post(here(), edge.end) + static_cast<int>(PostLine::output)));
  }

  // Block 0: all blocks of the sources are through.
  template <Group G>
  ONSTREAM_BODY void await_large(const G& group, Session<G>& session) const {
    for (std::uint32_t k = 0; k < ins; ++k) {
      const InEdge& edge = in[k];
      if (is_small(edge.bytes) || edge.at == 0) continue;
      std::uint64_t header = 0;
      if (!await_line(group, session, edge, 0, header)) return;
      const int blocks = static_cast<int>(header >> kLengthBits);
      for (int block = group.rank(); block < blocks; block += group.size()) {
        const std::uint64_t* const stated = word(here(), block, edge.end);
        const std::uint64_t due = session.epoch() * kRounds;
        if (!session.await(edge.end, [&] { return reached(group.load_acquire(stated), due); })) return;
      }
    }
  }

  // All threads of block 0, in rounds: a chunk into the stage of each destination, and one out of this rank's own. The
  // last that the session is asked for but its end, so it works on a copy.
  template <Group G>
  ONSTREAM_CALL void move_staged(const G& group, Session<G> session) const {
    const std::uint64_t chunk = view.stage_bytes / half / 256 * 256;
    bool more = true;
    for (std::uint64_t round = 0; more; ++round) {
      more = false;
      const std::uint64_t place = round * chunk;
      const std::uint64_t count = session.epoch() * kRounds + round;
      for (std::uint32_t k = 0; k < outs; ++k) {
        const OutEdge& edge = out[k];
        if (is_small(edge.bytes) || edge.bytes <= place || posted_address(group, session, edge) != 0) continue;
        const std::uint64_t* const taken = word(here(), 0, edge.end);
        if (round > 0 && group.rank() == 0) {
          session.await(edge.end, [&] { return reached(group.load_acquire(taken), count); });
        }
        if (!session.agree()) return;
        const std::uint64_t part = view.parts[edge.end];
        group.copy_alone(stage(part, edge.place, chunk), input + edge.offset + place, least(edge.bytes - place, chunk));
        group.sync();
        if (group.rank() == 0) group.store_release(word(part, 0, edge.place), count + 1);  // pairs with the wait below
        more = more || edge.bytes > place + chunk;
      }
      for (std::uint32_t k = 0; k < ins; ++k) {
        const InEdge& edge = in[k];
        if (is_small(edge.bytes) || edge.bytes <= place || edge.at != 0) continue;
        const std::uint64_t* const come = word(here(), 0, edge.end);
        if (group.rank() == 0) {
          session.await(edge.end, [&] { return reached(group.load_acquire(come), count + 1); });
        }
        if (!session.agree()) return;
        group.copy_alone(output + edge.offset + place, stage(here(), edge.end, chunk),
                         least(edge.bytes - place, chunk));
        group.sync();
        if (group.rank() == 0) {  // pairs with the wait above
          group.store_release(word(view.parts[edge.end], 0, edge.place), count + 1);
        }
        more = more || edge.bytes > place + chunk;
      }
    }
  }

  ONSTREAM_BODY std::byte* stage(std::uint64_t part, std::uint32_t end, std::uint64_t chunk) const {
    return reinterpret_cast<std::byte*>(part + view.places.stage) + end * chunk;
  }
};

}  // namespace onstream::collective
