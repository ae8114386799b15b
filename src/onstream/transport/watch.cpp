#include "onstream/transport/watch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "onstream/base/clock.hpp"
#include "onstream/base/quiet_thread.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream {

namespace {

constexpr std::uint32_t kSeen = 1u << 16;  // in the pulse: the watch has met this phase
constexpr std::chrono::milliseconds kLook{5};
// While streams drain, each phase of each launch takes a look; so long after the last one that was let go on.
constexpr std::chrono::microseconds kDrain{50};
constexpr std::uint64_t kDrainingNs = 100'000'000;

std::atomic_ref<std::uint32_t> ref(std::uint32_t* word) { return std::atomic_ref<std::uint32_t>(*word); }

}  // namespace

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<void> Watchdog::stand_by(StreamWaits waits) {
  auto entry = std::make_shared<WatchedWaits>();
  entry->waits = std::move(waits);
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
  entries_.push_back(entry);
  news_.notify_one();
  return std::shared_ptr<void>(entry.get(), [this, entry](void*) {
    const std::lock_guard letting_go(mutex_);
    std::erase(entries_, entry);
  });
}

void Watchdog::mute() {
  const std::lock_guard lock(mutex_);  // no report is under way
  report_ = nullptr;
}

void Watchdog::work() {
  std::uint64_t drained_ns = 0;  // when a stream was last let go on
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      news_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
      continue;
    }
    const bool failed = HostGroup::load_acquire(abort_) != 0;
    for (const std::shared_ptr<WatchedWaits>& entry : entries_) {
      if (look(*entry, failed)) drained_ns = now_ns();
    }
    if (drained_ns != 0 && now_ns() - drained_ns < kDrainingNs) {
      news_.wait_for(lock, kDrain);
    } else {
      news_.wait_for(lock, kLook);
    }
  }
}

// True when it has let the stream go on.
bool Watchdog::look(WatchedWaits& entry, bool failed) {
  const auto pulse = ref(entry.waits.pulse);
  std::uint32_t seen = pulse.load(std::memory_order_acquire);  // pairs with the stream's writes
  const std::uint32_t number = seen & ~kSeen;
  if (number == 0 || number > entry.waits.phases.size()) return false;
  if ((seen & kSeen) == 0) {
    if (!pulse.compare_exchange_strong(seen, number | kSeen)) return false;  // it goes on by itself
    seen = number | kSeen;
    entry.since_ns = lived_ns();
    entry.late = entry.deserted = 0;
    entry.reported = false;
  }
  std::vector<AwaitedWord> missing;
  for (const AwaitedWord& awaited : entry.waits.phases[number - 1]) {
    if (ref(awaited.word).load(std::memory_order_acquire) == 0) missing.push_back(awaited);
  }
  // The mark makes a phase that ended and came again differ from the one that was looked at.
  if (missing.empty() || pulse.load(std::memory_order_acquire) != seen) {
    entry.late = entry.deserted = 0;
    return false;
  }
  if (failed) {
    report(entry, missing, Status::aborted);
    for (const AwaitedWord& awaited : missing) ref(awaited.word).store(1, std::memory_order_release);
    return true;
  }
  // A peer's stores from before it left are here at the second look.
  const bool deserted = std::ranges::any_of(missing, [&](const AwaitedWord& one) { return has_left_(one.fault.peer); });
  if (deserted && ++entry.deserted == 2) report(entry, missing, Status::aborted);
  if (lived_ns() - entry.since_ns > timeout_ns_ && ++entry.late == 2) report(entry, missing, Status::timeout);
  return false;
}

// Once for each phase.
void Watchdog::report(WatchedWaits& entry, const std::vector<AwaitedWord>& missing, Status status) {
  if (entry.reported) return;
  entry.reported = true;
  if (!report_) return;
  for (const AwaitedWord& awaited : missing) {
    FaultReport fault = awaited.fault;
    fault.status = status;
    report_(fault);
  }
}

}  // namespace onstream
