// Collectives of several channels at once, which each rank starts in an order of its own: they all end, on a GPU too,
// where blocks that wait keep others out (collective/resource/block_budget.hpp). Ranks are threads, and share the first
// GPU.
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "collective_cases.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/compile/compile.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/neighbour/edge_channel.hpp"
#include "onstream/collective/resource/block_budget.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::BlockBudget;

namespace {

constexpr std::size_t kLarge = 300'000;  // floats: of more blocks than 8 channels have room for
constexpr std::size_t kSmall = 40;

// A collective that runs on one channel, over and over, on a stream of its own.
struct Repeated {
  Repeated(World& world, Collective& team, int channel, std::size_t elements)
      : where(world),
        collective(team),
        count(elements),
        input(world, elements * sizeof(float)),
        output(world, elements * sizeof(float)),
        stream(world) {
    call = collective::all_reduce({input.data(), output.data(), count, ElementType::float32});
    call.channel = channel;
    input.write(input_of(ElementType::float32, ReduceOp::sum, team.rank(), count));
    team.run(call);  // the channel is made, and the buffers are mapped
    expected = result_of(ElementType::float32, ReduceOp::sum, 0, team.size(), 0, count);
    CHECK(output.read() == expected);
    output.write(std::vector<unsigned char>(output.bytes(), 7));
  }

  void start(int times) {
    for (int i = 0; i < times; ++i) collective.run(call, stream);
  }
  void finish() {
    where.synchronize(stream);
    CHECK(output.read() == expected);
    output.write(std::vector<unsigned char>(output.bytes(), 7));
  }

  World& where;
  Collective& collective;
  std::size_t count;
  TestBuffer input;
  TestBuffer output;
  OwnStream stream;
  CollectiveCall call;
  std::vector<unsigned char> expected;
};

// Every rank begins elsewhere, and every second one goes backwards.
template <class One>
void in_own_order(int rank, int size, int count, const One& one) {
  for (int i = 0; i < count; ++i) {
    const int turned = (i + rank * count / size) % count;
    one(rank % 2 == 0 ? turned : count - 1 - turned);
  }
}

std::deque<Repeated> lines_of(World& world, int channels, Algorithm algorithm) {
  std::deque<Repeated> lines;
  for (int channel = 0; channel < channels; ++channel) {
    lines.emplace_back(world, world.collective(), channel, channel % 3 == 2 ? kSmall : kLarge + channel);
    const CollectiveCall call = lines.back().call;
    lines.back().call.algorithm = algorithm;
    if (!can(world, lines.back().call)) lines.back().call = call;
  }
  return lines;
}

}  // namespace

CASE(channels_that_ranks_start_in_different_orders_all_end) {
  constexpr int kRounds = all_or_few(5, 2);
  for (const std::string& device : device_specs()) {
    for (const int size : all_or_few<std::vector<int>>({2, 3}, {3})) {
      const int channels = size == 2 ? 8 : 6;  // a process has 32 hardware queues for its streams
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::simple, Algorithm::ring}) {
        run_ranks(size, quick(device), [&](World& world) {
          std::deque<Repeated> lines = lines_of(world, channels, algorithm);
          for (int round = 0; round < kRounds; ++round) {
            in_own_order(world.rank() + round, size, channels, [&](int i) { lines[i].start(1 + round % 3); });
            for (Repeated& line : lines) line.finish();
          }
        });
      }
    }
  }
}

CASE(two_channels_that_ranks_start_in_different_orders_end) {
  for (const std::string& device : device_specs()) {
    run_ranks(2, quick(device), [&](World& world) {
      std::deque<Repeated> lines = lines_of(world, 2, Algorithm::simple);
      for (int round = 0; round < 10; ++round) {
        in_own_order(world.rank() + round, 2, 2, [&](int i) { lines[i].start(3); });
        for (Repeated& line : lines) line.finish();
      }
    });
  }
}

