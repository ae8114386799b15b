// Setting an event, and waiting for one; all waiters of the process share one bell, which rings for those that sleep.
#include "onstream/device/host/event.hpp"

#include "onstream/device/host/group.hpp"
#include "onstream/device/host/patience.hpp"

namespace onstream::host {
namespace {

struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
};

Bell& bell() {
  static auto* const one = new Bell;  // never destroyed: streams may outlive every other static
  return *one;
}

}  // namespace

void HostEvent::set() {
  set_.store(true, std::memory_order_seq_cst);  // pairs with is_set(); before the look at the waiters, as wait() does
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(bell().mutex);
  bell().rung.notify_all();
}

void HostEvent::wait() const {
  constexpr std::uint32_t kSpins = 256;
  for (std::uint32_t round = 0; round < kSpins; ++round) {
    if (is_set()) return;
    HostGroup::pause(round, kSpins);
  }
  std::unique_lock lock(bell().mutex);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  Patience patience("an event of another stream");
  while (!set_.load(std::memory_order_seq_cst)) patience.sleep(lock, bell().rung);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace onstream::host
