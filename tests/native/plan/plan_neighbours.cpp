// Plans with collectives of a neighbourhood: values on grids and graphs, by every way; the order in a launch; capture
// and replay; builds that are refused; and which of plan, neighbourhood and world may go first.
#include <algorithm>

#include "onstream/collective.hpp"
#include "onstream/plan.hpp"
#include "plan_ring.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_reduce;
using onstream::collective::neighbour_all_gather;
using onstream::collective::neighbour_all_to_all;
using onstream::collective::neighbour_all_to_all_v;

namespace {

using Bytes = std::vector<unsigned char>;

CollectiveCall by(Algorithm algorithm, CollectiveCall call) {
  call.algorithm = algorithm;
  return call;
}

void append(Bytes& all, const Bytes& part) { all.insert(all.end(), part.begin(), part.end()); }

// The bytes that `rank` sends along its edge number `edge` in a round.
Bytes sent(int rank, int edge, int round, std::size_t bytes) { return data_of(10 * rank + edge, round, bytes); }

// The ranks of a ring, as a grid has them.
struct Ring {
  explicit Ring(const World& world)
      : rank(world.rank()), lower((rank + world.size() - 1) % world.size()), upper((rank + 1) % world.size()) {}
  int rank;
  int lower;
  int upper;
};

Bytes mine_of(const Ring& ring, int round, std::size_t bytes) {
  Bytes all = sent(ring.rank, 0, round, bytes);
  append(all, sent(ring.rank, 1, round, bytes));
  return all;
}
// The data for the lower neighbour comes from the upper one.
Bytes expected_of(const Ring& ring, int round, std::size_t bytes) {
  Bytes all = sent(ring.lower, 1, round, bytes);
  append(all, sent(ring.upper, 0, round, bytes));
  return all;
}

// Three edges from rank 0 to rank 1, and a ring 0 1 2; rank 3 has none.
NeighbourGraph uneven_graph(int rank) {
  if (rank == 0) return {{2}, {1, 1, 1}};
  if (rank == 1) return {{0, 0, 0}, {2}};
  if (rank == 2) return {{1}, {0}};
  return {};
}

// Along its edges, where the counts of rank 1's three sources are to be told.
CollectiveCall counted_call(World& world, TestBuffer& input, TestBuffer& output, std::vector<std::size_t> of_rank_1) {
  CollectiveCall call = neighbour_all_to_all_v({input.data(), output.data(), 0, ElementType::int16});
  if (world.rank() == 0) call.send_counts = {1, 2, 3};
  if (world.rank() == 1) call.receive_counts = std::move(of_rank_1);
  if (world.rank() == 1 || world.rank() == 2) call.send_counts = {4};
  if (world.rank() == 0 || world.rank() == 2) call.receive_counts = {4};
  for (std::size_t i = 0; i < call.send_counts.size(); ++i) call.send_offsets.push_back(16 * i);
  for (std::size_t i = 0; i < call.receive_counts.size(); ++i) call.receive_offsets.push_back(16 * i);
  return call;
}

}  // namespace