CASE(graphs_that_were_captured_before_more_channels_were_made_run_beside_those) {
  constexpr int kBefore = 2;
  constexpr int kChannels = 6;
  for (const std::string& device : device_specs()) {
    run_ranks(2, quick(device), [&](World& world) {
      std::deque<Repeated> lines = lines_of(world, kBefore, Algorithm::simple);
      std::vector<std::shared_ptr<Graph>> graphs;
      for (Repeated& line : lines) {
        world.device().begin_capture(line.stream);
        line.start(2);
        graphs.push_back(world.device().end_capture(line.stream));
      }
      for (int channel = kBefore; channel < kChannels; ++channel) {
        lines.emplace_back(world, world.collective(), channel, kLarge);
      }
      for (int round = 0; round < 5; ++round) {
        in_own_order(world.rank() + round, 2, kChannels, [&](int i) {
          if (i < kBefore) {
            world.device().launch(graphs[static_cast<std::size_t>(i)], lines[i].stream);
          } else {
            lines[i].start(2);
          }
        });
        for (Repeated& line : lines) line.finish();
      }
    });
  }
}

CASE(teams_and_the_world_and_a_neighbourhood_and_a_plan_run_at_once_in_different_orders) {
  for (const std::string& device : device_specs()) {
    const int size = device == "host" ? 4 : 2;  // the streams of four would share hardware queues of one GPU
    run_ranks(size, quick(device), [&](World& world) {
      const int rank = world.rank();
      const std::vector<int> row = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
      std::vector<int> column = rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
      if (size == 2) column = {1, 0};
      const auto rows = world.collective().among(row);
      const auto columns = world.collective().among(column);
      std::deque<Repeated> lines;
      lines.emplace_back(world, world.collective(), 0, kLarge);
      lines.emplace_back(world, *rows, 0, kLarge);
      lines.emplace_back(world, *columns, 0, kLarge);

      constexpr std::size_t kBytes = 100'000;
      const auto ring = world.collective().neighbourhood(NeighbourGrid{{size}, {true}});
      TestBuffer give(world, kBytes);
      TestBuffer take(world, 2 * kBytes);
      give.write(pattern(kBytes, static_cast<unsigned>(rank)));
      const OwnStream beside(world);
      CollectiveCall edges;
      edges.kind = OpKind::neighbour_all_gather;
      edges.input = give.data();
      edges.output = take.data();
      edges.count = kBytes;
      ring->run(edges);
      const std::vector<unsigned char> taken = take.read();

      const auto plan = world.plan("a sum").add(world.collective().planned(lines[0].call)).build();
      for (int round = 0; round < 5; ++round) {
        in_own_order(rank + round, size, 4, [&](int i) {
          if (i == 3) return ring->run(edges, beside);
          if (i == 0 && round % 2 == 0) return plan->launch(lines[0].stream);
          lines[i].start(2);
        });
        for (Repeated& line : lines) line.finish();
        world.synchronize(beside);
        CHECK(take.read() == taken);
      }
    });
  }
}

namespace {

constexpr BlockBudget::Limits kGpu{66, 64, 0, 1};  // an H200 of one rank

std::shared_ptr<BlockBudget::BudgetShare> entered(BlockBudget& budget, World& world, const std::vector<int>& ranks,
                                                  BlockBudget::Limits limits = kGpu) {
  return budget.enter(*world.fabric(), "a test", BlockBudget::Blocks::in_order, ranks, limits);
}

std::vector<int> calls_of(BlockBudget::BudgetShare& part, int count) {
  std::vector<int> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(part.of_next_call());
  return blocks;
}

}  // namespace

CASE(a_call_has_as_many_blocks_on_every_rank_whenever_the_ranks_come_to_it) {
  on_all_devices(3, [](World& world) {
    BlockBudget budget;
    const std::vector<int> all = {0, 1, 2};
    const auto enter = [&](BlockBudget::Blocks how) { return budget.enter(*world.fabric(), "a test", how, all, kGpu); };
    const auto first = enter(BlockBudget::Blocks::in_order);
    std::vector<int> had;
    // Some ranks are ahead of others when there are more channels.
    for (int i = 0; i < world.rank(); ++i) had.push_back(first->of_next_call());
    const auto second = enter(BlockBudget::Blocks::in_order);
    for (int i = 0; i < 3 - world.rank(); ++i) had.push_back(first->of_next_call());
    const auto third = enter(BlockBudget::Blocks::all);
    while (had.size() < 8) had.push_back(first->of_next_call());
    CHECK((had == std::vector<int>{64, 64, 64, 22, 22, 22, 22, 22}));
    CHECK(second->of_next_call() == 22);
    CHECK(third->of_next_call() == 22);
  });
}

