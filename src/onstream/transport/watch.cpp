#include "onstream/transport/watch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "onstream/base/clock.hpp"
#include "onstream/bootstrap/quiet_thread.hpp"
#include "onstream/device/group.hpp"

namespace onstream {

namespace {

constexpr std::uint32_t kSeen = 1u << 16;  // in the pulse: the watch has met this phase
constexpr std::chrono::milliseconds kLook{5};
constexpr std::chrono::microseconds kDrain{
    50};  // between looks while streams drain: each phase of each launch takes one

std::atomic_ref<std::uint32_t> ref(std::uint32_t* word) { return std::atomic_ref<std::uint32_t>(*word); }

}  // namespace

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<void> Watch::stand_by(StreamWaits waits) {
  auto entry = std::make_shared<Entry>();
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

void Watch::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      news_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
      continue;
    }
    const bool failed = HostGroup::load_acquire(abort_) != 0;
    bool draining = false;
    for (const std::shared_ptr<Entry>& entry : entries_) draining = look(*entry, failed) || draining;
    if (draining) {
      news_.wait_for(lock, kDrain);
    } else {
      news_.wait_for(lock, kLook);
    }
  }
}

// True while the stream has to be let go on.
bool Watch::look(Entry& entry, bool failed) {
  std::uint32_t pulse = ref(entry.waits.pulse).load(std::memory_order_acquire);  // pairs with the stream's writes
  const std::uint32_t number = pulse & ~kSeen;
  if (number == 0 || number > entry.waits.phases.size()) return false;
  const std::vector<AwaitedWord>& phase = entry.waits.phases[number - 1];
  if ((pulse & kSeen) == 0) {
    if (!ref(entry.waits.pulse).compare_exchange_strong(pulse, number | kSeen)) return failed;  // it goes on by itself
    entry.since_ns = now_ns();
    entry.told = false;
  }
  if (failed) {
    report_missing(entry, phase, Status::aborted);
    for (const AwaitedWord& awaited : phase) ref(awaited.word).store(1, std::memory_order_release);
    return true;
  }
  if (now_ns() - entry.since_ns <= timeout_ns_) return false;
  report_missing(entry, phase, Status::timeout);
  return HostGroup::load_acquire(abort_) != 0;
}

// What has not come, once for each phase that was waited in. A stream that has gone on meanwhile misses nothing.
void Watch::report_missing(Entry& entry, const std::vector<AwaitedWord>& phase, Status status) {
  if (entry.told) return;
  const std::uint32_t pulse = ref(entry.waits.pulse).load(std::memory_order_acquire);
  std::vector<FaultReport> missing;
  for (const AwaitedWord& awaited : phase) {
    if (ref(awaited.word).load(std::memory_order_acquire) != 0) continue;
    missing.push_back(awaited.fault);
    missing.back().status = status;
  }
  // The mark makes a phase that ended and came again differ from the one that was looked at.
  if ((pulse & kSeen) == 0 || ref(entry.waits.pulse).load(std::memory_order_acquire) != pulse) return;
  entry.told = true;
  for (const FaultReport& fault : missing) report_(fault);
}

}  // namespace onstream
