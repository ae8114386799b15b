// The protocol that the blocks and threads of a GPU's collective keep among themselves - posts that they read for each
// other, votes, blocks that begin with different peers - run by crowds of host threads (crowd.hpp).
#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "collective_cases.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/compile/compile.hpp"
#include "onstream/collective/kernel/barrier.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/ll128.hpp"
#include "onstream/collective/kernel/simple_move.hpp"
#include "onstream/collective/kernel/simple_reduce.hpp"
#include "onstream/collective/kernel/two_shot.hpp"
#include "onstream/collective/sleeping/pass_move.hpp"
#include "onstream/collective/sleeping/pass_reduce.hpp"
#include "onstream/transport/copy_thread.hpp"
#include "support/check.hpp"
#include "support/crowd.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::Channel;
using onstream::collective::KernelLaunch;

namespace {

// A kernel, and the function that runs its body by a crowd.
struct Entry {
  const Kernel* kernel;
  void (*run)(const void* body, Grid grid);
};

template <ElementType kType>
void add_reductions(std::vector<Entry>& entries) {
  using namespace onstream::collective;
  using Rule = typename RuleOf<kType>::Rule;
  entries.insert(entries.end(), {{&reduce_ll_kernel(kType), crowd_entry<ReduceLl<Rule>>},
                                 {&two_shot_kernel(kType), crowd_entry<TwoShotLl<Rule>>},
                                 {&reduce_ll128_kernel(kType), crowd_entry<ReduceLl128<Rule>>},
                                 {&bulk_reduce_kernel(kType, AddressTable::near), crowd_entry<BulkReduce<Rule, kNear>>},
                                 {&pass_reduce_kernel(kType), crowd_entry<PassReduce<Rule>>}});
}

const std::vector<Entry>& entries() {
  using namespace onstream::collective;
  static const std::vector<Entry> all = [] {
    std::vector<Entry> out = {{&pass_move_kernel(), crowd_entry<PassMove>},
                              {&barrier_kernel(), crowd_entry<collective::BarrierLl>},
                              {&exchange_ll_kernel(), crowd_entry<ExchangeLl>},
                              {&exchange_ll128_kernel(), crowd_entry<ExchangeLl128>},
                              {&bulk_move_kernel(AddressTable::near), crowd_entry<BulkMove<kNear>>}};
    add_reductions<ElementType::int32>(out);
    add_reductions<ElementType::float16>(out);
    return out;
  }();
  return all;
}

std::vector<int> all_ranks(World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

// Collectives of a world on a channel of their own, by crowds of one shape.
class Crowd {
 public:
  Crowd(World& world, Grid grid)
      : fabric_(*world.fabric()), ranks_(all_ranks(world)), channel_(fabric_, room_, ranks_, 0), grid_(grid) {}

  void run(const CollectiveCall& call) const {
    const KernelLaunch work = prepare(fabric_, channel_, ranks_, call, 1);
    for (const Entry& entry : entries()) {
      if (entry.kernel == work.kernel) return entry.run(work.bytes.data(), grid_for(call));
    }
    throw CheckFailed(concat("no crowd runs ", work.kernel->name));
  }

 private:
  // LL128 lines are for whole subgroups.
  Grid grid_for(const CollectiveCall& call) const {
    if (call.algorithm != Algorithm::ll128) return grid_;
    return {grid_.blocks, (grid_.threads + CrowdBlock::kSubgroup - 1) / CrowdBlock::kSubgroup * CrowdBlock::kSubgroup};
  }

  Fabric& fabric_;
  collective::BlockBudget room_;
  std::vector<int> ranks_;
  Channel channel_;
  Grid grid_;
};

constexpr Algorithm kByKernels[] = {Algorithm::ll,   Algorithm::two_shot, Algorithm::ll128,           Algorithm::simple,
                                    Algorithm::ring, Algorithm::tree,     Algorithm::halving_doubling};

// Fewer threads than a post has lines, more than all posts have, one alone, and a number that divides nothing.
constexpr Grid kShapes[] = {{2, 3}, {1, 24}, {3, 1}, {2, 13}};
constexpr Grid kFewThreads = {1, 9};  // two subgroups of an LL128 line, still

using Body = std::function<void(World&, const Crowd&)>;

void with_crowd(int size, const Parameters& parameters, Grid grid, const Body& body) {
  run_ranks(size, parameters, [&](World& world) {
    const Crowd crowd(world, grid);
    body(world, crowd);
  });
}
void with_crowds(int size, const Parameters& parameters, const Body& body) {
  const std::span<const Grid> all(kShapes);
  for (const Grid grid : all_or_few(all, all.first(1))) with_crowd(size, parameters, grid, body);
}
// All shapes of with_crowds() among three ranks, and one shape among other numbers of them: four for a second round of
// the halving algorithms, in blocks of two subgroups.
void with_many_crowds(const Parameters& parameters, const Body& body) {
  with_crowds(3, parameters, body);
  with_crowd(4, parameters, all_or_few(kShapes[3], kFewThreads), body);
  for (const int size : all_or_few<std::vector<int>>({2, 5}, {})) with_crowd(size, parameters, kShapes[0], body);
}

void run(World&, const CollectiveCall& call, const Crowd* crowd) { crowd->run(call); }

}  // namespace

// All_reduces by LL128 lines in one shot and in two, and, where ranks share cores, of several stripes either way.
void check_reductions(std::initializer_list<Algorithm> algorithms) {
  const Coverage coverage;
  with_many_crowds(quick("host"), [&](World& world, const Crowd& crowd) {
    for (const OpKind kind : kReductions) {
      for (const Algorithm algorithm : algorithms) {
        for (const std::size_t count : {1, 1000}) {
          check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, count, algorithm}, &crowd);
        }
        check_reduction(world, {kind, ElementType::int32, ReduceOp::premulsum, 501, algorithm}, &crowd);
        check_reduction(world, {kind, ElementType::float16, ReduceOp::max, 201, algorithm}, &crowd);
        check_reduction(world, {kind, ElementType::float16, ReduceOp::premulsum, 501, algorithm}, &crowd);
        check_reduction(world, {kind, ElementType::float16, ReduceOp::premulsum, 2501, algorithm}, &crowd);
      }
    }
  });
  coverage.check(kReductions, algorithms);
}

