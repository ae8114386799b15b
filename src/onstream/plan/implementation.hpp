// What a built Plan holds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/plan/lower.hpp"
#include "onstream/plan/plan.hpp"
#include "onstream/plan/slots.hpp"
#include "onstream/plan/tables.hpp"

namespace onstream {

class Plan::Implementation {
 public:
  std::shared_ptr<Fabric> fabric;
  std::string name;
  std::vector<PlanOp> ops;
  std::shared_ptr<Segment> segment;              // announcements, flags, slots, bounce buffers of this plan
  std::vector<std::shared_ptr<Memory>> bounces;  // of sources that kernels cannot touch
  std::unique_ptr<plan::Tables> tables;
  plan::View view;
  std::optional<plan::Brief> brief;  // instead of the view's kernel, if there
  int blocks = 1;                    // of all kernels of a launch
  int mover_blocks = 1;              // of the first of two kernels
  int threads = 1;
  int kernels = 1;
  std::shared_ptr<Segment> words;      // path memop: what streams write and await
  std::unique_ptr<plan::Slots> slots;  // ... and when; null without that path
  struct Range {
    void* address;
    std::size_t bytes;
  };
  std::vector<Range> prefetches;  // managed buffers that a launch brings to the device first
  std::vector<plan::CopyCommand> before;
  std::vector<plan::CopyCommand> middle;
  std::vector<plan::CopyCommand> after;
  std::uint64_t epoch_at_reset = 0;
};

}  // namespace onstream
