// Allocating, finding, exporting and importing; see memory.hpp.
#include "onstream/device/host/memory.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/lifetime/process_id.hpp"
#include "onstream/device/memory/pages.hpp"

namespace onstream::host {
namespace {

constexpr std::uint32_t kMemfd = 1;  // ExportRecord::flavour

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Plain memory, private to the process.
class PlainMemory final : public Memory {
 public:
  explicit PlainMemory(std::size_t bytes)
      : data_(map_pages(bytes, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1)), bytes_(bytes) {}
  ~PlainMemory() override { munmap(data_, bytes_); }
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::host; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class SharedMemory final : public Memory {
 public:
  explicit SharedMemory(std::shared_ptr<SharedRange> shared) : shared_(std::move(shared)) {}
  // A rank of this very process may keep the pages; for everybody else the memory is gone.
  ~SharedMemory() override { SharedRanges::of_process().remove(*shared_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const override { return shared_->data(); }
  std::size_t bytes() const override { return shared_->bytes(); }
  MemoryKind kind() const override { return shared_->kind(); }

 private:
  std::shared_ptr<SharedRange> shared_;
};

class SharedMapping final : public Mapping {
 public:
  explicit SharedMapping(std::shared_ptr<SharedRange> shared) : shared_(std::move(shared)) {}
  std::byte* data() const override { return shared_->data(); }
  std::size_t bytes() const override { return shared_->bytes(); }

 private:
  std::shared_ptr<SharedRange> shared_;
};

// Known to the registry for as long as it lives.
template <class... Arguments>
std::shared_ptr<SharedRange> make_shared_range(Arguments&&... arguments) {
  auto owned = std::make_unique<SharedRange>(std::forward<Arguments>(arguments)...);
  std::shared_ptr<SharedRange> shared(owned.release(), [](SharedRange* gone) {
    SharedRanges::of_process().remove(*gone);  // before the address can be given to another
    delete gone;
  });
  SharedRanges::of_process().add(shared);
  return shared;
}

bool from_this_process(const ExportRecord& record) {
  return record.pid == getpid() && record.process_id == process_id();
}

}  // namespace

SharedRange::SharedRange(std::size_t bytes, MemoryKind kind) : kind_(kind), bytes_(bytes), id_(next_id()) {
  fd_ = Fd(::memfd_create("onstream", MFD_CLOEXEC));
  if (!fd_.valid()) fail_errno(concat("memfd_create for ", bytes, " B"));
  if (bytes > static_cast<std::size_t>(INT64_MAX)) errno = EFBIG;
  if (bytes > static_cast<std::size_t>(INT64_MAX) || ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
    fail_errno(concat("cannot allocate ", bytes, " B (", human_bytes(bytes), ") of shared host memory"));
  }
  data_ = map_pages(bytes, alignment_of(bytes), MAP_SHARED, fd_.get());
}

SharedRange::SharedRange(const ExportRecord& record, const Fd& fd)
    : kind_(record.kind), bytes_(static_cast<std::size_t>(record.bytes)), id_(next_id()) {
  require(fd.valid(), "the export of ", record.bytes, " B by process ", record.pid,
          " came without its file descriptor");
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) fail_errno("fstat of the file descriptor of exported memory");
  require(record.bytes > 0 && status.st_size >= 0 && static_cast<std::uint64_t>(status.st_size) >= record.bytes,
          "the export by process ", record.pid, " says ", record.bytes, " B, but its file descriptor holds ",
          status.st_size, " B");
  data_ = map_pages(bytes_, 1, MAP_SHARED, fd.get());
}

SharedRange::~SharedRange() { munmap(data_, bytes_); }

MemoryInfo SharedRange::info() const {
  return {.kind = kind_,
          .device_index = 0,
          .base = data_,
          .bytes = bytes_,
          .id = id_,
          .exportable = fd_.valid(),
          .kernel_access = true,
          .why_private = fd_.valid() ? "" : "it is a peer's, and only its owner can share it"};
}

Export SharedRange::share() const {
  if (!fd_.valid()) {
    fail(ErrorCode::unsupported, "the ", bytes_, " B at ", static_cast<const void*>(data_),
         " were imported from another process; only their owner can export them");
  }
  Export out;
  out.fd = duplicate(fd_);
  if (!out.fd.valid()) fail_errno(concat("duplicating the file descriptor of ", bytes_, " B of shared host memory"));
  out.record.device = DeviceKind::host;
  out.record.kind = kind_;
  out.record.device_index = 0;
  out.record.pid = getpid();
  out.record.process_id = process_id();
  out.record.base = reinterpret_cast<std::uintptr_t>(data_);
  out.record.bytes = bytes_;
  out.record.id = id_;
  out.record.flavour = kMemfd;
  out.record.has_fd = 1;
  return out;
}

SharedRanges& SharedRanges::of_process() {
  // Never destroyed: memory may outlive every other static, for example in an interpreter that is shutting down.
  // Nor may a forked child find it locked by a thread that it lacks: it frees memory, and has worlds of its own.
  static auto* const registry = [] {
    static auto* const made = new SharedRanges;
    const auto lock = [] { made->mutex_.lock(); };
    const auto unlock = [] { made->mutex_.unlock(); };
    const auto renew = [] {
      made->mutex_.unlock();
      std::construct_at(&made->mutex_);  // threads that waited for it count as readers, and are not there to unlock it
    };
    const int listens = ::pthread_atfork(lock, unlock, renew);
    if (listens != 0) {
      errno = listens;
      fail_errno("pthread_atfork");
    }
    return made;
  }();
  return *registry;
}

void SharedRanges::add(const std::shared_ptr<SharedRange>& shared) {
  const std::unique_lock lock(mutex_);
  by_base_.insert_or_assign(reinterpret_cast<std::uintptr_t>(shared->data()), RangeEntry{shared->info(), shared});
  version_.fetch_add(1, std::memory_order_release);  // pairs with find()
}

void SharedRanges::remove(const SharedRange& shared) {
  const std::unique_lock lock(mutex_);
  by_base_.erase(reinterpret_cast<std::uintptr_t>(shared.data()));
  removals_.fetch_add(1, std::memory_order_release);  // pairs with removals()
  version_.fetch_add(1, std::memory_order_release);   // pairs with find()
}

// Every message asks for the ranges of its buffers, so each thread remembers its last answer and the version that it
// holds for.
std::optional<MemoryInfo> SharedRanges::find(const void* address) const {
  thread_local std::uint64_t last_version = 0;
  thread_local MemoryInfo last;
  const auto holds = [&](const MemoryInfo& info) {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.base) < info.bytes;
  };
  if (last_version == version_.load(std::memory_order_acquire) && holds(last)) return last;