// A rank hands the data of the plan's own receive on along the edges, and the ranks reduce the data that came there.
CASE(a_launch_receives_then_exchanges_then_reduces_eager_and_replayed) {
  for (int size = 1; size <= 4; ++size) {
    on_all_devices(size, [&](World& world) {
      constexpr std::size_t kBytes = 640;
      const Ring ring(world);
      const auto hood = world.collective().neighbourhood(NeighbourGrid{{size}, {true}});
      TestBuffer mine(world, 2 * kBytes);
      TestBuffer came(world, 2 * kBytes);
      TestBuffer ghosts(world, 2 * kBytes);
      TestBuffer most(world, 2 * kBytes);
      const OwnStream stream(world);
      PlanBuilder builder = world.plan("step");
      builder.send(mine.data(), Layout::contiguous(2 * kBytes), ring.upper)
          .recv(came.data(), Layout::contiguous(2 * kBytes), ring.lower)
          .add(hood->planned(neighbour_all_to_all({came.data(), ghosts.data(), kBytes})))
          .add(world.collective().planned(
              all_reduce({ghosts.data(), most.data(), 2 * kBytes, ElementType::uint8}, ReduceOp::max)));
      const auto plan = builder.build();
      CHECK(plan->kernels_per_launch() == 3);
      CHECK(plan->ops().size() == 4);
      CHECK(plan->ops()[2].op.kind == OpKind::neighbour_all_to_all);
      CHECK(plan->ops()[2].op.layout.bytes() == 2 * kBytes);
      CHECK(plan->explain().find(concat("neighbour_all_to_all, to ranks ", ring.lower, " ", ring.upper)) !=
            std::string::npos);
      // Rank r has handed on the data of rank r - 1.
      const auto ghosts_of = [&](int rank, int round) {
        Bytes all = sent((rank + 2 * size - 2) % size, 1, round, kBytes);
        append(all, sent(rank, 0, round, kBytes));
        return all;
      };
      Device& device = world.device();
      device.begin_capture(stream);
      plan->launch(stream);
      const auto graph = device.end_capture(stream);
      for (int round = 0; round < 6; ++round) {
        mine.write(mine_of(ring, round, kBytes));
        if (round % 2 == 0) {
          plan->launch(stream);
        } else {
          device.launch(graph, stream);
        }
        world.synchronize(stream);
        CHECK(ghosts.read() == ghosts_of(world.rank(), round));
        Bytes largest(2 * kBytes, 0);
        for (int rank = 0; rank < size; ++rank) {
          const Bytes theirs = ghosts_of(rank, round);
          for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], theirs[i]);
        }
        CHECK(most.read() == largest);
        world.barrier();
      }
    });
  }
}

