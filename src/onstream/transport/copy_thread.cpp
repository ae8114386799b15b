#include "onstream/transport/copy_thread.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

#include "onstream/base/quiet_thread.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream {

namespace {

constexpr std::size_t kSlots = 16;  // of a page

// Sleeps of this thread last as long as they say, not 50 us more.
void nap_exactly() { static_cast<void>(::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL)); }

}  // namespace

struct CopyThread::Page {
  explicit Page(Device& device)
      : slots(device.allocate(kSlots * sizeof(CopySlot), MemoryKind::pinned)),
        answers(device.allocate(kSlots * sizeof(std::uint64_t), MemoryKind::device)) {}
  Copier copier(std::size_t i) const {
    return {reinterpret_cast<CopySlot*>(slots->data()) + i, reinterpret_cast<std::uint64_t*>(answers->data()) + i, 0};
  }

  std::shared_ptr<Memory> slots;
  std::shared_ptr<Memory> answers;
};

// The right to a slot, of a graph or of an op that is enqueued several times.
struct CopyThread::SharedState {
  ~SharedState() {
    const std::lock_guard lock(freed->mutex);
    freed->slots.push_back(slot);
  }
  std::shared_ptr<Page> page;
  std::shared_ptr<Freed> freed;
  const CopySlot* slot;
};

CopyThread::~CopyThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    news_.notify_one();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  let_go_of(*device_, stream_);
  for (CopierEntry& entry : entries_) DeferredRelease::of_process().hand_over(std::move(entry.page));
}

CopyThread::CopierLease CopyThread::take(std::uint64_t lead) {
  std::unique_lock lock(mutex_);
  start();
  CopierEntry* entry = free_entry();
  while (entry == nullptr) {
    lock.unlock();
    const auto page = std::make_shared<Page>(*device_);  // may wait for the GPU, and the thread must not
    lock.lock();
    add(page);
    entry = free_entry();
  }
  entry->in_use = true;
  expecting_ = true;
  news_.notify_one();
  Copier copier = entry->copier;
  copier.lead = lead;
  return {*this, copier};
}

void CopyThread::start() {
  if (thread_.joinable()) return;
  stream_ = device_->create_stream();
  thread_ = quiet_thread([this] {
    try {
      serve();
    } catch (const std::exception& error) {
      on_failure_(error.what());
    }
  });
}

CopyThread::CopierEntry* CopyThread::free_entry() {
  take_back();
  const auto is_free = [](const CopierEntry& entry) {
    return !entry.in_use && (entry.retired == nullptr || ended(*entry.retired));
  };
  const auto entry = std::ranges::find_if(entries_, is_free);
  return entry == entries_.end() ? nullptr : &*entry;
}

std::size_t CopyThread::slots() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void CopyThread::take_back() {
  const std::lock_guard lock(freed_->mutex);
  for (CopierEntry& entry : entries_) {
    if (std::ranges::count(freed_->slots, entry.copier.slot) > 0) entry.in_use = false;
  }
  freed_->slots.clear();
}

void CopyThread::add(const std::shared_ptr<Page>& page) {
  for (std::size_t i = 0; i < kSlots; ++i) entries_.push_back({page->copier(i), 0, nullptr, false, page});
}

std::shared_ptr<const void> CopyThread::share(const Copier& copier) {
  const std::lock_guard lock(mutex_);
  return std::shared_ptr<const SharedState>(new SharedState{entry_of(copier).page, freed_, copier.slot});
}

void CopyThread::give_back(const Copier& copier, Stream stream) {
  auto event = device_->point(stream);
  if (event == nullptr) return device_->retain(stream, share(copier));
  const std::lock_guard lock(mutex_);
  CopierEntry& entry = entry_of(copier);
  entry.retired = std::move(event);
  entry.in_use = false;
}

void CopyThread::release(const Copier& copier) {
  const std::lock_guard lock(mutex_);
  entry_of(copier).in_use = false;
}

CopyThread::CopierEntry& CopyThread::entry_of(const Copier& copier) {
  return *std::ranges::find_if(entries_, [&copier](const CopierEntry& one) { return one.copier.slot == copier.slot; });
}

// True if there was a request. The answer follows the copy in its stream: nobody has to look when it is done.
bool CopyThread::serve(CopierEntry& entry) {
  const CopySlot& slot = *entry.copier.slot;
  const std::uint64_t asked = HostGroup::load_acquire(&slot.asked);
  if (asked <= entry.issued) return false;
  while (entry.issued < asked) {
    entry.issued += 1;
    const CopySlot::CopyRequest& request = slot.requests[entry.issued % CopySlot::kDepth];
    if (!has_failed_()) {
      device_->copy(reinterpret_cast<void*>(HostGroup::load_relaxed(&request.destination)),
                    reinterpret_cast<const void*>(HostGroup::load_relaxed(&request.source)),
                    HostGroup::load_relaxed(&request.bytes), stream_);
    }
    served_.fetch_add(1, std::memory_order_relaxed);  // before anybody hears of it
    if (HostGroup::load_relaxed(&request.answered) == 0) continue;
    const WordOp answer{WordAct::write, sizeof(std::uint64_t), entry.copier.done, entry.issued};
    device_->operate({&answer, 1}, stream_);
  }
  return true;
}

// Looks without rest for a while after each request and each op enqueued, and now and then otherwise: a replayed graph
// asks without any call of the host.
void CopyThread::serve() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAwake = std::chrono::milliseconds(20);
  constexpr auto kNap = std::chrono::microseconds(50);
  nap_exactly();
  Clock::time_point awake_until = Clock::now() + kAwake;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    bool busy = std::exchange(expecting_, false);
    for (CopierEntry& entry : entries_) busy = serve(entry) || busy;
    const Clock::time_point now = Clock::now();
    if (busy) awake_until = now + kAwake;
    if (now < awake_until) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      news_.wait_for(lock, kNap, [this] { return expecting_ || stopping_; });
    }
  }
}

}  // namespace onstream
