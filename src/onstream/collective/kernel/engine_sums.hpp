// How the largest all_reduce travels by the copy engine, beside a kernel that adds up.
//
// Each rank pushes its part of another's share into that owner's output, to the place where the sums of its own share
// come in the end; the owner adds all parts up, at home, and gives the sums to the others. The engine sends to one peer
// after the other, as it is slower when it alternates (docs/decisions/0010). The last push and the first copy of sums
// go in chunks, so that one chunk is added up while another travels. Where a rank works in place there is no room to
// push to, and the kernel loads the others' data.
//
// Block 0 speaks for its rank: it asks the engine, and tells the others which parts have been pushed. The last block to
// add up its part of a chunk tells of the chunk's sums. No block but 0 waits for another of its own kernel.
#pragma once

#include "onstream/collective/protocol/rendezvous.hpp"
#include "onstream/device/kernel/copy_slot.hpp"

namespace onstream::collective {

template <Group G>
class EngineSums {
 public:
  // The part that this rank adds up, of the vectors in these buffers. All parts are equally long.
  struct SumPart {
    const std::byte* input;
    std::byte* output;
    std::uint64_t begin;
    std::uint64_t bytes;
  };

  ONSTREAM_EITHER EngineSums(const G& group, const ChannelView& view, const Copier& copier,
                             const Rendezvous<G>& meeting, const SumPart& part, std::uint64_t epoch)
      : group_(group),
        view_(view),
        copier_(copier),
        meeting_(meeting),
        part_(part),
        epoch_(epoch),
        chunk_bytes_((part.bytes + kChunks * kUnit - 1) / (kChunks * kUnit) * kUnit) {}

  // Where a chunk begins in the part, and how long it is; later ones of few bytes have none.
  ONSTREAM_EITHER std::uint64_t begin_of(std::uint32_t chunk) const { return least(chunk * chunk_bytes_, part_.bytes); }
  ONSTREAM_EITHER std::uint64_t bytes_of(std::uint32_t chunk) const { return begin_of(chunk + 1) - begin_of(chunk); }

  // All threads, first.
  ONSTREAM_EITHER void push() {
    if (!speaks()) return;
    number_ = copier_.last_number(group_);
    for (std::uint32_t k = 1; k < view_.size; ++k) {
      const std::uint32_t peer = rank_after(view_, k);
      const std::byte* const from = part_.input + peer * part_.bytes;
      if (k + 1 < view_.size) {
        ask(peer, from, 0, part_.bytes, false);
      } else {
        for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) ask(peer, from, begin_of(chunk), bytes_of(chunk), true);
      }
    }
    pushes_ = number_;
  }

  // All threads: this chunk is here from everybody. False: failed.
  ONSTREAM_EITHER bool await(Session<G>& session, std::uint32_t chunk) {
    if (speaks()) {
      const std::uint64_t behind = pushes_ - (kChunks - 1 - chunk);
      const bool gone = session.await(view_.rank, [&] {
        static_cast<void>(give());
        return copier_.is_done(group_, view_.wait, behind);
      });
      if (gone) tell(Word::pushed, chunk, session.others());
    }
    for (std::uint32_t peer = group_.rank(); peer < view_.size && !session.failed(); peer += group_.size()) {
      if (peer != view_.rank) session.await(peer, [&] { return has_told(Word::pushed, chunk, peer); });
    }
    return session.agree();
  }

  // All threads: this block has added up its part of the chunk.
  ONSTREAM_EITHER void added(std::uint32_t chunk) {
    group_.sync();
    if (group_.rank() != 0) return;
    group_.fence();  // a thread that finds the block counted sees its stores
    std::uint64_t* const count = &view_.state->summed[chunk];
    if (group_.add(count, 1) + 1 != static_cast<std::uint64_t>(group_.blocks())) return;
    group_.store_relaxed(count, 0);
    group_.fence();  // a rank that is told sees the stores of all blocks
    tell(Word::summed, chunk, below(view_.size));
  }

