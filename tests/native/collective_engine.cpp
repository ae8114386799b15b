// Moves of two ranks whose bytes for each other the copy engine takes, beside a kernel (parameter collective_engine).
#include <memory>
#include <vector>

#include "check.hpp"
#include "collective_ways.hpp"
#include "onstream/collective/collective.hpp"
#include "onstream/transport/copy_thread.hpp"

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

CASE(moves_of_two_ranks_are_right_by_the_engine) {
  const Coverage coverage;
  on_all_devices_by_engine(2, "on", [](World& world) {
    const OwnStream stream(world);
    for (const std::size_t bytes : {1, 511, 60'001, all_or_few(3'000'001, 300'001)}) {
      for (const OpKind kind : kMoves) {
        const std::uint64_t before = served(world);
        check_move(world, kind, bytes, Algorithm::direct, Where::reachable, &stream);
        const bool sends = kind == OpKind::all_gather || kind == OpKind::all_to_all ||
                           (kind == OpKind::gather) == (world.rank() == 0);  // the root is the other one
        CHECK((served(world) > before) == sends);
      }
      check_counts(world, bytes, Algorithm::direct, Where::reachable, &stream);
    }
  });
  constexpr Algorithm kDirect[] = {Algorithm::direct};
  coverage.check(kMoves, kDirect);
  coverage.check(kCounted, kDirect);
}

CASE(moves_by_the_engine_are_captured_and_replayed_and_parts_of_plans) {
  on_all_devices_by_engine(2, "on", [](World& world) {
    const OwnStream stream(world);
    const std::uint64_t before = served(world);
    for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all}) {
      check_move(world, kind, 70'001, Algorithm::direct, Where::reachable, Replayed{stream});
      check_move(world, kind, 70'001, Algorithm::direct, Where::reachable, Planned{stream});
    }
    CHECK(served(world) >= before + 2 * 2 * 4);
  });
}

// Who waits for the engine and gives up ends when it touches no memory any more: what is asked for then is not moved.
CASE(what_is_asked_of_the_engine_in_a_failed_world_is_answered_and_not_moved) {
  run_ranks(1, quick("host"), [](World& world) {
    bool failed = false;
    CopyThread copies(world.fabric()->device(), [](const std::string&) {}, [&] { return failed; });
    const CopyThread::Lease lease = copies.take(0);
    const Copier& copier = lease.copier();
    const HostGroup alone(0, 1);
    TestBuffer from(world, 64);
    TestBuffer to(world, 64);
    for (const unsigned round : {1u, 2u}) {
      failed = round == 2;
      from.write(pattern(64, round));
      const auto address = reinterpret_cast<std::uint64_t>(to.data());
      const std::uint64_t request = copier.ask(alone, address, from.data(), 64);
      CHECK(copier.await(alone, world.fabric()->wait_view(), request) == Status::ok);
      CHECK(to.read() == pattern(64, 1));
    }
    CHECK(copies.served() == 2);
  });
}

// A team that has gone, and graphs that go, leave what is under way to its end, and their slots to others.
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
      call.algorithm = Algorithm::direct;
      auto team = world.collective().among(std::vector<int>{0, 1});
      std::shared_ptr<Graph> graph;
      if (round % 2 == 0) {
        team->run(call, stream);
      } else {
        world.device().begin_capture(stream);
        team->run(call, stream);
        graph = world.device().end_capture(stream);
        world.device().launch(graph, stream);
      }
      team.reset();
      world.synchronize(stream);
      CHECK(both.read() == joined({of(0, round), of(1, round)}));
      CHECK(served(world) == static_cast<std::uint64_t>(round) + 1);
      world.barrier();  // nobody writes to who still reads
    }
    CHECK(world.fabric()->copies().slots() <= 32);
  });
}

// Not unless it is asked for: of few bytes, of more ranks, or where it is off.
CASE(the_engine_moves_nothing_else) {
  const auto counts_none = [](World& world) {
    TestBuffer in(world, 60'000 * static_cast<std::size_t>(world.size()));
    TestBuffer out(world, 60'000 * static_cast<std::size_t>(world.size()));
    const OwnStream stream(world);
    CollectiveCall call = all_to_all({in.data(), out.data(), 60'000});
    call.algorithm = Algorithm::direct;
    world.collective().run(call, stream);
    world.synchronize(stream);
    CHECK(served(world) == 0);
  };
  on_all_devices_by_engine(3, "on", counts_none);
  on_all_devices_by_engine(2, "large", counts_none);
  on_all_devices_by_engine(2, "off", counts_none);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