CASE(reductions_by_lines_are_right_by_blocks_of_several_threads) {
  check_reductions({Algorithm::ll, Algorithm::two_shot, Algorithm::ll128});
}

CASE(reductions_from_buffer_to_buffer_are_right_by_blocks_of_several_threads) { check_reductions({Algorithm::simple}); }

CASE(reductions_that_are_passed_on_are_right_by_blocks_of_several_threads) {
  check_reductions({Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling});
}

CASE(moves_are_right_by_blocks_of_several_threads) {
  const Coverage coverage;
  with_many_crowds(quick("host"), [](World& world, const Crowd& crowd) {
    for (const OpKind kind : kMoves) {
      for (const Algorithm algorithm : kByKernels) {
        for (const std::size_t bytes : {1, 100, 5000}) {
          check_move(world, kind, bytes, algorithm, Where::reachable, &crowd);
        }
      }
    }
    for (const Where where : places(world)) check_counts(world, 200, Algorithm::simple, where, &crowd);
  });
  coverage.check(kMoves, kByKernels);
  coverage.check(kCounted, kByKernels);
}

CASE(large_ones_take_several_flights_and_windows_and_fill_the_stage_many_times) {
  Parameters parameters = quick("host");
  parameters.collective_stage_bytes = 32 << 10;
  with_crowds(3, parameters, [](World& world, const Crowd& crowd) {
    for (const Where where : places(world)) {
      for (const Algorithm algorithm : kBulk) {
        if (algorithm == Algorithm::hierarchical) continue;  // several kernels
        for (const OpKind kind : kReductions) {
          check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, 20'001, algorithm, where}, &crowd);
          check_reduction(world, {kind, ElementType::float16, ReduceOp::sum, 20'001, algorithm, where}, &crowd);
        }
        for (const OpKind kind : kMoves) check_move(world, kind, 60'001, algorithm, where, &crowd);
      }
    }
  });
}

CASE(sums_are_added_up_before_they_are_given_where_that_is_asked_for) {
  Parameters parameters = quick("host");
  for (const std::int64_t from : {0, 4000}) {
    parameters.collective_halves_bytes = from;
    with_many_crowds(parameters, [](World& world, const Crowd& crowd) {
      for (const std::size_t count : {1, 5, 999, 1000, 4099}) {
        check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, count, Algorithm::simple},
                        &crowd);
      }
      for (const OpKind kind : {OpKind::all_reduce, OpKind::reduce}) {
        check_reduction(world, {kind, ElementType::float16, ReduceOp::sum, 4099, Algorithm::simple}, &crowd);
        check_reduction(world, {kind, ElementType::int32, ReduceOp::premulsum, 2000, Algorithm::simple}, &crowd);
      }
    });
  }
}

CASE(broadcasts_from_rank_to_rank_are_right_in_any_number_of_blocks) {
  Parameters parameters = quick("host");
  parameters.collective_chain_bytes = 0;
  with_many_crowds(parameters, [](World& world, const Crowd& crowd) {
    for (const Where where : places(world)) {
      for (const std::size_t count : {5, 6001}) {
        check_move(world, OpKind::broadcast, count, Algorithm::simple, where, &crowd);
        check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 40, Algorithm::simple}, &crowd);
      }
    }
  });
}

// A block has several steps there, and every other one a half.
CASE(large_broadcasts_are_right_in_several_blocks_of_several_threads) {
  Parameters parameters = quick("host");
  for (const std::int64_t chain_bytes : {0, 1 << 30}) {
    parameters.collective_chain_bytes = chain_bytes;
    with_crowd(3, parameters, kShapes[0], [](World& world, const Crowd& crowd) {
      for (const Where where : places(world)) {
        check_move(world, OpKind::broadcast, 5'000'011, Algorithm::simple, where, &crowd);
      }
    });
  }
}

