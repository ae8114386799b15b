// Collectives that cannot work, whose ranks differ, or of which one comes late; and the text of explain().
#include "onstream/collective.hpp"

#include <functional>
#include <thread>
#include <utility>

#include "collective_cases.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::barrier;
using onstream::collective::broadcast;
using onstream::collective::reduce;
using onstream::collective::Vector;

namespace {

// An all_to_all_v of two ranks, 4 elements each, in place.
CollectiveCall of_counts(const TestBuffer& buffer) {
  CollectiveCall call = collective::all_to_all({buffer.data(), buffer.data(), 4, ElementType::int32});
  call.kind = OpKind::all_to_all_v;
  call.send_counts = call.receive_counts = {4, 4};
  call.send_offsets = call.receive_offsets = {0, 4};
  return call;
}

}  // namespace

CASE(what_cannot_work_is_refused_with_its_values) {
  on_all_devices_in_pairs(2, [](World& world) {
    TestBuffer buffer(world, 64);
    Collective& it = world.collective();
    const auto on = [&](ElementType type) { return Vector{buffer.data(), buffer.data(), 4, type}; };
    CHECK_THROWS(it.run(all_reduce(on(ElementType::float32), ReduceOp::bor)), "bor has no meaning for float32");
    CHECK_THROWS(it.run(all_reduce(on(ElementType::complex64), ReduceOp::max)), "max has no meaning for complex64");
    CHECK_THROWS(it.run(all_reduce(on(ElementType::int32), ReduceOp::minloc)), "minloc has no meaning for int32");
    CHECK_THROWS(it.run(reduce(on(ElementType::int32), ReduceOp::sum, 2)), "root 2 does not exist");
    CHECK_THROWS(it.run(all_reduce({nullptr, buffer.data(), 4, ElementType::int32})),
                 "input of 16 B is a null pointer");
    CHECK_THROWS(it.run(all_reduce({buffer.data() + 2, buffer.data(), 4, ElementType::int32})), "not aligned");
    CHECK_THROWS(it.run(all_reduce({buffer.data() + 4, buffer.data(), 4, ElementType::int32})), "overlap");
    // Each at the place of the other rank.
    const std::size_t one = 4 * sizeof(std::int32_t);
    const std::size_t mine = one * static_cast<std::size_t>(world.rank());
    const Vector beside{buffer.data() + one - mine, buffer.data(), 4, ElementType::int32};
    const Vector within{buffer.data(), buffer.data() + one - mine, 4, ElementType::int32};
    CHECK_THROWS(it.run(all_gather(beside)), "overlap, and not as a collective in place");
    CHECK_THROWS(it.run(collective::reduce_scatter(within)), "overlap, and not as a collective in place");
    if (world.rank() == 1) CHECK_THROWS(it.run(collective::gather(beside, 1)), "overlap");
    if (world.rank() == 1) CHECK_THROWS(it.run(collective::scatter(within, 1)), "overlap");
    CollectiveCall counts = all_gather(beside);
    counts.kind = OpKind::all_gather_v;
    counts.receive_counts = {4, 4};
    counts.receive_offsets = {0, 4};
    CHECK_THROWS(it.run(counts), "overlap");
    counts.kind = OpKind::all_to_all_v;
    counts.input = counts.output;
    counts.send_counts = counts.receive_counts;
    counts.send_offsets = {4, 0};
    CHECK_THROWS(it.run(counts), "overlap");
    CollectiveCall own = of_counts(buffer);
    own.send_counts[static_cast<std::size_t>(world.rank())] = 3;
    CHECK_THROWS(it.run(own), "this rank sends itself 3 elements and expects 4");
    CHECK_THROWS(it.run(all_reduce({buffer.data(), buffer.data(), 40, ElementType::int32})), "ends");
    CollectiveCall call = all_reduce(on(ElementType::int32));
    call.channel = 99;
    CHECK_THROWS(it.run(call), "channel 99 does not exist");
    call = broadcast(on(ElementType::int32), 0);
    call.algorithm = Algorithm::two_shot;
    CHECK_THROWS(it.run(call), "algorithm two_shot cannot: it is for all_reduce");
    CHECK_THROWS(it.among(std::vector{0, 0}), "named twice");
    CHECK_THROWS(it.among(std::vector{7}), "rank 7 does not exist");
    CHECK_THROWS((void)reduce_op_of("plus"), "no reduction 'plus'");
    CHECK_THROWS((void)element_type_of("quad"), "no elements of type 'quad'");
    it.run(all_reduce(on(ElementType::int32)));  // nothing is broken
  });
}

