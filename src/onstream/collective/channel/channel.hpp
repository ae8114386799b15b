// A channel's memory, and the view of it that kernels get: one a team and channel number. view.hpp lists its contents.
//
// All ranks of the world make it together. Graphs that captured collectives keep its ChannelMemory alive, also when the
// world is gone.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/collective/check/checking.hpp"
#include "onstream/collective/enqueue/call_cache.hpp"
#include "onstream/collective/enqueue/copies.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/protocol/view.hpp"
#include "onstream/collective/resource/block_budget.hpp"
#include "onstream/collective/select/machine.hpp"
#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

class Hierarchy;

// Collective over the world. Throws invalid_argument on every rank, with the values, unless all have the same ones.
void require_same_parameters(Fabric& fabric);

// The properties by which algorithms are chosen, on rank `rank` of `ranks` ranks that have a channel.
MachineTraits machine_of(const Fabric& fabric, int rank, std::size_t ranks);

class Channel {
 public:
  // Collective over the world, `ranks` are the team's (the same list on each of them; other ranks pass their own).
  Channel(Fabric& fabric, BlockBudget& budget, const std::vector<int>& ranks, int number);
  // Memory of bytes_for() that some ranks have told each other of.
  struct SubsetMemory {
    std::shared_ptr<Memory> own;
    std::vector<std::uint64_t> parts;                 // each rank's, as this one addresses it
    std::vector<std::shared_ptr<const void>> mapped;  // keeps the others' parts mapped here, also once they are freed
  };
  // A channel of some ranks of another one, by themselves.
  Channel(Fabric& fabric, const std::vector<int>& ranks, const Channel& of, SubsetMemory shared);
  static std::size_t bytes_for(const Fabric& fabric, std::size_t ranks);

  // The bytes of data in one slot of a channel of so many ranks; in one of LL128 lines, 0 if there are none.
  static std::size_t slot_bytes(const Parameters& parameters, std::size_t ranks);
  static std::size_t ll128_bytes(const Fabric& fabric, std::size_t ranks);

  const ChannelView& view() const { return view_; }
  std::uint64_t number() const { return ground_->shared->number(); }  // of its memory, the same on every rank
  // How many blocks its calls have; of a channel of some ranks of another, that other's.
  BlockBudget::BudgetShare& budget() const { return *budget_; }
  std::size_t device_bytes() const;

  // For algorithm hierarchical; made with its first call. Graphs keep it from now on.
  std::shared_ptr<Hierarchy> hierarchy;
  void take(std::shared_ptr<Hierarchy> made);
  std::atomic<std::size_t> hierarchy_bytes = 0;
  // A collective that fails on this channel fails those of two others too.
  void fail_with(const Channel& one, const Channel& other) {
    view_.kin[0] = one.view_.state;
    view_.kin[1] = other.view_.state;
    recent.forget();  // it has copies of the view
  }
  std::unique_ptr<Copies> copies;  // of algorithm copy; a team's are made with it, the world's with their first call
  std::shared_ptr<Checking> checking;  // in the checking mode, from the start
  Order order;
  CallCache recent;

 private:
  void set_up(Fabric& fabric, const std::vector<int>& ranks, int number, std::vector<std::uint64_t> parts);

  // Graphs keep this, and BlockBudget counts it as long.
  struct ChannelHold {
    std::shared_ptr<const void> ground, hierarchy;
    std::shared_ptr<BlockBudget::BudgetShare> budget;
  };
  struct ChannelMemory {
    std::shared_ptr<Segment> shared;  // or, of some ranks by themselves,
    SubsetMemory some;
    std::shared_ptr<Memory> own;
    std::shared_ptr<const void> wait_memory;
  };
  std::shared_ptr<ChannelMemory> ground_;
  ChannelView view_;
  std::shared_ptr<BlockBudget::BudgetShare> budget_;
};

}  // namespace onstream::collective
