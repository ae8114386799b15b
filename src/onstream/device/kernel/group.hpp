// Group: the threads of one block, working together, as a kernel body sees them; and the words that mark device code.
//
// The concept is the contract. device/host/group.hpp and device/cuda/group.cuh have its classes, scopes.hpp has Groups
// of fewer threads. A body is a template over it and names no other thing of a device. Each thread makes each call for
// itself, unless a line says that all threads make it; those calls block until all have come, the others do not block.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "onstream/error.hpp"

// ONSTREAM_EITHER and ONSTREAM_EITHER_CALL are BODY and CALL for code that a file for nvcc may instantiate over both
// groups: such code, for both sides, then calls members that one group alone has, of which nvcc warns unless it stands
// between ONSTREAM_EITHER_BEGIN and _END.
#ifdef __CUDACC__
#define ONSTREAM_BODY __device__ __forceinline__
#define ONSTREAM_CALL __noinline__ __device__ inline  // large and used at several places, or rare
#define ONSTREAM_BOTH __host__ __device__ inline
#define ONSTREAM_EITHER __host__ __device__ __forceinline__
#define ONSTREAM_EITHER_CALL __noinline__ __host__ __device__ inline
#define ONSTREAM_EITHER_BEGIN _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 20011,20014")
#define ONSTREAM_EITHER_END _Pragma("nv_diagnostic pop")
#define ONSTREAM_UNROLL _Pragma("unroll")                                   // indexed arrays stay in registers
#define ONSTREAM_ROLLED _Pragma("unroll 1")                                 // rarely runs twice
#define ONSTREAM_UNROLL_FEW_BYTES _Pragma("unroll (kBytes <= 32 ? 8 : 1)")  // over packs of kBytes
#else
#define ONSTREAM_BODY inline
#define ONSTREAM_CALL inline
#define ONSTREAM_BOTH inline
#define ONSTREAM_EITHER inline
#define ONSTREAM_EITHER_CALL inline
#define ONSTREAM_EITHER_BEGIN
#define ONSTREAM_EITHER_END
#define ONSTREAM_UNROLL
#define ONSTREAM_ROLLED
#define ONSTREAM_UNROLL_FEW_BYTES
#endif

