// Plans with collectives: values by every algorithm, the order in a launch, capture and replay, teams, and builds that
// are refused.
#include <numeric>

#include "collective/collective_ways.hpp"
#include "onstream/collective.hpp"
#include "onstream/plan.hpp"
#include "plan_ring.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::broadcast;

namespace {

std::vector<unsigned char> bytes_of(const std::vector<double>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(double));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<double> values_in(const TestBuffer& buffer) {
  const std::vector<unsigned char> bytes = buffer.read();
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

CollectiveCall by(Algorithm algorithm, CollectiveCall call) {
  call.algorithm = algorithm;
  return call;
}

// Small whole numbers: any order of adding gives the same.
double value_of(int rank, int round, std::size_t i) { return 100.0 * rank + 7.0 * round + static_cast<double>(i % 50); }
std::vector<double> values_of(int rank, int round, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, round, i);
  return values;
}
std::vector<double> sums_of(int size, int round, std::size_t count) {
  std::vector<double> sums(count, 0.0);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += value_of(rank, round, i);
  }
  return sums;
}

}  // namespace

// A solver's step: the neighbour's values come, and the ranks sum them.
CASE(a_launch_exchanges_and_then_reduces_eager_and_replayed) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices(size, [&](World& world) {
      constexpr std::size_t kCount = 300;
      const std::size_t bytes = kCount * sizeof(double);
      TestBuffer mine(world, bytes);
      TestBuffer came(world, bytes);
      TestBuffer sum(world, bytes);
      const OwnStream stream(world);
      const int next = (world.rank() + 1) % size;
      const int last = (world.rank() + size - 1) % size;
      PlanBuilder builder = world.plan("step");
      builder.send(mine.data(), Layout::contiguous(bytes), next)
          .recv(came.data(), Layout::contiguous(bytes), last)
          .add(world.collective().planned(all_reduce({came.data(), sum.data(), kCount, ElementType::float64})));
      const auto plan = builder.build();
      CHECK(plan->kernels_per_launch() == 2);
      CHECK(plan->ops().size() == 3);
      Device& device = world.device();
      device.begin_capture(stream);
      plan->launch(stream);
      const auto graph = device.end_capture(stream);
      for (int round = 0; round < 9; ++round) {
        mine.write(bytes_of(values_of(world.rank(), round, kCount)));
        if ((round + world.rank()) % 3 == 0) {
          plan->launch(stream);
        } else if ((round + world.rank()) % 3 == 1) {
          plan->run();
        } else {
          device.launch(graph, stream);
        }
        world.synchronize(stream);
        CHECK(values_in(came) == values_of(last, round, kCount));
        CHECK(values_in(sum) == sums_of(size, round, kCount));
        world.barrier();
      }
    });
  }
}

CASE(every_algorithm_runs_in_a_plan) {
  for (const Algorithm algorithm : kEach) {
    on_all_devices_in_pairs(3, [&](World& world) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{5000}}) {
        const std::size_t bytes = count * sizeof(double);
        const auto size = static_cast<std::size_t>(world.size());
        TestBuffer in(world, bytes);
        TestBuffer out(world, bytes * size);
        const OwnStream stream(world);
        const bool adds = algorithm == Algorithm::two_shot || algorithm == Algorithm::tree;
        const collective::Vector vector{in.data(), out.data(), count, ElementType::float64};
        PlanBuilder builder = world.plan("alone");
        builder.add(world.collective().planned(by(algorithm, adds ? all_reduce(vector) : all_gather(vector))));
        const auto plan = builder.build();
        const int stages = world.rank() == 1 ? 2 : 3;  // it does not lead its group
        const int kernels = algorithm == Algorithm::hierarchical ? stages : algorithm == Algorithm::copy ? 0 : 1;
        CHECK(plan->kernels_per_launch() == kernels);
        CHECK(plan->explain().find(concat(name_of(algorithm), ", as asked for")) != std::string::npos);
        for (int round = 0; round < 4; ++round) {
          in.write(bytes_of(values_of(world.rank(), round, count)));
          plan->launch(stream);
          world.synchronize(stream);
          std::vector<double> got = values_in(out);
          if (adds) {
            got.resize(count);
            CHECK(got == sums_of(world.size(), round, count));
          } else {
            for (std::size_t rank = 0; rank < size; ++rank) {
              const auto begin = got.begin() + static_cast<std::ptrdiff_t>(rank * count);
              const std::vector<double> part(begin, begin + static_cast<std::ptrdiff_t>(count));
              CHECK(part == values_of(static_cast<int>(rank), round, count));
            }
          }
          world.barrier();
        }
      }
    });
  }
}

