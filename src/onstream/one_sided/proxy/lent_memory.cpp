#include "onstream/one_sided/proxy/lent_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "onstream/base/error.hpp"

namespace onstream::one_sided {

namespace {

// Whether the process has all these pages. MS_ASYNC does nothing to them, and says so of pages that are not there.
bool is_mapped(std::uint64_t address, std::size_t bytes) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = address / page * page;
  return msync(reinterpret_cast<void*>(begin), address + bytes - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace

Lent::LentEntry Lent::entry_of(const void* address, std::size_t bytes) const {
  LentEntry entry;
  entry.begin = reinterpret_cast<std::uint64_t>(address);
  entry.bytes = bytes;
  const MemoryInfo info = device_->inspect(address);
  const bool on_gpu = device_->kind() == DeviceKind::cuda && info.kind == MemoryKind::device;
  entry.where = on_gpu ? Where::gpu : Where::cpu;
  // Pinning gives host memory another id, so only that of the device's own memory lasts as long as the memory.
  if (info.kind == MemoryKind::device || info.kind == MemoryKind::managed) entry.allocation = info.id;
  return entry;
}

void Lent::add(const Segment& segment) {
  const LentEntry entry = entry_of(segment.local(), segment.bytes());
  const std::lock_guard lock(mutex_);
  entries_[id_of_segment(segment.number())] = entry;
}

void Lent::remove(const Segment& segment) { remove(id_of_segment(segment.number())); }

void Lent::remove(LentId id) {
  if (guard_.in_child()) return;
  constexpr std::size_t kRemembered = 1024;
  std::unique_lock lock(mutex_);
  const auto ended = entries_.find(id);
  if (ended == entries_.end()) return;
  gone_[id] = ended->second.bytes;
  entries_.erase(ended);
  if (gone_.size() > kRemembered) gone_.erase(gone_.begin());
  used_.wait(lock, [&] { return std::ranges::find(in_use_, id) == in_use_.end(); });
}

Lent::Using::Using(Lent& table, LentId id, std::uint64_t address, std::size_t bytes) : lent(table) {
  const std::lock_guard lock(lent.mutex_);
  const auto found = lent.find(id, address, bytes);
  why_not = lent.missing(found, id, address, bytes);
  if (!why_not.empty()) return;
  entry = found->first;
  where = found->second.where;
  lent.in_use_.push_back(entry);
}

Lent::Using::~Using() {
  if (!why_not.empty()) return;
  const std::lock_guard lock(lent.mutex_);
  lent.in_use_.erase(std::ranges::find(lent.in_use_, entry));
  lent.used_.notify_all();
}

std::shared_ptr<const Lent::Loan> Lent::lend(const void* address, std::size_t bytes) {
  LentEntry entry = entry_of(address, bytes);
  entry.programs = true;
  LentId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = 2 * ++loans_ + 1;
    entries_[id] = entry;
  }
  return std::make_shared<const Loan>(shared_from_this(), id);
}

Lent::Entries::const_iterator Lent::find(LentId id, std::uint64_t address, std::size_t bytes) const {
  if (id != kByAddress) return entries_.find(id);
  return std::ranges::find_if(entries_, [&](const auto& one) { return one.second.holds(address, bytes); });
}

bool Lent::is_there(const LentEntry& entry, std::uint64_t address, std::size_t bytes) const {
  if (!entry.programs) return true;
  if (entry.allocation == 0) return is_mapped(address, bytes);
  return device_->inspect(reinterpret_cast<const void*>(address)).id == entry.allocation;
}

std::string Lent::missing(Entries::const_iterator found, LentId id, std::uint64_t address, std::size_t bytes) const {
  if (found == entries_.end() && id == kByAddress) return "which it does not lend, or not any more";
  if (found == entries_.end()) {
    const auto ended = gone_.find(id);
    return concat(
        "which ", ended == gone_.end() ? "" : concat("had ", ended->second, " B and "),
        "is no longer there: its last handle was let go, or it was freed, before every rank was done with it");
  }
  const LentEntry& entry = found->second;
  if (!entry.holds(address, bytes)) {
    return concat("which has only the ", entry.bytes, " B at ", reinterpret_cast<const void*>(entry.begin));
  }
  if (!is_there(entry, address, bytes)) return "which was freed while it was still lent";
  return "";
}

}  // namespace onstream::one_sided