// They would wrap to small ones.
CASE(counts_and_offsets_beyond_all_addresses_are_refused) {
  on_all_devices_in_pairs(2, [](World& world) {
    constexpr std::size_t kAll = ~std::size_t{0};
    const char* const told = "are more than there are addresses";
    TestBuffer buffer(world, 64);
    Collective& it = world.collective();
    const auto of = [&](std::size_t count, ElementType type) {
      return Vector{buffer.data(), buffer.data(), count, type};
    };
    CHECK_THROWS(it.run(all_reduce(of(kAll / 4 + 2, ElementType::int32))),
                 "all_reduce: 4611686018427387905 elements of 4 B are more than there are addresses");
    CHECK_THROWS(it.run(broadcast(of(kAll / 8 + 2, ElementType::int64), 1)), told);
    CHECK_THROWS(it.run(all_gather(of(kAll / 4 + 1, ElementType::uint8))), "B for each of 2 are more");
    CHECK_THROWS(it.run(collective::gather(of(kAll / 4 + 1, ElementType::uint8), 0)), told);
    CHECK_THROWS(it.run(collective::scatter(of(kAll / 4 + 1, ElementType::uint8), 0)), told);
    CHECK_THROWS(it.run(collective::all_to_all(of(kAll / 4 + 1, ElementType::int16))), told);
    CHECK_THROWS(it.run(collective::reduce_scatter(of(kAll / 8 + 1, ElementType::int32))), told);
    CHECK_THROWS(it.run(all_reduce(of(kAll - 8, ElementType::uint8))), told);
    CHECK_THROWS((void)it.planned(all_reduce(of(kAll / 4 + 2, ElementType::int32))), told);
    const auto combine = [](const void*, void*, std::size_t) {};
    if (world.device().kind() == DeviceKind::host) {
      CHECK_THROWS(it.run(collective::reduced_by(all_reduce(of(kAll / 8 + 2, ElementType::uint8)), 8, combine)), told);
    }
    CollectiveCall call = of_counts(buffer);
    call.send_offsets[1] = kAll - 1;
    CHECK_THROWS(it.run(call), "all_to_all_v: 4 elements at offset 18446744073709551614 are more");
    call = of_counts(buffer);
    call.receive_counts[1] = kAll / 4 + 1;
    CHECK_THROWS(it.run(call), told);
    call = of_counts(buffer);
    it.run(call);
    call.kind = OpKind::all_gather_v;
    call.receive_offsets[0] = kAll / 2;
    CHECK_THROWS(it.run(call), told);
    it.run(all_reduce(of(4, ElementType::int32)));  // nothing is broken
  });
}

CASE(the_late_rank_and_the_collective_are_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.timeout_s = 2;
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 64);
      const OwnStream stream(world);
      const Vector vector{buffer.data(), buffer.data(), 4, ElementType::int32};
      world.collective().run(all_reduce(vector));
      if (world.rank() == 1) {
        await_failure(world);
        CHECK_THROWS(world.check(), "waiting for rank 1");
      } else {
        world.collective().run(all_reduce(vector), stream);
        CHECK_THROWS(world.synchronize(stream), "all_reduce of 16 B, waiting for rank 1, (number 2 on channel 0)");
      }
    });
  }
}

