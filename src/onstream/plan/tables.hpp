// PlanTables: a Program in device memory, with the state that its launches advance. Owns that memory.
#pragma once

#include <memory>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/lifetime/streams.hpp"
#include "onstream/plan/build/lower.hpp"
#include "onstream/plan/kernel/brief.hpp"
#include "onstream/plan/kernel/view.hpp"

namespace onstream::plan {

class PlanTables {
 public:
  // Uploads, and blocks until it is done.
  PlanTables(Device& device, std::shared_ptr<StreamPool> streams, const Program& program, std::size_t op_count);

  // All but announce_release, number and wait is filled in; begins and ends stand for a single kernel.
  const PlanView& view() const { return view_; }
  // The same for the kernel of a brief program; all but number and wait is filled in.
  const Brief& brief() const { return brief_; }

  // Read, and reset, the state of the ops; block until the copy is done. Launches must have finished.
  std::vector<OpState> read_ops() const;
  std::uint64_t read_epoch() const;
  void reset_times();

 private:
  void read(void* to, const void* from, std::size_t bytes) const;

  std::shared_ptr<StreamPool> streams_;
  std::shared_ptr<Memory> staging_;  // pinned, as large as memory_
  std::shared_ptr<Memory> memory_;
  std::size_t op_count_;
  PlanView view_;
  Brief brief_;
};

}  // namespace onstream::plan
