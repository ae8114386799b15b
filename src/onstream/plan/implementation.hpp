// The state of a built Plan. The resources of its launches are apart from it: launches that are under way, and graphs,
// keep them alive when the Plan itself is gone. They do not own the fabric: a graph must not keep a world from ending.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/plan.hpp"
#include "onstream/plan/build/lower.hpp"
#include "onstream/plan/network_ops.hpp"
#include "onstream/plan/op/planned_call.hpp"
#include "onstream/plan/slots.hpp"
#include "onstream/plan/tables.hpp"

namespace onstream {

namespace plan {

struct Resources {
  std::shared_ptr<Segment> segment;                // announcements, flags, slots, bounce buffers of this plan
  std::vector<std::shared_ptr<Memory>> stand_ins;  // for buffers that kernels cannot touch
  std::vector<CopyCommand> host_before;            // the copies of the stream's host functions
  std::vector<CopyCommand> host_after;
  std::unique_ptr<PlanTables> tables;
  std::unique_ptr<NetworkOps> network;            // null: no op has a peer on another host
  std::vector<std::shared_ptr<Segment>> of_user;  // where ops put and signal
  std::shared_ptr<const void> wait_memory;
  std::shared_ptr<Segment> words;  // path memop: the words that streams write and await
  std::unique_ptr<Slots> slots;    // ... and when; null without that path. Let go of before the memory that it watches
};

}  // namespace plan

class Plan::Implementation {
 public:
  ~Implementation();

  std::shared_ptr<Fabric> fabric;
  std::shared_ptr<plan::Resources> resources = std::make_shared<plan::Resources>();
  StreamTracker launches{nullptr};  // as the fabric recorded them
  std::string name;
  std::vector<PlanOp> ops;
  plan::PlanView view;
  std::optional<plan::Brief> brief;  // instead of the view's kernel, if there
  int blocks = 1;                    // of all kernels of a launch
  int mover_blocks = 1;              // of the first of two kernels
  int threads = 1;
  int kernels = 1;
  std::uint64_t unlisted_runs = 0;  // see plan::Overlaps
  struct MemoryRange {
    void* address;
    std::size_t bytes;
  };
  std::vector<MemoryRange> prefetches;  // managed buffers that a launch brings to the device first
  std::vector<plan::CopyCommand> before;
  std::vector<plan::CopyCommand> middle;
  std::vector<plan::CopyCommand> after;
  std::vector<plan::PreparedCall> calls;  // behind all that; their launches keep the memory they use
  std::uint64_t epoch_at_reset = 0;

  // Whose memory the ops use, as far as the device knows it.
  struct OpMemory {
    std::size_t op;
    const void* address;
    std::uint64_t id;
  };
  std::vector<OpMemory> known;
  std::atomic<std::uint64_t> frees = 0;  // Device::frees() when `known` was found whole
  void check_memory();
  void enqueue(Stream stream, const plan::PlanSlot* slot);
  bool runs_here() const;
  std::uint64_t running = 0;  // the thread that runs the ops itself
  std::uint64_t runs = 0;     // of threads, that have ended
};

}  // namespace onstream