CASE(channels_share_what_they_may_place_and_graphs_keep_what_they_have) {
  const auto share = [](std::vector<int> kept, int limit = 66, bool shared = false,
                        BlockBudget::Blocks how = BlockBudget::Blocks::in_order) {
    return BlockBudget::share({limit, 64, shared, std::move(kept), how});
  };
  CHECK(share({0}) == 64);
  CHECK(share({0, 0}) == 64);
  CHECK(share({64, 64}) == 64);
  CHECK(share({0, 0}, 66, true) == 33);
  CHECK(share({0, 0}, 66, false, BlockBudget::Blocks::all) == 33);
  CHECK(share({0, 0}, 60) == 59);
  CHECK(share({0, 0, 0}) == 22);
  CHECK(share({0, 0, 0, 0, 0, 0, 0, 0}) == 8);
  CHECK(share({40, 0, 0}) == 13);
  CHECK(share({8, 0, 0}) == 22);
  CHECK(share({64, 64, 0}) == 1);
  CHECK(share({0, 0, 0}, 1) == 1);
}

CASE(a_team_that_has_called_less_than_another_steps_at_its_own_calls) {
  on_all_devices(4, [](World& world) {
    BlockBudget budget;
    const int rank = world.rank();
    const std::vector<int> team = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{3, 2};
    const auto part = entered(budget, world, team);
    CHECK(calls_of(*part, rank < 2 ? 100 + rank : 3 - rank) == std::vector<int>(rank < 2 ? 100 + rank : 3 - rank, 64));
    const auto second = entered(budget, world, {0, 1, 2, 3});
    const auto third = entered(budget, world, {0, 1, 2, 3});
    // Rank 1 of one team, and rank 2 of the other, have prepared one that their peers have not.
    const bool behind = rank == 0 || rank == 3;
    CHECK(part->of_next_call() == (behind ? 64 : 22));
    CHECK(calls_of(*part, 3) == std::vector<int>(3, 22));
    CHECK(second->of_next_call() == 22);
  });
}

CASE(a_rank_of_no_team_steps_by_itself) {
  on_all_devices(3, [](World& world) {
    BlockBudget budget;
    const auto part = entered(budget, world, world.rank() == 2 ? std::vector<int>{} : std::vector<int>{0, 1});
    if (world.rank() < 2) (void)calls_of(*part, 5);
    const auto second = entered(budget, world, {0, 1, 2});
    const auto third = entered(budget, world, {0, 1, 2});
    CHECK(part->of_next_call() == 22);
  });
}

CASE(a_part_that_one_rank_has_let_go_of_counts_until_all_have) {
  on_all_devices(3, [](World& world) {
    BlockBudget budget;
    const std::vector<int> all = {0, 1, 2};
    auto first = entered(budget, world, all);
    (void)calls_of(*first, world.rank() == 1 ? 4 : 1);
    first->keep(world.rank() == 2 ? 40 : 10);
    const auto second = entered(budget, world, all);
    const auto third = entered(budget, world, all);
    CHECK(second->of_next_call() == 13);
    if (world.rank() == 1) first.reset();
    const auto fourth = entered(budget, world, all);
    CHECK(fourth->of_next_call() == 8);
    // Rank 1 had told of 4 calls.
    if (first != nullptr) CHECK((calls_of(*first, 4) == std::vector<int>{64, 64, 64, 8}));
    first.reset();
    const auto fifth = entered(budget, world, all);
    CHECK(fifth->of_next_call() == 16);
  });
}

CASE(a_graph_keeps_its_channels_room_when_the_channel_is_gone) {
  on_all_devices(2, [](World& world) {
    BlockBudget budget;
    Device& device = world.device();
    auto channel = std::make_unique<collective::Channel>(*world.fabric(), budget, std::vector<int>{0, 1}, 0);
    channel->budget().keep(40);
    const OwnStream stream(world);
    device.begin_capture(stream);
    device.retain(stream, channel->order.ground);
    const std::weak_ptr<const void> kept = channel->order.ground;
    std::shared_ptr<Graph> graph = device.end_capture(stream);
    channel.reset();
    const auto second = entered(budget, world, {0, 1});
    const auto third = entered(budget, world, {0, 1});
    CHECK(third->of_next_call() == 13);
    graph.reset();  // a device may let go later
    const std::uint64_t start = now_ns();
    while (!kept.expired() && ended_at_once(start)) std::this_thread::yield();
    const auto fourth = entered(budget, world, {0, 1});
    CHECK(fourth->of_next_call() == 22);
  });
}