CASE(every_kind_by_every_algorithm_runs_in_a_plan_eager_and_replayed) { check_everything_by<Planned>(3); }

CASE(collectives_of_a_plan_follow_each_other_among_others_of_their_channel) {
  on_all_devices(4, [&](World& world) {
    constexpr std::size_t kCount = 64;
    TestBuffer value(world, kCount * sizeof(double));
    const OwnStream stream(world);
    const collective::Vector in_place{value.data(), value.data(), kCount, ElementType::float64};
    PlanBuilder builder = world.plan("twice");
    builder.add(world.collective().planned(all_reduce(in_place)))
        .add(world.collective().planned(broadcast(in_place, 2)))
        .add(world.collective().planned(all_reduce(in_place)));
    const auto plan = builder.build();
    for (int round = 0; round < 4; ++round) {
      value.write(bytes_of(std::vector<double>(kCount, 1.0)));
      plan->launch(stream);
      world.collective().run(all_reduce(in_place), stream);
      plan->launch(stream);
      world.synchronize(stream);
      CHECK(values_in(value) == std::vector<double>(kCount, 4.0 * 4 * 4 * 4 * 4));
      world.barrier();
    }
  });
}

CASE(teams_reduce_in_one_plan_with_the_world) {
  on_all_devices(4, [&](World& world) {
    const std::vector<int> even{0, 2};
    const std::vector<int> odd{3, 1};
    const auto team = world.collective().among(world.rank() % 2 == 0 ? even : odd);
    TestBuffer one(world, sizeof(double));
    TestBuffer all(world, sizeof(double));
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("teams");
    builder.add(team->planned(all_reduce({one.data(), one.data(), 1, ElementType::float64})))
        .add(world.collective().planned(all_reduce({one.data(), all.data(), 1, ElementType::float64})));
    const auto plan = builder.build();
    CHECK(plan->explain().find(world.rank() % 2 == 0 ? "of ranks 0 2" : "of ranks 3 1") != std::string::npos);
    for (int round = 0; round < 3; ++round) {
      one.write(bytes_of({static_cast<double>(world.rank() + 1)}));
      plan->launch(stream);
      world.synchronize(stream);
      CHECK(values_in(one) == std::vector<double>{world.rank() % 2 == 0 ? 4.0 : 6.0});
      CHECK(values_in(all) == std::vector<double>{20.0});
      world.barrier();
    }
  });
}

CASE(a_reduction_of_ones_own_runs_in_a_plan) {
  run_ranks(3, quick("host"), [&](World& world) {
    TestBuffer in(world, 2 * sizeof(double));
    TestBuffer out(world, 2 * sizeof(double));
    const OwnStream stream(world);
    // Composes affine maps: it does not commute.
    const Combine compose = [](const void* lower, void* inout, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        double x[2];
        double y[2];
        std::memcpy(x, static_cast<const char*>(lower) + i * sizeof x, sizeof x);
        std::memcpy(y, static_cast<char*>(inout) + i * sizeof y, sizeof y);
        const double both[2] = {x[0] * y[0], x[1] * y[0] + y[1]};
        std::memcpy(static_cast<char*>(inout) + i * sizeof both, both, sizeof both);
      }
    };
    PlanBuilder builder = world.plan("own");
    builder.add(world.collective().planned(
        collective::reduced_by(all_reduce({in.data(), out.data(), 1}), 2 * sizeof(double), compose)));
    const auto plan = builder.build();
    for (int round = 1; round < 4; ++round) {
      in.write(bytes_of({2.0, static_cast<double>(world.rank() + round)}));
      plan->launch(stream);
      world.synchronize(stream);
      double scale = 1;
      double offset = 0;
      for (int rank = 0; rank < world.size(); ++rank) {
        scale *= 2;
        offset = offset * 2 + rank + round;
      }
      CHECK(values_in(out) == (std::vector<double>{scale, offset}));
      world.barrier();
    }
  });
}

