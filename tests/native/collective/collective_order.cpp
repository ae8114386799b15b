// Collectives in their order: captured and replayed among eager ones, on several streams and channels, of teams.
#include <chrono>
#include <thread>

#include "collective_ways.hpp"
#include "onstream/collective.hpp"
#include "onstream/one_sided.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::all_to_all;
using onstream::collective::barrier;
using onstream::collective::broadcast;

CASE(captured_collectives_mean_the_same_at_every_replay_among_eager_ones) {
  on_all_devices_in_pairs(4, [](World& world) {
    constexpr std::size_t kCount = 300;
    TestBuffer values(world, kCount * 8);
    const OwnStream stream(world);
    Collective& all = world.collective();
    const auto all_ones = [&] {
      std::vector<unsigned char> bytes;
      for (std::size_t i = 0; i < kCount; ++i) append(bytes, std::int64_t{1});
      values.write(bytes);
    };
    // Each multiplies by four: all_reduce in place of values that are the same on every rank.
    const auto call = [&](Algorithm algorithm) {
      CollectiveCall one = all_reduce({values.data(), values.data(), kCount, ElementType::int64});
      one.algorithm = algorithm;
      return one;
    };
    all_ones();
    all.run(call(Algorithm::ll), stream);  // channels are made outside of captures and within them
    world.device().begin_capture(stream);
    for (const Algorithm algorithm :
         {Algorithm::ll, Algorithm::two_shot, Algorithm::ll128, Algorithm::simple, Algorithm::ring, Algorithm::tree,
          Algorithm::halving_doubling, Algorithm::hierarchical}) {
      all.run(call(algorithm), stream);
    }
    all.run(broadcast({values.data(), values.data(), kCount, ElementType::int64}, 1), stream);
    all.run(barrier(), stream);
    const auto graph = end_capture_of_all(world, stream);
    constexpr int kReplays = 3;
    std::int64_t expected = 4;
    for (int i = 0; i < kReplays; ++i) {
      world.device().launch(graph, stream);
      expected *= 65536;
      if (i % 2 == 0) {
        all.run(call(Algorithm::ll), stream);
        expected *= 4;
      }
    }
    world.synchronize(stream);
    std::vector<unsigned char> bytes;
    for (std::size_t i = 0; i < kCount; ++i) append(bytes, expected);
    CHECK(values.read() == bytes);
  });
}

CASE(every_kind_by_every_algorithm_is_captured_and_replayed_among_eager_ones) {
  for (const int size : all_or_few<std::vector<int>>({3, 4}, {3})) check_everything_by<Replayed>(size);
}

// Captured calls are compared at capture, and a capture whose ranks differ can go on.
CASE(in_the_checking_mode_what_is_captured_is_compared_once_and_replayed) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.collective_check = "on";
    run_ranks(3, parameters, [](World& world) {
      constexpr std::size_t kCount = 50;
      TestBuffer values(world, kCount * 4);
      TestBuffer all(world, kCount * 4 * 3);
      const auto mine = input_of(ElementType::int32, ReduceOp::sum, world.rank(), kCount);
      values.write(mine);
      const OwnStream stream(world);
      Collective& it = world.collective();
      const collective::Vector vector{values.data(), all.data(), kCount, ElementType::int32};
      world.device().begin_capture(stream);
      it.run(all_reduce(vector), stream);
      const CollectiveCall odd = world.rank() == 1 ? all_gather(vector) : broadcast(vector, 0);
      CHECK_THROWS(it.run(odd, stream), "the ranks do not call the same collective on channel 0:");
      CollectiveCall counts = all_gather(vector);
      counts.kind = OpKind::all_gather_v;
      counts.receive_counts = {kCount, kCount, kCount};
      counts.receive_offsets = {2 * kCount, 0, kCount};
      it.run(counts, stream);
      const auto graph = end_capture_of_all(world, stream);
      std::vector<std::vector<unsigned char>> gathered;
      for (const int rank : {1, 2, 0}) gathered.push_back(input_of(ElementType::int32, ReduceOp::sum, rank, kCount));
      for (int i = 0; i < 3; ++i) {
        all.write(std::vector<unsigned char>(all.bytes()));
        world.device().launch(graph, stream);
        world.synchronize(stream);
        CHECK(all.read() == joined(gathered));
        it.run(all_reduce(vector), stream);
        world.synchronize(stream);
        const auto sums = result_of(ElementType::int32, ReduceOp::sum, 0, 3, 0, kCount);
        const auto got = all.read();
        CHECK(std::equal(sums.begin(), sums.end(), got.begin()));
        world.barrier();  // nobody clears its output before all have theirs
      }
    });
  }
}