// Behind each barrier every rank sees that all have said this round; between them run broadcasts.
CASE(barriers_of_several_threads_wait_for_every_rank) {
  for (const int size : all_or_few<std::vector<int>>({2, 3, 4, 8}, {3})) {
    std::vector<std::atomic<int>> said(static_cast<std::size_t>(size));
    const auto all_have_said = [&](int round) {
      return std::ranges::all_of(said, [&](const std::atomic<int>& one) { return one.load() >= round; });
    };
    const auto body = [&](World& world, const Crowd& crowd) {
      for (int round = 1; round <= 20; ++round) {
        said[static_cast<std::size_t>(world.rank())].store(round);
        CollectiveCall barrier = collective::barrier();
        barrier.algorithm = Algorithm::ll;
        crowd.run(barrier);
        CHECK(all_have_said(round));
        if (round % 4 == 0) check_move(world, OpKind::broadcast, 9, Algorithm::ll, Where::reachable, &crowd);
      }
    };
    for (const Grid grid : {kFewThreads, Grid{2, size / 2}}) {  // a thread for each of the others, at least
      for (std::atomic<int>& one : said) one.store(0);
      with_crowd(size, quick("host"), grid, body);
    }
  }
}

// A block that stores lines needs no block of its own number on the other ranks.
CASE(lines_do_not_care_in_how_many_blocks_they_go) {
  run_ranks(3, quick("host"), [](World& world) {
    const Crowd crowd(world, kShapes[world.rank()]);
    for (const Algorithm algorithm : {Algorithm::ll, Algorithm::two_shot, Algorithm::ll128}) {
      for (const std::size_t count : {5, 1000}) {
        check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, count, algorithm}, &crowd);
      }
    }
  });
}

// Sums where everybody's part is equally long.
CASE(sums_and_moves_by_the_copy_engine_are_right_in_any_number_of_blocks) {
  Parameters parameters = quick("host");
  parameters.collective_engine = "on";
  with_many_crowds(parameters, [](World& world, const Crowd& crowd) {
    const auto size = static_cast<std::size_t>(world.size());
    const CopyThread& copies = world.fabric()->copies();
    for (const std::size_t count : {std::size_t{5}, 8 * size, 1024 * size, 1024 * size + 1}) {
      const std::uint64_t before = copies.served();
      check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, count, Algorithm::simple}, &crowd);
      CHECK((copies.served() > before) == (count % (4 * size) == 0));
    }
    check_reduction(world, {OpKind::all_reduce, ElementType::float16, ReduceOp::sum, 512 * size, Algorithm::simple},
                    &crowd);
    for (const OpKind kind : kMoves) check_move(world, kind, 6001, Algorithm::simple, Where::reachable, &crowd);
  });
}

CASE(collectives_of_every_algorithm_follow_each_other_by_epochs) {
  with_crowds(3, quick("host"), [](World& world, const Crowd& crowd) {
    for (int round = 0; round < 4; ++round) {
      for (const Algorithm algorithm : kByKernels) {
        check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 300, algorithm}, &crowd);
        for (int i = 0; i < 3; ++i) check_move(world, OpKind::broadcast, 64, algorithm, Where::reachable, &crowd);
        check_reduction(world, {OpKind::scan, ElementType::int32, ReduceOp::sum, 300, algorithm}, &crowd);
      }
    }
  });
}

// Each rank copies as many bytes to itself as it sends: blocks share the two unevenly.
CASE(two_ranks_move_right_in_any_number_of_blocks) {
  for (const Grid grid : {Grid{3, 1}, Grid{2, 3}, Grid{5, 3}}) {
    with_crowd(2, quick("host"), grid, [](World& world, const Crowd& crowd) {
      for (const OpKind kind : kMoves) {
        for (const std::size_t bytes : {1, 100, 60'001}) {
          check_move(world, kind, bytes, Algorithm::simple, Where::reachable, &crowd);
        }
      }
      check_counts(world, 200, Algorithm::simple, Where::reachable, &crowd);
    });
  }
}

// Every thread of every block gives up, and the ones that come later do not wait at all.
CASE(all_threads_end_when_a_rank_does_not_come) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 1.5;
  using Make = CollectiveCall (*)(const collective::Vector&);
  const Make reduces = [](const collective::Vector& vector) { return collective::all_reduce(vector); };
  const Make broadcasts = [](const collective::Vector& vector) { return collective::broadcast(vector, 1); };
  for (const Algorithm algorithm : kByKernels) {
    for (const Make make : {reduces, broadcasts}) {
      with_crowd(3, parameters, kShapes[0], [&](World& world, const Crowd& crowd) {
        TestBuffer buffer(world, 4000);
        CollectiveCall call = make({buffer.data(), buffer.data(), buffer.bytes() / 4, ElementType::int32});
        if (!is_possible(call.kind, algorithm)) return;
        call.algorithm = algorithm;
        if (world.rank() != 1) {
          crowd.run(call);
          crowd.run(call);
        }
        await_failure(world);
        CHECK_THROWS(world.check(), "waiting for rank 1");
      });
    }
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
