// Collectives of several channels at once, which each rank starts in an order of its own: they all end, on a GPU too,
// where blocks that wait keep others out (collective/room.hpp). Ranks are threads, and share the first GPU.
#include <deque>

#include "check.hpp"
#include "collective_cases.hpp"
#include "onstream/collective/neighbourhood.hpp"
#include "onstream/collective/room.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::Room;

namespace {

constexpr std::size_t kLarge = 300'000;  // floats: of more blocks than 8 channels have room for
constexpr std::size_t kSmall = 40;

// What runs on one channel, over and over, on a stream of its own.
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
  constexpr int kRounds = 5;
  for (const std::string& device : device_specs()) {
    for (const int size : {2, 3}) {
      const int channels = size == 2 ? 8 : 6;  // a process has 32 hardware queues for its streams
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::direct, Algorithm::ring}) {
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
      std::deque<Repeated> lines = lines_of(world, 2, Algorithm::direct);
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
      std::deque<Repeated> lines = lines_of(world, kBefore, Algorithm::direct);
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

CASE(a_call_has_as_many_blocks_on_every_rank_whenever_the_ranks_come_to_it) {
  on_all_devices(3, [](World& world) {
    Room room;
    const auto& fabric = *world.fabric();
    const int alone =
        std::max(1, std::min(fabric.block_limit(), static_cast<int>(fabric.parameters().collective_blocks)));
    const auto first = room.enter(*world.fabric(), "a test", Room::Blocks::in_order);
    std::vector<int> had;
    // Some ranks are ahead of others when there are more channels.
    for (int i = 0; i < world.rank(); ++i) had.push_back(first->of_next_call());
    const auto second = room.enter(*world.fabric(), "a test", Room::Blocks::in_order);
    for (int i = 0; i < 3 - world.rank(); ++i) had.push_back(first->of_next_call());
    const auto third = room.enter(*world.fabric(), "a test", Room::Blocks::all);
    while (had.size() < 8) had.push_back(first->of_next_call());
    std::string mine;
    for (const int blocks : had) mine += concat(" ", blocks);
    for (const std::string& theirs : world.fabric()->all_gather("blocks", mine)) CHECK(theirs == mine);
    CHECK(had[0] == alone);
    CHECK(had[1] == alone);
    CHECK(had[7] == std::max(1, std::min(alone, fabric.block_limit() / 3)));
    CHECK(second->of_next_call() == had[7]);
    CHECK(third->of_next_call() == had[7]);
  });
}

CASE(channels_share_what_they_may_place_and_graphs_keep_what_they_have) {
  const auto share = [](std::vector<int> kept, int limit = 66, bool shared = false,
                        Room::Blocks how = Room::Blocks::in_order) {
    return Room::share({limit, 64, shared, std::move(kept), how});
  };
  CHECK(share({0}) == 64);
  CHECK(share({0, 0}) == 64);
  CHECK(share({64, 64}) == 64);
  CHECK(share({0, 0}, 66, true) == 33);
  CHECK(share({0, 0}, 66, false, Room::Blocks::all) == 33);
  CHECK(share({0, 0}, 60) == 59);
  CHECK(share({0, 0, 0}) == 22);
  CHECK(share({0, 0, 0, 0, 0, 0, 0, 0}) == 8);
  CHECK(share({40, 0, 0}) == 13);
  CHECK(share({8, 0, 0}) == 22);
  CHECK(share({64, 64, 0}) == 1);
  CHECK(share({0, 0, 0}, 1) == 1);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