// A call that rank 1 does not come to, in another way each.
void leave_one_behind(const Parameters& parameters, const std::function<CollectiveCall(const Vector&)>& make,
                      const std::string& told, bool from_the_first, int ranks = 2) {
  run_ranks(ranks, parameters, [&](World& world) {
    only_on_one_host(world);
    TestBuffer buffer(world, 64);
    const CollectiveCall call = make({buffer.data(), buffer.data(), 4, ElementType::int32});
    if (!from_the_first) world.collective().run(call);
    if (world.rank() == 1) return await_failure(world);
    try {
      world.collective().run(call);
      throw CheckFailed("rank 1 did not come, and nobody minded");
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(text.find(told) != std::string::npos);
      CHECK(text.find("to go on, every rank closes") != std::string::npos);
    }
  });
}

CASE(the_collective_is_named_also_where_it_is_the_first_is_checked_or_reduces_by_a_function) {
  const auto sum = [](const Vector& vector) { return all_reduce(vector); };
  const auto by_function = [](const Vector& vector) {
    return collective::reduced_by(all_reduce(vector), 4, [](const void*, void*, std::size_t) {});
  };
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.timeout_s = 2;
    leave_one_behind(parameters, sum, "for all_reduce of 4 int32 sum", true);
    parameters.collective_check = "on";
    leave_one_behind(parameters, sum, "all_reduce, waiting for rank 1, (its check, number 3 on channel 0)", false);
    if (device != "host") continue;
    leave_one_behind(parameters, by_function, "all_reduce, waiting for rank 1, (its check, number 3", false);
    parameters.collective_check = "off";
    leave_one_behind(
        parameters,
        [&](const Vector& vector) {
          CollectiveCall call = by_function(vector);
          call.algorithm = Algorithm::hierarchical;
          return call;
        },
        "(a stage of it, number ", false, 4);
    leave_one_behind(parameters, by_function, "all_reduce of 16 B, waiting for rank 1, (number 2", false);
  }
}

CASE(large_ones_that_differ_are_refused_before_anything_is_moved) {
  struct Odd {
    const char* what;
    std::function<CollectiveCall(const Vector&)> usual, odd;
  };
  const auto sum = [](const Vector& vector) { return all_reduce(vector); };
  const Odd rows[] = {
      {"all_reduce", sum, [](const Vector& vector) { return broadcast(vector, 0); }},
      {"all_reduce", sum, [](const Vector& vector) { return all_reduce(vector, ReduceOp::max); }},
      {"all_reduce", sum,
       [](Vector vector) {
         vector.type = ElementType::float32;
         return all_reduce(vector);
       }},
      {"reduce", [](const Vector& vector) { return reduce(vector, ReduceOp::sum, 0); },
       [](const Vector& vector) { return reduce(vector, ReduceOp::sum, 2); }},
      {"all_reduce", sum,
       [](Vector vector) {
         vector.count -= 4;
         return all_reduce(vector);
       }},
  };
  for (const Odd& row : rows) {
    on_all_devices_in_pairs(3, [&](World& world) {
      constexpr std::size_t kCount = 1 << 15;
      TestBuffer buffer(world, kCount * sizeof(std::int32_t));
      const auto before = std::vector<unsigned char>(kCount * sizeof(std::int32_t), 7);
      buffer.write(before);
      CollectiveCall call =
          (world.rank() == 1 ? row.odd : row.usual)({buffer.data(), buffer.data(), kCount, ElementType::int32});
      call.algorithm = Algorithm::simple;
      CHECK_THROWS(world.collective().run(call), "calls another collective, or the same with another count");
      CHECK(buffer.read() == before);
    });
  }
}

CASE(ranks_that_ask_for_different_algorithms_are_told) {
  const Algorithm rows[][2] = {{Algorithm::simple, Algorithm::ring},
                               {Algorithm::ring, Algorithm::tree},
                               {Algorithm::halving_doubling, Algorithm::ring}};
  for (const auto& row : rows) {
    on_all_devices_in_pairs(3, [&](World& world) {
      TestBuffer buffer(world, 4096);
      CollectiveCall call = all_reduce({buffer.data(), buffer.data(), 1000, ElementType::int32});
      call.algorithm = row[world.rank() == 1 ? 1 : 0];
      CHECK_THROWS(world.collective().run(call), "reduction, root or algorithm");
    });
  }
}

