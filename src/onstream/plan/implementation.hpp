// What a built Plan holds. What its launches use is apart from it: launches that are under way, and graphs, keep that
// alive when the Plan itself is gone. It does not own the fabric: a graph must not keep a world from ending.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/device/uses.hpp"
#include "onstream/plan/lower.hpp"
#include "onstream/plan/plan.hpp"
#include "onstream/plan/tables.hpp"

namespace onstream {

namespace plan {

struct Resources {
  std::shared_ptr<Segment> segment;              // announcements, flags, slots, bounce buffers of this plan
  std::vector<std::shared_ptr<Memory>> bounces;  // of sources that kernels cannot touch
  std::unique_ptr<Tables> tables;
  std::shared_ptr<const void> wait_memory;
};

}  // namespace plan

class Plan::Implementation {
 public:
  ~Implementation();

  std::shared_ptr<Fabric> fabric;
  std::shared_ptr<plan::Resources> resources = std::make_shared<plan::Resources>();
  Uses launches;
  std::string name;
  std::vector<PlanOp> ops;
  plan::View view;
  std::optional<plan::Brief> brief;  // instead of the view's kernel, if there
  int blocks = 1;                    // of all kernels of a launch
  int mover_blocks = 1;              // of the first of two kernels
  int threads = 1;
  int kernels = 1;
  std::vector<plan::CopyCommand> before;
  std::vector<plan::CopyCommand> middle;
  std::vector<plan::CopyCommand> after;
  std::uint64_t epoch_at_reset = 0;
};

}  // namespace onstream
