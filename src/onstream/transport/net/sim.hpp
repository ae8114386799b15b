// The deterministic network of one process, for tests: its ranks may be threads, or one thread may drive them all.
//
// A message arrives after a number of the receiver's progress() calls that follows from the seed, the pair and the
// message's number: messages overtake each other, and yet each pair repeats its order with the same seed. Every second
// send_in_place() reads the memory as late as the contract allows, so that a caller who writes too early sees it.
// Networks keep their SimNetworks alive. All calls are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "onstream/transport/net/network.hpp"

namespace onstream::net {

enum class SimOrder { shuffled, kept };

struct SimOptions {
  std::uint64_t seed = 1;
  int least_delay = 0;  // progress() calls of the receiver, beside the one that delivers
  int most_delay = 4;
  SimOrder order = SimOrder::shuffled;
  bool operator==(const SimOptions&) const = default;
};

class SimNetworks {
 public:
  // `name` is part of the addresses.
  static std::shared_ptr<SimNetworks> make(const std::string& name, const SimOptions& options);
  // The one of this name in the process, made by the first call. Throws invalid_argument for other options than its.
  static std::shared_ptr<SimNetworks> named(const std::string& name, const SimOptions& options);
  virtual ~SimNetworks() = default;

  // Messages between networks of different secrets are dropped. Throws invalid_argument while the rank has one.
  virtual std::unique_ptr<Network> open(int rank, const std::string& secret, NetworkEvents& events) = 0;

  // Messages between the two wait until heal(), both ways.
  virtual void cut(int one, int other) = 0;
  virtual void heal(int one, int other) = 0;
  // The rank's host fails: messages under way are lost, its peers are told, and its own network stands still.
  virtual void lose(int rank) = 0;
  // The rank's progress() does nothing until go().
  virtual void stop(int rank) = 0;
  virtual void go(int rank) = 0;
};

}  // namespace onstream::net