namespace onstream {

// Two words stored and loaded together; see store_line.
struct alignas(16) Line {
  std::uint64_t low;
  std::uint64_t high;
};

// Which thread, and meeting the others: of the group, or of its warp. The host's group is its own warp.
template <class G>
concept MeetsThreads = requires(const G& group, bool mine, std::uint64_t (*make)()) {
  { group.rank() } -> std::same_as<int>;  // the thread in the group
  { group.size() } -> std::same_as<int>;
  { group.block() } -> std::same_as<int>;  // the group in the grid
  { group.blocks() } -> std::same_as<int>;
  group.sync();                                   // a barrier: all threads
  { group.sync_or(mine) } -> std::same_as<bool>;  // a barrier that returns whether any thread said true
  // The value of make(), which the first thread alone calls, for all; barriers before and behind.
  { group.of_first(make) } -> std::same_as<std::uint64_t>;
  // Of this group, not initialised; behind sync() the others see a thread's stores.
  { group.template shared<std::uint64_t>() } -> std::same_as<std::uint64_t&>;
  group.sync_warp();                                  // all threads of this warp come together
  { group.any_of_warp(mine) } -> std::same_as<bool>;  // they do, and whether any says so
};

// Words that other ranks may touch: system scope, relaxed at least. fetch and swap give the old value.
template <class G, class Word>
concept SharesWords = requires(const G& group, Word* word, const Word* source, Word value) {
  { group.load_relaxed(source) } -> std::same_as<Word>;
  { group.load_acquire(source) } -> std::same_as<Word>;
  group.store_relaxed(word, value);
  group.store_release(word, value);
  group.add_system(word, value);
  { group.fetch_add_system(word, value) } -> std::same_as<Word>;
  { group.fetch_and_system(word, value) } -> std::same_as<Word>;
  { group.fetch_or_system(word, value) } -> std::same_as<Word>;
  { group.fetch_xor_system(word, value) } -> std::same_as<Word>;
  { group.swap_system(word, value) } -> std::same_as<Word>;
  { group.compare_swap_system(word, value, value) } -> std::same_as<Word>;
};

// Words of this rank's own device: device scope, relaxed, the old value.
template <class G>
concept OwnsWords = requires(const G& group, std::uint64_t* word, std::uint64_t value) {
  { group.add(word, value) } -> std::same_as<std::uint64_t>;
  { group.exchange(word, value) } -> std::same_as<std::uint64_t>;
  { group.compare_swap(word, value, value) } -> std::same_as<std::uint64_t>;
};

// 16 bytes in one access.
template <class G>
concept SharesLines =
    requires(const G& group, Line* line, const Line* source, Line both, std::uint64_t* word, std::uint64_t value) {
      typename std::bool_constant<G::kStoresInOrder>;  // whether lines are seen in the order in which they are stored
      { group.load_line(source) } -> std::same_as<Line>;  // each 8-byte half is atomic, the pair need not be
      group.store_line(line, both);
      // Stores a value and data, both words of an aligned 16 bytes: a reader that sees the value in `word` sees the
      // data in the other one too.
      group.store_beside(word, value, value);
    };

// Aligned 128 bytes, each thread of a subgroup - eight neighbouring threads, all of which come here - its own 16, in
// one access: a reader that sees one of them sees all, where Device::whole_lines_to says so. Behind sync_warp() or
// any_of_warp(): threads that branched before may still be apart.
template <class G>
concept HasSubgroups = requires(const G& group, Line* lines, const Line* source, Line mine) {
  { group.load_subgroup(source) } -> std::same_as<Line>;
  group.store_subgroup(lines, mine);
};

// Order and time.
template <class G>
concept KeepsOrder = requires(const G& group, std::uint64_t word, std::uint32_t round, std::uint32_t spins) {
  // Acquire and release, system-wide: memory operations before it are seen before stores after it.
  group.fence();
  // Sequentially consistent, system-wide: of two threads that store, fence and load the other's word, at least one sees
  // the other's store.
  group.fence_all();
  group.wait_dependency();  // all that the stream did before is over, and seen
  // Of a warp: the stream's next kernel may start, and wait as this one did. The first warp of a block that says so
  // speaks for the block.
  group.launch_dependents();
  // The word or address, computed here and not where it is used, which a compiler may put behind a wait.
  { group.early(word) } -> std::same_as<std::uint64_t>;
  group.settle(word);  // the addresses and words whose exclusive or this is are computed before the code that follows
  { group.now_ns() } -> std::same_as<std::uint64_t>;
  { group.pause(round, spins) } -> std::same_as<bool>;  // a waiting thread's n-th round; true: it was away
  { group.interrupted() } -> std::same_as<bool>;        // whether it shall give its wait up; asked when it was away
};

// Copies, of which none is a barrier. Where an address may be a remote process address (kCrossMemory), carry() alone
// copies there, and says how that went.
template <class G>
concept CopiesBytes = requires(const G& group, void* to, const void* from, std::size_t bytes, std::uint32_t part,
                               const typename G::Flight& flight) {
  typename std::bool_constant<G::kCrossMemory>;
  group.copy(to, from, bytes);              // the whole grid copies, each group its share
  group.copy(to, from, bytes, part, part);  // this group's share is `part` of `parts`
  { group.fetch(from, bytes, part, part) } -> std::same_as<typename G::Flight>;  // the first loads of the copy below
  group.copy(flight, to, from, bytes, part, part);
  group.copy_alone(to, from, bytes);      // this group copies all of it
  group.copy_twice(to, to, from, bytes);  // and to two places
};
template <class G>
concept CarriesBytes = requires(const G& group, void* to, const void* from, std::size_t bytes) {
  { group.carry(to, from, bytes) } -> std::same_as<Status>;
};

template <class G>
concept Group =
    MeetsThreads<G> && SharesWords<G, std::uint32_t> && SharesWords<G, std::uint64_t> && OwnsWords<G> &&
    SharesLines<G> && KeepsOrder<G> && CopiesBytes<G> && (G::kCrossMemory ? CarriesBytes<G> : HasSubgroups<G>);

// Whether this thread is of its block's last warp, which lets the next kernel in where a body does that itself.
constexpr int kWarpThreads = 32;
ONSTREAM_EITHER_BEGIN
template <Group G>
ONSTREAM_EITHER bool is_of_last_warp(const G& group) {
  return group.rank() / kWarpThreads == (group.size() - 1) / kWarpThreads;
}
ONSTREAM_EITHER_END

}  // namespace onstream