CASE(captured_moves_mean_the_same_at_every_replay_among_eager_ones) {
  on_all_devices_in_pairs(3, [](World& world) {
    constexpr std::size_t kBytes = 3000;
    const std::size_t size = static_cast<std::size_t>(world.size());
    TestBuffer mine(world, kBytes);
    TestBuffer all(world, kBytes * size);
    TestBuffer traded(world, kBytes * size);
    TestBuffer told(world, kBytes);
    const OwnStream stream(world);
    Collective& it = world.collective();
    for (const Algorithm algorithm : {Algorithm::simple, Algorithm::copy}) {
      const auto by = [&](CollectiveCall call) {
        call.algorithm = algorithm;
        return call;
      };
      // Each passes on the data that the one before it brought.
      const CollectiveCall calls[] = {by(all_gather({mine.data(), all.data(), kBytes})),
                                      by(all_to_all({all.data(), traded.data(), kBytes})),
                                      by(broadcast({traded.data(), told.data(), kBytes}, 1))};
      world.device().begin_capture(stream);
      for (const CollectiveCall& call : calls) it.run(call, stream);
      const auto graph = end_capture_of_all(world, stream);
      for (unsigned round = 0; round < 4; ++round) {
        const auto of = [&](std::size_t rank) { return pattern(kBytes, 10 * round + static_cast<unsigned>(rank)); };
        mine.write(of(static_cast<std::size_t>(world.rank())));
        if (round == 2) {
          for (const CollectiveCall& call : calls) it.run(call, stream);
        } else {
          world.device().launch(graph, stream);
        }
        world.synchronize(stream);
        std::vector<std::vector<unsigned char>> gathered;
        for (std::size_t rank = 0; rank < size; ++rank) gathered.push_back(of(rank));
        CHECK(all.read() == joined(gathered));
        // Everybody sends rank r part r, which is rank r's own.
        for (std::vector<unsigned char>& part : gathered) part = of(static_cast<std::size_t>(world.rank()));
        CHECK(traded.read() == joined(gathered));
        CHECK(told.read() == of(1));
        world.barrier();  // nobody writes to its input before all have seen theirs
      }
    }
  });
}

CASE(broadcasts_may_run_ahead_of_slow_readers) {
  on_all_devices_in_pairs(3, [](World& world) {
    constexpr int kRounds = 200;
    constexpr std::size_t kCount = 64;
    TestBuffer input(world, kCount * 4);
    TestBuffer output(world, kCount * 4 * kRounds);
    const OwnStream stream(world);
    for (const Algorithm algorithm : {Algorithm::ll, Algorithm::ll128}) {
      // The root sends and never receives; then another root; each result is kept.
      for (int round = 0; round < kRounds; ++round) {
        const int root = round / 50 % 3;
        if (round % 50 == 0) {
          world.synchronize(stream);
          input.write(input_of(ElementType::int32, ReduceOp::sum, root + round, kCount));
        }
        auto* const out = output.data() + static_cast<std::size_t>(round) * kCount * 4;
        CollectiveCall call = broadcast({input.data(), out, kCount, ElementType::int32}, root);
        call.algorithm = algorithm;
        world.collective().run(call, stream);
      }
      world.synchronize(stream);
      const std::vector<unsigned char> got = output.read();
      for (int round = 0; round < kRounds; ++round) {
        const int root = round / 50 % 3;
        const auto expected = input_of(ElementType::int32, ReduceOp::sum, root + round / 50 * 50, kCount);
        CHECK(std::equal(expected.begin(), expected.end(), got.begin() + round * static_cast<int>(kCount) * 4));
      }
      output.write(std::vector<unsigned char>(output.bytes()));
      world.barrier();  // a rank's kernels may still be reading while another is done
    }
  });
}

