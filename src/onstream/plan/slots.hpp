// Slots: the stream memory operations of path memop, made ready for each stream that launches a plan.
//
// Launches on one stream follow each other and share a slot; a captured launch has one of its own as long as its graph
// lives, as replays of a graph never overlap. So a pulse word has one writer at a time, and the watch sees every launch
// that waits, also when a wrong program lets two run at once. Slots live as long as the plan, its launches and its
// graphs. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/plan/op/pulses.hpp"
#include "onstream/plan/op/words.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::plan {

// The word operations that a launch enqueues, by their place.
struct PlanSlot {
  std::vector<WordOp> opening;    // before all kernels and copies
  std::vector<WordOp> gate;       // before the middle copies
  std::vector<WordOp> telling;    // behind them
  std::vector<WordOp> closing;    // behind all kernels
  std::shared_ptr<void> watched;  // while the watch stands by
};

enum class WorkBetween { kernels, nothing };  // a launch's work between its operations, beside the copies

class Slots {
 public:
  // Throws unsupported if the device's streams cannot wait for words. The words' memory stays the caller's.
  Slots(std::shared_ptr<Device> device, StreamPool& streams, std::shared_ptr<Watchdog> watch, PlanWords words,
        WorkBetween between);

  // The first call for a stream, and each in a capture, makes one; the latter is the graph's, to be let go of with it,
  // but before this object.
  std::shared_ptr<const PlanSlot> of(Stream stream);
  std::size_t operations() const;  // of one launch

 private:
  PlanSlot make(std::uint32_t* pulse) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<Watchdog> watch_;
  PlanWords words_;
  WorkBetween between_;
  Pulses pulses_;
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<const PlanSlot>> by_stream_;  // guarded by it; let go of before the pulses
};

}  // namespace onstream::plan
