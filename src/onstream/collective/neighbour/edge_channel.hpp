// A neighbourhood's memory, and the view of it that kernels get: a channel whose ranks are ends of edges, see
// edges.hpp.
//
// Made together by all ranks of the world. Graphs that captured collectives keep its EdgeChannelMemory alive, also when
// the world is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/neighbour/edge_list.hpp"
#include "onstream/collective/protocol/view.hpp"
#include "onstream/collective/resource/block_budget.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

class EdgeChannel {
 public:
  // Collective over the world; no rank has more than `half` edges in one direction.
  EdgeChannel(Fabric& fabric, BlockBudget& budget, const EdgeList& edges, std::size_t half);

  const ChannelView& view() const { return view_; }
  std::uint64_t number() const { return ground_->shared->number(); }  // of its memory, the same on every rank
  BlockBudget::BudgetShare& budget() const { return *budget_; }
  std::size_t device_bytes() const { return ground_->shared->bytes() + ground_->own->bytes(); }

  Order order;
  CallCache recent;  // whoever holds the order's mutex uses it

 private:
  void fill_tables(Fabric& fabric, const EdgeList& edges, std::size_t half);

  // Graphs keep this, and BlockBudget counts it as long.
  struct EdgeChannelHold {
    std::shared_ptr<const void> ground;
    std::shared_ptr<BlockBudget::BudgetShare> budget;
  };
  struct EdgeChannelMemory {
    std::shared_ptr<Segment> shared;
    std::shared_ptr<Memory> own;
    std::shared_ptr<const void> wait_memory;
  };
  std::shared_ptr<EdgeChannelMemory> ground_;
  ChannelView view_;
  std::shared_ptr<BlockBudget::BudgetShare> budget_;
};

}  // namespace onstream::collective