CASE(streams_may_take_turns_on_one_channel) {
  on_all_devices_in_pairs(3, [](World& world) {
    TestBuffer values(world, 8);
    std::vector<unsigned char> one;
    append(one, std::int64_t{1});
    values.write(one);
    const OwnStream first(world);
    const OwnStream second(world);
    std::int64_t expected = 1;
    for (int i = 0; i < 30; ++i) {
      world.collective().run(all_reduce({values.data(), values.data(), 1, ElementType::int64}),
                             i % 3 == 0 ? first : second);
      expected *= 3;
    }
    world.synchronize(first);
    world.synchronize(second);
    std::vector<unsigned char> bytes;
    append(bytes, expected);
    CHECK(values.read() == bytes);
  });
}

// Two graphs of one channel, in an order that a word alone says: the second one's collective is placed on a GPU while
// the kernel in front of it waits for that word, and takes its epoch behind the first one's all the same.
CASE(captured_collectives_of_one_channel_follow_words) {
  on_all_devices_in_pairs(2, [](World& world) {
    const TestBuffer word(world, 8);
    TestBuffer begun(world, 8, MemoryKind::pinned);
    TestBuffer first(world, 8);
    TestBuffer second(world, 8);
    const auto bytes_of = [](std::int64_t value) {
      std::vector<unsigned char> bytes;
      append(bytes, value);
      return bytes;
    };
    first.write(bytes_of(1 + world.rank()));
    second.write(bytes_of(10 + 10 * world.rank()));
    const OwnStream tells(world);
    const OwnStream listens(world);
    const auto sum_on = [&](const TestBuffer& values, Stream stream) {
      CollectiveCall call = all_reduce({values.data(), values.data(), 1, ElementType::int64});
      call.algorithm = Algorithm::ll;
      world.collective().run(call, stream);
    };
    Device& device = world.device();
    device.begin_capture(tells);
    sum_on(first, tells);
    Batch tell(world.one_sided());
    tell.store(word.data(), 1, 8);
    world.one_sided().run(tell, tells);
    const auto graph = device.end_capture(tells);
    device.begin_capture(listens);
    sum_on(second, listens);  // so that the next is not the first of its capture
    Batch listen(world.one_sided());
    listen.store(begun.data(), 1, 8);
    listen.wait(word.data(), {Compare::eq, 1, 8, Sign::unsigned_word});
    listen.store(word.data(), 0, 8);
    world.one_sided().run(listen, listens);
    sum_on(second, listens);
    const auto behind = device.end_capture(listens);
    std::int64_t expected = 1;
    for (int i = 0; i < 10; ++i) {
      device.launch(behind, listens);
      CHECK(world.one_sided().wait(begun.data(), {Compare::eq, 1, 8, Sign::unsigned_word}) == Status::ok);
      begun.write(bytes_of(0));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // then all of it that can be placed is
      device.launch(graph, tells);
      world.synchronize(listens);
      world.synchronize(tells);
      expected *= 2;
    }
    CHECK(first.read() == bytes_of(3 * expected / 2));
    CHECK(second.read() == bytes_of(30 * expected * expected / 2));
  });
}

CASE(channels_run_at_once_in_any_order) {
  on_all_devices_in_pairs(2, [](World& world) {
    TestBuffer a(world, 8);
    TestBuffer b(world, 8);
    std::vector<unsigned char> one;
    append(one, std::int64_t{1});
    a.write(one);
    b.write(one);
    const OwnStream first(world);
    const OwnStream second(world);
    CollectiveCall on_a = all_reduce({a.data(), a.data(), 1, ElementType::int64});
    CollectiveCall on_b = all_reduce({b.data(), b.data(), 1, ElementType::int64});
    on_b.channel = 1;
    world.collective().run(on_a, first);  // both channels are made in the same order
    world.collective().run(on_b, second);
    for (int i = 0; i < 20; ++i) {
      if (world.rank() == 0) {
        world.collective().run(on_a, first);
        world.collective().run(on_b, second);
      } else {
        world.collective().run(on_b, second);
        world.collective().run(on_a, first);
      }
    }
    world.synchronize(first);
    world.synchronize(second);
    std::vector<unsigned char> bytes;
    append(bytes, std::int64_t{1} << 21);
    CHECK(a.read() == bytes);
    CHECK(b.read() == bytes);
  });
}

