// Collectives whose bytes for peers the copy engine takes, beside a kernel (parameter collective_engine).
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "collective_ways.hpp"
#include "onstream/collective.hpp"
#include "onstream/transport/copy_thread.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_to_all;

namespace {

void on_all_devices_by_engine(int size, const char* engine, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.collective_engine = engine;
    run_ranks(size, parameters, body);
  }
}

std::uint64_t served(World& world) { return world.fabric()->copies().served(); }

}  // namespace

CASE(moves_are_right_by_the_engine) {
  const Coverage coverage;
  for (const int size : all_or_few<std::vector<int>>({2, 3, 5, 8}, {2, 3})) {
    on_all_devices_by_engine(size, "on", [](World& world) {
      const OwnStream stream(world);
      const bool several = world.size() > 2;
      for (const std::size_t bytes : {1, 511, all_or_few(300'001, 60'001)}) {
        for (const OpKind kind : kMoves) {
          const std::uint64_t before = served(world);
          check_move(world, kind, bytes, Algorithm::simple, Where::reachable, &stream);
          const bool is_root = world.rank() == world.size() - 1;
          bool sends = kind == OpKind::all_gather || kind == OpKind::all_to_all || (kind == OpKind::gather) != is_root;
          if (kind == OpKind::broadcast && several) sends = false;  // ranks forward to each other
          CHECK((served(world) > before) == sends);
        }
        check_counts(world, bytes, Algorithm::simple, Where::reachable, &stream);
      }
    });
  }
  constexpr Algorithm kDirect[] = {Algorithm::simple};
  coverage.check(kMoves, kDirect);
  coverage.check(kCounted, kDirect);
}

// Out of place, if everybody's part is equally long; else by kernels.
CASE(sums_are_right_by_the_engine) {
  for (const int ranks : all_or_few<std::vector<int>>({2, 3, 4, 5, 6, 7, 8}, {2, 4})) {
    on_all_devices_by_engine(ranks, "on", [](World& world) {
      const OwnStream stream(world);
      const auto size = static_cast<std::size_t>(world.size());
      const auto check = [&](ElementType type, std::size_t count) {
        const std::uint64_t before = served(world);
        check_reduction(world, {OpKind::all_reduce, type, ReduceOp::sum, count, Algorithm::simple}, &stream);
        return served(world) - before;
      };
      const std::uint64_t by_engine = 2 * (collective::kChunks + size - 2);  // pushed and given
      for (const std::size_t packs : {1, 5, all_or_few(1000, 100)}) {
        CHECK(check(ElementType::int32, size * packs * 256) == by_engine);
        CHECK(check(ElementType::float16, size * packs * 256) == by_engine);
      }
      CHECK(check(ElementType::float64, size * 8192) == by_engine);
      CHECK(check(ElementType::float32, size * 8192 + 3) == 0);
      CHECK(check(ElementType::int64, 5) == 0);
      check_reduction(world, {OpKind::all_reduce, ElementType::float32, ReduceOp::avg, 4096, Algorithm::simple},
                      &stream);
      check_reduction(world, {OpKind::reduce_scatter, ElementType::float32, ReduceOp::sum, 99, Algorithm::simple},
                      &stream);
    });
  }
}

// Ranks may differ in that: then none go by the engine.
CASE(sums_by_the_engine_where_one_rank_works_in_place) {
  on_all_devices_by_engine(3, "on", [](World& world) {
    constexpr std::size_t kCount = 3 * 4096;
    const OwnStream stream(world);
    const auto of = [](int rank) { return input_of(ElementType::int32, ReduceOp::sum, rank, kCount); };
    const auto expected = result_of(ElementType::int32, ReduceOp::sum, 0, 3, 0, kCount);
    for (int in_place = 0; in_place < 3; ++in_place) {
      TestBuffer in(world, 4 * kCount);
      TestBuffer out(world, 4 * kCount);
      in.write(of(world.rank()));
      const bool mine = in_place == world.rank();
      CollectiveCall call =
          collective::all_reduce({in.data(), mine ? in.data() : out.data(), kCount, ElementType::int32}, ReduceOp::sum);
      call.algorithm = Algorithm::simple;
      const std::uint64_t before = served(world);
      world.collective().run(call, stream);
      world.synchronize(stream);
      CHECK((mine ? in : out).read() == expected);
      CHECK(served(world) == before);
      world.barrier();
    }
  });
}

CASE(what_the_engine_takes_is_captured_and_replayed_and_part_of_plans) {
  for (const int ranks : {2, 4}) {
    on_all_devices_by_engine(ranks, "on", [](World& world) {
      const OwnStream stream(world);
      const std::uint64_t before = served(world);
      const std::size_t count = 4096 * static_cast<std::size_t>(world.size());
      const Reduction sum{OpKind::all_reduce, ElementType::float32, ReduceOp::sum, count, Algorithm::simple};
      for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all}) {
        check_move(world, kind, 70'001, Algorithm::simple, Where::reachable, Replayed{stream});
        check_move(world, kind, 70'001, Algorithm::simple, Where::reachable, Planned{stream});
      }
      check_reduction(world, sum, Replayed{stream});
      check_reduction(world, sum, Planned{stream});
      const auto size = static_cast<std::uint64_t>(world.size());
      CHECK(served(world) >= before + 2 * 4 * (size - 1) + 2 * 3 * (2 * (collective::kChunks + size - 2)));
    });
  }
}

