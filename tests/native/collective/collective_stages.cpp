// Hierarchical collectives beside the rows of collective.cpp: groups of several sizes, of teams, captured before
// anything else, and refused calls.
#include "collective_cases.hpp"
#include "onstream/collective.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::barrier;
using onstream::collective::reduce;
using onstream::collective::Vector;

namespace {

Parameters grouped(const std::string& device, int ranks) {
  Parameters parameters = quick(device);
  parameters.collective_group = ranks;
  return parameters;
}

CollectiveCall in_stages(CollectiveCall call) {
  call.algorithm = Algorithm::hierarchical;
  return call;
}

}  // namespace

CASE(groups_of_any_size_do_every_kind_also_where_the_last_one_is_smaller) {
  for (const std::string& device : device_specs()) {
    for (const int each : {3, 4}) {
      for (const int size : {6, 7, 8}) {
        if (each >= size) continue;
        run_ranks(size, grouped(device, each), [](World& world) {
          const OwnStream stream(world);
          constexpr Algorithm kThis = Algorithm::hierarchical;
          for (const std::size_t count : {1, 10, 1001}) {  // also fewer than a group has ranks
            for (const OpKind kind : kReductions) {
              check_reduction(world, {kind, ElementType::int64, ReduceOp::sum, count, kThis}, &stream);
              check_reduction(world, {kind, ElementType::float32, ReduceOp::premulsum, count, kThis}, nullptr);
              check_reduction(world, {kind, ElementType::int64_int64, ReduceOp::maxloc, count, kThis}, nullptr);
            }
            for (const OpKind kind : kMoves) check_move(world, kind, count, kThis, Where::reachable, &stream);
          }
          world.collective().run(in_stages(barrier()), stream);
          world.synchronize(stream);
        });
      }
    }
  }
}

CASE(what_a_larger_call_needs_is_there_after_a_smaller_one) {
  on_all_devices_in_pairs(5, [](World& world) {
    for (const OpKind kind : {OpKind::reduce, OpKind::reduce_scatter}) {
      for (const std::size_t count : {5, 50'000, 100, 120'000}) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, count, Algorithm::hierarchical}, nullptr);
      }
    }
  });
}

CASE(the_first_call_may_be_captured_and_means_the_same_at_every_replay) {
  on_all_devices_in_pairs(4, [](World& world) {
    constexpr std::size_t kCount = 1001;
    TestBuffer values(world, kCount * 8);
    std::vector<unsigned char> bytes;
    for (std::size_t i = 0; i < kCount; ++i) append(bytes, std::int64_t{1});
    values.write(bytes);
    const OwnStream stream(world);
    const CollectiveCall call = in_stages(all_reduce({values.data(), values.data(), kCount, ElementType::int64}));
    world.device().begin_capture(stream);
    world.collective().run(call, stream);
    const auto graph = end_capture_of_all(world, stream);
    std::int64_t expected = 1;
    for (int i = 0; i < 5; ++i, expected *= 4) {
      if (i == 2) {
        world.collective().run(call, stream);
      } else {
        world.device().launch(graph, stream);
      }
    }
    world.synchronize(stream);
    bytes.clear();
    for (std::size_t i = 0; i < kCount; ++i) append(bytes, expected);
    CHECK(values.read() == bytes);
  });
}

CASE(teams_have_groups_of_their_own_ranks) {
  on_all_devices_in_pairs(6, [](World& world) {
    const int rank = world.rank();
    const std::vector<int> ranks = rank == 2 ? std::vector<int>{} : std::vector<int>{5, 1, 0, 4, 3};
    const auto team = world.collective().among(ranks);
    if (!ranks.empty()) {
      TestBuffer mine(world, 4);
      TestBuffer all(world, 20);
      std::vector<unsigned char> bytes;
      append(bytes, rank);
      mine.write(bytes);
      team->run(in_stages(all_gather({mine.data(), all.data(), 1, ElementType::int32})));
      std::vector<unsigned char> expected;
      for (const int each : ranks) append(expected, each);
      CHECK(all.read() == expected);
      CHECK(team->device_bytes() > 0);
    }
    world.barrier();
  });
}

// The root of a broadcast is through before other ranks have begun; these still announce themselves in its memory.
CASE(a_team_may_go_while_other_ranks_still_write_to_it) {
  on_all_devices_in_pairs(4, [](World& world) {
    TestBuffer value(world, 8);
    for (int round = 0; round < 8; ++round) {
      const auto team = world.collective().among(std::vector{0, 1, 2, 3});
      const auto bytes = pattern(8, static_cast<unsigned>(round));
      if (world.rank() == 0) value.write(bytes);
      const OwnStream stream(world);
      CollectiveCall call = in_stages(collective::broadcast({value.data(), value.data(), 8}, 0));
      team->run(call, stream);
      world.synchronize(stream);
      CHECK(value.read() == bytes);
    }
  });
}

