// The device API: kernels written once for every device, and one-sided ops from inside them, on symmetric memory.
// Header only.
//
// A kernel is one body, written once over a Group, that every device can run. A body is a trivially copyable struct
// with
//     template <Group G> ONSTREAM_BODY void operator()(const G& group) const;
// Its fields are the arguments. It never names threadIdx; it uses the concept Group alone (device/kernel/group.hpp). On
// the host the blocks of a grid run one after the other in one thread, so a block may wait for lower-numbered blocks
// and for other ranks, never for a higher-numbered block.
//
// A Kernel ties the body to its launchers: define it in a .cpp with host_entry<Body>, and, when CUDA is built, with the
// address of cuda_entry<Body> (device/cuda/entry.cuh) from a .cu file: ONSTREAM_CUDA_ADDRESS(that address).
//
// One-sided ops: kernels take a view by value.
//
//   __global__ void step(onstream::SegmentView view, double* mine, const double* edge, std::uint64_t* flag, int next) {
//     const onstream::BlockScope block;
//     view.put_signal(block, mine, edge, 4096, flag, std::uint64_t{1}, onstream::SignalOp::set, next);
//     if (view.wait(block, flag, onstream::Compare::eq, std::uint64_t{1}) != onstream::Status::ok) return;
//   }
//
// Memory of a peer is named by the address that *this* rank has for the same place in its own part; peer() translates.
// A scope is the threads that do an op together (device/kernel/scopes.hpp: thread, warp, block; a kernel body's Group
// is its block). All threads of the scope make the call. The same text runs on the host device, where each scope is the
// calling thread.
//
// Order: puts are done with their source once the scope has synchronised, and seen by the peer, in no order, some time.
// Stores that must come after them need put_signal(), signal(), fence() or quiet(). A wait that returns ok acquires:
// data put before the word was set is seen behind it. Every wait ends: with its condition, at the world's deadline, or
// when the world has failed. The latter two fail the world and say so in its story; the kernel must then touch no
// memory of a peer any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "onstream/device.hpp"
#include "onstream/device/entry.hpp"
#include "onstream/device/kernel/atomics.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/kernel/scopes.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/error.hpp"

namespace onstream {

namespace one_sided {

// The unsigned word with the bits of an integer or floating-point T of 4 or 8 bytes.
template <class T>
using WordOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
constexpr bool is_word = (sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>;

template <class T>
ONSTREAM_BOTH WordOf<T> bits_of(T value) {
  static_assert(is_word<T>, "words have 4 or 8 bytes");
  WordOf<T> word;
  memcpy(&word, &value, sizeof word);
  return word;
}
template <class T>
ONSTREAM_BOTH T value_of(WordOf<T> word) {
  T value;
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
ONSTREAM_BOTH WordOf<T>* word_at(T* address) {
  return reinterpret_cast<WordOf<T>*>(address);
}
template <class T>
ONSTREAM_BOTH const WordOf<T>* word_at(const T* address) {
  return reinterpret_cast<const WordOf<T>*>(address);
}

// `value`'s comparison, signed or not as T is. `reached` and `any_bit` look at the bits.
template <class T>
ONSTREAM_BOTH bool compares_as(Compare compare, T word, T value) {
  static_assert(std::is_integral_v<T>, "waits compare integers");
  return compares<WordOf<T>>(compare, sign_of<T>(), bits_of(word), bits_of(value));
}

// Whom a wait for a word is for: it ends when every other rank has left.
constexpr std::int64_t kAnyRank = -1;

// Of a wait for a word, or for one of several, from `word` on.
template <class T>
ONSTREAM_BODY Fault fault_of(const T* word, Compare compare, T value) {
  const auto bits = static_cast<std::uint64_t>(bits_of(value));
  return word_fault(kAnyRank, sizeof(T), bits, comparison_code(compare, sign_of<T>()),
                    reinterpret_cast<std::uint64_t>(word));
}

// Waits in the calling thread; leaves a fault if that does not end with ok.
template <Group G, class T>
ONSTREAM_BODY Status wait_for_word(const G& group, const WaitView& view, const T* word, Compare compare, T value) {
  const Status status = wait_for_peer(group, view, kAnyRank, [&] {
    return compares_as<T>(compare, value_of<T>(group.load_acquire(word_at(word))), value);  // pairs with signal()
  });
  if (status != Status::ok) {
    report(group, view, status, fault_of(word, compare, value));
  }
  return status;
}

// Whether some of `count` words is not left out.
ONSTREAM_BOTH bool has_one(std::size_t count, const int* left_out) {
  for (std::size_t i = 0; i < count; ++i) {
    if (left_out == nullptr || left_out[i] == 0) return true;
  }
  return false;
}

// The result of wait_line().
struct HeardLine {
  std::uint64_t value;
  Status status;
};

// The status of the scope's first thread, for all of it.
template <Group Scope>
ONSTREAM_BODY Status share(const Scope& scope, Status first) {
  const bool mine = scope.rank() == 0;
  if (!scope.sync_or(mine && first != Status::ok)) return Status::ok;
  return scope.sync_or(mine && first == Status::timeout) ? Status::timeout : Status::aborted;
}

}  // namespace one_sided

// A segment as kernels see it. By value; valid while the segment lives.
struct SegmentView {
  static constexpr int kInline = 8;  // ranks whose addresses travel in the kernel's arguments

  WaitView waits;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t bytes = 0;
  std::byte* own = nullptr;             // this rank's part
  std::byte* parts[kInline] = {};       // of the first ranks, as this rank addresses them
  std::byte* const* further = nullptr;  // of all ranks, in device memory, where there are more

  // --- places ---
  ONSTREAM_BODY std::byte* part(int of) const { return size <= kInline ? parts[of] : further[of]; }
  // The place in of's part that this rank's `mine` is in its own. Unchecked, here and in all ops below: an address
  // outside this rank's part, or a rank that is none, gives an address of anything.
  template <class T>
  ONSTREAM_BODY T* peer(T* mine, int of) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(mine) - reinterpret_cast<std::uintptr_t>(own);
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(part(of)) + offset);
  }

