// Locks: tickets, so that PEs get one in the order in which they asked.
//
// The lock's word at PE 0 counts the tickets that were given and those that are done with, and names the PE that holds
// it, for a PE that waits in vain; a free lock has both counts equal and no holder, as the zero it starts as. A wait
// for a lock ends at the deadline (timeout_s), as every wait does.
#include "guarded.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/symmetric.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

static_assert(sizeof(long) == sizeof(std::uint64_t), "a lock has room for two counts and a PE");
constexpr int kHome = 0;

// From the top: given (22 bits), done (22), the holder's PE + 1 (20). A ticket is an add, whose carry leaves the word;
// the rest is the holder's to change. At most 4 Mi - 1 tickets may be out at once; a PE of more than 20 bits is not
// named.
struct Word {
  std::uint64_t bits;

  static constexpr int kCountBits = 22;
  static constexpr int kHolderBits = 20;
  static constexpr std::uint64_t kCount = (std::uint64_t{1} << kCountBits) - 1;
  static constexpr std::uint64_t kHolder = (std::uint64_t{1} << kHolderBits) - 1;
  static constexpr std::uint64_t kTicket = std::uint64_t{1} << (kCountBits + kHolderBits);

  std::uint64_t given() const { return bits >> (kCountBits + kHolderBits); }
  std::uint64_t done() const { return (bits >> kHolderBits) & kCount; }
  std::uint64_t holder() const { return bits & kHolder; }
  bool is_free() const { return given() == done(); }
  // The holder adds this to make the lock the next one's.
  std::uint64_t to_release() const { return ((((done() + 1) & kCount) - done()) << kHolderBits) - holder(); }

  static std::uint64_t held_by(int pe) {
    const auto holder = static_cast<std::uint64_t>(pe) + 1;
    return holder <= kHolder ? holder : 0;
  }
};

std::uint64_t* place_of(const Runtime& shmem, long* lock) {
  return reinterpret_cast<std::uint64_t*>(shmem.place(lock));
}

std::string holder_of(Word word) { return word.holder() == 0 ? "another PE" : concat("PE ", word.holder() - 1); }

}  // namespace

void shmem_set_lock(long* lock) {
  // In a context of its own: the thread that holds the lock may use the default one meanwhile.
  guarded("shmem_set_lock", [&](Runtime& shmem) {
    Context context(shmem.world().one_sided());
    std::uint64_t* const at = place_of(shmem, lock);
    Word word{context.fetch_add(at, Word::kTicket, kHome)};
    const std::uint64_t mine = word.given();
    const auto is_mine = [&] { return word.done() == mine; };
    if (!is_mine()) {
      const auto look = [&] {
        word.bits = context.fetch(at, kHome);
        return is_mine();
      };
      const auto what = [&] { return concat("the lock at ", lock, ", which ", holder_of(word), " holds,"); };
      demand_ok(shmem, context.wait_for(look, what));
    }
    (void)context.fetch_add(at, Word::held_by(shmem.rank()), kHome);
    HostGroup::fence();  // the stores of the previous holder are seen
  });
}

void shmem_clear_lock(long* lock) {
  with_context("shmem_clear_lock", SHMEM_CTX_DEFAULT, [&](Runtime& shmem, ContextHandle&, Context& context) {
    std::uint64_t* const at = place_of(shmem, lock);
    context.quiet();
    const Word word{context.fetch(at, kHome)};
    require(!word.is_free(), "nobody holds the lock at ", lock);
    require(word.holder() == Word::held_by(shmem.rank()), holder_of(word), " holds the lock at ", lock,
            ", and no other may clear it");
    (void)context.fetch_add(at, word.to_release(), kHome);
  });
}

int shmem_test_lock(long* lock) {
  return with_context("shmem_test_lock", SHMEM_CTX_DEFAULT, [&](Runtime& shmem, ContextHandle&, Context& context) {
    std::uint64_t* const at = place_of(shmem, lock);
    const Word word{context.fetch(at, kHome)};
    if (!word.is_free()) return 1;
    // Free means that no ticket is out, and that nobody has taken one since.
    const std::uint64_t taken = word.bits + Word::kTicket + Word::held_by(shmem.rank());
    if (context.compare_swap(at, word.bits, taken, kHome) != word.bits) return 1;
    HostGroup::fence();
    return 0;
  });
}