CASE(counts_that_differ_fail_the_build_naming_both_sides) {
  on_all_devices(3, [&](World& world) {
    TestBuffer buffer(world, 64);
    const std::size_t count = world.rank() == 1 ? 8 : 4;
    PlanBuilder builder = world.plan("counts");
    builder.add(world.collective().planned(all_reduce({buffer.data(), buffer.data(), count, ElementType::float64})));
    CHECK_THROWS((void)builder.build(), "rank 0 collective 0: all_reduce of 4 float64 sum, by");
    CHECK_THROWS((void)builder.build(), "does not meet rank 1 collective 0: all_reduce of 8 float64 sum, by");
    (void)ring(world, 64, Path::automatic, MemoryKind::device, 1);
  });
}

CASE(a_rank_that_adds_no_collective_is_named) {
  on_all_devices(2, [&](World& world) {
    PlanBuilder builder = world.plan("lonely");
    if (world.rank() == 0) builder.add(world.collective().planned(collective::barrier()));
    CHECK_THROWS((void)builder.build(),
                 "rank 0 collective 0: barrier, by ll, channel 0 of ranks 0 1: rank 1 has none that is left to meet");
  });
}

CASE(teams_in_an_order_that_would_wait_in_a_circle_fail_the_build) {
  on_all_devices(2, [&](World& world) {
    const std::vector<int> both{0, 1};
    const auto team = world.collective().among(both);
    PlanBuilder builder = world.plan("circle");
    const auto of_team = team->planned(collective::barrier());
    const auto of_world = world.collective().planned(by(Algorithm::ll, collective::barrier()));
    if (world.rank() == 0) {
      builder.add(of_team).add(of_world);
    } else {
      builder.add(of_world).add(of_team);
    }
    CHECK_THROWS((void)builder.build(), "does not meet rank 1 collective 0: barrier, by ll, channel 0 of ranks 0 1");
  });
}

CASE(an_all_to_all_v_whose_ends_differ_fails_the_build) {
  on_all_devices(2, [&](World& world) {
    TestBuffer buffer(world, 256);
    CollectiveCall call;
    call.kind = OpKind::all_to_all_v;
    call.type = ElementType::int32;
    call.input = buffer.data();
    call.output = buffer.data() + 128;
    call.send_counts = {1, 2};
    call.send_offsets = {0, 4};
    call.receive_counts = world.rank() == 0 ? std::vector<std::size_t>{1, 1} : std::vector<std::size_t>{3, 2};
    call.receive_offsets = {0, 4};
    PlanBuilder builder = world.plan("v");
    builder.add(world.collective().planned(call));
    CHECK_THROWS((void)builder.build(), "rank 0 gives rank 1 8 B, which expects 12");
  });
}

CASE(what_one_team_cannot_prepare_ends_the_build_on_all_and_the_world_goes_on) {
  run_ranks(4, quick("host"), [&](World& world) {
    const std::vector<int> low{0, 1};
    const std::vector<int> high{2, 3};
    const auto team = world.collective().among(world.rank() < 2 ? low : high);
    TestBuffer in(world, 64);
    TestBuffer out(world, 256);
    std::vector<std::byte> plain(128);  // no peer can address it
    std::byte* const of_team = world.rank() == 1 ? plain.data() : out.data();
    const auto gather = [&](std::byte* to) {
      return by(Algorithm::copy, all_gather({in.data(), to, 64, ElementType::uint8}));
    };
    PlanBuilder builder = world.plan("teams by copy");
    builder.add(team->planned(gather(of_team))).add(world.collective().planned(gather(out.data())));
    CHECK_THROWS((void)builder.build(), "algorithm copy cannot, as of rank 1");
    CHECK_THROWS((void)builder.build(), "plan 'teams by copy' cannot be built");
    (void)ring(world, 64, Path::automatic, MemoryKind::device, 1);
    PlanBuilder again = world.plan("again");
    again.add(world.collective().planned(gather(out.data())));
    const auto plan = again.build();
    const OwnStream stream(world);
    in.write(data_of(world.rank(), 0, 64));
    plan->launch(stream);
    world.synchronize(stream);
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(slice(out.read(), 64 * static_cast<std::size_t>(rank), 64) == data_of(rank, 0, 64));
    }
    world.barrier();
  });
}