CASE(every_kind_and_way_along_edges_runs_in_a_plan) {
  for (const int size : {1, 2, 3}) {  // of two ranks both edges join the same ones
    on_all_devices(size, [&](World& world) {
      const Ring ring(world);
      const auto hood = world.collective().neighbourhood(NeighbourGrid{{size}, {true}});
      const OwnStream stream(world);
      for (const std::size_t bytes : {std::size_t{24}, std::size_t{3000}, std::size_t{200'000}}) {
        for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ll, Algorithm::simple}) {
          if (algorithm == Algorithm::ll && bytes > 10'000) continue;
          TestBuffer input(world, 2 * bytes);
          TestBuffer gathered(world, 2 * bytes);
          TestBuffer dealt(world, 2 * bytes);
          TestBuffer counted(world, 2 * bytes);
          CollectiveCall v = neighbour_all_to_all_v({input.data(), counted.data(), 0});
          v.send_counts = {bytes, bytes / 2};  // to the lower one all, to the upper one half
          v.receive_counts = {bytes / 2, bytes};
          v.send_offsets = v.receive_offsets = {0, bytes};
          PlanBuilder builder = world.plan("kinds");
          builder.add(hood->planned(by(algorithm, neighbour_all_gather({input.data(), gathered.data(), bytes}))))
              .add(hood->planned(by(algorithm, neighbour_all_to_all({input.data(), dealt.data(), bytes}))))
              .add(hood->planned(by(algorithm, v)));
          const auto plan = builder.build();
          const bool asked = algorithm != Algorithm::automatic;
          CHECK((plan->explain().find(concat(name_of(algorithm), ", as asked for")) != std::string::npos) == asked);
          const bool large = algorithm == Algorithm::simple || bytes > 10'000;
          // From which size on the edges go directly is the device's own: the host's lies between these.
          if (asked || (bytes != 3000 && world.device().kind() == DeviceKind::host))
            CHECK(plan->ops()[2].path == (large ? Path::store : Path::ll));
          CHECK(plan->ops()[2].op.layout.bytes() == bytes + bytes / 2);
          for (int round = 0; round < 3; ++round) {
            input.write(mine_of(ring, round, bytes));
            counted.write(Bytes(2 * bytes, 9));
            plan->launch(stream);
            world.synchronize(stream);
            Bytes firsts = sent(ring.lower, 0, round, bytes);
            append(firsts, sent(ring.upper, 0, round, bytes));
            CHECK(gathered.read() == firsts);
            CHECK(dealt.read() == expected_of(ring, round, bytes));
            Bytes parts(2 * bytes, 9);
            const Bytes half = sent(ring.lower, 1, round, bytes);
            const Bytes whole = sent(ring.upper, 0, round, bytes);
            std::copy_n(half.begin(), bytes / 2, parts.begin());
            std::copy(whole.begin(), whole.end(), parts.begin() + static_cast<std::ptrdiff_t>(bytes));
            CHECK(counted.read() == parts);
            world.barrier();
          }
        }
      }
    });
  }
}

// Each of these moves goes one rank on; none is left out, and none comes before the one that it follows.
CASE(launches_and_calls_of_one_neighbourhood_follow_each_other) {
  on_all_devices(5, [](World& world) {
    const Ring ring(world);
    constexpr std::size_t kBytes = 256;
    const auto hood = world.collective().neighbourhood(NeighbourGraph{{ring.lower}, {ring.upper}});
    TestBuffer one(world, kBytes);
    TestBuffer two(world, kBytes);
    const OwnStream stream(world);
    const OwnStream other(world);
    const CollectiveCall forth = neighbour_all_to_all({one.data(), two.data(), kBytes});
    const CollectiveCall back = neighbour_all_to_all({two.data(), one.data(), kBytes});
    PlanBuilder builder = world.plan("two steps");
    builder.add(hood->planned(forth)).add(hood->planned(back));
    const auto plan = builder.build();
    one.write(sent(world.rank(), 0, 0, kBytes));
    plan->launch(stream);
    hood->run(forth, other);
    hood->run(back);
    plan->launch(other);
    plan->launch(stream);
    world.synchronize(stream);
    CHECK(one.read() == sent((world.rank() + 5 - 8 % 5) % 5, 0, 0, kBytes));
    world.barrier();
  });
}

CASE(a_launch_asks_no_host_also_in_the_checking_mode) {
  for (const std::string& device : device_specs()) {
    for (const char* const checks : {"off", "on"}) {
      Parameters parameters = quick(device);
      parameters.collective_check = checks;
      run_ranks(2, parameters, [](World& world) {
        const Ring ring(world);
        const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
        TestBuffer input(world, 64);
        TestBuffer output(world, 64);
        input.write(mine_of(ring, 0, 32));
        PlanBuilder builder = world.plan("alone");
        builder.add(hood->planned(neighbour_all_to_all({input.data(), output.data(), 32})));
        const auto plan = builder.build();
        const OwnStream stream(world);
        if (world.rank() == 1) world.barrier();  // rank 0 has launched
        plan->launch(stream);
        if (world.rank() == 0) world.barrier();
        world.synchronize(stream);
        CHECK(output.read() == expected_of(ring, 0, 32));
        world.barrier();
      });
    }
  }
}

CASE(memory_of_the_program_goes_along_edges_in_a_plan) {
  run_ranks(3, quick("host"), [](World& world) {
    const Ring ring(world);
    constexpr std::size_t kBytes = 300'001;
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{3}, {true}});
    Bytes input(2 * kBytes);
    Bytes output(2 * kBytes);
    PlanBuilder builder = world.plan("plain");
    builder.add(hood->planned(neighbour_all_to_all({input.data(), output.data(), kBytes})));
    const auto plan = builder.build();
    const OwnStream stream(world);
    for (int round = 0; round < 3; ++round) {
      const Bytes mine = mine_of(ring, round, kBytes);
      std::copy(mine.begin(), mine.end(), input.begin());
      plan->launch(stream);
      world.synchronize(stream);
      CHECK(output == expected_of(ring, round, kBytes));
      world.barrier();
    }
  });
}

