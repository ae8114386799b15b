// The state that OneSided and Batch share: the device, the proxy, and how a list of steps is cut into launches.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "onstream/base/fork_guard.hpp"
#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/kernel/bodies.hpp"
#include "onstream/one_sided/kernel/launch_tickets.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/one_sided/proxy/proxy.hpp"
#include "onstream/one_sided/stream/segments.hpp"

namespace onstream {

namespace one_sided {
// Throws invalid_argument for a word that is not aligned or has another width.
Step wait_step(const void* word, const Until& until);
}  // namespace one_sided

// Whether work just given to a stream runs now, or belongs to the graph that the stream is captured into.
enum class Noted { enqueued, captured };

class OneSidedImplementation {
 public:
  explicit OneSidedImplementation(std::shared_ptr<Fabric> fabric);
  ~OneSidedImplementation();

  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);
  void start_proxy();
  std::shared_ptr<const void> lend(const void* address, std::size_t bytes) { return lent_->lend(address, bytes); }
  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind);
  void free(const std::shared_ptr<Segment>& segment);
  Remote symmetric(const void* address, int rank) const;
  SegmentView view(const Segment& segment);
  void barrier();  // of the hosts of all ranks, by words of its own
  const std::shared_ptr<Team>& team() const { return team_; }
  // Copies between layouts, on the stream.
  void walk(void* to, const Layout& to_layout, const void* from, const Layout& from_layout, Stream stream);
  struct FoundWords {
    std::uint64_t* found;
    std::uint64_t* indices;
  };
  void wait_many(one_sided::Many many, const WordRow& words, const Until& until, const FoundWords& answer,
                 Stream stream);
  void run(std::span<const one_sided::Step> steps, Stream stream, std::span<const std::uint64_t> staged = {});
  void run(std::span<const one_sided::Step> steps);
  Status wait(const one_sided::Step& step);
  Status wait_here(const one_sided::Step& step);

  // --- for Batch ---
  one_sided::Proxy& proxy();
  int rank() const { return fabric_->rank(); }

  // --- for Context and Team ---
  Fabric& fabric() const { return *fabric_; }
  Device& device() const { return *device_; }
  bool on_host() const { return on_host_; }
  bool cpu_reaches(MemoryKind kind) const { return on_host_ || kind != MemoryKind::device; }
  const one_sided::SegmentRows& segments() const { return *segments_; }
  // For waits of the CPU, which tells of them itself.
  WaitView host_waits() const;
  Status finish_wait(Status status, const std::string& what);
  // Call it after work was enqueued: it keeps the memory that the work needs, and makes the world's end wait for it.
  Noted note(Stream stream);
  // The same; a graph is not launched once a segment that its steps use, or a staged one, was freed.
  void note(std::span<const one_sided::Step> steps, std::span<const std::uint64_t> staged, Stream stream);
  // For kernels in memory of kind `device`, for the CPU in `pinned`.
  std::shared_ptr<Memory> table_of(const void* values, std::size_t bytes, MemoryKind kind);
  // How to copy from or to this buffer: by kernel or by copy engine.
  one_sided::StepKind copy_kind(const void* local, std::size_t bytes) const;
  void check_kernel_access(const char* what, const void* address) const;

 private:
  // Where a part of a list stands.
  struct ListPlace {
    bool follows;  // behind a part that waits
    bool leads;    // it waits itself, and others come behind it
  };
  // Calls emit(part, place) with the lists that one launch each may take.
  template <class Emit>
  void cut(std::span<const one_sided::Step> steps, const Emit& emit) const;
  Grid grid_for(std::span<const one_sided::Step> steps) const;
  template <class Body>
  void launch_steps(const Kernel& kernel, std::span<const one_sided::Step> steps, ListPlace place, Stream stream);
  bool launch_one(const one_sided::Step& step, Stream stream);
  void enqueue(std::span<const one_sided::Step> steps, std::span<const std::uint64_t> staged, Stream stream);
  void run_inline(std::span<const one_sided::Step> steps) const;
  std::shared_ptr<Team> team_of_all();

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  bool on_host_;
  std::size_t block_bytes_;
  std::size_t engine_min_;
  int max_blocks_;
  one_sided::LaunchTickets tickets_;
  StreamTracker uses_;
  std::shared_ptr<one_sided::Lent> lent_ = std::make_shared<one_sided::Lent>(device_);
  std::unique_ptr<one_sided::Proxy> proxy_;  // from the first window that needs it
  std::shared_ptr<one_sided::SegmentRows> segments_ = std::make_shared<one_sided::SegmentRows>();
  // Of views, by segment; they go with the segment's last handle, or when it is freed.
  struct ViewTables {
    const ForkGuard guard;
    std::mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<Memory>> of;

    void remove(std::uint64_t segment) {
      if (guard.in_child()) return;
      const std::lock_guard lock(mutex);
      of.erase(segment);
    }
  };
  std::shared_ptr<ViewTables> tables_ = std::make_shared<ViewTables>();
  std::shared_ptr<Team> team_;  // made with the world, so that no barrier of a stream has to wait for the other hosts
};

}  // namespace onstream
