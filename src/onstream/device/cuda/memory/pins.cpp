#include "onstream/device/cuda/memory/pins.hpp"

#include <unistd.h>

#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "onstream/device/cuda/check.hpp"
#include "onstream/device/cuda/driver.hpp"

namespace onstream::cuda {
namespace {

struct PinnedRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

struct PinnedRun {
  Gpu* gpu = nullptr;
  std::uintptr_t end = 0;
  int holders = 0;  // 0: it is being unregistered
};

struct List {
  std::mutex mutex;
  std::condition_variable gone;              // a run is unregistered
  std::map<std::uintptr_t, PinnedRun> runs;  // by begin
};

List& list() {
  // Never destroyed: a handle may outlive every other static.
  static auto* const all = new List;
  return *all;
}

PinnedRange pages_of(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin / page * page, (begin + bytes + page - 1) / page * page};
}

// Neither CUDA's nor registered with it.
bool is_plain(const Gpu& gpu, const void* address) {
  const Current current(gpu);
  unsigned type = 0;
  const CUresult result =
      driver().pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(address));
  return result != CUDA_SUCCESS || type == 0;
}

// The run that holds `at`, or the end of the list. With the list's mutex held.
std::map<std::uintptr_t, PinnedRun>::iterator run_at(std::uintptr_t at) {
  auto& runs = list().runs;
  const auto next = runs.upper_bound(at);
  if (next == runs.begin()) return runs.end();
  const auto before = std::prev(next);
  return at < before->second.end ? before : runs.end();
}

// Without a holder yet. With the list's mutex held.
void add_run(Gpu& gpu, PinnedRange range) {
  const ControlPath path(gpu);
  check(cudaHostRegister(reinterpret_cast<void*>(range.begin), range.end - range.begin,
                         cudaHostRegisterPortable | cudaHostRegisterMapped),
        "pinning ", range.end - range.begin, " B of host memory at ", reinterpret_cast<void*>(range.begin));
  list().runs[range.begin] = {&gpu, range.end, 0};
}

// Without the mutex: CUDA may wait for running kernels here, and those for a thread that asks about other memory
// meanwhile.
void unregister(Gpu& gpu, std::uintptr_t begin) {
  try {
    const ControlPath path(gpu);
    static_cast<void>(cudaHostUnregister(reinterpret_cast<void*>(begin)));
    forget_error();
  } catch (...) {
    // Only while the process ends: CUDA is gone already.
  }
}

// The runs that one buffer touches.
class Hold {
 public:
  Hold() = default;
  ~Hold() {
    for (const std::uintptr_t begin : begins_) let_go(begin);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // add() does not throw after this.
  void make_room() { begins_.reserve(begins_.size() + 1); }
  void add(std::map<std::uintptr_t, PinnedRun>::iterator run) {
    begins_.push_back(run->first);
    run->second.holders += 1;
  }

 private:
  static void let_go(std::uintptr_t begin) {
    List& all = list();
    std::unique_lock lock(all.mutex);
    PinnedRun& run = all.runs.at(begin);
    if (--run.holders > 0) return;
    lock.unlock();
    unregister(*run.gpu, begin);  // the entry stays, so that nobody registers its pages before CUDA has let go of them
    lock.lock();
    all.runs.erase(begin);
    all.gone.notify_all();
  }

  std::vector<std::uintptr_t> begins_;
};

}  // namespace

std::shared_ptr<void> pin(Gpu& gpu, const void* address, std::size_t bytes) {
  List& all = list();
  const auto hold = std::make_shared<Hold>();
  const PinnedRange wanted = pages_of(address, bytes);
  std::unique_lock lock(all.mutex);
  // With the mutex held: memory that another thread pins meanwhile, or lets go, must not pass for memory of CUDA's.
  if (run_at(wanted.begin) == all.runs.end() && !is_plain(gpu, address)) return nullptr;
  for (std::uintptr_t at = wanted.begin; at < wanted.end;) {
    hold->make_room();
    auto run = run_at(at);
    if (run == all.runs.end()) {
      const auto next = all.runs.upper_bound(at);
      add_run(gpu, {at, next != all.runs.end() && next->first < wanted.end ? next->first : wanted.end});
      run = run_at(at);
    } else if (run->second.holders == 0) {
      all.gone.wait(lock);
      continue;
    }
    at = run->second.end;
    hold->add(run);
  }
  return hold;
}

std::optional<std::span<std::byte>> pinned_around(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const List& all = list();
  const std::lock_guard lock(list().mutex);
  const auto held_at = [&](std::uintptr_t where) {
    const auto run = run_at(where);
    return run != all.runs.end() && run->second.holders > 0 ? run : list().runs.end();
  };
  const auto run = held_at(at);
  if (run == all.runs.end()) return std::nullopt;
  PinnedRange range{run->first, run->second.end};
  for (auto after = held_at(range.end); after != all.runs.end(); after = held_at(range.end)) {
    range.end = after->second.end;
  }
  return std::span(reinterpret_cast<std::byte*>(range.begin), range.end - range.begin);
}

}  // namespace onstream::cuda
