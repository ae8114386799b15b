// Collectives among as many ranks as a team may have, threads of this process on the host device: every kind.
#include <array>
#include <atomic>
#include <functional>

#include "collective_cases.hpp"
#include "onstream/collective.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

// 64, each with less than the usual memory for messages.
void on_many_ranks(const std::function<void(World&)>& body) {
  Parameters parameters = in_pairs("host");
  parameters.collective_group = all_or_few(8, 4);
  parameters.tags = 1;
  parameters.tag_bytes = 1024;
  parameters.timeout_s = 60;
  parameters.bootstrap_timeout_s = 60;
  run_ranks(all_or_few(64, 16), parameters, body);
}

// Memory that nobody else can address goes through the stage, which is small.
constexpr Algorithm kStaged[] = {Algorithm::simple, Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling};

CASE(every_reduction_of_many_ranks_is_right_by_every_algorithm) {
  const Coverage coverage;
  on_many_ranks([](World& world) {
    for (const OpKind kind : kReductions) {
      for (const Algorithm algorithm : kEach) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, 20, algorithm}, nullptr);
      }
    }
  });
  coverage.check(kReductions, kEach);
}

CASE(every_move_of_many_ranks_is_right_by_every_algorithm) {
  const Coverage coverage;
  on_many_ranks([](World& world) {
    for (const Algorithm algorithm : kEach) {
      for (const OpKind kind : kMoves) check_move(world, kind, 64, algorithm, Where::reachable, nullptr);
      check_counts(world, 10, algorithm, Where::reachable, nullptr);
    }
  });
  coverage.check(kMoves, kEach);
  coverage.check(kCounted, kEach);
}

CASE(everything_of_many_ranks_goes_through_their_stages) {
  constexpr Algorithm kDirect[] = {Algorithm::simple};
  const Coverage coverage;
  on_many_ranks([](World& world) {
    for (const OpKind kind : kReductions) {
      check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, 20, Algorithm::simple, Where::plain}, nullptr);
    }
    for (const OpKind kind : kMoves) check_move(world, kind, 64, Algorithm::simple, Where::plain, nullptr);
    check_counts(world, 10, Algorithm::simple, Where::plain, nullptr);
  });
  coverage.check(kReductions, kDirect);
  coverage.check(kMoves, kDirect);
  coverage.check(kCounted, kDirect);
}

CASE(many_ranks_pass_what_is_longer_than_a_window_through_their_stages) {
  const Coverage coverage;
  on_many_ranks([](World& world) {
    for (const Algorithm algorithm : kStaged) {
      check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 5000, algorithm, Where::plain},
                      nullptr);
      check_move(world, algorithm == Algorithm::halving_doubling ? OpKind::all_gather : OpKind::broadcast, 5000,
                 algorithm, Where::plain, nullptr);
    }
    check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 5000, Algorithm::hierarchical},
                    nullptr);
  });
  coverage.check(std::array{OpKind::all_reduce}, kStaged);
  coverage.check(std::array{OpKind::broadcast}, std::array{Algorithm::simple, Algorithm::ring, Algorithm::tree});
  coverage.check(std::array{OpKind::all_gather}, std::array{Algorithm::halving_doubling});
}

CASE(many_ranks_meet_at_a_barrier) {
  std::atomic<int> came = 0;
  on_many_ranks([&](World& world) {
    for (int round = 1; round <= 3; ++round) {
      ++came;
      world.collective().run(collective::barrier());
      CHECK(came >= round * world.size());
    }
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
