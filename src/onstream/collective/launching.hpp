// From a call to a kernel's arguments.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "onstream/collective/call.hpp"
#include "onstream/collective/channel.hpp"
#include "onstream/device/kernel.hpp"

namespace onstream::collective {

// A kernel, its arguments and its grid, for the length of a call.
struct Launching {
  template <class Body>
  void set(const Kernel& which, const Body& body, Grid how_many) {
    static_assert(std::is_trivially_copyable_v<Body>);
    kernel = &which;
    bytes.resize(sizeof(Body));
    std::memcpy(bytes.data(), &body, sizeof(Body));
    grid = how_many;
  }
  const Kernel* kernel = nullptr;
  std::vector<std::byte> bytes;
  Grid grid;
};

// The call names an algorithm that can do it (algorithm.hpp); its kernel has `most` blocks at most, as on every rank.
// May ask peers to map the buffers, and block for their answer.
Launching prepare(Fabric& fabric, const Channel& channel, const std::vector<int>& ranks, const CollectiveCall& call,
                  int most);

}  // namespace onstream::collective
