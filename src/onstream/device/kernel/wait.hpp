// Bounded waiting inside a kernel body, and the fault records it leaves.
//
// Every wait of every kernel goes through wait_until() or a sister: it ends when the condition holds, when the deadline
// passes, when the world has failed, or when the peer that it waits for has left. All but the first write one Fault
// into memory that the host reads, and the host fails the world, so that everything enqueued behind drains. After a
// failed wait a body touches no memory of any peer again.
#pragma once

#include <cstdint>

#include "onstream/device/kernel/group.hpp"
#include "onstream/device/kernel/host_turn.hpp"
#include "onstream/error.hpp"

ONSTREAM_EITHER_BEGIN
namespace onstream {

// The op that failed, and its arguments. Lives in pinned host memory; written by a kernel, read by the host.
struct Fault {
  std::uint64_t ready = 0;   // its number + 1, once the other fields are whole (release/acquire)
  std::uint64_t status = 0;  // Status
  std::uint64_t op = 0;      // OpKind, and kInCheck or kInStage
  std::uint64_t peer = 0;
  std::uint64_t tag = 0;  // for an op of a plan: the op's index
  std::uint64_t bytes = 0;
  std::uint64_t extra = 0;  // truncated: bytes of the message, at its sender of the receive; else the number waited for
  std::uint64_t plan = 0;   // number of the plan, or 0 for a message
  std::uint64_t word = 0;   // the address that this rank waited for a word at, if it did
  std::uint64_t tell = 0;   // 1: the peer cannot know yet, its host is to be told
  std::uint64_t owed = 0;   // 1: a call of the host waits for the op, and tells how it ended
};

// The tag of a fault of a collective whose ends of an edge, or of a pair, give different lengths; `extra` is that of
// the other end.
constexpr std::uint64_t kEdgeFault = ~std::uint64_t{0};

// Flags beside the op of a fault, a collective: the comparison with the other ranks' call failed (parameter
// collective_check), or a stage of the collective. `bytes` are not its own then.
constexpr std::uint32_t kInCheck = 1U << 16;
constexpr std::uint32_t kInStage = 1U << 17;

// The `extra` of a wait for a message whose own op has not run: a stream of this rank has not come to it.
constexpr std::uint64_t kNotRun = ~std::uint64_t{0};

constexpr std::uint64_t kFaultSlots = 64;  // a ring; the host empties it every few tens of milliseconds

// The bits of the abort words. There is one word for the world, one for waits that any rank may end, and one for each
// peer, in this order.
constexpr std::uint64_t kWorldFailed = 1;
constexpr std::uint64_t kPeerLeft = 2;        // in the second word: all peers left
constexpr std::uint64_t kDeadlinePassed = 4;  // beside kWorldFailed: of a wait, so others may wait for each other
constexpr std::int64_t kWordOfPeer = 2;       // the word of peer 0; that of peer -1 is for waits that any rank may end

// The arguments of a waiting kernel, by value. All pointers are valid on the device for the life of the world.
struct WaitView {
  std::uint64_t timeout_ns = 0;
  std::uint32_t spins = 4096;      // rounds before a host thread gives its core away
  std::uint32_t awake = 0;         // words from the awake words (base/heartbeat.hpp) to `abort`; 0: there are none
  std::uint64_t* abort = nullptr;  // pinned host memory: the abort word that wait_until() looks at
  std::uint64_t* fault_count = nullptr;  // this rank's device memory
  Fault* faults = nullptr;               // pinned host memory, kFaultSlots of them; null: the caller tells itself
};

// An op that passed its deadline, or was waiting when another rank's did, holds its stream until all have heard. Were
// the stream's next ops to serve the ranks that wait, those that kept each other could not tell of it any more.
template <Group G>
ONSTREAM_EITHER_CALL void hold_back(const G& group, const WaitView& view) {
  constexpr std::uint64_t kHostHearsNs = 500'000'000;  // mostly within 50 ms, the beat at which it looks
  constexpr std::uint64_t kPeersHearNs = 200'000'000;  // at once, where they get a core
  constexpr std::uint32_t kLookEvery = 64;             // the word lies across PCIe, and many threads may be here
  std::uint64_t begin = group.now_ns();
  std::uint64_t limit = kHostHearsNs;
  for (std::uint32_t round = 0; group.now_ns() - begin < limit; ++round) {
    if (limit == kHostHearsNs && round % kLookEvery == 0 && (group.load_relaxed(view.abort) & kWorldFailed) != 0) {
      begin = group.now_ns();
      limit = kPeersHearNs;
    }
    group.pause(round, view.spins);
  }
}

// Leaves a fault for the host. Called by one thread.
template <Group G>
ONSTREAM_EITHER_CALL void report(const G& group, const WaitView& view, Status status, Fault fault) {
  if (view.faults == nullptr) return;
  const std::uint64_t number = group.add(view.fault_count, 1);
  Fault* out = view.faults + number % kFaultSlots;
  group.store_relaxed(&out->status, static_cast<std::uint64_t>(status));
  group.store_relaxed(&out->op, fault.op);
  group.store_relaxed(&out->peer, fault.peer);
  group.store_relaxed(&out->tag, fault.tag);
  group.store_relaxed(&out->bytes, fault.bytes);
  group.store_relaxed(&out->extra, fault.extra);
  group.store_relaxed(&out->plan, fault.plan);
  group.store_relaxed(&out->word, fault.word);
  group.store_relaxed(&out->tell, fault.tell);
  group.store_relaxed(&out->owed, fault.owed);
  group.store_release(&out->ready, number + 1);  // pairs with Board::has_news
  const bool is_first = status == Status::aborted && number == 0;
  const bool in_chain = is_first && (group.load_relaxed(view.abort) & kDeadlinePassed) != 0;
  if (status == Status::timeout || in_chain) hold_back(group, view);
}

// The result of a waiting thread's look at the abort word and the clock: whether it shall go on, and since when it
// waits. An odd start says that the peer has left.
struct WaitCheck {
  Status status = Status::ok;
  std::uint64_t start_ns = 0;
};

// Whether the process stands still, or did, while this wait's deadline passed: then it goes on. While it stands still
// the awake word does not change. Behind a stop, a wait goes on for as long as the process has ever stood still, and
// for one more deadline at most. A process that stays stopped is bounded too.
template <Group G>
ONSTREAM_EITHER_CALL bool stands_still(const G& group, const WaitView& view, std::uint64_t waited_ns) {
  constexpr std::uint64_t kLongestStopNs = 7ULL * 24 * 3600 * 1'000'000'000;
  constexpr std::uint64_t kBeatsWithinNs = 1'000'000'000;
  if (view.awake == 0 || waited_ns > kLongestStopNs) return false;
  const std::uint64_t* const awake = view.abort - view.awake;
  const auto was_stopped = [&](std::uint64_t awake_ns) {
    return awake_ns <= view.timeout_ns && waited_ns <= view.timeout_ns + group.load_relaxed(awake + 1);
  };
  const std::uint64_t before = group.load_relaxed(awake);
  if (before <= view.timeout_ns) return was_stopped(before);
  std::uint64_t now = before;
  const std::uint64_t begin = group.now_ns();
  for (std::uint32_t round = 0; now == before && group.now_ns() - begin < kBeatsWithinNs; ++round) {
    group.pause(round, view.spins);
    now = group.load_relaxed(awake);
  }
  return now == before || was_stopped(now);
}

// All that a peer ever stored here came before the word that says it has left: one more look at the condition decides.
template <Group G>
ONSTREAM_EITHER_CALL WaitCheck look_up(const G& group, const WaitView& view, std::uint64_t word, std::uint64_t start_ns,
                                       bool slept) {
  constexpr std::uint64_t kLeft = 1;
  const std::uint64_t left = (word & kPeerLeft) != 0 ? kLeft : 0;
  if ((word & kWorldFailed) != 0) {
    group.fence();  // a thread that finds one word set finds the words set before it
    return {Status::aborted, start_ns};
  }
  if ((start_ns & left) != 0) return {Status::aborted, start_ns};
  if (slept && group.interrupted()) return {Status::aborted, start_ns};
  if (left != 0) group.fence();
  const std::uint64_t now = group.now_ns() & ~kLeft;
  const std::uint64_t start = start_ns == 0 ? now : start_ns & ~kLeft;
  const bool late = now - start > view.timeout_ns && !stands_still(group, view, now - start);
  return {late ? Status::timeout : Status::ok, start | left};
}

// The threads that wait for one thing: a thread by itself, or a whole warp, whose threads succeed together when all are
// ready, and give up together when one does. A thread that left alone would leave the others in a vote that never ends.
struct Alone {
  ONSTREAM_EITHER bool all(bool mine) const { return mine; }
};
template <Group G>
struct Warp {
  const G& group;
  ONSTREAM_EITHER bool all(bool mine) const { return !group.any_of_warp(!mine); }
};

// The network of this world, for a thread of the host; or null. The word with its address lies beside the awake words.
template <Group G>
ONSTREAM_EITHER const HostTurn* host_turn(const G& group, const WaitView& view) {
  if constexpr (requires(const HostTurn& turn) { group.pause(0u, view.spins, turn); }) {
    if (view.awake == 0) return nullptr;
    return reinterpret_cast<const HostTurn*>(group.load_relaxed(view.abort - view.awake + kHostTurnWord));
  } else {
    return nullptr;
  }
}

// One round of a wait. A thread of the host moves the network along meanwhile.
template <Group G>
ONSTREAM_EITHER bool pause_in_wait(const G& group, const WaitView& view, std::uint32_t round) {
  if constexpr (requires(const HostTurn& turn) { group.pause(round, view.spins, turn); }) {
    if (const HostTurn* const turn = host_turn(group, view)) return group.pause(round, view.spins, *turn);
  }
  return group.pause(round, view.spins);
}

// For an op that has written words which the network carries over, and may not wait for anything.
template <Group G>
ONSTREAM_EITHER void move_network(const G& group, const WaitView& view) {
  if (const HostTurn* const turn = host_turn(group, view)) turn->move(turn->context);
}

// Abort words lie across PCIe, so they are looked at (by `word()`) once in kAbortEvery rounds, and in every round in
// which pause() slept. Rare code is not inlined: a kernel's first trip through its code comes from far away
// (ARCHITECTURE.md).
template <class Who, Group G, class Word, class Ready>
ONSTREAM_EITHER Status wait_as(const Who& who, const G& group, const WaitView& view, const Word& word,
                               const Ready& ready) {
  constexpr std::uint32_t kAbortEvery = 1024;
  WaitCheck patience;
  bool slept = false;
  for (std::uint32_t round = 0;; ++round) {
    if (who.all(ready())) return Status::ok;
    if (slept || round % kAbortEvery == kAbortEvery - 1) [[unlikely]] {
      patience = look_up(group, view, word(), patience.start_ns, slept);
      if (!who.all(patience.status == Status::ok)) {
        return patience.status != Status::ok ? patience.status : Status::timeout;
      }
    }
    slept = pause_in_wait(group, view, round);
  }
}
template <Group G, class Word, class Ready>
ONSTREAM_EITHER Status wait_on(const G& group, const WaitView& view, const Word& word, const Ready& ready) {
  return wait_as(Alone{}, group, view, word, ready);
}

// Waits, in the calling thread alone, until `ready()` returns true. Returns ok, timeout or aborted; reports nothing.
// For an action of the peer whose abort word the view has.
template <Group G, class Ready>
ONSTREAM_EITHER Status wait_until(const G& group, const WaitView& view, const Ready& ready) {
  return wait_on(group, view, [&] { return group.load_relaxed(view.abort); }, ready);
}

// For an action of this rank's own work: the wait goes on when the peer has left.
template <Group G, class Ready>
ONSTREAM_EITHER Status wait_for_self(const G& group, const WaitView& view, const Ready& ready) {
  return wait_on(group, view, [&] { return group.load_relaxed(view.abort) & kWorldFailed; }, ready);
}

// The word of `peer`, or of any rank (-1), seen from a view that has the world's.
template <Group G>
ONSTREAM_EITHER std::uint64_t word_of_peer(const G& group, const WaitView& view, std::int64_t peer) {
  return group.load_relaxed(view.abort + kWordOfPeer + peer);
}

// For an action of `peer`, or of any rank (-1); the view has the world's abort word.
template <Group G, class Ready>
ONSTREAM_EITHER Status wait_for_peer(const G& group, const WaitView& view, std::int64_t peer, const Ready& ready) {
  return wait_on(group, view, [&] { return word_of_peer(group, view, peer); }, ready);
}

}  // namespace onstream
ONSTREAM_EITHER_END
