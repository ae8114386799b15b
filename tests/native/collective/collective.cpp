// Collectives between ranks of this process, on every device: every kind, type, reduction and algorithm against a plain
// reference, in place and beside. collective_order.cpp and collective_errors.cpp have the rest.
#include "onstream/collective.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <span>

#include "collective_cases.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_reduce;

// The other cases skip each call that the list refuses, so they would not notice a wrong refusal.
CASE(the_list_of_algorithms_does_these_kinds) {
  using Kinds = std::vector<OpKind>;
  const Kinds all = {OpKind::all_reduce,     OpKind::reduce,     OpKind::reduce_scatter, OpKind::scan,
                     OpKind::exclusive_scan, OpKind::all_gather, OpKind::gather,         OpKind::scatter,
                     OpKind::broadcast,      OpKind::all_to_all, OpKind::all_gather_v,   OpKind::all_to_all_v,
                     OpKind::barrier};
  const std::map<Algorithm, Kinds> rows = {
      {Algorithm::ll, {all.begin(), all.begin() + 10}},
      {Algorithm::two_shot, {OpKind::all_reduce}},
      {Algorithm::ll128,
       {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::all_to_all, OpKind::broadcast}},
      {Algorithm::simple, {all.begin(), all.end() - 1}},
      {Algorithm::copy, {all.begin() + 5, all.end() - 1}},
      {Algorithm::ring, {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::broadcast}},
      {Algorithm::tree, {OpKind::all_reduce, OpKind::reduce, OpKind::broadcast}},
      {Algorithm::halving_doubling, {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather}},
      {Algorithm::hierarchical,
       {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::broadcast,
        OpKind::barrier}}};
  CHECK(rows.size() == collective::algorithms().size());
  for (const auto& [algorithm, kinds] : rows) {
    for (const OpKind kind : all) {
      const bool listed = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
      const bool barrier_by_lines = kind == OpKind::barrier && algorithm == Algorithm::ll;
      if (is_possible(kind, algorithm) == (listed || barrier_by_lines)) continue;
      throw CheckFailed(concat(name_of(kind), " by ", name_of(algorithm), listed ? " is refused" : " is not refused"));
    }
  }
}

CASE(every_type_and_reduction_is_exact_by_every_algorithm) {
  const Coverage coverage;
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4}, {1, 3})) {
    on_all_devices_in_pairs(size, [](World& world) {
      const OwnStream stream(world);
      for (const ElementType type : all_types()) {
        for (const ReduceOp op : ops_for(type)) {
          for (const Algorithm algorithm : kEach) {
            check_reduction(world, {OpKind::all_reduce, type, op, 37, algorithm}, &stream);
          }
        }
      }
    });
  }
  coverage.check(std::array{OpKind::all_reduce}, kEach);
}

void check_every_reduction(World& world, std::initializer_list<std::size_t> counts) {
  const OwnStream stream(world);
  for (const OpKind kind : kReductions) {
    for (const Algorithm algorithm : kEach) {
      for (const std::size_t count : counts) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, count, algorithm}, &stream);
        check_reduction(world, {kind, ElementType::float16, ReduceOp::max, count, algorithm}, nullptr);
        check_reduction(world, {kind, ElementType::complex128, ReduceOp::prod, count, algorithm}, nullptr);
      }
    }
  }
}

CASE(every_kind_of_reduction_is_right_for_one_to_six_ranks) {
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4, 5, 6}, {1, 2, 3, 5})) {
    const Coverage coverage;
    on_all_devices_in_pairs(size, [](World& world) { check_every_reduction(world, {1, 2, 5, 1000}); });
    if (size > 2) coverage.check(kReductions, kEach);
  }
}

CASE(every_kind_of_reduction_is_right_for_seven_to_nine_ranks) {
  for (const int size : all_or_few<std::vector<int>>({7, 8, 9}, {8})) {
    const Coverage coverage;
    on_all_devices_in_pairs(size, [](World& world) { check_every_reduction(world, {5, 1000}); });
    coverage.check(kReductions, kEach);
  }
}

CASE(every_kind_of_move_is_right_for_one_to_nine_ranks) {
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 7})) {
    const Coverage coverage;
    on_all_devices_in_pairs(size, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const OpKind kind : kMoves) {
          for (const Algorithm algorithm : kEach) {
            for (const std::size_t bytes : {1, 7, 8, 100, 5000}) {
              check_move(world, kind, bytes, algorithm, where, bytes % 2 == 0 ? &stream : nullptr);
            }
          }
        }
      }
    });
    if (size > 2) coverage.check(kMoves, kEach);
  }
}