  // --- data ---
  template <Group Scope>
  ONSTREAM_BODY void put(const Scope& scope, void* to, const void* source, std::size_t byte_count, int of) const {
    scope.copy_alone(peer(static_cast<std::byte*>(to), of), source, byte_count);
  }
  // The data is there for the whole scope when the call returns.
  template <Group Scope>
  ONSTREAM_BODY void get(const Scope& scope, void* to, const void* source, std::size_t byte_count, int of) const {
    scope.copy_alone(to, peer(static_cast<const std::byte*>(source), of), byte_count);
    scope.sync();
  }
  // As put, by all blocks of the grid: each makes the call, and moves its share.
  template <class Block>
  ONSTREAM_BODY void put_by_grid(const Block& block, void* to, const void* source, std::size_t byte_count,
                                 int of) const {
    block.copy(peer(static_cast<std::byte*>(to), of), source, byte_count);
  }
  // The calling thread stores one element of 4 or 8 bytes; every reader sees it whole.
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY void put_value(T* to, T value, int of) const {
    G::store_relaxed(one_sided::word_at(peer(to, of)), one_sided::bits_of(value));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T get_value(const T* source, int of) const {
    return one_sided::value_of<T>(G::load_relaxed(one_sided::word_at(peer(source, of))));
  }
  // `count` elements of `element` bytes, `to_step` and `source_step` bytes apart.
  template <Group Scope>
  ONSTREAM_BODY void put_strided(const Scope& scope, void* to, const void* source, std::ptrdiff_t to_step,
                                 std::ptrdiff_t source_step, std::size_t element, std::size_t count, int of) const {
    copy_strided(scope, peer(static_cast<std::byte*>(to), of), static_cast<const std::byte*>(source), to_step,
                 source_step, element, count);
  }
  template <Group Scope>
  ONSTREAM_BODY void get_strided(const Scope& scope, void* to, const void* source, std::ptrdiff_t to_step,
                                 std::ptrdiff_t source_step, std::size_t element, std::size_t count, int of) const {
    copy_strided(scope, static_cast<std::byte*>(to), peer(static_cast<const std::byte*>(source), of), to_step,
                 source_step, element, count);
    scope.sync();
  }

  // --- signals ---
  // After all that the scope put before.
  template <Group Scope, class T>
  ONSTREAM_BODY void signal(const Scope& scope, T* word, T value, SignalOp op, int of) const {
    static_assert(std::is_integral_v<T>, "signals are integers");
    scope.sync();
    if (scope.rank() != 0) return;
    auto* there = one_sided::word_at(peer(word, of));
    if (op == SignalOp::set) {
      scope.store_release(there, one_sided::bits_of(value));  // pairs with wait()
    } else {
      scope.fence();  // pairs with wait()
      scope.add_system(there, one_sided::bits_of(value));
    }
  }
  template <Group Scope, class T>
  ONSTREAM_BODY void put_signal(const Scope& scope, void* to, const void* source, std::size_t byte_count, T* word,
                                T value, SignalOp op, int of) const {
    put(scope, to, source, byte_count, of);
    signal(scope, word, value, op, of);
  }
  // By all blocks of the grid; the last one signals. `ticket` is a word of 0 in this device's memory, which is 0 again
  // once the kernel is over; kernels that run at the same time need one each.
  template <class Block, class T>
  ONSTREAM_BODY void put_signal_by_grid(const Block& block, void* to, const void* source, std::size_t byte_count,
                                        T* word, T value, SignalOp op, int of, std::uint64_t* ticket) const {
    put_by_grid(block, to, source, byte_count, of);
    block.sync();
    bool last = false;
    if (block.rank() == 0) {
      block.fence();  // this block's bytes before its ticket
      last = block.add(ticket, 1) + 1 == static_cast<std::uint64_t>(block.blocks());
    }
    if (!block.sync_or(last)) return;
    if (block.rank() == 0) block.store_relaxed(ticket, 0);
    // The other blocks' bytes before the word: signal() has a fence behind the ticket that the last block has read.
    // signal() sets the word by a release store of system scope, which a GPU carries out as that fence and a store.
    signal(block, word, value, op, of);
  }
  // 8 bytes that prove their own arrival: one store of 16 bytes, no fence. The line is 16 bytes, aligned; `tag` must
  // differ from the one that lies there.
  template <Group G = NativeGroup>
  ONSTREAM_BODY void put_line(Line* to, std::uint64_t value, std::uint32_t tag, int of) const {
    const std::uint64_t flag = static_cast<std::uint64_t>(tag) << 32;
    G::store_line(peer(to, of), {(value & 0xffffffffu) | flag, (value >> 32) | flag});
  }
  // One thread looks; all of the scope have the value and the status.
  template <Group Scope>
  ONSTREAM_BODY Status wait_line(const Scope& scope, const Line* line, std::uint32_t tag, std::uint64_t* value) const {
    const auto heard = scope.of_first([&] {
      Line held{};
      const Status status = wait_for_peer(scope, waits, one_sided::kAnyRank, [&] {
        held = scope.load_line(line);
        return held.low >> 32 == tag && held.high >> 32 == tag;
      });
      if (status != Status::ok) {
        const auto at = reinterpret_cast<std::uint64_t>(line);
        report(scope, waits, status, word_fault(one_sided::kAnyRank, sizeof(Line), tag, 0, at));
      }
      return one_sided::HeardLine{(held.low & 0xffffffffu) | held.high << 32, status};
    });
    *value = heard.value;
    return heard.status;
  }

  // --- waits for words of this rank ---
  template <Group Scope, class T>
  ONSTREAM_BODY Status wait(const Scope& scope, const T* word, Compare compare, T value) const {
    Status status = Status::ok;
    if (scope.rank() == 0) status = one_sided::wait_for_word(scope, waits, word, compare, value);
    return one_sided::share(scope, status);
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY bool test(const T* word, Compare compare, T value) const {
    return one_sided::compares_as<T>(compare, one_sided::value_of<T>(G::load_acquire(one_sided::word_at(word))), value);
  }
  template <Group Scope, class T>
  ONSTREAM_BODY Status wait_all(const Scope& scope, const T* words, std::size_t count, Compare compare, T value) const {
    Status status = Status::ok;
    for (std::size_t i = static_cast<std::size_t>(scope.rank()); i < count && status == Status::ok;
         i += static_cast<std::size_t>(scope.size())) {
      status = one_sided::wait_for_word(scope, waits, words + i, compare, value);
    }
    if (!scope.sync_or(status != Status::ok)) return Status::ok;
    return scope.sync_or(status == Status::timeout) ? Status::timeout : Status::aborted;
  }
  // By the calling thread. Of words[0..count), those that `left_out` (may be null; an int for each, not 0: left out)
  // does not leave out: the index of one that compares, looked for from `first` on so that none starves; or the indices
  // of all that do. With none to wait for: ok, and *found is count, or 0.
  template <class T, Group G = ThreadScope>
  ONSTREAM_BODY Status wait_any(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                                std::size_t* found, std::size_t first = 0) const {
    *found = count;
    if (!one_sided::has_one(count, left_out)) return Status::ok;
    const G group{};
    const Status status = wait_for_peer(group, waits, one_sided::kAnyRank, [&] {
      *found = test_any<T>(words, count, left_out, compare, value, first);
      return *found != count;
    });
    if (status != Status::ok) report(group, waits, status, one_sided::fault_of(words, compare, value));
    return status;
  }
  template <class T, Group G = ThreadScope>
  ONSTREAM_BODY Status wait_some(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                                 std::size_t* indices, std::size_t* found) const {
    std::size_t first = count;
    *found = 0;
    const Status status = wait_any<T, G>(words, count, left_out, compare, value, &first);
    if (status == Status::ok && first != count) {
      *found = test_some<T>(words, count, left_out, compare, value, indices);
    }
    return status;
  }
  // The same without waiting: the first index, or count; how many.
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY std::size_t test_any(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                                     std::size_t first = 0) const {
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = (first + k) % count;
      if ((left_out == nullptr || left_out[i] == 0) && test<T, G>(words + i, compare, value)) return i;
    }
    return count;
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY std::size_t test_some(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                                      std::size_t* indices) const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if ((left_out == nullptr || left_out[i] == 0) && test<T, G>(words + i, compare, value)) indices[found++] = i;
    }
    return found;
  }
  // Waits in the calling thread until `ready()`: for conditions of the caller's own. It must acquire the words it
  // reads.
  template <Group Scope, class Ready>
  ONSTREAM_BODY Status wait_for(const Scope& scope, const Ready& ready) const {
    const Status status = wait_for_peer(scope, waits, one_sided::kAnyRank, ready);
    if (status != Status::ok) report(scope, waits, status, word_fault(one_sided::kAnyRank, 0, 0, 0, 0));
    return status;
  }

