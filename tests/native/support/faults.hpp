// The error text that a rank gets about ops that did not end well, for tests of several ranks.
#pragma once

#include <thread>
#include <vector>

#include "check.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/world.hpp"

namespace onstream::test {

// The one fault that this rank hears of, within a few seconds.
inline FaultReport one_fault(World& world) {
  const Deadline deadline(kSoonS);
  std::vector<FaultReport> faults;
  while (faults.empty() && !deadline.passed()) {
    faults = world.take_faults();
    std::this_thread::yield();
  }
  CHECK(faults.size() == 1);
  return faults[0];
}

}  // namespace onstream::test