CASE(large_ones_are_right_from_buffer_to_buffer_and_through_the_stage) {
  for (const int size : all_or_few<std::vector<int>>({2, 3, 4}, {3})) {
    on_all_devices_in_pairs(size, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const OpKind kind : kReductions) {
          const std::size_t count = all_or_few(200'001, 100'001);
          check_reduction(world, {kind, ElementType::float32, ReduceOp::sum, count, Algorithm::simple, where}, &stream);
        }
        const std::size_t bytes = all_or_few(1'500'001, 400'001);
        for (const OpKind kind : kMoves) check_move(world, kind, bytes, Algorithm::simple, where, &stream);
      }
    });
  }
}

CASE(large_ones_are_right_by_copies_rings_trees_and_halves) {
  constexpr Algorithm kLarge[] = {Algorithm::copy, Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling,
                                  Algorithm::hierarchical};
  constexpr std::size_t kCount = all_or_few(300'001, 50'001);
  const Coverage coverage;
  on_all_devices_in_pairs(3, [&](World& world) {
    const OwnStream stream(world);
    for (const Algorithm algorithm : kLarge) {
      for (const OpKind kind : kReductions) {
        check_reduction(world, {kind, ElementType::float32, ReduceOp::sum, kCount, algorithm}, &stream);
      }
      for (const OpKind kind : kMoves) check_move(world, kind, 3 * kCount, algorithm, Where::reachable, &stream);
    }
  });
  coverage.check(kReductions, kLarge);
  coverage.check(kMoves, kLarge);
}