CASE(teams_exchange_in_one_plan_with_the_world) {
  on_all_devices(5, [](World& world) {
    const std::vector<int> members = world.rank() % 2 == 0 ? std::vector{4, 0, 2} : std::vector{1, 3};
    const auto team = world.collective().among(members);
    const auto small = team->neighbourhood(NeighbourGrid{{static_cast<int>(members.size())}, {true}});
    const auto large = world.collective().neighbourhood(NeighbourGrid{{5}, {true}});
    TestBuffer mine(world, 64);
    TestBuffer of_team(world, 128);
    TestBuffer of_world(world, 128);
    mine.write(sent(world.rank(), 0, 0, 64));
    PlanBuilder builder = world.plan("teams");
    builder.add(small->planned(neighbour_all_gather({mine.data(), of_team.data(), 64})))
        .add(large->planned(neighbour_all_gather({mine.data(), of_world.data(), 64})));
    const auto plan = builder.build();
    const OwnStream stream(world);
    plan->launch(stream);
    world.synchronize(stream);
    const auto from = [](const std::vector<int>& ranks) {
      Bytes all = sent(ranks[0], 0, 0, 64);
      append(all, sent(ranks[1], 0, 0, 64));
      return all;
    };
    const std::vector<std::vector<int>> sources{{4, 2}, {3, 3}, {0, 4}, {1, 1}, {2, 0}};  // in the team
    CHECK(of_team.read() == from(sources[static_cast<std::size_t>(world.rank())]));
    CHECK(of_world.read() == from({(world.rank() + 4) % 5, (world.rank() + 1) % 5}));
    world.barrier();
  });
}

CASE(double_edges_and_ranks_without_any_run_in_a_plan) {
  on_all_devices(4, [](World& world) {
    const auto hood = world.collective().neighbourhood(uneven_graph(world.rank()));
    TestBuffer input(world, 256);
    TestBuffer output(world, 256);
    input.write(sent(world.rank(), 0, 0, 256));
    PlanBuilder builder = world.plan("uneven");
    builder.add(hood->planned(counted_call(world, input, output, {1, 2, 3})));
    const auto plan = builder.build();
    CHECK(plan->kernels_per_launch() == (world.rank() == 3 ? 0 : 1));
    const bool idle = plan->explain().find("there is nothing to do") != std::string::npos;
    CHECK(idle == (world.rank() == 3));
    const OwnStream stream(world);
    output.write(Bytes(256, 7));
    plan->launch(stream);
    world.synchronize(stream);
    Bytes expected(256, 7);
    const auto put = [&](std::size_t at, int from, std::size_t begin, std::size_t bytes) {
      const Bytes part = slice(sent(from, 0, 0, 256), begin, bytes);
      std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    };
    if (world.rank() == 0) put(0, 2, 0, 8);
    if (world.rank() == 2) put(0, 1, 0, 8);
    for (std::size_t k = 0; k < 3 && world.rank() == 1; ++k) put(32 * k, 0, 32 * k, 2 * (k + 1));
    CHECK(output.read() == expected);
    world.barrier();
  });
}

CASE(what_the_ends_of_an_edge_do_not_add_alike_fails_the_build_naming_both) {
  on_all_devices(4, [](World& world) {
    const auto hood = world.collective().neighbourhood(uneven_graph(world.rank()));
    TestBuffer input(world, 256);
    TestBuffer output(world, 256);
    const collective::Vector vector{input.data(), output.data(), 4, ElementType::float32};
    const auto refused = [&](const CollectiveCall& usual, const CollectiveCall& of_rank_1, const char* words) {
      PlanBuilder builder = world.plan("odd");
      builder.add(hood->planned(world.rank() == 1 ? of_rank_1 : usual));
      CHECK_THROWS((void)builder.build(), words);
    };
    collective::Vector of_five = vector;
    of_five.count = 5;
    refused(neighbour_all_gather(vector), neighbour_all_gather(of_five),
            "rank 0 gives rank 1 16 16 16 B, which expects 20 20 20 B");
    refused(neighbour_all_gather(vector), neighbour_all_gather(of_five),
            "rank 1 gives rank 2 20 B, which expects 16 B");
    collective::Vector of_integers = vector;
    of_integers.type = ElementType::int32;
    refused(neighbour_all_gather(vector), neighbour_all_gather(of_integers),
            "rank 0 collective 0: neighbour_all_gather of float32, neighbourhood ");
    refused(neighbour_all_gather(vector), neighbour_all_gather(of_integers),
            "of ranks 0 1 2 3 does not meet rank 1 collective 0: neighbour_all_gather of int32, neighbourhood ");
    refused(neighbour_all_gather(vector), neighbour_all_to_all(vector),
            "of ranks 0 1 2 3 does not meet rank 1 collective 0: neighbour_all_to_all of float32, neighbourhood ");
    refused(neighbour_all_gather(vector), by(Algorithm::simple, neighbour_all_gather(vector)),
            "does not meet rank 1 collective 0: neighbour_all_gather of float32, by simple, neighbourhood ");
    // Each of several edges between two ranks has its own count; the second one differs.
    const CollectiveCall odd = counted_call(world, input, output, {1, 9, 3});
    refused(odd, odd, "rank 0 gives rank 1 2 4 6 B, which expects 2 18 6 B");
    PlanBuilder builder = world.plan("even");
    builder.add(hood->planned(counted_call(world, input, output, {1, 2, 3})));
    const OwnStream stream(world);
    builder.build()->launch(stream);  // nothing is broken
    world.synchronize(stream);
    world.barrier();
  });
}

