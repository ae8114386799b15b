#include "onstream/message/copy_thread.hpp"

#include <algorithm>
#include <chrono>

#include "onstream/device/disposal.hpp"

namespace onstream {

namespace {

constexpr std::size_t kSlots = 64;

}  // namespace

CopyThread::~CopyThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  thread_.join();
  device_->destroy_stream(stream_);
  for (Entry& entry : entries_) Disposal::of_process().hand_over(std::move(entry.memory));
}

CopySlot* CopyThread::take() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    stream_ = device_->create_stream();
    thread_ = std::thread([this] {
      try {
        serve();
      } catch (const std::exception& error) {
        on_failure_(error.what());
      }
    });
  }
  for (Entry& entry : entries_) {
    const bool free = !entry.in_use && entry.copied == nullptr && entry.retired->done();
    if (!free) continue;
    entry.in_use = true;
    return entry.slot;
  }
  const std::shared_ptr<Memory> memory = device_->allocate(kSlots * sizeof(CopySlot), MemoryKind::pinned);
  auto* slots = reinterpret_cast<CopySlot*>(memory->data());
  const auto now = device_->record(stream_);
  for (std::size_t i = 0; i < kSlots; ++i) entries_.push_back({slots + i, 0, nullptr, now, i == 0, memory});
  return slots;
}

void CopyThread::give_back(CopySlot* slot, Stream stream) {
  const bool captured = device_->capturing(stream);
  auto event = captured ? nullptr : device_->record(stream);
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find_if(entries_, [slot](const Entry& one) { return one.slot == slot; });
  if (captured) {
    device_->retain(stream, entry->memory);
  } else {
    entry->retired = std::move(event);
    entry->in_use = false;
  }
}

// True while the slot has work under way.
bool CopyThread::serve(Entry& entry) {
  if (entry.copied != nullptr) {
    if (!entry.copied->done()) return true;
    entry.copied = nullptr;
    HostGroup::store_release(&entry.slot->done, entry.issued);  // pairs with copy_through
  }
  if (HostGroup::load_acquire(&entry.slot->asked) == entry.issued) return false;
  entry.issued += 1;
  device_->copy(reinterpret_cast<void*>(HostGroup::load_relaxed(&entry.slot->destination)),
                reinterpret_cast<const void*>(HostGroup::load_relaxed(&entry.slot->source)),
                HostGroup::load_relaxed(&entry.slot->bytes), stream_);
  entry.copied = device_->record(stream_);
  return true;
}

// Looks at all slots without rest while a transfer runs, and every few microseconds otherwise: a replayed graph asks
// without any call of the host.
void CopyThread::serve() {
  for (;;) {
    bool busy = false;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (Entry& entry : entries_) busy = serve(entry) || busy;
    }
    if (busy) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace onstream