CASE(a_small_stage_is_filled_many_times) {
  Parameters parameters = in_pairs("host");
  parameters.collective_stage_bytes = 4096;
  const Coverage coverage;
  for (const int size : {2, 3, 5}) {
    run_ranks(size, parameters, [](World& world) {
      for (const Algorithm algorithm : kBulk) {
        for (const OpKind kind : kReductions) {
          check_reduction(world, {kind, ElementType::int16, ReduceOp::premulsum, 10'001, algorithm, Where::plain},
                          nullptr);
        }
        for (const OpKind kind : kMoves) check_move(world, kind, 20'001, algorithm, Where::plain, nullptr);
        check_counts(world, 3001, algorithm, Where::plain, nullptr);
      }
    });
  }
  coverage.check(kReductions, kBulk);
  coverage.check(kMoves, kBulk);
  coverage.check(kCounted, kBulk);
}

// Few blocks, so that each has many cuts and many flights of packs; lengths that end within one.
CASE(what_is_many_times_a_blocks_share_is_right_to_the_last_byte) {
  constexpr std::size_t kCount = all_or_few(100'001, 30'001);
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.collective_blocks = 2;
    for (const int size : all_or_few<std::vector<int>>({2, 3, 4, 5}, {4})) {
      run_ranks(size, parameters, [](World& world) {
        const OwnStream stream(world);
        for (const OpKind kind : kMoves) check_move(world, kind, 6 * kCount + 11, Algorithm::simple, {}, &stream);
        for (const OpKind kind : kReductions) {
          check_reduction(world, {kind, ElementType::float32, ReduceOp::sum, kCount, Algorithm::simple}, &stream);
          check_reduction(world, {kind, ElementType::float16, ReduceOp::sum, 2 * kCount + 7, Algorithm::simple},
                          &stream);
        }
        for (const ReduceOp op : {ReduceOp::premulsum, ReduceOp::min}) {
          check_reduction(world, {OpKind::all_reduce, ElementType::float32, op, kCount, Algorithm::simple}, &stream);
        }
      });
    }
  }
}

// A rank that forwards must forward the bytes that have come, with any alignment of the buffers at each rank.
CASE(a_large_broadcast_is_right_wherever_the_buffers_begin) {
  constexpr std::int64_t kByAll = 1 << 30;
  const auto broadcasts = all_or_few<std::vector<std::pair<int, std::int64_t>>>(
      {{2, kByAll}, {3, kByAll}, {5, kByAll}, {3, 0}, {5, 0}}, {{3, kByAll}, {3, 0}});
  for (const auto& [size, chain_bytes] : broadcasts) {
    for (const std::string& device : device_specs_over_gpus(size)) {
      Parameters parameters = in_pairs(device);
      parameters.collective_blocks = 3;
      parameters.collective_chain_bytes = chain_bytes;
      run_ranks(size, parameters, [&](World& world) {
        constexpr std::size_t kBytes = 5'000'011;
        for (const std::size_t apart : all_or_few<std::vector<std::size_t>>({0, 1, 4}, {1})) {
          const std::size_t shift = 4 + apart * static_cast<std::size_t>(world.rank());
          TestBuffer input(world, kBytes + 64);
          TestBuffer output(world, kBytes + 64);
          for (unsigned round = 0; round < 3; ++round) {
            const unsigned root = (static_cast<unsigned>(size) - 1 + round) % static_cast<unsigned>(size);
            auto data = pattern(kBytes + 64, 10 * round + static_cast<unsigned>(world.rank()));
            input.write(data);
            CollectiveCall call;
            call.kind = OpKind::broadcast;
            call.input = input.data() + shift;
            call.output = output.data() + shift;
            call.count = kBytes;
            call.type = ElementType::uint8;
            call.root = static_cast<int>(root);
            call.algorithm = Algorithm::simple;
            run(world, call, nullptr);
            const auto of_root = pattern(kBytes + 64, 10 * round + root);
            const std::size_t from = 4 + apart * root;
            const auto got = output.read();
            CHECK(std::equal(got.begin() + static_cast<std::ptrdiff_t>(shift),
                             got.begin() + static_cast<std::ptrdiff_t>(shift + kBytes),
                             of_root.begin() + static_cast<std::ptrdiff_t>(from)));
          }
        }
      });
    }
  }
}

CASE(buffers_that_only_some_peers_can_address_take_the_stage_everywhere) {
  run_ranks(3, in_pairs("host"), [](World& world) {
    const Where where = world.rank() == 1 ? Where::plain : Where::reachable;
    for (const OpKind kind : kReductions) {
      for (const Algorithm algorithm : kBulk) {
        check_reduction(world, {kind, ElementType::int16, ReduceOp::sum, 50'000, algorithm, where}, nullptr);
      }
    }
    for (const OpKind kind : kMoves) {
      for (const Algorithm algorithm : kBulk) {
        check_move(world, kind, 100'000, algorithm, where, nullptr);
      }
    }
  });
}

CASE(two_shot_is_right_up_to_the_size_of_its_slots) {
  on_all_devices_in_pairs(4, [](World& world) {
    const OwnStream stream(world);
    for (const std::size_t count : {999, 4096, 40'001, 131'072}) {
      check_reduction(world, {OpKind::all_reduce, ElementType::float32, ReduceOp::sum, count, Algorithm::two_shot},
                      &stream);
      check_reduction(world, {OpKind::all_reduce, ElementType::int8, ReduceOp::bxor, count, Algorithm::two_shot},
                      &stream);
    }
  });
}

CASE(ll128_is_right_up_to_the_size_of_its_slots_and_refuses_more) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.collective_ll128_bytes = 100'000;
    run_ranks(4, parameters, [](World& world) {
      const OwnStream stream(world);
      const std::size_t slot = collective::Channel::ll128_bytes(*world.fabric(), 4);
      CHECK(slot > 10'000 && slot < 12'500);
      const std::size_t most = slot / 2 / 240 * 240 * 4;  // of an all_reduce: a half of every rank's slot for each shot
      for (const std::size_t bytes : {most - 1, most}) {
        for (int i = 0; i < 3; ++i) {  // into both halves of every slot, and those of the next rank behind them
          check_reduction(world, {OpKind::all_reduce, ElementType::int8, ReduceOp::sum, bytes, Algorithm::ll128},
                          &stream);
        }
      }
      check_reduction(world, {OpKind::reduce_scatter, ElementType::uint8, ReduceOp::sum, slot, Algorithm::ll128},
                      &stream);
      for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all, OpKind::broadcast}) {
        for (const std::size_t bytes : {slot - 1, slot}) {
          check_move(world, kind, bytes, Algorithm::ll128, Where::reachable, &stream);
        }
      }
      TestBuffer buffer(world, 4 * slot + 4);
      CollectiveCall call = all_reduce({buffer.data(), buffer.data(), most + 1, ElementType::int8});
      call.algorithm = Algorithm::ll128;
      CHECK_THROWS(world.collective().run(call), "do not fit");
      TestBuffer input(world, slot + 1);
      call = collective::all_gather({input.data(), buffer.data(), slot + 1, ElementType::int8});
      call.algorithm = Algorithm::ll128;
      CHECK_THROWS(world.collective().run(call), "do not fit");
    });
  }
}