CASE(algorithms_that_differ_fail_the_build_whatever_the_kind) {
  run_ranks(2, quick("host"), [&](World& world) {
    TestBuffer in(world, 64);
    TestBuffer out(world, 64);
    const Algorithm algorithm = world.rank() == 0 ? Algorithm::copy : Algorithm::simple;
    CollectiveCall call;
    call.kind = OpKind::all_to_all_v;
    call.input = in.data();
    call.output = out.data();
    call.send_counts = call.receive_counts = {8, 8};
    call.send_offsets = call.receive_offsets = {0, 8};
    PlanBuilder moves = world.plan("moves");
    moves.add(world.collective().planned(by(algorithm, call)));
    CHECK_THROWS((void)moves.build(), "all_to_all_v of uint8, by copy, channel 0 of ranks 0 1 does not meet");
    const Combine keep = [](const void*, void*, std::size_t) {};
    PlanBuilder own = world.plan("own");
    own.add(world.collective().planned(
        by(algorithm, collective::reduced_by(all_reduce({in.data(), out.data(), 1}), 24, keep))));
    CHECK_THROWS((void)own.build(), "1 elements of 24 B by a function, by simple, channel 0 of ranks 0 1");
  });
}

CASE(a_reduction_of_nothing_is_planned_and_run_without_work) {
  run_ranks(2, quick("host"), [&](World& world) {
    const Combine keep = [](const void*, void*, std::size_t) {};
    const CollectiveCall nothing = collective::reduced_by(all_reduce({nullptr, nullptr, 0}), 24, keep);
    world.collective().run(nothing);
    PlanBuilder builder = world.plan("nothing");
    builder.add(world.collective().planned(nothing));
    const auto plan = builder.build();
    CHECK(plan->kernels_per_launch() == 0);
    CHECK(plan->explain().find("there is nothing to do") != std::string::npos);
    const OwnStream stream(world);
    plan->launch(stream);
    world.synchronize(stream);
  });
}

CASE(what_cannot_be_added_is_refused) {
  on_all_devices(2, [&](World& world) {
    TestBuffer buffer(world, 64);
    PlanBuilder builder = world.plan("bad");
    CHECK_THROWS(builder.add(nullptr), "given no collective to add");
    CHECK_THROWS((void)world.collective().planned(all_reduce({nullptr, buffer.data(), 8, ElementType::float64})),
                 "null pointer");
    CHECK_THROWS((void)world.collective().planned(
                     by(Algorithm::copy, all_reduce({buffer.data(), buffer.data(), 8, ElementType::float64}))),
                 "algorithm copy cannot: copy engines do not add");
    CollectiveCall elsewhere = collective::barrier();
    elsewhere.channel = 99;
    CHECK_THROWS((void)world.collective().planned(elsewhere), "channel 99 does not exist");
    const std::vector<int> first{0};
    const auto team =
        world.collective().among(world.rank() == 0 ? std::span<const int>(first) : std::span<const int>());
    if (world.rank() == 1) CHECK_THROWS((void)team->planned(collective::barrier()), "rank 1 is not in this team");
  });
}

CASE(a_buffer_freed_since_the_build_is_noticed) {
  on_all_devices(2, [&](World& world) {
    auto buffer = world.allocate(4096);
    PlanBuilder builder = world.plan("freed");
    builder.add(world.collective().planned(all_reduce({buffer->data(), buffer->data(), 8, ElementType::float64})));
    const auto plan = builder.build();
    world.barrier();
    buffer.reset();
    const OwnStream stream(world);
    CHECK_THROWS(plan->launch(stream), "op 0, all_reduce: its memory at");
    world.barrier();
  });
}

CASE(a_plan_may_outlive_its_team) {
  on_all_devices(2, [&](World& world) {
    const std::vector<int> both{1, 0};
    TestBuffer value(world, sizeof(double));
    const OwnStream stream(world);
    std::shared_ptr<Plan> plan;
    {
      const auto team = world.collective().among(both);
      PlanBuilder builder = world.plan("orphan");
      builder.add(team->planned(all_reduce({value.data(), value.data(), 1, ElementType::float64})));
      plan = builder.build();
    }
    value.write(bytes_of({3.0}));
    for (int round = 0; round < 3; ++round) plan->launch(stream);
    world.synchronize(stream);
    CHECK(values_in(value) == std::vector<double>{24.0});
    world.barrier();
  });
}

CASE(a_plan_may_outlive_its_world) {
  std::vector<std::shared_ptr<Plan>> plans(2);
  run_ranks(2, quick("host"), [&](World& world) {
    TestBuffer buffer(world, 64);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("late");
    builder.add(world.collective().planned(all_reduce({buffer.data(), buffer.data(), 8, ElementType::float64})));
    auto& mine = plans[static_cast<std::size_t>(world.rank())];
    mine = builder.build();
    mine->launch(stream);
    world.synchronize(stream);
    world.barrier();
  });
  plans.clear();
}

int main(int argc, char** argv) { return run(argc, argv); }
