// How a bulk collective begins: every rank posts where its buffers are, for each peer, and sees what the others posted.
//
// A post is four lines: the input, the output, the factor of a premulsum, and what the poster calls: the signature of
// its collective (Session::signature), plus 1 if all ranks can address both its buffers. Ranks that call something else
// than others all fail here, before anything is moved. Only if the 1 is there for everybody do kernels work from buffer
// to buffer; else everybody takes the stage. The posts also say that the poster's kernel runs: what earlier work stored
// in its buffers is seen by who has read them, and its output may be written.
#pragma once

#include "onstream/collective/packs.hpp"
#include "onstream/collective/session.hpp"

namespace onstream::collective {

// The ranks whose addresses a kernel's arguments carry: on a GPU few, so that arguments stay short.
constexpr int kNear = 8;

// What this rank tells one peer: where the peer finds its buffers. 0: it cannot.
struct Whereabouts {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};

template <class Group>
class Meeting {
 public:
  ONSTREAM_EITHER Meeting(const Group& group, const View& view, Session<Group>& session)
      : group_(group), view_(view), session_(session) {}

  // All threads. `mine[peer]` is for that peer, and counts where `direct` says that each can address this rank's
  // buffers. False: failed.
  template <class Mine>
  ONSTREAM_EITHER bool open(const Mine& mine, std::uint64_t factor, bool direct) {
    const std::uint64_t signature = session_.signature();
    constexpr std::uint32_t kLines = kPostLines;
    const std::uint32_t all = view_.size * kLines;
    if (group_.block() == 0) {
      // What earlier kernels stored here is seen by who has read the post.
      if (!kSerial<Group> && static_cast<std::uint32_t>(group_.rank()) < all) group_.fence();
      for (std::uint32_t i = group_.rank(); i < all && !session_.failed(); i += group_.size()) {
        const std::uint32_t peer = i / kLines;
        if (peer == view_.rank) continue;
        if (!session_.may_write(peer)) break;
        std::uint64_t word = signature | (direct ? 1 : 0);
        const auto line = static_cast<PostLine>(i % kLines);
        if (line == PostLine::input) word = direct ? mine[peer].input : 0;
        if (line == PostLine::output) word = direct ? mine[peer].output : 0;
        if (line == PostLine::factor) word = factor;
        group_.store_line(session_.post(view_.parts[peer], view_.rank) + i % kLines,
                          flag_line(word, session_.epoch_flag()));
      }
    }
    for (std::uint32_t i = group_.rank(); i < all && !session_.failed(); i += group_.size()) {
      const std::uint32_t peer = i / kLines;
      if (peer == view_.rank) continue;
      const Line* line = session_.post(view_.parts[view_.rank], peer) + i % kLines;
      const auto posted = [&] {
        const Line now{group_.load_acquire(&line->low), group_.load_acquire(&line->high)};  // costs no more than a load
        return has_flag(now, session_.epoch_flag());
      };
      session_.await(peer, posted);
    }
    if (!session_.agree()) return false;
    direct_ = direct;
    for (std::uint32_t peer = 0; peer < view_.size; ++peer) {
      if (peer == view_.rank) continue;
      const std::uint64_t word = posted(peer, PostLine::call);
      if (word >> 1 != signature >> 1) return session_.differ(peer);
      direct_ &= (word & 1) != 0;
    }
    return true;
  }

  // Whether every rank can address every buffer. The same on all ranks.
  ONSTREAM_EITHER bool direct() const { return direct_; }

  // What another rank posted.
  ONSTREAM_EITHER std::uint64_t posted(std::uint32_t peer, PostLine line) const {
    return line_data(group_.load_line(session_.post(view_.parts[view_.rank], peer) + static_cast<int>(line)));
  }

  // Its place in the stage of a rank.
  ONSTREAM_EITHER std::uint64_t stage(std::uint32_t rank) const { return view_.parts[rank] + view_.places.stage; }

 private:
  const Group& group_;
  const View& view_;
  Session<Group>& session_;
  bool direct_ = false;
};

}  // namespace onstream::collective