// At the first collective, which makes the channel.
CASE(ranks_with_other_parameters_of_collectives_are_told) {
  if (quick("host").host_ranks > 0) throw Skipped{"between hosts the parameters are compared when the world is made"};
  const auto with = [](const std::string& device, const auto& change) {
    Parameters parameters = quick(device);
    change(parameters);
    return parameters;
  };
  const std::pair<const char*, std::function<void(Parameters&)>> changes[] = {
      {"collective_algorithm=simple", [](Parameters& one) { one.collective_algorithm = "simple"; }},
      {"collective_check=on", [](Parameters& one) { one.collective_check = "on"; }},
      {"collective_channels=16", [](Parameters& one) { one.collective_channels = 16; }},
      {"collective_bytes=1048576", [](Parameters& one) { one.collective_bytes = 1 << 20; }},
      {"collective_group=2", [](Parameters& one) { one.collective_group = 2; }},
  };
  for (const std::string& device : device_specs()) {
    for (const auto& [words, change] : changes) {
      const std::string address = meeting_place();
      std::vector<std::string> told(2);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          const auto nothing = [](Parameters&) {};
          const auto world =
              World::create(launch_of(rank, 2, address), rank == 1 ? with(device, change) : with(device, nothing));
          try {
            world->collective().run(barrier());
          } catch (const Error& error) {
            told[static_cast<std::size_t>(rank)] = error.what();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::string& one : told) {
        CHECK(one.find("the parameters of collectives") != std::string::npos);
        CHECK(one.find(words) != std::string::npos);
      }
    }
  }
}

CASE(copies_that_differ_are_refused_by_every_rank_and_the_world_goes_on) {
  on_all_devices_in_pairs(3, [](World& world) {
    constexpr std::size_t kBytes = 4096;
    TestBuffer input(world, 3 * kBytes);
    TestBuffer output(world, 3 * kBytes);
    const bool odd = world.rank() == 1;
    const auto before = std::vector<unsigned char>(3 * kBytes, 7);
    output.write(before);
    CollectiveCall call = all_gather({input.data(), output.data(), odd ? kBytes - 4 : kBytes});
    call.algorithm = Algorithm::copy;
    CHECK_THROWS(world.collective().run(call), "calls another collective, or the same with another count");
    CollectiveCall trade;
    trade.kind = OpKind::all_to_all_v;
    trade.algorithm = Algorithm::copy;
    trade.input = input.data();
    trade.output = output.data();
    trade.send_counts = trade.receive_counts = {5, odd ? std::size_t{5} : std::size_t{6}, 5};
    trade.send_offsets = trade.receive_offsets = {0, 10, 20};
    CHECK_THROWS(world.collective().run(trade), "expects");
    CHECK(output.read() == before);
    call.count = kBytes;
    world.collective().run(call);
  });
}

CASE(copies_to_what_a_peer_cannot_address_are_refused_by_every_rank) {
  run_ranks(3, in_pairs("host"), [](World& world) {
    constexpr std::size_t kBytes = 1000;
    Buffer input(world, kBytes);
    Buffer output(world, 3 * kBytes, world.rank() == 2 ? Where::plain : Where::reachable);
    CollectiveCall call = all_gather({input.data(), output.data(), kBytes});
    call.algorithm = Algorithm::copy;
    CHECK_THROWS(world.collective().run(call),
                 "all_gather of 1000 B: algorithm copy cannot, as of rank 2: rank 0 cannot address its output");
    call.algorithm = Algorithm::simple;
    world.collective().run(call);
  });
}