  // --- atomics, by the calling thread; none orders anything else. fetch_* give the old value ---
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch(const T* word, int of) const {
    return get_value<T, G>(word, of);
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY void set(T* word, T value, int of) const {
    put_value<T, G>(word, value, of);
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T swap(T* word, T value, int of) const {
    return one_sided::value_of<T>(G::swap_system(one_sided::word_at(peer(word, of)), one_sided::bits_of(value)));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T compare_swap(T* word, T expected, T value, int of) const {
    static_assert(std::is_integral_v<T>, "compare-and-swap is of integers");
    return one_sided::value_of<T>(G::compare_swap_system(one_sided::word_at(peer(word, of)),
                                                         one_sided::bits_of(expected), one_sided::bits_of(value)));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch_add(T* word, T value, int of) const {
    static_assert(std::is_integral_v<T>, "add is of integers");
    return one_sided::value_of<T>(G::fetch_add_system(one_sided::word_at(peer(word, of)), one_sided::bits_of(value)));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch_inc(T* word, int of) const {
    return fetch_add<T, G>(word, T{1}, of);
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch_and(T* word, T value, int of) const {
    static_assert(std::is_integral_v<T>, "bits are of integers");
    return one_sided::value_of<T>(G::fetch_and_system(one_sided::word_at(peer(word, of)), one_sided::bits_of(value)));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch_or(T* word, T value, int of) const {
    static_assert(std::is_integral_v<T>, "bits are of integers");
    return one_sided::value_of<T>(G::fetch_or_system(one_sided::word_at(peer(word, of)), one_sided::bits_of(value)));
  }
  template <class T, Group G = NativeGroup>
  ONSTREAM_BODY T fetch_xor(T* word, T value, int of) const {
    static_assert(std::is_integral_v<T>, "bits are of integers");
    return one_sided::value_of<T>(G::fetch_xor_system(one_sided::word_at(peer(word, of)), one_sided::bits_of(value)));
  }

  // --- order ---
  // Every peer sees the scope's earlier puts before its later ones.
  template <Group Scope>
  ONSTREAM_BODY void fence(const Scope& scope) const {
    scope.fence();
    scope.sync();
  }
  // The scope's earlier puts are in the peers' memory when it returns.
  template <Group Scope>
  ONSTREAM_BODY void quiet(const Scope& scope) const {
    fence(scope);  // an acquire-release fence of system scope waits for the answers to earlier stores
  }

 private:
  template <Group Scope>
  ONSTREAM_BODY static void copy_strided(const Scope& scope, std::byte* to, const std::byte* source,
                                         std::ptrdiff_t to_step, std::ptrdiff_t source_step, std::size_t element,
                                         std::size_t count) {
    const ThreadScope thread{};
    const auto first = static_cast<std::size_t>(scope.rank());
    for (std::size_t i = first; i < count; i += static_cast<std::size_t>(scope.size())) {
      const auto k = static_cast<std::ptrdiff_t>(i);
      thread.copy_alone(to + k * to_step, source + k * source_step, element);
    }
  }
};

// A set of ranks that meet in barriers, as kernels see it. By value; valid while the team lives. Of each rank one scope
// of one kernel at a time may be in barriers of one view: that thread, warp or block alone reads and writes `number`.
struct TeamView {
  static constexpr int kInline = SegmentView::kInline;

  WaitView waits;
  std::int32_t rank = 0;  // in the team
  std::int32_t size = 0;
  std::int32_t ranks[kInline] = {};         // in the world, of the first members
  std::uint64_t* flags = nullptr;           // of this rank: the number that each member has come to
  std::uint64_t* number = nullptr;          // of this rank's last barrier
  std::uint64_t* theirs[kInline] = {};      // this rank's flag at each of the first members
  std::uint64_t* const* further = nullptr;  // at all members, where there are more, in memory of the view's user
  const std::int32_t* further_ranks = nullptr;

  ONSTREAM_BODY std::int32_t world_rank(int member) const {
    return size <= kInline ? ranks[member] : further_ranks[member];
  }
  ONSTREAM_BODY std::uint64_t* flag_at(int member) const { return size <= kInline ? theirs[member] : further[member]; }

  // Every member has come when it returns, and their earlier stores to memory that others reach are seen. All threads
  // of the scope call it, and no other scope of this rank meanwhile.
  template <Group Scope>
  ONSTREAM_BODY Status barrier(const Scope& scope) const {
    scope.sync();  // the releases tell of the other threads' stores too; the last barrier is over
    const std::uint64_t mine = scope.load_relaxed(number) + 1;
    // A GPU fences while that number is on its way; the host's release costs nothing. Either pairs with await().
    if constexpr (!kOnHost<Scope>) scope.fence();
    const Status status = meet(scope, mine, first_flag(scope));
    if (scope.rank() == 0) scope.store_relaxed(number, mine);
    return status;
  }

  // The same as barrier number `mine`, for a caller that has counted it. On a GPU it does not release the scope's
  // earlier stores. `first` is first_flag().
  template <Group Scope>
  ONSTREAM_BODY Status meet(const Scope& scope, std::uint64_t mine, std::uint64_t* first) const {
    if (first != nullptr) tell(scope, first, mine);
    for (int i = scope.rank() + scope.size(); i < size; i += scope.size()) {
      if (i != rank) tell(scope, flag_at(i), mine);
    }
    if constexpr (kOnHost<Scope>) move_network(scope, waits);
    Status status = Status::ok;
    for (int i = scope.rank(); i < size && status == Status::ok; i += scope.size()) {
      if (i != rank) status = await(scope, i, mine);
    }
    if (!scope.sync_or(status != Status::ok)) return Status::ok;
    return scope.sync_or(status == Status::timeout) ? Status::timeout : Status::aborted;
  }

  // Where this thread tells the first member that it tells, or null.
  template <Group Scope>
  ONSTREAM_BODY std::uint64_t* first_flag(const Scope& scope) const {
    return scope.rank() < size && scope.rank() != rank ? flag_at(scope.rank()) : nullptr;
  }

 private:
  template <Group Scope>
  static constexpr bool kOnHost = std::is_base_of_v<HostGroup, Scope>;

  template <Group Scope>
  ONSTREAM_BODY static void tell(const Scope& scope, std::uint64_t* flag, std::uint64_t mine) {
    if constexpr (kOnHost<Scope>) {
      scope.store_release(flag, mine);
    } else {
      scope.store_relaxed(flag, mine);
    }
  }
  template <Group Scope>
  ONSTREAM_BODY Status await(const Scope& scope, int member, std::uint64_t mine) const {
    const Status status = wait_for_peer(scope, waits, world_rank(member), [&] {
      const std::uint64_t theirs_now = scope.load_acquire(flags + member);
      return static_cast<std::int64_t>(theirs_now - mine) >= 0;
    });
    if (status != Status::ok) {
      Fault fault;
      fault.op = static_cast<std::uint64_t>(OpKind::barrier);
      fault.peer = static_cast<std::uint64_t>(static_cast<std::int64_t>(world_rank(member)));
      fault.extra = mine;
      report(scope, waits, status, fault);
    }
    return status;
  }
};

}  // namespace onstream
