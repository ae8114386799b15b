#include "onstream/device/cuda/memory/registry.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/export.hpp"

namespace onstream::cuda {

namespace {

// The driver counts its buffer ids up from 1; these never meet them.
constexpr std::uint64_t kFirstId = std::uint64_t{1} << 63;

struct Registry {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, OwnAllocation> by_base;
  std::uint64_t next_id = kFirstId;
  std::atomic<std::uint64_t> removals{0};
};

Registry& registry() {
  static Registry* const it = new Registry;  // never destroyed: the last allocation may be freed while the process ends
  return *it;
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void add_own(OwnAllocation own) {
  const std::unique_lock<std::shared_mutex> lock(registry().mutex);
  own.info.id = registry().next_id++;
  const std::uintptr_t base = number(own.info.base);
  registry().by_base.insert_or_assign(base, std::move(own));
}

void remove_own(const std::byte* base) noexcept {
  const std::unique_lock<std::shared_mutex> lock(registry().mutex);
  registry().by_base.erase(number(base));
  registry().removals.fetch_add(1, std::memory_order_release);  // pairs with own_removals()
}

bool is_own(std::uint64_t id) { return id >= kFirstId; }

std::uint64_t own_removals() { return registry().removals.load(std::memory_order_acquire); }

std::optional<MemoryInfo> find_own(const void* address) {
  const std::shared_lock<std::shared_mutex> lock(registry().mutex);
  auto after = registry().by_base.upper_bound(number(address));
  if (after == registry().by_base.begin()) return std::nullopt;
  const OwnAllocation& own = std::prev(after)->second;
  if (number(address) - number(own.info.base) >= own.info.bytes) return std::nullopt;
  return own.info;
}

std::shared_ptr<void> keep_own(const std::byte* base, std::uint64_t id) {
  const std::shared_lock<std::shared_mutex> lock(registry().mutex);
  const auto found = registry().by_base.find(number(base));
  return found != registry().by_base.end() && found->second.info.id == id ? found->second.range.lock() : nullptr;
}

Export export_own(const MemoryInfo& info) {
  const std::shared_lock<std::shared_mutex> lock(registry().mutex);
  const auto found = registry().by_base.find(number(info.base));
  require(found != registry().by_base.end() && found->second.info.id == info.id, "export of ", name_of(info.kind),
          " memory at ", static_cast<const void*>(info.base), ": it was freed since it was inspected");
  const OwnAllocation& own = found->second;
  Export out;
  out.record.flavour = static_cast<std::uint32_t>(own.flavour);
  out.record.has_fd = 1;
  const std::uint64_t mapped_bytes = own.mapped_bytes;
  std::memcpy(out.record.handle.data(), &mapped_bytes, sizeof(mapped_bytes));
  out.fd = own.export_fd();
  return out;
}

}  // namespace onstream::cuda