CASE(a_late_rank_is_named_by_copies_at_the_deadline) {
  enum class Late { host, replay };
  for (const std::string& device : device_specs()) {
    for (const Late late : {Late::host, Late::replay}) {
      Parameters parameters = in_pairs(device);
      parameters.timeout_s = 2;
      run_ranks(3, parameters, [&](World& world) {
        TestBuffer input(world, 64);
        TestBuffer output(world, 192);
        const OwnStream stream(world);
        CollectiveCall call = all_gather({input.data(), output.data(), 64});
        call.algorithm = Algorithm::copy;
        world.device().begin_capture(stream);
        world.collective().run(call, stream);
        const auto graph = world.device().end_capture(stream);
        world.device().launch(graph, stream);
        world.synchronize(stream);
        if (world.rank() == 1) {
          await_failure(world);
          CHECK_THROWS(world.check(), "waiting for rank 1");
        } else if (late == Late::host) {
          CHECK_THROWS(world.collective().run(call, stream), "all_gather of 64 B, waiting for rank 1");
        } else {
          world.device().launch(graph, stream);
          CHECK_THROWS(world.synchronize(stream), "all_gather of 64 B, waiting for rank 1");
        }
      });
    }
  }
}

CASE(checking_names_who_calls_something_else) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.collective_check = "on";
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 256);
      const bool odd = world.rank() == 1;
      const auto vector = [&](std::size_t count, ElementType type) {
        return Vector{buffer.data(), buffer.data(), count, type};
      };
      Collective& it = world.collective();
      CHECK_THROWS(it.run(all_reduce(vector(odd ? 5 : 4, ElementType::int32))),
                   "rank 0: all_reduce of 4 int32 sum\n  rank 1: all_reduce of 5 int32 sum");
      CHECK_THROWS(it.run(all_reduce(vector(4, odd ? ElementType::float32 : ElementType::int32))),
                   "rank 1: all_reduce of 4 float32 sum");
      CHECK_THROWS(it.run(all_reduce(vector(4, ElementType::int32), odd ? ReduceOp::max : ReduceOp::sum)),
                   "rank 1: all_reduce of 4 int32 max");
      CHECK_THROWS(it.run(broadcast(vector(4, ElementType::int32), odd ? 2 : 0)),
                   "rank 1: broadcast of 4 int32, root 2");
      CHECK_THROWS(it.run(odd ? barrier() : all_reduce(vector(4, ElementType::int32))), "rank 1: barrier");
      for (const int epoch : {0, 1}) {  // the same two in another order: both are named, and neither runs
        CHECK_THROWS(it.run(odd == (epoch == 0) ? all_reduce(vector(4, ElementType::int32))
                                                : broadcast(vector(4, ElementType::int32), 0)),
                     epoch == 0 ? "rank 0: broadcast of 4 int32, root 0\n  rank 1: all_reduce of 4 int32 sum"
                                : "rank 0: all_reduce of 4 int32 sum\n  rank 1: broadcast of 4 int32, root 0");
      }
      CollectiveCall call;
      call.kind = OpKind::all_to_all_v;
      call.input = buffer.data();
      call.output = buffer.data() + 128;
      call.send_counts = call.receive_counts = {1, odd ? std::size_t{2} : std::size_t{1}, 1};
      call.send_offsets = call.receive_offsets = {0, 4, 8};
      if (odd) call.receive_counts[2] = 9;
      CHECK_THROWS(it.run(call), "rank 1: all_to_all_v of uint8, which gets 1 elements of rank 2 and expects 9");
      CHECK_THROWS(it.run(odd ? call : all_reduce(vector(4, ElementType::int32))),
                   "rank 0: all_reduce of 4 int32 sum\n  rank 1: all_to_all_v\n");
      call.send_counts = call.receive_counts =
          odd ? std::vector<std::size_t>{0, 0, 0} : std::vector<std::size_t>{2, 0, 2};
      call.send_offsets = call.receive_offsets = {0, 4, 8};
      call.type = odd ? ElementType::complex128 : ElementType::int16;
      it.run(call);  // the type at a rank that sends no elements is not compared
      if (world.rank() == 2) call.type = ElementType::int8;
      CHECK_THROWS(it.run(call), "rank 2: all_to_all_v of int8, which gets int16 of rank 0");
      // Nothing is broken.
      buffer.write(input_of(ElementType::int32, ReduceOp::sum, world.rank(), 64));
      it.run(all_reduce(vector(64, ElementType::int32)));
      CHECK(buffer.read() == result_of(ElementType::int32, ReduceOp::sum, 0, 3, 0, 64));
    });
  }
}

