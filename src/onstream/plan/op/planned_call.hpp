// Calls that a plan launches behind its own ops without knowing their insides: collectives (Collective::planned(),
// Neighbourhood::planned()).
//
// A PlannedCall is the request; any number of plans may be built with it. Each makes a PreparedCall of it, whose
// enqueue() enqueues one run: it neither waits nor asks anybody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/plan.hpp"

namespace onstream {

class Fabric;

namespace plan {

// The bytes that one rank gives another (of the world) in a call, or expects of it.
struct StatedPart {
  std::int64_t rank = 0;  // as wide as the other, so that no bytes between them travel along
  std::uint64_t bytes = 0;
  bool operator==(const StatedPart&) const = default;
};

// One rank's statement of a call. All that take part say the same words, at the same place in their order.
struct StatedCall {
  std::string words;                // "all_reduce of 4 float64 sum, by ll"
  std::uint64_t team = 0;           // tells teams of the same ranks apart, on all of them alike
  std::vector<std::int32_t> ranks;  // of the world, that take part
  // The parts, which the words leave out. Several for one rank are in the giver's order.
  std::vector<StatedPart> gives;
  std::vector<StatedPart> takes;
};

// One for each plan.
struct PreparedCall {
  std::function<void(Stream)> enqueue;
  std::function<void()> run;  // the same by a host that waits; null: streams alone can
  int kernels = 0;
  PlanOp row;  // of explain()
};

class PlannedCall {
 public:
  PlannedCall() = default;
  virtual ~PlannedCall() = default;
  PlannedCall(const PlannedCall&) = delete;
  PlannedCall& operator=(const PlannedCall&) = delete;

  virtual const Fabric* fabric() const = 0;
  virtual StatedCall state() const = 0;
  virtual std::vector<const void*> buffers() const = 0;
  // The memory that its kind of call shares, made by the first. Collective over those that take part; throws on all.
  virtual void open() const {}
  // May wait for peers that prepare the same.
  virtual PreparedCall prepare() const = 0;
};

}  // namespace plan
}  // namespace onstream