CASE(a_graph_keeps_a_neighbourhoods_room) {
  on_all_devices(2, [](World& world) {
    BlockBudget budget;
    const collective::EdgeList none;
    auto channel = std::make_unique<collective::EdgeChannel>(*world.fabric(), budget, none, 0);
    channel->budget().keep(40);
    const std::shared_ptr<const void> kept = channel->order.ground;
    channel.reset();
    const auto second = entered(budget, world, {0, 1});
    const auto third = entered(budget, world, {0, 1});
    CHECK(third->of_next_call() == 13);
  });
}

CASE(ranks_that_captured_unequally_often_step_at_different_calls_and_then_agree_again) {
  on_all_devices(2, [](World& world) {
    BlockBudget budget;
    const auto part = entered(budget, world, {0, 1});
    (void)calls_of(*part, world.rank() == 0 ? 5 : 3);  // two were captured again
    const auto second = entered(budget, world, {0, 1});
    const auto third = entered(budget, world, {0, 1});
    const std::vector<int> blocks = calls_of(*part, 3);
    CHECK((blocks == (world.rank() == 0 ? std::vector<int>{22, 22, 22} : std::vector<int>{64, 64, 22})));
  });
}

// A channel of two ranks, whose calls have as many blocks as is said.
struct OneChannel {
  explicit OneChannel(World& world)
      : fabric(*world.fabric()), channel(fabric, budget, ranks, 0), runner(world.fabric()) {}

  void run(const CollectiveCall& call, int most) {
    collective::CompiledCall work;
    work.add(collective::prepare(fabric, channel, ranks, call, most));
    runner.run_and_wait(channel.order, work);
  }

  Fabric& fabric;
  BlockBudget budget;
  const std::vector<int> ranks = {0, 1};
  collective::Channel channel;
  collective::Runner runner;
};

CASE(ranks_whose_kernels_of_one_call_have_different_numbers_of_blocks_are_told) {
  const Algorithm algorithms[] = {Algorithm::simple, Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling};
  for (const Algorithm algorithm : algorithms) {
    for (const bool adds : {true, false}) {
      if (!adds && algorithm == Algorithm::halving_doubling) continue;
      run_ranks(2, quick("host"), [&](World& world) {
        OneChannel one(world);
        TestBuffer input(world, kLarge * sizeof(float));
        TestBuffer output(world, kLarge * sizeof(float));
        const collective::Vector vector{input.data(), output.data(), kLarge, ElementType::float32};
        CollectiveCall call = adds ? collective::all_reduce(vector) : collective::broadcast(vector, 0);
        call.algorithm = algorithm;
        one.run(call, 4);
        CHECK_THROWS(one.run(call, world.rank() == 0 ? 4 : 2), "captured others more often");
      });
    }
  }
}

CASE(calls_are_prepared_while_another_rank_still_makes_the_channel) {
  std::atomic<bool> prepared = false;
  run_ranks(2, quick("host"), [&](World& world) {
    BlockBudget budget;
    const auto first = entered(budget, world, {0, 1});
    if (world.rank() == 1) {
      const std::uint64_t start = now_ns();
      while (!prepared && ended_at_once(start)) std::this_thread::yield();
      const bool in_time = prepared;  // its device may wait for a call of rank 0
      (void)entered(budget, world, {0, 1});
      CHECK(in_time);
      return;
    }
    std::thread making([&] { (void)entered(budget, world, {0, 1}); });
    constexpr auto kIsThere = std::chrono::milliseconds(50);
    std::this_thread::sleep_for(kIsThere);
    (void)first->of_next_call();
    prepared = true;
    making.join();
  });
}

CASE(what_does_not_fit_is_known) {
  const auto fits = [](std::vector<int> kept, bool shared = false, int limit = 66) {
    return BlockBudget::fits({limit, 64, shared, std::move(kept), BlockBudget::Blocks::in_order});
  };
  CHECK(fits({0}));
  CHECK(fits({64, 64}));
  CHECK(!fits({64, 64}, true));
  CHECK(fits({40, 0, 0}));
  CHECK(fits({64, 0, 0}));
  CHECK(!fits({64, 0, 0, 0}));
  CHECK(!fits({64, 64, 0}));
  CHECK(fits(std::vector<int>(66)));
  CHECK(!fits(std::vector<int>(67)));
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