CASE(an_algorithm_is_chosen_by_cost_and_explained) {
  on_all_devices_in_pairs(4, [](World& world) {
    only_on_one_host(world);
    TestBuffer buffer(world, 64);
    CollectiveCall call = all_reduce({buffer.data(), buffer.data(), 1, ElementType::float64});
    CHECK(world.collective().explain(call).find("float64 on 4 ranks: ll") != std::string::npos);
    call.count = 100'000'000;
    const std::string large = world.collective().explain(call);
    CHECK(large.find("4 ranks: simple") != std::string::npos &&
          large.find("do not fit the slots") != std::string::npos);
    call.algorithm = Algorithm::simple;
    CHECK(world.collective().explain(call).find("asked for") != std::string::npos);
    CHECK(world.collective().explain(call).find("only for those who ask for it: other links than a ring's stay idle") !=
          std::string::npos);
    const CollectiveCall move = all_gather({buffer.data(), buffer.data(), 1000});
    CHECK(world.collective().explain(move).find("copy: ") != std::string::npos &&
          world.collective().explain(move).find("only for those who ask for it: its calls wait") != std::string::npos);
    CHECK(world.collective().explain(call).find("copy: copy engines do not add") != std::string::npos);
    const auto least = static_cast<std::size_t>(world.fabric()->parameters().collective_chain_bytes);
    for (const std::size_t bytes : {2 * least, 2 * least - 8}) {  // two of four ranks forward
      const CollectiveCall chain = broadcast({buffer.data(), buffer.data(), bytes / 8, ElementType::float64}, 0);
      const bool told = world.collective().explain(chain).find("from rank to rank") != std::string::npos;
      CHECK(told == (bytes == 2 * least));
    }
    CHECK(world.collective().explain(move).find("by the copy engine (") == std::string::npos);
  });
}

CASE(a_check_refuses_what_the_call_would_be_refused_for) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 64);
    CollectiveCall call = all_reduce({buffer.data(), buffer.data(), 8, ElementType::float64}, ReduceOp::sum);
    world.collective().check(call);
    call.channel = 99;
    CHECK_THROWS(world.collective().check(call), "channel 99 does not exist");
    call.channel = 0;
    call.algorithm = Algorithm::copy;
    CHECK_THROWS(world.collective().check(call), "algorithm copy cannot: copy engines do not add");
  });
}

// As measured (algorithm.cpp): another algorithm costs the least where ranks share a core.
CASE(what_is_taken_on_the_host_depends_on_whether_each_rank_has_a_core) {
  std::byte buffer[1];
  const auto taken = [&](OpKind kind, std::size_t bytes, int size, bool crowded) {
    collective::MachineTraits machine{DeviceKind::host, 0, size, 1 << 20, 1 << 20};
    machine.crowded = crowded;
    CollectiveCall call;
    call.kind = kind;
    call.output = buffer;
    call.type = ElementType::float32;
    call.count = bytes / sizeof(float);
    return collective::choose(call, machine).algorithm;
  };
  CHECK(taken(OpKind::all_reduce, 32, 2, false) == Algorithm::ll);
  CHECK(taken(OpKind::all_reduce, 128, 2, false) == Algorithm::ll128);  // in one shot; in two lines would cost less
  CHECK(taken(OpKind::all_reduce, 128, 4, true) == Algorithm::ll128);   // the same
  CHECK(taken(OpKind::all_reduce, 512, 2, false) == Algorithm::ll128);
  CHECK(taken(OpKind::all_reduce, 4096, 2, false) == Algorithm::simple);
  CHECK(taken(OpKind::all_gather, 1024, 2, false) == Algorithm::ll128);
  CHECK(taken(OpKind::all_gather, 4096, 2, false) == Algorithm::simple);
  CHECK(taken(OpKind::broadcast, 4096, 2, false) == Algorithm::simple);
  CHECK(taken(OpKind::all_reduce, 8, 4, true) == Algorithm::ll);
  CHECK(taken(OpKind::all_reduce, 1024, 4, true) == Algorithm::ll128);
  CHECK(taken(OpKind::all_reduce, 4096, 4, true) == Algorithm::ll128);  // in two
  CHECK(taken(OpKind::all_reduce, 8192, 4, true) == Algorithm::simple);
  CHECK(taken(OpKind::all_to_all, 1024, 4, true) == Algorithm::ll128);
  CHECK(taken(OpKind::all_to_all, 8192, 4, true) == Algorithm::simple);
  CHECK(taken(OpKind::broadcast, 4096, 4, true) == Algorithm::ll128);
}

