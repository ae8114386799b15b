// The guards of a graph, as a device keeps them. The graph's retained things own them; this list does not.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "onstream/device.hpp"

namespace onstream {

using LaunchGuards = std::vector<std::weak_ptr<const LaunchGuard>>;

inline bool holds(const LaunchGuards& guards, const std::shared_ptr<const LaunchGuard>& one) {
  return std::ranges::any_of(guards,
                             [&](const auto& other) { return !other.owner_before(one) && !one.owner_before(other); });
}

// Before a launch: asks each, and hands it on where the launch is itself captured.
inline void ask(const LaunchGuards& guards, Device& device, Stream stream) {
  const bool captured = !guards.empty() && device.capturing(stream);
  for (const auto& one : guards) {
    const std::shared_ptr<const LaunchGuard> guard = one.lock();
    if (guard == nullptr) continue;  // only as its graph ends
    guard->check_launch();
    if (captured) device.guard(stream, guard);
  }
}

}  // namespace onstream