CASE(what_has_no_stages_is_refused_with_the_reason) {
  on_all_devices(4, [](World& world) {
    TestBuffer buffer(world, 64);
    const CollectiveCall call = in_stages(all_reduce({buffer.data(), buffer.data(), 4, ElementType::int32}));
    CHECK_THROWS(world.collective().run(call), "all ranks are of one host, which is one group; collective_group makes");
  });
  for (const std::string& device : device_specs()) {
    run_ranks(5, grouped(device, 3), [](World& world) {
      TestBuffer buffer(world, 512);
      Collective& it = world.collective();
      const auto on = [&](ElementType type) { return Vector{buffer.data(), buffer.data() + 256, 4, type}; };
      CHECK_THROWS(it.run(in_stages(all_reduce(on(ElementType::int32), ReduceOp::avg))), "would be rounded twice");
      CHECK_THROWS(it.run(in_stages(all_reduce(on(ElementType::float32), ReduceOp::avg))), "would count alike");
      CHECK_THROWS(it.run(in_stages(collective::scan(on(ElementType::int32)))), "it is for all_reduce, reduce, broad");
      const auto team = it.among(world.rank() < 3 ? std::vector{0, 1, 2} : std::vector{3, 4});
      CHECK_THROWS(team->run(in_stages(barrier())), "groups of 3 (collective_group) divide no team of");
      it.run(in_stages(all_reduce(on(ElementType::int32))));
    });
  }
}

CASE(the_stages_of_a_call_and_their_cost_are_explained) {
  on_all_devices_in_pairs(4, [](World& world) {
    TestBuffer buffer(world, 64);
    CollectiveCall call = in_stages(all_reduce({buffer.data(), buffer.data(), 5, ElementType::float64}));
    const std::string told = world.collective().explain(call);
    CHECK(told.find("hierarchical, in stages, within groups and across them (asked for)") != std::string::npos);
    CHECK(told.find("within groups: reduce_scatter of 2 by ll\n    across groups: all_reduce of 2 by ll\n"
                    "    within groups: all_gather of 2 by ll\n    within groups: all_reduce of 1 by ll") !=
          std::string::npos);
    call.algorithm = Algorithm::automatic;
    CHECK(world.collective().explain(call).find("only for those who ask for it: its stages wait for each other") !=
          std::string::npos);
  });
}

CASE(a_first_call_that_differs_is_refused_by_every_rank_and_the_world_goes_on) {
  on_all_devices_in_pairs(4, [](World& world) {
    TestBuffer buffer(world, 4096);
    const std::size_t count = world.rank() == 1 ? 99 : 100;
    CHECK_THROWS(
        world.collective().run(in_stages(all_reduce({buffer.data(), buffer.data(), count, ElementType::int32}))),
        "calls another collective, or the same with another count; nothing was moved");
    check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 100, Algorithm::hierarchical},
                    nullptr);
  });
}

// Later ones are told by the stage in which they meet.
CASE(later_calls_that_differ_within_a_group_are_told) {
  on_all_devices_in_pairs(4, [](World& world) {
    TestBuffer buffer(world, 4096);
    const Vector vector{buffer.data(), buffer.data(), 100, ElementType::int32};
    const ReduceOp op = world.rank() == 1 ? ReduceOp::max : ReduceOp::sum;
    try {
      world.collective().run(in_stages(all_reduce(vector)));
      world.collective().run(in_stages(all_reduce(vector, op)));
    } catch (const Error&) {  // as soon as any rank knows, which may be ahead of this one
    }
    await_failure(world);
    CHECK_THROWS(world.check(), "calls another collective, or the same with another count");
  });
}

// Rank 1 does not come: rank 0 has no sum to go on with, and the other group must not get its data.
CASE(a_stage_that_failed_gives_nothing_to_those_behind_it) {
  Parameters parameters = grouped("host", 2);
  parameters.timeout_s = 2;
  run_ranks(4, parameters, [](World& world) {
    TestBuffer in(world, 8);
    TestBuffer out(world, 8);
    const auto bytes_of = [](std::int64_t value) {
      std::vector<unsigned char> bytes(8);
      std::memcpy(bytes.data(), &value, 8);
      return bytes;
    };
    in.write(bytes_of(1));
    const CollectiveCall call = in_stages(all_reduce({in.data(), out.data(), 1, ElementType::int64}));
    const OwnStream stream(world);
    world.collective().run(call, stream);
    world.synchronize(stream);
    out.write(bytes_of(-5));
    world.barrier();
    int called = 0;
    if (world.rank() != 1) {
      world.collective().run(call, stream);
      world.device().synchronize(stream);
      const Combine count = [&called](const void*, void*, std::size_t) { ++called; };
      CHECK_THROWS(world.collective().run(in_stages(collective::reduced_by(call, 8, count))), "waiting for rank");
    }
    await_failure(world);
    CHECK(called == 0);
    const bool has_own_group = world.rank() >= 2 && out.read() == bytes_of(2);
    CHECK(has_own_group || out.read() == bytes_of(-5));
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