// As measured (docs/decisions/0011).
CASE(ll128_lines_take_two_shots_where_one_would_take_longer_than_a_trip) {
  const auto in_two = [](DeviceKind device, bool crowded, int size, std::size_t bytes, OpKind kind) {
    CollectiveCall call;
    call.kind = kind;
    call.type = ElementType::float64;
    call.count = bytes / sizeof(double);
    collective::MachineTraits machine{device, 0, size};
    machine.crowded = crowded;
    return collective::ll128_in_two_shots(call, machine);
  };
  const auto most_in_one = [&](DeviceKind device, bool crowded, int size) {
    std::size_t bytes = 8;
    while (!in_two(device, crowded, size, bytes, OpKind::all_reduce)) bytes += 8;
    CHECK(!in_two(device, crowded, size, bytes, OpKind::reduce_scatter));
    return bytes - 8;
  };
  CHECK(most_in_one(DeviceKind::cuda, false, 2) == 640 << 10);
  const std::size_t among_four = most_in_one(DeviceKind::cuda, false, 4);
  CHECK(among_four >= 256 << 10 && among_four < 384 << 10);
  CHECK(most_in_one(DeviceKind::cuda, false, 8) < among_four);
  CHECK(most_in_one(DeviceKind::host, false, 2) == 240);
  const std::size_t among_four_on_two_cores = most_in_one(DeviceKind::host, true, 4);
  CHECK(among_four_on_two_cores >= 2048 && among_four_on_two_cores < 4096);
}

CASE(the_copy_engine_is_asked_for_what_is_large_and_explained) {
  using collective::EngineUse;
  std::byte input[1];
  std::byte output[1];
  const std::size_t large = std::size_t{64} << 20;
  const auto asks = [](const CollectiveCall& call, DeviceKind device, EngineUse use, int rank, int size) {
    collective::MachineTraits machine{device, rank, size, 16384, 16384};
    machine.engine = use;
    const bool told = explain(call, machine).find("by the copy engine (collective_engine)") != std::string::npos;
    CHECK(told == (collective::choose(call, machine).algorithm == Algorithm::simple && asks_engine(call, machine)));
    return told;
  };
  const auto large_on_gpus = [&](const CollectiveCall& call, int rank, int size) {
    return asks(call, DeviceKind::cuda, EngineUse::large, rank, size);
  };
  const auto of = [&](std::size_t bytes, ElementType type = ElementType::float32) {
    return Vector{input, output, bytes / size_of(type), type};
  };
  CHECK(large_on_gpus(all_to_all(of(large)), 1, 4) && !large_on_gpus(all_to_all(of(large - 4)), 1, 4));
  CHECK(!asks(all_to_all(of(large)), DeviceKind::cuda, EngineUse::off, 1, 4));
  CHECK(!asks(all_to_all(of(large)), DeviceKind::host, EngineUse::large, 1, 4));
  CHECK(asks(all_to_all(of(large)), DeviceKind::host, EngineUse::on, 1, 4));
  CHECK(!large_on_gpus(all_to_all(of(large)), 1, 9));  // their addresses are not in a kernel's arguments
  CHECK(large_on_gpus(gather(of(large), 0), 1, 4) && !large_on_gpus(gather(of(large), 0), 0, 4));
  CHECK(large_on_gpus(broadcast(of(large), 0), 0, 2) && !large_on_gpus(broadcast(of(large), 0), 0, 4));
  CHECK(large_on_gpus(all_reduce(of(8 * large)), 0, 4) && !large_on_gpus(all_reduce(of(8 * large - 64)), 0, 4));
  CHECK(large_on_gpus(all_reduce(of(2 * large)), 0, 2) && !large_on_gpus(all_reduce(of(2 * large - 64)), 0, 2));
  CHECK(!large_on_gpus(all_reduce(of(8 * large + 4)), 0, 4));  // not in equal parts
  CHECK(!large_on_gpus(all_reduce(of(8 * large), ReduceOp::max), 0, 4));
  CHECK(!large_on_gpus(all_reduce(of(8 * large, ElementType::int8)), 0, 4));
  Vector in_place = of(8 * large);
  in_place.output = input;
  CHECK(!large_on_gpus(all_reduce(in_place), 0, 4));
}

