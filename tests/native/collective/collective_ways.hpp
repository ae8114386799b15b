// Other ways to run a collective than by a call: captured and replayed, and in a plan; eager ones in between. For the
// checks of collective_cases.hpp, which take the way as `how`.
#pragma once

#include <cstring>
#include <vector>

#include "collective_cases.hpp"
#include "onstream/plan.hpp"

namespace onstream::test {

// The memory that a call reads and writes on this rank, as it was before the call.
class Memories {
 public:
  Memories(World& world, const CollectiveCall& call, const OwnStream& stream)
      : world_(world),
        stream_(stream),
        input_(const_cast<void*>(call.input)),
        output_(call.output),
        before_in_(bytes_at(input_, call.input_bytes(world.rank(), world.size()))),
        before_out_(bytes_at(output_, call.output_bytes(world.rank(), world.size()))) {}

  void restore() {
    put(output_, before_out_);
    put(input_, before_in_);  // where one lies in the other both are the same bytes
    world_.device().synchronize(stream_);
  }
  std::vector<unsigned char> result() const { return bytes_at(output_, before_out_.size()); }

 private:
  std::vector<unsigned char> bytes_at(const void* address, std::size_t bytes) const {
    std::vector<unsigned char> values(address == nullptr ? 0 : bytes);
    if (!values.empty()) world_.device().copy(values.data(), address, values.size(), stream_);
    world_.device().synchronize(stream_);
    return values;
  }
  void put(void* address, const std::vector<unsigned char>& values) {
    if (!values.empty()) world_.device().copy(address, values.data(), values.size(), stream_);
  }

  World& world_;
  const OwnStream& stream_;
  void* input_;
  void* output_;
  std::vector<unsigned char> before_in_;
  std::vector<unsigned char> before_out_;
};

// Runs it by each of these, one after the other, from the same memory, and looks whether each gives the same.
inline void run_by_each(World& world, const CollectiveCall& call, const OwnStream& stream,
                        const std::vector<std::function<void()>>& ways) {
  Memories memories(world, call, stream);
  std::vector<unsigned char> first;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (i > 0) memories.restore();
    ways[i]();
    world.synchronize(stream);
    if (i == 0) first = memories.result();
    expect(world, call, memories.result(), first, "not the first one of a graph or plan:");
  }
}

// Captured alone: replayed, eager, replayed and replayed.
struct Replayed {
  const OwnStream& stream;
};
inline void run(World& world, const CollectiveCall& call, const Replayed& how) {
  Device& device = world.device();
  device.begin_capture(how.stream);
  world.collective().run(call, how.stream);
  const auto graph = end_capture_of_all(world, how.stream);
  const auto replay = [&] { device.launch(graph, how.stream); };
  const auto eager = [&] { world.collective().run(call, how.stream); };
  run_by_each(world, call, how.stream, {replay, eager, replay, replay});
}

// In a plan: launched, eager without one, launched, and replayed.
struct Planned {
  const OwnStream& stream;
};
inline void run(World& world, const CollectiveCall& call, const Planned& how) {
  PlanBuilder builder = world.plan("alone");
  builder.add(world.collective().planned(call));
  const auto plan = builder.build();
  const auto launch = [&] { plan->launch(how.stream); };
  Device& device = world.device();
  device.begin_capture(how.stream);
  launch();
  const auto graph = end_capture_of_all(world, how.stream);
  const auto eager = [&] { world.collective().run(call, how.stream); };
  run_by_each(world, call, how.stream, {launch, eager, launch, [&] { device.launch(graph, how.stream); }});
}

// Every kind by every algorithm that does it, each in that way, on every device.
template <class Way>
void check_everything_by(int size) {
  const Coverage coverage;
  on_all_devices_in_pairs(size, [](World& world) {
    const OwnStream stream(world);
    const Way how{stream};
    for (const Algorithm algorithm : kEach) {
      for (const OpKind kind : kReductions) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::premulsum, 1000, algorithm}, how);
        check_reduction(world, {kind, ElementType::float16, ReduceOp::sum, 37, algorithm}, how);
      }
      for (const OpKind kind : kMoves) check_move(world, kind, 1501, algorithm, Where::reachable, how);
      check_counts(world, 100, algorithm, Where::reachable, how);
    }
  });
  coverage.check(kReductions, kEach);
  coverage.check(kMoves, kEach);
  coverage.check(kCounted, kEach);
}

}  // namespace onstream::test