// Parts of a neighbourhood that have no edge between them may give different counts, as outside of plans.
CASE(counts_are_compared_along_edges_and_nowhere_else) {
  on_all_devices(4, [](World& world) {
    const int other = world.rank() ^ 1;
    const auto hood = world.collective().neighbourhood(NeighbourGraph{{other}, {other}});
    const std::size_t bytes = world.rank() < 2 ? 24 : 40'000;
    TestBuffer input(world, bytes);
    TestBuffer output(world, bytes);
    input.write(sent(world.rank(), 0, 0, bytes));
    PlanBuilder builder = world.plan("pairs");
    builder.add(hood->planned(neighbour_all_gather({input.data(), output.data(), bytes})));
    const auto plan = builder.build();
    const OwnStream stream(world);
    plan->launch(stream);
    world.synchronize(stream);
    CHECK(output.read() == sent(other, 0, 0, bytes));
    world.barrier();
  });
}

CASE(a_rank_that_adds_none_or_in_another_order_is_named) {
  on_all_devices(2, [](World& world) {
    const auto one = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    const auto two = world.collective().neighbourhood(NeighbourGrid{{2}, {false}});
    TestBuffer buffer(world, 256);
    const CollectiveCall call = neighbour_all_to_all({buffer.data(), buffer.data() + 128, 8});
    PlanBuilder lonely = world.plan("lonely");
    if (world.rank() == 0) lonely.add(one->planned(call));
    CHECK_THROWS((void)lonely.build(), "rank 0 collective 0: neighbour_all_to_all of uint8, neighbourhood ");
    CHECK_THROWS((void)lonely.build(), "of ranks 0 1: rank 1 has none that is left to meet it");
    PlanBuilder circle = world.plan("circle");
    circle.add((world.rank() == 0 ? one : two)->planned(call)).add((world.rank() == 0 ? two : one)->planned(call));
    CHECK_THROWS((void)circle.build(), "of ranks 0 1 does not meet rank 1 collective 0: neighbour_all_to_all of uint8");
    PlanBuilder mixed = world.plan("mixed");
    const auto barrier = world.collective().planned(collective::barrier());
    mixed.add(world.rank() == 0 ? barrier : one->planned(call)).add(world.rank() == 0 ? one->planned(call) : barrier);
    CHECK_THROWS((void)mixed.build(), "rank 0 collective 0: barrier, by ll, channel 0 of ranks 0 1 does not meet");
  });
}