CASE(what_is_only_for_those_who_ask_is_never_chosen_by_itself) {
  for (const DeviceKind device : {DeviceKind::host, DeviceKind::cuda}) {
    for (const OpKind kind : {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::broadcast}) {
      for (std::size_t count = 1; count < std::size_t{1} << 31; count *= 4) {
        CollectiveCall call;
        call.kind = kind;
        call.count = count;
        call.type = ElementType::float32;
        const Algorithm chosen = collective::choose(call, {device, 0, 64, 16384, 16384}).algorithm;
        CHECK(std::ranges::find(kSameBits, chosen) != std::end(kSameBits));
      }
    }
  }
}

namespace {

// The cost that explain() predicts for an algorithm, in microseconds.
double predicted_us(Algorithm algorithm, const CollectiveCall& call, const collective::MachineTraits& machine) {
  const std::string told = explain(call, machine);
  const std::string words = concat("\n  ", name_of(algorithm), ": ");
  const std::size_t at = told.find(words);
  CHECK(at != std::string::npos);
  return std::stod(told.substr(at + words.size()));
}

}  // namespace

// Sums of 16 and 8 bits of floating point are passed on as floats, and as results once they are whole.
CASE(the_predicted_cost_counts_the_bytes_that_travel) {
  struct Row {
    OpKind kind;
    Algorithm algorithm;
    double sums;  // the share of sums in the bytes that travel, for integers
  };
  const Row rows[] = {{OpKind::all_reduce, Algorithm::ring, 0.5},
                      {OpKind::reduce_scatter, Algorithm::ring, 1},
                      {OpKind::all_reduce, Algorithm::tree, 0.5},
                      {OpKind::reduce, Algorithm::tree, 1},
                      {OpKind::all_reduce, Algorithm::halving_doubling, 0.5},
                      {OpKind::reduce_scatter, Algorithm::halving_doubling, 1}};
  for (const DeviceKind device : {DeviceKind::host, DeviceKind::cuda}) {
    const collective::MachineTraits machine{device, 0, 8, 16384, 16384, 2};
    for (const Row& row : rows) {
      const auto us = [&](ElementType type, ReduceOp op, OpKind kind) {
        CollectiveCall call;
        call.kind = kind;
        call.type = type;
        call.op = op;
        call.count = (std::size_t{1} << 34) / size_of(type);  // so many that all else does not matter
        return predicted_us(row.algorithm, call, machine);
      };
      const auto times = [&](ElementType type, ElementType alike, ReduceOp op) {
        return us(type, op, row.kind) / us(alike, op, row.kind);
      };
      const auto is = [](double value, double expected) { return value > 0.97 * expected && value < 1.03 * expected; };
      CHECK(is(times(ElementType::float16, ElementType::int16, ReduceOp::sum), 1 + row.sums));
      CHECK(is(times(ElementType::bfloat16, ElementType::int16, ReduceOp::avg), 1 + row.sums));
      CHECK(is(times(ElementType::float8_e4m3, ElementType::int8, ReduceOp::prod), 1 + 3 * row.sums));
      CHECK(is(times(ElementType::float16, ElementType::int16, ReduceOp::max), 1));
      CHECK(is(times(ElementType::float32, ElementType::int32, ReduceOp::sum), 1));
    }
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