  // All threads, behind all chunks: the others have this rank's sums. False: failed.
  ONSTREAM_EITHER bool finish(Session<G>& session) {
    if (speaks()) {
      std::uint64_t absent = 0;
      const auto all_given = [&] {
        absent = give();
        if (absent == 0 && !copier_.is_done(group_, view_.wait, number_)) absent = only(view_.rank);
        return absent == 0;
      };
      session.await_ranks(all_given, [&] { return absent; });
    }
    return session.agree();
  }

  // Waits until the engine is through; the last step of a failed collective.
  ONSTREAM_EITHER void outlast() {
    if (!speaks()) return;
    copier_.ask(group_, ++number_, 0, part_.input, 0, true);
    copier_.outlast(group_, view_.wait, number_);
  }

 private:
  enum class Word : std::uint32_t { pushed, summed };
  static constexpr std::uint64_t kUnit = 128;
  static_assert(2 * (kChunks + kNear - 2) + 1 <= CopySlot::kDepth, "an op's requests, and the last of a failed one");

  ONSTREAM_EITHER bool speaks() const { return group_.block() == 0 && group_.rank() == 0; }

  // Asks the engine to copy to this rank's part of the peer's output, both for pushes and for sums.
  ONSTREAM_EITHER void ask(std::uint32_t peer, const std::byte* from, std::uint64_t begin, std::uint64_t bytes,
                           bool answered) {
    const std::uint64_t to = meeting_.posted(peer, PostLine::output) + part_.begin;
    copier_.ask(group_, ++number_, to + begin, from + begin, bytes, answered);
  }

  // Asks the engine to give the sums that can be given: they are there, and the peer has added up the data that was
  // pushed to their place. Returns the ranks that the next one waits for, none if all is given.
  ONSTREAM_EITHER std::uint64_t give() {
    const std::uint32_t all = kChunks + view_.size - 2;  // the first peer's chunks, and all of it to every other
    for (; given_ < all; ++given_) {
      const bool first = given_ < kChunks;
      const std::uint32_t chunk = first ? given_ : kChunks - 1;
      const std::uint32_t peer = rank_after(view_, first ? 1 : given_ - kChunks + 2);
      if (!has_told(Word::summed, chunk, view_.rank)) return only(view_.rank);
      if (!has_told(Word::summed, chunk, peer)) return only(peer);
      const std::byte* const sums = part_.output + part_.begin;
      ask(peer, sums, first ? begin_of(chunk) : 0, first ? bytes_of(chunk) : part_.bytes, given_ + 1 == all);
    }
    return 0;
  }

  // A word counts the chunks of all calls: telling of one tells of those before.
  ONSTREAM_EITHER std::uint64_t mark(std::uint32_t chunk) const { return (epoch_ << 8) + chunk + 1; }
  ONSTREAM_EITHER std::uint64_t* word_at(std::uint32_t owner, Word which, std::uint32_t writer) const {
    const auto index = static_cast<std::uint64_t>(which) * view_.size + writer;
    return reinterpret_cast<std::uint64_t*>(view_.parts[owner] + view_.places.chunks) + index;
  }
  ONSTREAM_EITHER void tell(Word which, std::uint32_t chunk, std::uint64_t ranks) const {
    for (std::uint32_t peer = 0; peer < view_.size; ++peer) {
      if (has(ranks, peer)) group_.store_release(word_at(peer, which, view_.rank), mark(chunk));  // pairs with has_told
    }
  }
  ONSTREAM_EITHER bool has_told(Word which, std::uint32_t chunk, std::uint32_t writer) const {
    return reached(group_.load_acquire(word_at(view_.rank, which, writer)), mark(chunk));
  }

  const G& group_;
  const ChannelView& view_;
  const Copier& copier_;
  const Rendezvous<G>& meeting_;
  SumPart part_;
  std::uint64_t epoch_;
  std::uint64_t chunk_bytes_;
  // Of the thread that speaks:
  std::uint64_t number_ = 0;  // of the last request
  std::uint64_t pushes_ = 0;  // of the last push
  std::uint32_t given_ = 0;
};

}  // namespace onstream::collective