// A block that waits for the engine and gives up ends once the engine touches no memory any more: the engine answers a
// later request without moving its bytes, and the block does not take the answer for a copy.
CASE(what_is_asked_of_the_engine_in_a_failed_world_is_answered_and_not_moved) {
  run_ranks(1, quick("host"), [](World& world) {
    std::atomic<bool> failed = false;
    std::uint64_t abort = 0;
    WaitView wait = world.fabric()->wait_view();
    wait.abort = &abort;
    wait.awake = 0;  // there are no words beside it
    CopyThread copies(world.fabric()->device(), [](const std::string&) {}, [&] { return failed.load(); });
    const CopyThread::CopierLease lease = copies.take(0);
    const Copier& copier = lease.copier();
    const HostGroup alone(0, 1);
    TestBuffer from(world, 64);
    TestBuffer to(world, 64);
    for (const unsigned round : {1u, 2u}) {
      if (round == 2) HostGroup::store_release(&abort, kWorldFailed);
      failed = round == 2;
      from.write(pattern(64, round));
      const auto address = reinterpret_cast<std::uint64_t>(to.data());
      const std::uint64_t request = copier.ask(alone, address, from.data(), 64);
      CHECK(copier.await(alone, wait, request) == (round == 1 ? Status::ok : Status::aborted));
      CHECK(to.read() == pattern(64, 1));
    }
    CHECK(copies.served() == 2);
  });
}

// A rank fails at any moment of an op that the engine works for: another one's op that ends well has all its data.
CASE(what_ends_well_beside_a_failure_has_been_moved) {
  constexpr int kRanks = 2;
  constexpr std::size_t kCount = 64 * 1024 * kRanks;
  Parameters parameters = quick("host");
  parameters.collective_engine = "on";
  std::atomic<int> failures = 0;
  for (int round = 0; round < all_or_few(60, 10); ++round) {
    const bool sums = round % 2 == 0;
    std::atomic<int> here = 0;
    std::atomic<int> through = 0;
    run_ranks(kRanks, parameters, [&](World& world) {
      const OwnStream stream(world);
      TestBuffer in(world, 4 * kCount);
      TestBuffer out(world, 4 * kCount);
      const auto of = [&](int rank) { return input_of(ElementType::int32, ReduceOp::sum, rank, kCount); };
      std::vector<unsigned char> expected;
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto theirs = of(rank);
        const auto begin = theirs.begin() + world.rank() * static_cast<std::ptrdiff_t>(4 * kCount / kRanks);
        expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(4 * kCount / kRanks));
      }
      if (sums) expected = result_of(ElementType::int32, ReduceOp::sum, 0, kRanks, 0, kCount);
      in.write(of(world.rank()));
      CollectiveCall call =
          sums ? collective::all_reduce({in.data(), out.data(), kCount, ElementType::int32}, ReduceOp::sum)
               : all_to_all({in.data(), out.data(), 4 * kCount / kRanks});
      call.algorithm = Algorithm::simple;
      world.collective().run(call, stream);
      world.synchronize(stream);
      CHECK(out.read() == expected);
      out.write(std::vector<unsigned char>(4 * kCount));
      world.barrier();
      ++here;
      while (here < kRanks) std::this_thread::yield();
      try {
        world.collective().run(call, stream);
        if (world.rank() == 1) {
          const std::uint64_t until = now_ns() + static_cast<std::uint64_t>(round) * 10'000;
          while (now_ns() < until) std::this_thread::yield();
          world.abort("for a test");
        }
        world.synchronize(stream);
        CHECK(out.read() == expected);
      } catch (const Error& error) {
        CHECK(error.of_failure());
        ++failures;
      }
      ++through;  // before any buffer goes
      while (through < kRanks) std::this_thread::yield();
    });
  }
  CHECK(failures > 0);
}

// A team that has gone, and graphs that go, let ops under way end, and leave their slots to others.
CASE(slots_of_the_engine_outlive_their_team_and_serve_again) {
  on_all_devices_by_engine(2, "on", [](World& world) {
    constexpr std::size_t kBytes = 100'000;
    TestBuffer mine(world, kBytes);
    TestBuffer both(world, 2 * kBytes);
    const auto of = [](int rank, int round) { return pattern(kBytes, static_cast<unsigned>(10 * round + rank)); };
    for (int round = 0; round < 40; ++round) {
      mine.write(of(world.rank(), round));
      const OwnStream stream(world);
      CollectiveCall call = all_gather({mine.data(), both.data(), kBytes});
      call.algorithm = Algorithm::simple;
      auto team = world.collective().among(std::vector<int>{0, 1});
      std::shared_ptr<Graph> graph;
      if (round % 2 == 0) {
        team->run(call, stream);
      } else {
        world.device().begin_capture(stream);
        team->run(call, stream);
        graph = end_capture_of_all(world, stream);
        world.device().launch(graph, stream);
      }
      team.reset();
      world.synchronize(stream);
      CHECK(both.read() == joined({of(0, round), of(1, round)}));
      CHECK(served(world) == static_cast<std::uint64_t>(round) + 1);
      world.barrier();  // no rank writes to one that still reads
    }
    CHECK(world.fabric()->copies().slots() <= 32);
  });
}

// Not unless it is asked for: of few bytes, of many ranks, or where it is off.
CASE(the_engine_moves_nothing_else) {
  const auto counts_none = [](World& world) {
    TestBuffer in(world, 60'000 * static_cast<std::size_t>(world.size()));
    TestBuffer out(world, 60'000 * static_cast<std::size_t>(world.size()));
    const OwnStream stream(world);
    CollectiveCall call = all_to_all({in.data(), out.data(), 60'000});
    call.algorithm = Algorithm::simple;
    world.collective().run(call, stream);
    world.synchronize(stream);
    CHECK(served(world) == 0);
  };
  on_all_devices_by_engine(9, "on", counts_none);
  on_all_devices_by_engine(2, "large", counts_none);
  on_all_devices_by_engine(2, "off", counts_none);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
