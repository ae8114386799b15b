// How a bulk collective begins: every rank posts where its buffers are, for each peer, and reads the others' posts.
//
// A post is four lines: the input (of a move, how many bytes the poster expects of the peer), the output, the factor of
// a premulsum, and the poster's call: the signature of its collective (Session::signature), plus 1 if all ranks can
// address both its buffers. Ranks that call something else than others all fail here, before anything is moved. Only if
// the 1 is there for everybody do kernels work from buffer to buffer; else everybody takes the stage. The posts also
// say that the poster's kernel runs: a rank that has read them sees the stores of earlier work in the poster's buffers,
// and may write its output.
#pragma once

#include "onstream/collective/protocol/packs.hpp"
#include "onstream/collective/protocol/session.hpp"

namespace onstream::collective {

// The ranks whose addresses a kernel's arguments carry: on a GPU few, so that arguments stay short.
constexpr int kNear = 8;

// The words that this rank posts for one peer: where the peer finds its buffers, 0 if it cannot or there is none; or,
// in a move, as `input` how many bytes it expects.
struct Whereabouts {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};

// A table of Whereabouts. It is filled, and as long as there are ranks, only where `direct` says that each can address
// the buffers.
struct WhereaboutsTable {
  const Whereabouts* at;
  bool direct;
  ONSTREAM_EITHER Whereabouts operator[](std::uint32_t peer) const { return direct ? at[peer] : Whereabouts{}; }
};

// A value, without the session that opens it: arguments of calls stay in registers, and so does the session.
template <Group G>
class Rendezvous {
 public:
  // This block's epoch; and where a thread posts first, and where it looks, from a table that never changes.
  struct PostPlaces {
    Early epoch;
    std::uint64_t there = 0;
    std::uint64_t here = 0;
  };
  // All threads, first.
  ONSTREAM_EITHER static PostPlaces begin(const G& group, const ChannelView& view, std::uint64_t signature) {
    const std::uint32_t peer = static_cast<std::uint32_t>(group.rank()) / kPostLines;
    const Early epoch = Session<G>::take_epoch(group, view, signature, Hears::everyone);
    const PostPlaces held{epoch, view.parts[peer < view.size ? peer : 0], view.parts[view.rank]};
    group.settle(epoch.flags ^ held.there ^ held.here);
    group.wait_dependency();
    return held;
  }
  // Whether this thread posts, for its session.
  ONSTREAM_EITHER static typename Session<G>::Tells tells(const G& group, const ChannelView& view) {
    using Tells = typename Session<G>::Tells;
    const bool posts = group.block() == 0 && static_cast<std::uint32_t>(group.rank()) < view.size * kPostLines;
    return posts && !kSerial<G> ? Tells::addresses : Tells::data;
  }

  ONSTREAM_EITHER Rendezvous(const G& group, const ChannelView& view, const PostPlaces& held)
      : group_(group), view_(view), held_(held) {}

  // All threads, failed or not. `mine[peer]` has the words for that peer's lines of input and output; `direct` says
  // that each can address this rank's buffers. False: failed.
  template <class Mine>
  ONSTREAM_EITHER bool open(Session<G>& session, const Mine& mine, std::uint64_t factor, bool direct) {
    return open(session, mine, factor, direct, [](std::uint32_t, PostLine, std::uint64_t) { return false; });
  }

  // `odd(peer, line, word)` says whether a word that a peer posts is out of the ordinary: then usual() is false.
  template <class Mine, class Odd>
  ONSTREAM_EITHER bool open(Session<G>& session, const Mine& mine, std::uint64_t factor, bool direct, const Odd& odd) {
    session.will_meet();
    const std::uint64_t signature = session.signature();
    constexpr std::uint32_t kLines = kPostLines;
    const std::uint32_t all = view_.size * kLines;
    if (group_.block() == 0) {
      for (std::uint32_t i = group_.rank(); i < all && !session.failed(); i += group_.size()) {
        const std::uint32_t peer = i / kLines;
        if (peer == view_.rank) continue;
        if (!session.may_write(peer)) break;
        std::uint64_t word = signature | (direct ? 1 : 0);
        const auto line = static_cast<PostLine>(i % kLines);
        if (line == PostLine::input) word = mine[peer].input;
        if (line == PostLine::output) word = mine[peer].output;
        if (line == PostLine::factor) word = factor;
        const bool own = !kSerial<G> && i == static_cast<std::uint32_t>(group_.rank());
        const std::uint64_t there = own ? held_.there : view_.parts[peer];
        group_.store_line(session.post(there, view_.rank) + i % kLines, flag_line(word, session.epoch_flag()));
      }
    }
    bool unusual = !direct;
    for (std::uint32_t i = group_.rank(); i < all && !session.failed(); i += group_.size()) {
      const std::uint32_t peer = i / kLines;
      if (peer == view_.rank) continue;
      const Line* line = session.post(held_.here, peer) + i % kLines;
      Line now{};
      const auto is_posted = [&] {
        now = {group_.load_acquire(&line->low), group_.load_acquire(&line->high)};  // costs no more than a load
        return has_flag(now, session.epoch_flag());
      };
      session.await(peer, is_posted);
      const std::uint64_t word = line_data(now);
      seen().words[i] = word;
      const auto which = static_cast<PostLine>(i % kLines);
      unusual = unusual || (which == PostLine::call ? word != (signature | 1) : odd(peer, which, word));
    }
    direct_ = direct;
    usual_ = !group_.sync_or(unusual || session.failed());  // all that most collectives need to know
    if (usual_) return true;
    if (!session.agree()) return false;
    for (std::uint32_t peer = 0; peer < view_.size; ++peer) {
      if (peer == view_.rank) continue;
      const std::uint64_t word = posted(peer, PostLine::call);
      if (word >> 1 != signature >> 1) return session.differ(peer);
      direct_ &= (word & 1) != 0;
    }
    return true;
  }

  // Whether every rank can address every buffer. The same on all ranks.
  ONSTREAM_EITHER bool direct() const { return direct_; }

  // Whether that is so, and nothing was odd.
  ONSTREAM_EITHER bool usual() const { return usual_; }

  // A word that another rank posted.
  ONSTREAM_EITHER std::uint64_t posted(std::uint32_t peer, PostLine line) const {
    return seen().words[peer * kPostLines + static_cast<std::uint32_t>(line)];
  }

  // Its place in the stage of a rank.
  ONSTREAM_EITHER std::uint64_t stage(std::uint32_t rank) const { return view_.parts[rank] + view_.places.stage; }

 private:
  // The posts that the threads of a block have seen, for all of them: to look again takes a trip to memory for every
  // address.
  struct Posts {
    std::uint64_t words[kMostRanks * kPostLines];
  };
  ONSTREAM_EITHER Posts& seen() const { return group_.template shared<Posts>(); }

  const G& group_;
  const ChannelView& view_;
  PostPlaces held_;
  bool direct_ = false;
  bool usual_ = false;
};

}  // namespace onstream::collective