CASE(without_slots_for_ll128_lines_there_are_none) {
  for (const std::int64_t bytes : {0, 1000}) {
    Parameters parameters = in_pairs("host");
    parameters.collective_ll128_bytes = bytes;
    run_ranks(3, parameters, [](World& world) {
      only_on_one_host(world);
      TestBuffer buffer(world, 4000);
      CollectiveCall call = all_reduce({buffer.data(), buffer.data(), 1000, ElementType::int32});
      CHECK(world.collective().explain(call).find("ll128: there are no LL128 lines for 3 ranks") != std::string::npos);
      world.collective().run(call);
      call.algorithm = Algorithm::ll128;
      CHECK_THROWS(world.collective().run(call), "algorithm ll128 cannot: there are no LL128 lines for 3 ranks");
    });
  }
}

// Sums of floats whose order matters: `each` algorithm after the other, the same bits every time and on every rank.
void check_bits(std::span<const Algorithm> each) {
  on_all_devices_in_pairs(4, [&](World& world) {
    constexpr std::size_t kCount = 10'007;
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] = std::sin(static_cast<float>(i * 13 + static_cast<std::size_t>(world.rank()) * 7919)) * 1e3F;
    }
    std::vector<unsigned char> bytes(kCount * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    TestBuffer input(world, bytes.size());
    TestBuffer output(world, bytes.size());
    input.write(bytes);
    std::vector<unsigned char> first;
    for (const Algorithm algorithm : each) {
      CollectiveCall call = all_reduce({input.data(), output.data(), kCount, ElementType::float32});
      call.algorithm = algorithm;
      world.collective().run(call);
      if (first.empty()) first = output.read();
      CHECK(output.read() == first);
    }
    const std::string mine(first.begin(), first.end());
    for (const std::string& other : world.fabric()->all_gather("the results of a test", mine)) CHECK(other == mine);
  });
}

CASE(sums_of_floats_have_the_same_bits_by_each_algorithm_in_order_and_on_every_rank) { check_bits(kSameBits); }

CASE(sums_in_another_order_than_the_ranks_have_the_same_bits_on_every_rank_and_again) {
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling, Algorithm::hierarchical}) {
    const Algorithm twice[] = {algorithm, algorithm};
    check_bits(twice);
  }
}

CASE(counts_may_differ_from_rank_to_rank) {
  const Coverage coverage;
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 7})) {
    on_all_devices_in_pairs(size, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const Algorithm algorithm : kEach) {
          check_counts(world, 1, algorithm, where, nullptr);
          check_counts(world, 1000, algorithm, where, &stream);
        }
      }
    });
  }
  coverage.check(kCounted, kEach);
}

CASE(odd_addresses_are_fine) {
  on_all_devices_in_pairs(3, [](World& world) {
    constexpr std::size_t kBytes = 3001;
    TestBuffer input(world, kBytes + 16);
    TestBuffer output(world, kBytes + 16);
    for (const std::size_t skew : {1, 2, 4, 8}) {
      for (const Algorithm algorithm : kEach) {
        std::vector<unsigned char> mine(kBytes + 16);
        const std::vector<unsigned char> values = input_of(ElementType::int8, ReduceOp::sum, world.rank(), kBytes);
        std::copy(values.begin(), values.end(), mine.begin() + static_cast<std::ptrdiff_t>(skew));
        input.write(mine);
        CollectiveCall call = all_reduce({input.data() + skew, output.data() + skew, kBytes, ElementType::int8});
        call.algorithm = algorithm;
        if (!can(world, call)) continue;
        world.collective().run(call);
        std::vector<unsigned char> got = output.read();
        got = {got.begin() + static_cast<std::ptrdiff_t>(skew),
               got.begin() + static_cast<std::ptrdiff_t>(skew + kBytes)};
        expect(world, call, got, result_of(ElementType::int8, ReduceOp::sum, 0, 3, 0, kBytes), "skewed");
      }
    }
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
