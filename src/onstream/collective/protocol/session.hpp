// A session: one block's part in one collective, from the reading of its epoch to its end.
//
// Every thread makes one, and all of them call end(). In between: where slots are, waits that end, and meetings of the
// same block of all ranks.
//
// Large or rare code is a static function that works on a copy. An object whose address a call gets lives in memory:
// then the thread that asks whether another collective runs waits for that answer at once, to store it.
#pragma once

#include "onstream/collective/protocol/view.hpp"

namespace onstream::collective {

template <Group G>
class Session {
 public:
  // The first message of this thread to others: its data; or where something is that earlier kernels stored, or that
  // they have stored it, behind a fence.
  enum class Tells { data, addresses };

  // All threads, first: takes this block's epoch, and stores the word that the next collective shall find. The last
  // warp stores it, which lets the next kernel in. Then comes group.wait_dependency(), and then a session.
  ONSTREAM_EITHER static Early take_epoch(const G& group, const ChannelView& view, std::uint64_t signature,
                                          Hears hears) {
    if (view.late != 0) group.wait_dependency();
    EpochCount* const epochs = view.state->epochs;
    const std::uint64_t word = group.load_relaxed(&epochs[group.block()].word);
    constexpr std::uint64_t kNever = ~std::uint64_t{0};
    group.sync_or(word == kNever);                              // every thread has read it, and not only asked for it
    constexpr int kEpochCounts = kSerial<G> ? 1 : kMostBlocks;  // a kernel of the host has one block
    const int first = (group.size() - 1) / kWarpThreads * kWarpThreads;
    if (is_of_last_warp(group)) {
      const std::uint64_t next = epoch_after(word, signature, hears);
      const int blocks = group.blocks();
      for (int i = group.rank() - first; group.block() + i * blocks < kEpochCounts; i += group.size() - first) {
        group.store_relaxed(&epochs[group.block() + i * blocks].word, next);
      }
      if constexpr (!kSerial<G>) group.fence();
    }
    Early early;
    early.word = word;
    early.signature = signature ^ history_in_flags(word);
    const Flag flag = flag_of(epoch_after(word), early.signature);
    early.flags = static_cast<std::uint64_t>(flag.high) << 32 | flag.low;
    return early;
  }

  // `announcement` is where the peer of this thread's number announces its starts (LineWork::early_look), or null: the
  // answer comes early, and may_write_to looks at it.
  ONSTREAM_EITHER Session(const G& group, const ChannelView& view, const Name& name, Early early,
                          Tells tells = Tells::data, const std::uint64_t* announcement = nullptr)
      : group_(group), view_(view), name_(name), early_(early) {
    if constexpr (!kSerial<G>) {
      if (is_of_last_warp(group)) group.launch_dependents();
    }
    // Pairs with announce_to. No store leaves before the branch is taken that allows it: a GPU needs no order here.
    if (announcement != nullptr) {
      looked_ = true;
      announced_ = kSerial<G> ? group.load_acquire(announcement) : group.load_relaxed(announcement);
    }
    was_failed_ = group.load_relaxed(&view.state->epochs[group.block()].failed);
    if (tells == Tells::addresses) group.fence();
    // Its answer takes most of a microsecond; end() looks at it.
    if (watches()) running_ = group.exchange(&view.state->running, 1);
  }

  // Whether a wait failed here, or on this channel before: the load for the latter is on its way beside that of the
  // data.
  ONSTREAM_EITHER bool failed() const { return failed_ || was_failed_ != 0; }
  ONSTREAM_EITHER std::uint64_t epoch() const { return epoch_after(early_.word); }
  // The signature of the call, and of all before it on this channel.
  ONSTREAM_EITHER std::uint64_t signature() const { return early_.signature; }
  ONSTREAM_EITHER Flag flag() const {
    return {static_cast<std::uint32_t>(early_.flags), static_cast<std::uint32_t>(early_.flags >> 32)};
  }
  ONSTREAM_EITHER std::uint32_t epoch_flag() const { return flag_of(epoch()); }  // of posts, which all calls read
  ONSTREAM_EITHER std::uint64_t parity() const { return epoch() & 1; }

