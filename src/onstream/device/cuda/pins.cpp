#include "onstream/device/cuda/pins.hpp"

#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "onstream/device/cuda/check.hpp"

namespace onstream::cuda {
namespace {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

class Run {
 public:
  Run(Gpu& gpu, Range range) : gpu_(gpu), range_(range) {
    const ControlPath path(gpu_);
    check(cudaHostRegister(reinterpret_cast<void*>(range.begin), range.end - range.begin,
                           cudaHostRegisterPortable | cudaHostRegisterMapped),
          "pinning ", range.end - range.begin, " B of host memory at ", reinterpret_cast<void*>(range.begin));
  }
  ~Run() {
    try {
      const ControlPath path(gpu_);
      static_cast<void>(cudaHostUnregister(reinterpret_cast<void*>(range_.begin)));
      forget_error();
    } catch (...) {
      // Only while the process ends: CUDA is gone already.
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  Range range() const { return range_; }

 private:
  Gpu& gpu_;
  Range range_;
};

struct List {
  std::mutex mutex;
  std::map<std::uintptr_t, std::weak_ptr<Run>> runs;  // by begin
};

List& list() {
  // Never destroyed: a handle may outlive every other static.
  static auto* const all = new List;
  return *all;
}

Range pages_of(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin / page * page, (begin + bytes + page - 1) / page * page};
}

// The living run that holds `at`, or else in `next` where the following one begins. With the list's mutex held.
std::shared_ptr<Run> run_at(std::uintptr_t at, std::uintptr_t& next) {
  auto& runs = list().runs;
  next = UINTPTR_MAX;
  for (auto entry = runs.begin(); entry != runs.end();) {
    const std::shared_ptr<Run> run = entry->second.lock();
    if (run == nullptr) {
      entry = runs.erase(entry);
      continue;
    }
    if (run->range().begin <= at && at < run->range().end) return run;
    if (run->range().begin > at) {
      next = run->range().begin;
      break;
    }
    ++entry;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<void> pin(Gpu& gpu, const void* address, std::size_t bytes) {
  auto held = std::make_shared<std::vector<std::shared_ptr<Run>>>();
  const Range wanted = pages_of(address, bytes);
  const std::lock_guard lock(list().mutex);
  for (std::uintptr_t at = wanted.begin; at < wanted.end;) {
    std::uintptr_t next = 0;
    std::shared_ptr<Run> run = run_at(at, next);
    if (run == nullptr) {
      run = std::make_shared<Run>(gpu, Range{at, next < wanted.end ? next : wanted.end});
      list().runs[at] = run;
    }
    at = run->range().end;
    held->push_back(std::move(run));
  }
  return held;
}

std::optional<std::span<std::byte>> pinned_around(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(list().mutex);
  std::uintptr_t next = 0;
  const std::shared_ptr<Run> run = run_at(at, next);
  if (run == nullptr) return std::nullopt;
  Range range = run->range();
  while (const std::shared_ptr<Run> after = run_at(range.end, next)) range.end = after->range().end;
  return std::span(reinterpret_cast<std::byte*>(range.begin), range.end - range.begin);
}

}  // namespace onstream::cuda
