// Locks: tickets, so that threads get one in the order in which they asked.
//
// A lock is a piece of host memory of the thread that made it, and its handle a number that says where, the same for
// all threads. Its two counters are of the tickets that were given and of those that are done with. A wait for a lock
// ends at the deadline (timeout_s), as every wait does, and names the holder.
#include "guarded.hpp"
#include "onstream/device/host/group.hpp"

namespace {

using namespace onstream;
using namespace onstream::upc;

struct LockWords {
  std::uint32_t given;
  std::uint32_t done;
  std::uint32_t holder;  // its thread + 1
  std::uint32_t magic;   // last
};
constexpr std::uint32_t kLock = 0x4c6f636b;

constexpr int kThreadShift = 44;
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kThreadShift) - 1;

upc_lock_t* handle_of(upc_ptr_t ptr) {
  return reinterpret_cast<upc_lock_t*>((std::uint64_t{ptr.thread} + 1) << kThreadShift | ptr.addr);
}

upc_ptr_t pointer_of(const upc_lock_t* lock) {
  const auto handle = reinterpret_cast<std::uint64_t>(lock);
  require(lock != nullptr, "the lock is null");
  require(handle >> kThreadShift != 0, lock, " is no lock that an allocation gave");
  return {handle & kAddressMask, static_cast<std::uint32_t>((handle >> kThreadShift) - 1), 0};
}

// A lock as Context takes it.
class Lock {
 public:
  Lock(Runtime& upc, const upc_lock_t* lock) : upc_(upc) {
    const Runtime::Place place = upc.place("the lock", pointer_of(lock), sizeof(LockWords));
    words_ = reinterpret_cast<LockWords*>(place.local);
    home_ = place.thread;
    require(is_one(), lock, " is no lock, or was freed");
  }

  bool is_one() const { return fetch(&words_->magic) == kLock; }
  int holder() const { return static_cast<int>(fetch(&words_->holder)) - 1; }
  std::uint32_t done() const { return fetch(&words_->done); }
  std::uint32_t take_ticket() const { return upc_.context().fetch_inc(&words_->given, home_); }
  // Both counters at once: free means that no ticket is out.
  bool take_free() const {
    const std::uint32_t turn = done();
    const std::uint64_t free = both(turn, turn);
    return upc_.context().compare_swap(reinterpret_cast<std::uint64_t*>(words_), free, both(turn + 1, turn), home_) ==
           free;
  }
  void hold() const {
    upc_.context().set(&words_->holder, static_cast<std::uint32_t>(upc_.thread()) + 1, home_);
    HostGroup::fence();  // the stores of the previous holder are seen
  }
  void give_back() const {
    upc_.context().quiet();
    upc_.context().set(&words_->holder, std::uint32_t{0}, home_);
    HostGroup::fence();
    upc_.context().fetch_inc(&words_->done, home_);
  }
  void end() const { upc_.context().set(&words_->magic, std::uint32_t{0}, home_); }

 private:
  std::uint32_t fetch(const std::uint32_t* word) const { return upc_.context().fetch(word, home_); }
  static std::uint64_t both(std::uint32_t given, std::uint32_t done) {
    return static_cast<std::uint64_t>(done) << 32 | given;
  }

  Runtime& upc_;
  LockWords* words_ = nullptr;
  int home_ = 0;
};

upc_lock_t* make_lock(Runtime& upc, const char* call) {
  const upc_ptr_t ptr = upc.allocate(call, Half::own, MemoryKind::pinned, sizeof(LockWords));
  if (upc_ptr_is_null(ptr)) return nullptr;
  auto* const words = reinterpret_cast<LockWords*>(upc.place("the lock", ptr, sizeof(LockWords)).local);
  *words = {0, 0, 0, 0};
  HostGroup::store_release(&words->magic, kLock);
  return handle_of(ptr);
}

void free_lock(Runtime& upc, upc_lock_t* ptr) {
  if (ptr == nullptr) return;
  Lock(upc, ptr).end();
  upc.free(pointer_of(ptr));
}

}  // namespace

upc_lock_t* upc_global_lock_alloc(void) {
  return guarded("upc_global_lock_alloc", [](Runtime& upc) { return make_lock(upc, "upc_global_lock_alloc"); });
}

upc_lock_t* upc_all_lock_alloc(void) {
  return guarded("upc_all_lock_alloc", [](Runtime& upc) {
    upc.phases().agree({Act::all_lock_alloc, {}});
    upc_lock_t* const made = upc.thread() == 0 ? make_lock(upc, "upc_all_lock_alloc") : nullptr;
    return reinterpret_cast<upc_lock_t*>(upc.phases().from_first({reinterpret_cast<std::uint64_t>(made), 0, 0})[0]);
  });
}

void upc_lock(upc_lock_t* ptr) {
  guarded("upc_lock", [&](Runtime& upc) {
    const Lock lock(upc, ptr);
    require(lock.holder() != upc.thread(), "this thread has the lock ", ptr, " already");
    const std::uint32_t mine = lock.take_ticket();
    bool lives = true;
    await(
        upc.world(),
        [&] {
          if (lock.done() == mine) return true;
          lives = lock.is_one();
          return !lives;
        },
        [&] {
          const int holder = lock.holder();
          return concat(
              "thread ", upc.thread(), " did not get the lock ", ptr,
              holder < 0 ? std::string(", which is being passed on,") : concat(", which thread ", holder, " has,"));
        });
    require(lives, "the lock ", ptr, " was freed while this thread waited for it");
    lock.hold();
  });
}

int upc_lock_attempt(upc_lock_t* ptr) {
  return guarded("upc_lock_attempt", [&](Runtime& upc) {
    const Lock lock(upc, ptr);
    require(lock.holder() != upc.thread(), "this thread has the lock ", ptr, " already");
    if (!lock.take_free()) return 0;
    lock.hold();
    return 1;
  });
}

void upc_unlock(upc_lock_t* ptr) {
  guarded("upc_unlock", [&](Runtime& upc) {
    const Lock lock(upc, ptr);
    const int holder = lock.holder();
    require(holder >= 0, "nobody has the lock ", ptr);
    require(holder == upc.thread(), "thread ", holder, " has the lock ", ptr);
    lock.give_back();
  });
}

void upc_lock_free(upc_lock_t* ptr) {
  guarded("upc_lock_free", [&](Runtime& upc) { free_lock(upc, ptr); });
}

void upc_all_lock_free(upc_lock_t* ptr) {
  guarded("upc_all_lock_free", [&](Runtime& upc) {
    upc.phases().agree({Act::all_lock_free, {reinterpret_cast<std::uint64_t>(ptr), 0, 0}});
    if (ptr == nullptr) return;
    if (upc.thread() == 0) free_lock(upc, ptr);
    upc.phases().from_first({});  // it is freed for all
  });
}