  const std::shared_lock lock(mutex_);
  auto next = by_base_.upper_bound(reinterpret_cast<std::uintptr_t>(address));
  if (next == by_base_.begin()) return std::nullopt;
  const MemoryInfo& info = std::prev(next)->second.info;
  if (!holds(info)) return std::nullopt;
  last = info;
  last_version = version_.load(std::memory_order_relaxed);
  return last;
}

std::shared_ptr<SharedRange> SharedRanges::find_id(std::uint64_t id) const {
  const std::shared_lock lock(mutex_);
  for (const auto& [base, row] : by_base_) {
    if (row.info.id == id) return row.shared.lock();
  }
  return nullptr;
}

std::shared_ptr<Memory> allocate(std::size_t bytes, MemoryKind kind) {
  require(bytes > 0, "allocate() of 0 B of ", name_of(kind), " memory; ask for at least 1");
  if (kind == MemoryKind::host) return std::make_shared<PlainMemory>(bytes);
  const MemoryKind known_as = kind == MemoryKind::file ? MemoryKind::pinned : kind;
  return std::make_shared<SharedMemory>(make_shared_range(bytes, known_as));
}

MemoryInfo inspect(const void* address) {
  if (const std::optional<MemoryInfo> known = SharedRanges::of_process().find(address)) return *known;
  MemoryInfo plain;
  plain.base = static_cast<std::byte*>(const_cast<void*>(address));
  plain.kernel_access = true;
  plain.why_private = "plain host memory; allocate it with onstream to share it";
  return plain;
}

Export export_memory(const MemoryInfo& info) {
  if (info.id == 0) {
    fail(ErrorCode::unsupported, "the memory at ", static_cast<const void*>(info.base),
         " is plain host memory, private to its process; allocate it with onstream to share it");
  }
  const std::shared_ptr<SharedRange> shared = SharedRanges::of_process().find_id(info.id);
  require(shared != nullptr, "the ", info.bytes, " B at ", static_cast<const void*>(info.base),
          " were freed before they could be exported");
  return shared->share();
}

std::shared_ptr<Mapping> import_memory(const ExportRecord& record, Fd fd) {
  if (record.device != DeviceKind::host || record.flavour != kMemfd) {
    fail(ErrorCode::unsupported, "the host device cannot map the ", name_of(record.kind), " memory of ",
         name_of(record.device), " device ", record.device_index, " (process ", record.pid, ", flavour ",
         record.flavour, ")");
  }
  if (!from_this_process(record)) return std::make_shared<SharedMapping>(make_shared_range(record, fd));
  std::shared_ptr<SharedRange> own = SharedRanges::of_process().find_id(record.id);
  if (own == nullptr) {
    fail(ErrorCode::closed, "the ", record.bytes, " B that this process exported were freed before they were imported");
  }
  return std::make_shared<SharedMapping>(std::move(own));
}

}  // namespace onstream::host
