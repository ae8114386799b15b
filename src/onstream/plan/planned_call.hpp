// What a plan launches behind its own ops without knowing it from the inside: collectives (Collective::planned()).
//
// A PlannedCall is what was asked for; any number of plans may be built with it. Each makes a PreparedCall of it, which
// enqueues one run: it neither waits nor asks anybody.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/device/device.hpp"
#include "onstream/plan/op.hpp"

namespace onstream {

class Fabric;

namespace plan {

// What one rank says of a call. All that take part say the same words, at the same place in their order.
struct StatedCall {
  std::string words;                 // "all_reduce of 4 float64 sum, by lines"
  std::uint64_t team = 0;            // tells teams of the same ranks apart, on all of them alike
  std::vector<std::int32_t> ranks;   // of the world, that take part
  std::vector<std::uint64_t> gives;  // bytes for each of them, and of each; empty where the words say it all
  std::vector<std::uint64_t> takes;
};

class PreparedCall {
 public:
  PreparedCall() = default;
  virtual ~PreparedCall() = default;
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  virtual void enqueue(Stream stream) = 0;
  virtual int kernels() const = 0;
  // For explain().
  virtual Op op() const = 0;
  virtual Path path() const = 0;
  virtual std::string why() const = 0;
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
  virtual void open() const = 0;
  // May wait for peers that prepare the same.
  virtual std::unique_ptr<PreparedCall> prepare() const = 0;
};

}  // namespace plan
}  // namespace onstream
