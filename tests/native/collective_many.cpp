// Collectives among as many ranks as a team may have, threads of this process on the host device: every kind.
#include <array>
#include <atomic>
#include <functional>

#include "check.hpp"
#include "collective_cases.hpp"
#include "onstream/collective/collective.hpp"

using namespace onstream;
using namespace onstream::test;

// 64, each with less than the usual memory for messages.
void on_many_ranks(const std::function<void(World&)>& body) {
  Parameters parameters = in_pairs("host");
  parameters.collective_group = all_or_few(8, 4);
  parameters.lanes = 1;
  parameters.lane_bytes = 1024;
  parameters.timeout_s = 60;
  parameters.bootstrap_timeout_s = 60;
  run_ranks(all_or_few(64, 16), parameters, body);
}

constexpr Algorithm kAnyKind[] = {Algorithm::lines, Algorithm::direct};

CASE(many_ranks_agree) {
  const Coverage coverage;
  on_many_ranks([](World& world) {
    for (const OpKind kind : kReductions) {
      for (const Algorithm algorithm : kAnyKind) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, 20, algorithm, Where::plain}, nullptr);
      }
    }
    for (const Algorithm algorithm : {Algorithm::two_shot, Algorithm::wide}) {
      check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 100, algorithm}, nullptr);
    }
  });
  coverage.check(kReductions, kAnyKind);
  coverage.check(std::array{OpKind::all_reduce}, kSameBits);
}

CASE(many_ranks_exchange_and_meet) {
  std::atomic<int> came = 0;
  const Coverage coverage;
  on_many_ranks([&](World& world) {
    for (const Algorithm algorithm : kAnyKind) {
      for (const OpKind kind : kMoves) check_move(world, kind, 64, algorithm, Where::plain, nullptr);
      check_counts(world, 10, algorithm, Where::plain, nullptr);
    }
    check_move(world, OpKind::all_to_all, 64, Algorithm::direct, Where::plain, nullptr);
    for (const OpKind kind : {OpKind::all_to_all, OpKind::broadcast}) {
      check_move(world, kind, 300, Algorithm::wide, Where::reachable, nullptr);
    }
    check_move(world, OpKind::all_gather, 64, Algorithm::copy, Where::reachable, nullptr);
    for (int round = 1; round <= 3; ++round) {
      ++came;
      world.collective().run(collective::barrier());
      CHECK(came >= round * world.size());
    }
  });
  coverage.check(kMoves, kAnyKind);
  coverage.check(kCounted, kAnyKind);
}

CASE(many_ranks_agree_round_a_ring_and_along_a_tree) {
  const Coverage coverage;
  on_many_ranks([](World& world) {
    check_move(world, OpKind::all_gather, 64, Algorithm::ring, Where::reachable, nullptr);
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
      check_move(world, OpKind::broadcast, 5000, algorithm, Where::reachable, nullptr);
      check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 5000, algorithm, Where::plain},
                      nullptr);
    }
    check_reduction(world, {OpKind::reduce, ElementType::int32, ReduceOp::sum, 500, Algorithm::tree}, nullptr);
    check_reduction(world, {OpKind::reduce_scatter, ElementType::int32, ReduceOp::sum, 50, Algorithm::ring}, nullptr);
  });
  coverage.check(kReductions, std::array{Algorithm::ring, Algorithm::tree});
  coverage.check(kMoves, std::array{Algorithm::ring, Algorithm::tree});
}

CASE(many_ranks_agree_by_halves_and_in_groups) {
  constexpr Algorithm kByThem[] = {Algorithm::halving_doubling, Algorithm::hierarchical};
  const Coverage coverage;
  on_many_ranks([&](World& world) {
    for (const Algorithm algorithm : kByThem) {
      check_move(world, OpKind::all_gather, 64, algorithm, Where::reachable, nullptr);
      check_move(world, OpKind::broadcast, 500, algorithm, Where::reachable, nullptr);
      for (const OpKind kind : {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter}) {
        check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, 50, algorithm}, nullptr);
      }
    }
    check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 5000, kByThem[0], Where::plain},
                    nullptr);
    check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 5000, kByThem[1], Where::plain},
                    nullptr);
  });
  coverage.check(kReductions, kByThem);
  coverage.check(kMoves, kByThem);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