CASE(what_cannot_go_along_edges_is_refused_when_it_is_planned) {
  on_all_devices(2, [](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    TestBuffer buffer(world, 256);
    const auto on = [&](std::size_t in, std::size_t out, std::size_t count) {
      return neighbour_all_to_all({buffer.data() + in, buffer.data() + out, count});
    };
    CHECK_THROWS((void)hood->planned(on(0, 8, 8)), "overlap; along edges nothing goes in place");
    CHECK_THROWS((void)hood->planned(on(0, 128, 65)), "ends");
    CHECK_THROWS((void)hood->planned(neighbour_all_gather({nullptr, buffer.data(), 4})), "is a null pointer");
    CHECK_THROWS((void)hood->planned(neighbour_all_to_all_v({buffer.data(), buffer.data() + 32, 0})),
                 "send_counts has 0 entries");
    CHECK_THROWS((void)hood->planned(collective::barrier()), "not barrier");
    CHECK_THROWS((void)hood->planned(by(Algorithm::two_shot, on(0, 128, 8))), "no algorithm two_shot along edges");
    TestBuffer large(world, 4 << 20);
    const auto by_lines = [&](std::size_t count) {
      return by(Algorithm::ll, neighbour_all_gather({large.data(), large.data() + (1 << 20), count}));
    };
    CHECK_THROWS((void)hood->planned(by_lines(1 << 20)), "1048576 B along one edge do not fit the slots of");
    CHECK_THROWS(hood->run(by_lines(1 << 20)), "1048576 B along one edge do not fit the slots of");
    CHECK_THROWS((void)world.collective().planned(on(0, 128, 8)), "neighbourhood(...) gives an object that does it");
    const std::vector<int> first{0};
    const auto team =
        world.collective().among(world.rank() == 0 ? std::span<const int>(first) : std::span<const int>());
    const auto of_team = team->neighbourhood(world.rank() == 0 ? NeighbourGraph{{0}, {0}} : NeighbourGraph{});
    if (world.rank() == 1) {
      CHECK_THROWS((void)of_team->planned(on(0, 128, 8)), "rank 1 is not in the team of this neighbourhood");
    }
  });
}

CASE(a_buffer_of_an_exchange_that_was_freed_since_the_build_is_noticed) {
  on_all_devices(2, [](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    TestBuffer input(world, 64);
    auto output = world.allocate(64);
    PlanBuilder builder = world.plan("freed");
    builder.add(hood->planned(neighbour_all_to_all({input.data(), output->data(), 32})));
    const auto plan = builder.build();
    world.barrier();
    output.reset();
    const OwnStream stream(world);
    CHECK_THROWS(plan->launch(stream), "op 0, neighbour_all_to_all, to ranks");
    world.barrier();
  });
}

// Rank 1 launches only after rank 0 let go of the neighbourhood: a wait there would pass the deadline.
CASE(a_neighbourhood_may_go_while_a_plan_of_it_is_under_way) {
  on_all_devices(2, [](World& world) {
    const Ring ring(world);
    TestBuffer input(world, 64);
    TestBuffer output(world, 64);
    const OwnStream stream(world);
    auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    PlanBuilder builder = world.plan("under way");
    builder.add(hood->planned(neighbour_all_to_all({input.data(), output.data(), 32})));
    const auto plan = builder.build();
    input.write(mine_of(ring, 0, 32));
    if (world.rank() == 1) world.barrier();
    plan->launch(stream);
    hood.reset();
    if (world.rank() == 0) world.barrier();
    world.synchronize(stream);
    CHECK(output.read() == expected_of(ring, 0, 32));
    world.barrier();
  });
}

CASE(a_plan_may_outlive_its_neighbourhood) {
  on_all_devices(2, [](World& world) {
    const Ring ring(world);
    TestBuffer input(world, 64);
    TestBuffer output(world, 64);
    const OwnStream stream(world);
    std::shared_ptr<Plan> plan;
    {
      const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
      PlanBuilder builder = world.plan("orphan");
      builder.add(hood->planned(neighbour_all_to_all({input.data(), output.data(), 32})));
      plan = builder.build();
    }
    for (int round = 0; round < 3; ++round) {
      input.write(mine_of(ring, round, 32));
      plan->launch(stream);
      world.synchronize(stream);
      CHECK(output.read() == expected_of(ring, round, 32));
      world.barrier();
    }
  });
}

CASE(a_plan_with_neighbours_may_outlive_its_world) {
  std::vector<std::shared_ptr<Plan>> plans(2);
  run_ranks(2, quick("host"), [&](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    TestBuffer input(world, 64);
    TestBuffer output(world, 64);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("late");
    builder.add(hood->planned(neighbour_all_to_all({input.data(), output.data(), 32})));
    auto& mine = plans[static_cast<std::size_t>(world.rank())];
    mine = builder.build();
    mine->launch(stream);
    world.synchronize(stream);
    world.barrier();
  });
  plans.clear();
}

int main(int argc, char** argv) { return run(argc, argv); }
