// Locks: tickets, so that PEs get one in the order in which they asked.
//
// The lock's word at PE 0 counts, in its halves, the tickets that were given and those that are done with; a free lock
// has both equal, as the zero it starts as. A wait for a lock ends at the deadline (timeout_s), as every wait does.
#include "guarded.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

static_assert(sizeof(long) == sizeof(std::uint64_t), "a lock has room for two counters");
constexpr int kHome = 0;

struct Counters {
  std::uint32_t* given;
  std::uint32_t* done;
};

Counters counters(const Runtime& shmem, long* lock) {
  auto* const halves = reinterpret_cast<std::uint32_t*>(shmem.place(lock));
  return {halves, halves + 1};
}

}  // namespace

void shmem_set_lock(long* lock) {
  // In a context of its own: the thread that holds the lock may use the default one meanwhile.
  guarded("shmem_set_lock", [&](Runtime& shmem) {
    Context context(shmem.world().one_sided());
    const Counters at = counters(shmem, lock);
    const std::uint32_t mine = context.fetch_inc(at.given, kHome);
    demand_ok(shmem, context.wait_for([&] { return context.fetch(at.done, kHome) == mine; },
                                      [] { return "a lock that another PE holds"; }));
    HostGroup::fence();  // what the holder before wrote is seen
  });
}

void shmem_clear_lock(long* lock) {
  with_context("shmem_clear_lock", SHMEM_CTX_DEFAULT, [&](Runtime& shmem, ContextHandle&, Context& context) {
    const Counters at = counters(shmem, lock);
    context.quiet();
    const std::uint32_t done = context.fetch(at.done, kHome);
    require(context.fetch(at.given, kHome) != done, "nobody holds the lock at ", lock);
    context.fetch_inc(at.done, kHome);
  });
}

int shmem_test_lock(long* lock) {
  return with_context("shmem_test_lock", SHMEM_CTX_DEFAULT, [&](Runtime& shmem, ContextHandle&, Context& context) {
    const Counters at = counters(shmem, lock);
    const std::uint32_t done = context.fetch(at.done, kHome);
    // Both halves at once: free means that no ticket is out.
    const std::uint64_t free = static_cast<std::uint64_t>(done) << 32 | done;
    const std::uint64_t taken = static_cast<std::uint64_t>(done) << 32 | static_cast<std::uint32_t>(done + 1);
    auto* const word = reinterpret_cast<std::uint64_t*>(shmem.place(lock));
    if (context.compare_swap(word, free, taken, kHome) != free) return 1;
    HostGroup::fence();
    return 0;
  });
}