CASE(teams_of_some_ranks_work_beside_each_other) {
  on_all_devices_in_pairs(5, [](World& world) {
    // {3, 1} numbered so, {0, 2}, and nobody.
    const int rank = world.rank();
    std::vector<int> ranks;
    if (rank == 1 || rank == 3) ranks = {3, 1};
    if (rank == 0 || rank == 2) ranks = {0, 2};
    const auto team = world.collective().among(ranks);
    if (ranks.empty()) {
      CHECK(team->rank() == -1 && team->size() == 0);
      CHECK_THROWS(team->run(barrier()), "not in this team");
    } else {
      CHECK(team->size() == 2 && team->ranks()[static_cast<std::size_t>(team->rank())] == rank);
      TestBuffer mine(world, 4);
      TestBuffer all(world, 8);
      std::vector<unsigned char> bytes;
      append(bytes, rank);
      mine.write(bytes);
      for (const Algorithm algorithm : {Algorithm::ll, Algorithm::simple, Algorithm::copy, Algorithm::ring}) {
        CollectiveCall call = all_gather({mine.data(), all.data(), 1, ElementType::int32});
        call.algorithm = algorithm;
        if (!can(world, call)) continue;
        team->run(call);
        std::vector<unsigned char> expected;
        for (const int each : ranks) append(expected, each);
        CHECK(all.read() == expected);
      }
    }
    world.barrier();
  });
}

// Numbered otherwise than in the world, so that a root of the one is not that of the other.
CASE(roots_and_counts_are_of_the_teams_own_ranks) {
  on_all_devices_in_pairs(4, [](World& world) {
    const std::vector<int> ranks = {3, 1, 0};
    const auto team = world.collective().among(world.rank() == 2 ? std::vector<int>{} : ranks);
    if (world.rank() != 2) {
      const int me = team->rank();
      constexpr int kRoot = 1;
      const auto numbers = [](std::initializer_list<int> all) {
        std::vector<unsigned char> bytes;
        for (const int one : all) append(bytes, one);
        return bytes;
      };
      TestBuffer in(world, 12);
      TestBuffer out(world, 12);
      for (const collective::AlgorithmRow& row : collective::algorithms()) {
        const Algorithm algorithm = row.algorithm;
        const auto run = [&](CollectiveCall call, const std::vector<unsigned char>& mine,
                             const std::vector<unsigned char>& wanted) {
          call.algorithm = algorithm;
          if (!can(world, call)) return;
          in.write(mine);
          out.write(std::vector<unsigned char>(12, 0));
          team->run(call);
          std::vector<unsigned char> got = out.read();
          got.resize(wanted.size());
          CHECK(got == wanted);
        };
        const collective::Vector one{in.data(), out.data(), 1, ElementType::int32};
        const auto mine = numbers({me + 1, 10 * me, 100 * me});
        const bool is_root = me == kRoot;
        run(collective::reduce(one, ReduceOp::sum, kRoot), mine, numbers({is_root ? 6 : 0}));
        run(collective::broadcast(one, kRoot), mine, numbers({2}));
        run(collective::gather(one, kRoot), mine, is_root ? numbers({1, 2, 3}) : numbers({0, 0, 0}));
        run(collective::scatter(one, kRoot), mine, numbers({me == 0 ? 2 : me == 1 ? 10 : 100}));
        CollectiveCall counted;
        counted.kind = OpKind::all_to_all_v;
        counted.type = ElementType::int32;
        counted.input = in.data();
        counted.output = out.data();
        // The first of the team sends nothing, the last gets one of each.
        const std::size_t gives = me == 0 ? 0 : 1;
        counted.send_counts = {0, 0, gives};
        counted.send_offsets = {0, 0, 1};
        counted.receive_counts = {0, me == 2 ? std::size_t{1} : 0, me == 2 ? std::size_t{1} : 0};
        counted.receive_offsets = {0, 0, 1};
        run(counted, mine, me == 2 ? numbers({10, 20}) : numbers({0, 0}));
      }
    }
    world.barrier();
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