  // The slot in `part` that rank `from` writes; and how far into a part it lies, in bytes.
  ONSTREAM_EITHER Line* slot(std::uint64_t part, std::uint32_t from) const {
    return reinterpret_cast<Line*>(part + slot_offset(view_, early_, from));
  }
  ONSTREAM_EITHER static std::uint64_t slot_offset(const ChannelView& view, Early epoch, std::uint32_t from) {
    const std::uint64_t parity = epoch_after(epoch.word) & 1;
    return (parity * view.size + from) * view.slot_lines * sizeof(Line);
  }
  // The distance from the slot of one rank to that of the k-th after it, in lines.
  ONSTREAM_EITHER std::uint64_t distance(int k) const {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(k)) * view_.slot_lines;
  }
  // The same in slots of LL128 lines, and their flag: a whole word, without data.
  ONSTREAM_EITHER Line* ll128_slot(std::uint64_t part, std::uint32_t from) const {
    return reinterpret_cast<Line*>(part + view_.places.ll128) + (parity() * view_.size + from) * view_.ll128_lines;
  }
  ONSTREAM_EITHER std::uint64_t ll128_distance(int k) const {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(k)) * view_.ll128_lines;
  }
  ONSTREAM_EITHER std::uint64_t ll128_flag() const { return early_.flags; }
  ONSTREAM_EITHER Line* post(std::uint64_t part, std::uint32_t from) const {
    return reinterpret_cast<Line*>(part + view_.places.posts) + (parity() * view_.size + from) * kPostLines;
  }

  // For collectives in which some hear from some only: tells another rank that this one has started, which it keeps
  // under number `index`.
  ONSTREAM_EITHER void announce_to(std::uint64_t part, std::uint32_t index) const {
    std::uint64_t* const word = announcement_in(view_, part, index);
    if constexpr (kSerial<G>) {
      group_.store_release(word, mark());  // pairs with await_start_of and the constructor's look
    } else {
      group_.store_relaxed(word, mark());  // all reads of earlier epochs were over when this kernel began
    }
  }

  // Where a rank with this part finds the announcement to it under number `index`.
  ONSTREAM_EITHER static std::uint64_t* announcement_in(const ChannelView& view, std::uint64_t part,
                                                        std::uint32_t index) {
    return reinterpret_cast<std::uint64_t*>(part + view.places.started) + index;
  }

  // Whether the slots and posts of all may be written, as all heard from all in the collective before.
  ONSTREAM_EITHER bool may_write_all() const { return (early_.word & 1) != 0 || epoch() == 1; }
  // The same among up to kMost ranks, looking at all of them at once: by their announcements so far, and waiting.
  template <int kMost>
  ONSTREAM_EITHER bool may_write_now() const {
    return may_write_all() || not_started<kMost>(group_, view_, early_) == 0;
  }
  template <int kMost>
  ONSTREAM_EITHER bool may_write_together() {
    return await_all([&] { return not_started<kMost>(group_, view_, early_); });
  }
  // Waits until the slot and the post in `peer`'s part may be written. The calling thread alone.
  ONSTREAM_EITHER bool may_write(std::uint32_t peer) { return may_write_all() || await_start(peer); }
  // The same for all other ranks.
  ONSTREAM_EITHER bool may_write_to_others() {
    if (may_write_all()) return true;
    const bool good = await_starts_of(*this);
    failed_ = failed_ || !good;
    return good;
  }
  ONSTREAM_EITHER bool await_start(std::uint32_t peer) {
    const bool good = await_start_of(*this, peer);
    failed_ = failed_ || !good;
    return good;
  }
  // All threads: the same for several peers, each awaited by one thread. False: failed.
  ONSTREAM_EITHER bool may_write_to(std::uint64_t peers) {
    if ((early_.word & 1) != 0 || peers == 0) return true;
    for (std::uint32_t peer = group_.rank(); peer < view_.size && !failed_; peer += group_.size()) {
      const bool known =
          looked_ && peer == static_cast<std::uint32_t>(group_.rank()) && reached(announced_, start_before());
      if (has(peers, peer) && !known) may_write(peer);
    }
    early_.word |= 1;
    return agree();
  }

  // Waits in the calling thread alone until `peer` has made ready() true. False: the world has failed, and so has this
  // collective.
  template <class Ready>
  ONSTREAM_EITHER bool await(std::uint32_t peer, const Ready& ready) {
    const auto word = [&] { return word_about(*this, peer); };
    const Status status = wait_on(group_, view_.wait, word, ready);
    if (status == Status::ok) return true;
    give_up(status, peer);
    return false;
  }

  // The same for several at once; absent() says which ranks' doing was missing when ready() was asked, as a set.
  template <class Ready, class Absent>
  ONSTREAM_EITHER bool await_ranks(const Ready& ready, const Absent& absent) {
    return await_as(Alone{}, ready, absent);
  }
  // The same where missing() says both.
  template <class Missing>
  ONSTREAM_EITHER bool await_all(const Missing& missing) {
    return await_missing(Alone{}, missing);
  }
  // The same for all threads of a warp, each of which names the ranks that it misses: all succeed, or all fail.
  template <class Missing>
  ONSTREAM_EITHER bool await_together(const Missing& missing) {
    return await_missing(Warp<G>{group_}, missing);
  }

  // All threads: `peer` calls another collective. False, for the caller to return.
  ONSTREAM_EITHER bool differ(std::uint32_t peer) {
    give_up(Status::misused, peer);
    return false;
  }

  // The calling thread alone, or all of them: the other end of an edge, or of a pair of an all_to_all_v, gives another
  // number of bytes.
  ONSTREAM_EITHER void lengths_differ(std::uint32_t peer, std::uint64_t mine, std::uint64_t theirs) {
    Fault fault = fault_about(peer);
    fault.tag = kEdgeFault;
    fault.bytes = mine;
    fault.extra = theirs;
    failed_ = true;
    speak(*this, Status::misused, fault);
  }

  // All threads: whether any of them failed.
  ONSTREAM_EITHER bool agree() {
    failed_ = group_.sync_or(failed());
    return !failed_;
  }

  // All threads, once and before they meet: how often this block has met. Early, so that nobody waits for it then.
  ONSTREAM_EITHER void will_meet() { step_ = group_.load_relaxed(&view_.state->steps[group_.block()]); }

  // All threads: this block of every rank has come here, and its earlier stores are seen behind. False: failed.
  ONSTREAM_EITHER bool meet() { return meet(others()); }

  // The same for some ranks, which meet this one. All ranks of the collective meet equally often.
  ONSTREAM_EITHER bool meet(std::uint64_t peers) {
    tell(peers);
    return await_told(peers, step_);
  }

  // The two halves of meet(), for callers with work in between: tell() says that this block has come to its next step,
  // behind its earlier stores; await_told() waits until the others have come to `step`. All ranks of the collective
  // take as many steps.
  ONSTREAM_EITHER void tell(std::uint64_t peers) { tell_of(*this, peers, ++step_); }
  ONSTREAM_EITHER bool await_told(std::uint64_t peers, std::uint64_t step) {
    failed_ = !await_told_of(*this, peers, step);
    return !failed_;
  }
  // Steps that this rank takes without telling anybody.
  ONSTREAM_EITHER void pass(std::uint64_t steps) { step_ += steps; }
  ONSTREAM_EITHER std::uint64_t step() const { return step_; }
  ONSTREAM_EITHER std::uint64_t others() const { return below(view_.size) & ~only(view_.rank); }

  // All threads, last.
  ONSTREAM_EITHER void end() {
    if (watches() && running_ != 0) report_overlap(*this);
    const std::uint64_t past = epoch() % kCleanEvery;
    if (past < 2 && epoch() >= kCleanEvery) clean(*this);
    group_.sync();  // the block's part is done
    if (group_.block() == 0 && group_.rank() == 0) group_.store_relaxed(&view_.state->running, 0);
  }

 private:
  // The ranks that have not made the announcement yet that allows to write to them.
  template <int kMost>
  ONSTREAM_EITHER static std::uint64_t not_started(const G& group, const ChannelView& view, Early epoch) {
    const std::uint64_t before = (epoch_after(epoch.word) - 1) << 32;
    std::uint64_t marks[kMost] = {};
    ONSTREAM_UNROLL
    for (int k = 0; k < kMost; ++k) {
      const auto peer = static_cast<std::uint32_t>(k);
      if (peer >= view.size || peer == view.rank) continue;
      const auto* const stated = announcement_in(view, view.parts[view.rank], peer);
      marks[k] = kSerial<G> ? group.load_acquire(stated) : group.load_relaxed(stated);
    }
    std::uint64_t absent = 0;
    ONSTREAM_UNROLL
    for (int k = 0; k < kMost; ++k) {
      const auto peer = static_cast<std::uint32_t>(k);
      if (peer < view.size && peer != view.rank && !reached(marks[k], before)) absent |= only(peer);
    }
    return absent;
  }

  // The thread that looks whether another collective of the channel runs.
  ONSTREAM_EITHER bool watches() const { return group_.block() == 0 && group_.rank() == group_.size() - 1; }

  template <class Who, class Missing>
  ONSTREAM_EITHER bool await_missing(const Who& who, const Missing& missing) {
    std::uint64_t absent = 0;
    const auto ready = [&] {
      absent = missing();
      return absent == 0;
    };
    return await_as(who, ready, [&] { return absent; });
  }
  template <class Who, class Ready, class Absent>
  ONSTREAM_EITHER bool await_as(const Who& who, const Ready& ready, const Absent& absent) {
    const auto word = [&] { return words_of_all(*this, absent()); };
    const Status status = wait_as(who, group_, view_.wait, word, ready);
    if (status == Status::ok && who.all(!failed())) return true;
    failed_ = true;
    if (status == Status::ok) return false;                                                     // it had failed before
    if (const std::uint64_t ranks = absent(); ranks != 0) give_up_among(*this, status, ranks);  // else another says it
    return false;
  }

  ONSTREAM_EITHER std::uint64_t* words_of(std::uint32_t rank) const {
    return reinterpret_cast<std::uint64_t*>(view_.parts[rank] + view_.places.words) + group_.block() * view_.size;
  }

  ONSTREAM_EITHER std::uint64_t mark() const { return epoch() << 32 | static_cast<std::uint32_t>(signature()); }
  // The announcement of a peer that has read the data of the last epoch with this one's parity.
  ONSTREAM_EITHER std::uint64_t start_before() const { return (epoch() - 1) << 32; }

  ONSTREAM_EITHER const std::uint64_t* announcement_of(std::uint32_t peer) const {
    return announcement_in(view_, view_.parts[view_.rank], peer);
  }

  ONSTREAM_EITHER_CALL static bool await_start_of(Session self, std::uint32_t peer) {
    const auto* announcement = self.announcement_of(peer);
    const std::uint64_t before = self.start_before();
    return self.await(peer, [&] { return reached(self.group_.load_acquire(announcement), before); });
  }

  ONSTREAM_EITHER_CALL static bool await_starts_of(Session self) {
    for (std::uint32_t peer = 0; peer < self.view_.size; ++peer) {
      if (peer != self.view_.rank && !await_start_of(self, peer)) return false;
    }
    return true;
  }

  ONSTREAM_EITHER_CALL static void tell_of(Session self, std::uint64_t peers, std::uint64_t step) {
    const G& group = self.group_;
    const ChannelView& view = self.view_;
    group.sync();
    for (std::uint32_t peer = group.rank(); peer < view.size && !self.failed_; peer += group.size()) {
      if (has(peers, peer)) group.store_release(self.words_of(peer) + view.rank, step);  // pairs with the acquire below
    }
    if (group.rank() == 0) group.store_relaxed(&view.state->steps[group.block()], step);
  }
  ONSTREAM_EITHER_CALL static bool await_told_of(Session self, std::uint64_t peers, std::uint64_t step) {
    const G& group = self.group_;
    const ChannelView& view = self.view_;
    const auto* mine = self.words_of(view.rank);
    for (std::uint32_t peer = group.rank(); peer < view.size && !self.failed_; peer += group.size()) {
      if (has(peers, peer)) self.await(peer, [&] { return reached(group.load_acquire(mine + peer), step); });
    }
    return self.agree();
  }

  // The word that a waiting thread finds when it looks up: the peer's abort word; a peer that calls something else ends
  // the wait too.
  ONSTREAM_EITHER_CALL static std::uint64_t word_about(Session self, std::uint32_t peer) {
    const std::uint64_t word = word_of_peer(self.group_, self.view_.wait, self.view_.worlds[peer]);
    return calls_another(self, peer) ? word | kWorldFailed : word;
  }

  // The words of a set of ranks together.
  ONSTREAM_EITHER_CALL static std::uint64_t words_of_all(Session self, std::uint64_t ranks) {
    std::uint64_t bits = 0;
    for (std::uint32_t peer = 0; peer < self.view_.size; ++peer) {
      if (has(ranks, peer)) bits |= word_about(self, peer);
    }
    return bits;
  }

  // Whether `peer` calls another collective under this one's number: its lines, posts and announcements here say so.
  ONSTREAM_EITHER_CALL static bool calls_another(Session self, std::uint32_t peer) {
    const G& group = self.group_;
    const std::uint64_t here = self.view_.parts[self.view_.rank];
    if (is_other_call(group.load_line(self.slot(here, peer)), self.flag())) return true;
    const Line wide = self.view_.ll128_lines == 0 ? Line{} : flags_of_ll128(group, self.ll128_slot(here, peer));
    if (is_other_call(wide, self.flag())) return true;
    const Line call = group.load_line(self.post(here, peer) + static_cast<int>(PostLine::call));
    if (has_flag(call, self.epoch_flag()) && line_data(call) >> 1 != self.signature() >> 1) return true;
    const std::uint64_t stated = group.load_relaxed(self.announcement_of(peer));
    return stated >> 32 == self.mark() >> 32 && stated != self.mark();
  }

  // The flags of the first LL128 line of a slot, as an LL line has them.
  ONSTREAM_EITHER static Line flags_of_ll128(const G& group, const Line* slot) {
    constexpr std::uint64_t kLast = 2 * kLl128Lines - 1;
    const std::uint64_t both = group.load_relaxed(reinterpret_cast<const std::uint64_t*>(slot) + kLast);
    return {both << 32, both >> 32 << 32};
  }

  // Blames the first of these ranks that calls something else, or the first.
  ONSTREAM_EITHER_CALL static void give_up_among(Session self, Status status, std::uint64_t absent) {
    std::uint32_t first = self.view_.size;
    for (std::uint32_t peer = self.view_.size; peer-- > 0;) {
      if (has(absent, peer)) first = peer;
    }
    for (std::uint32_t peer = first; peer < self.view_.size; ++peer) {
      if (has(absent, peer) && calls_another(self, peer)) return self.give_up(status, peer);
    }
    self.give_up(status, first);
  }

  ONSTREAM_EITHER void give_up(Status status, std::uint32_t peer) {
    failed_ = true;
    blame(*this, status, peer);
  }
  ONSTREAM_EITHER_CALL static void blame(Session self, Status status, std::uint32_t peer) {
    if (calls_another(self, peer)) status = Status::misused;
    speak(self, status, self.fault_about(peer));
  }

  ONSTREAM_EITHER Fault fault_about(std::uint32_t peer) const {
    Fault fault;
    fault.op = static_cast<std::uint64_t>(name_.kind);
    fault.peer = static_cast<std::uint64_t>(static_cast<std::int64_t>(view_.worlds[peer]));
    fault.tag = view_.channel;
    fault.bytes = name_.bytes;
    fault.extra = epoch();
    return fault;
  }

  // One thread of the grid speaks for all.
  ONSTREAM_EITHER_CALL static void speak(Session self, Status status, const Fault& fault) {
    self.fail_channel();
    if (self.group_.exchange(&self.view_.state->cleaned, kSpoken) == kSpoken) return;
    report(self.group_, self.view_.wait, status, fault);
  }

  ONSTREAM_EITHER_CALL static void report_overlap(Session self) {
    self.fail_channel();
    Fault fault;
    fault.op = static_cast<std::uint64_t>(self.name_.kind);
    fault.peer = static_cast<std::uint64_t>(std::int64_t{-1});
    fault.tag = self.view_.channel;
    fault.bytes = self.name_.bytes;
    fault.extra = self.epoch();
    report(self.group_, self.view_.wait, Status::misused, fault);
  }

  ONSTREAM_EITHER void fail_channel() const {
    ChannelState* const together[] = {view_.state, view_.kin[0], view_.kin[1]};
    for (ChannelState* const state : together) {
      if (state == nullptr) continue;
      for (EpochCount& epoch : state->epochs) group_.store_relaxed(&epoch.failed, 1);
    }
  }

  // The last block to come here clears the slots and posts of this parity.
  ONSTREAM_EITHER_CALL static void clean(Session self) {
    const G& group = self.group_;
    const ChannelView& view = self.view_;
    group.sync();
    bool last = false;
    if (group.rank() == 0) {
      group.fence();
      last = group.add(&view.state->cleaned, 1) + 1 == static_cast<std::uint64_t>(group.blocks());
    }
    if (!group.sync_or(last)) return;
    const std::uint64_t part = view.parts[view.rank];
    const std::uint64_t slots = std::uint64_t{view.size} * view.slot_lines;
    const std::uint64_t wide = std::uint64_t{view.size} * view.ll128_lines;
    const std::uint64_t posts = std::uint64_t{view.size} * kPostLines;
    for (std::uint64_t i = group.rank(); i < slots; i += group.size()) group.store_line(self.slot(part, 0) + i, {0, 0});
    for (std::uint64_t i = group.rank(); i < wide; i += group.size())
      group.store_line(self.ll128_slot(part, 0) + i, {0, 0});
    for (std::uint64_t i = group.rank(); i < posts; i += group.size()) group.store_line(self.post(part, 0) + i, {0, 0});
    if (group.rank() == 0) group.store_relaxed(&view.state->cleaned, 0);
  }

  static constexpr std::uint64_t kSpoken = std::uint64_t{1} << 32;

  const G& group_;
  const ChannelView& view_;
  Name name_;
  Early early_;
  std::uint64_t was_failed_ = 0;
  std::uint64_t running_ = 0;
  bool looked_ = false;
  std::uint64_t announced_ = 0;  // by the peer of this thread's number, if it was looked at
  std::uint64_t step_ = 0;
  bool failed_ = false;
};

}  // namespace onstream::collective
