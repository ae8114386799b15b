// Helpers for tests of plans: data that differs by rank and launch, and a plan that sends it round a ring.
#pragma once

#include <algorithm>

#include "onstream/layout.hpp"
#include "onstream/plan.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

namespace onstream::test {

inline std::vector<unsigned char> slice(const std::vector<unsigned char>& all, std::size_t first, std::size_t count) {
  std::vector<unsigned char> part(count);
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), count, part.begin());
  return part;
}

// The data that `rank` sends in launch `launch`.
inline std::vector<unsigned char> data_of(int rank, int launch, std::size_t bytes) {
  return pattern(bytes, static_cast<unsigned>(rank * 1000 + launch));
}

// Sends `bytes` round a ring `launches` times, on a stream and by the host in turn, on the even ranks in the other
// turn, and checks the received data. Returns explain().
inline std::string ring(World& world, std::size_t bytes, Path path, MemoryKind kind, int launches) {
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  TestBuffer out(world, bytes, kind);
  TestBuffer in(world, bytes, kind);
  const OwnStream stream(world);
  PlanBuilder builder = world.plan("ring");
  builder.use_path(path);
  builder.send(out.data(), Layout::contiguous(bytes), next, 3, "right");
  builder.recv(in.data(), Layout::contiguous(bytes), last, 3, "from left");
  const auto plan = builder.build();
  for (int launch = 0; launch < launches; ++launch) {
    out.write(data_of(world.rank(), launch, bytes));
    if ((launch + world.rank()) % 2 == 0) {
      plan->launch(stream);
      world.synchronize(stream);
    } else {
      plan->run();
    }
    CHECK(in.read() == data_of(last, launch, bytes));
  }
  world.barrier();
  return plan->explain();
}

}  // namespace onstream::test
