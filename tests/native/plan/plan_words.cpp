// The words of a plan: those that it sets or adds to behind its puts, and its waits' comparisons, anew at every launch.
#include <cstring>

#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/plan.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

struct Row {
  Compare compare;
  Sign sign;
  std::int64_t before;  // the word, while the wait is to wait
  std::int64_t value;   // that it is compared with
  SignalOp op;          // how rank 1 ends the wait
  std::int64_t told;
};

constexpr Row kRows[] = {
    {Compare::eq, Sign::unsigned_word, 1, 5, SignalOp::set, 5},
    {Compare::ne, Sign::unsigned_word, 5, 5, SignalOp::add, 1},
    {Compare::gt, Sign::unsigned_word, 5, 5, SignalOp::set, 6},
    {Compare::ge, Sign::unsigned_word, 4, 5, SignalOp::add, 1},
    {Compare::lt, Sign::unsigned_word, 5, 5, SignalOp::set, 4},
    {Compare::le, Sign::unsigned_word, 6, 5, SignalOp::add, -1},
    {Compare::lt, Sign::signed_word, 0, 0, SignalOp::set, -1},
    {Compare::gt, Sign::signed_word, -1, 0, SignalOp::add, 2},
    {Compare::any_bit, Sign::unsigned_word, 4, 3, SignalOp::set, 2},
    {Compare::reached, Sign::unsigned_word, -1, 1, SignalOp::add, 2},
};

// Into this rank's part, from its host.
void fill(World& world, std::byte* at, std::int64_t value, std::size_t width) {
  world.one_sided().copy(at, &value, width);
}

// Rank 0 waits in a plan, and rank 1 puts and tells it in another launch of that plan.
template <std::size_t kWidth>
void wait_for(World& world, const Row& row) {
  constexpr std::size_t kBytes = 4096;
  const auto segment = world.segment(kBytes + 64);
  TestBuffer source(world, kBytes);
  TestBuffer seen(world, kBytes);
  const OwnStream stream(world);
  const auto bits = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  std::byte* const word = segment->local() + kBytes;
  PlanBuilder builder = world.plan("words");
  if (world.rank() == 0) {
    builder.wait(word, Until{row.compare, bits(row.value), kWidth, row.sign});
  } else {
    const Layout all = Layout::contiguous(kBytes);
    builder.put(segment->peer(0), all, source.data(), all, 0);
    builder.signal(row.op, segment->peer(0) + kBytes, kWidth, bits(row.told), 0);
  }
  const auto plan = builder.build();
  for (unsigned char launch = 1; launch <= 3; ++launch) {
    if (world.rank() == 0) fill(world, word, row.before, kWidth);
    if (world.rank() == 0) plan->launch(stream);
    if (world.rank() == 0) world.device().copy(seen.data(), segment->local(), kBytes, stream);
    world.barrier();
    if (world.rank() == 1) source.write(std::vector<unsigned char>(kBytes, launch));
    if (world.rank() == 1) plan->launch(stream);
    world.synchronize(stream);
    if (world.rank() == 0) CHECK(seen.read() == std::vector<unsigned char>(kBytes, launch));
    world.barrier();
  }
}

}  // namespace

CASE(a_wait_of_a_plan_compares_its_word_at_every_launch) {
  on_all_devices(2, [](World& world) {
    for (const Row& row : kRows) {
      wait_for<8>(world, row);
      wait_for<4>(world, row);
    }
  });
}

CASE(several_waits_of_a_plan_end_when_all_compare) {
  on_all_devices(3, [](World& world) {
    const auto segment = world.segment(64);
    const OwnStream stream(world);
    const int rank = world.rank();
    // Ranks 1 and 2 set a word each, of 8 and of 4 bytes, and count together.
    std::byte* const words = segment->peer(0);
    auto* const counter = reinterpret_cast<std::uint64_t*>(words + 16);
    PlanBuilder builder = world.plan("all");
    if (rank == 0) {
      builder.wait(words, Until{Compare::eq, 7, 8, Sign::unsigned_word});
      builder.wait(words + 8, Until{Compare::ne, 0, 4, Sign::unsigned_word});
      builder.wait(counter, 2);
    } else {
      builder.signal(SignalOp::set, rank == 1 ? words : words + 8, rank == 1 ? 8 : 4, 7, 0);
      builder.signal(counter, 1, 0);
    }
    const auto plan = builder.build();
    Device& device = world.device();
    device.begin_capture(stream);
    plan->launch(stream);
    const auto graph = device.end_capture(stream);
    for (int replay = 0; replay < 3; ++replay) {
      device.launch(graph, stream);
      world.synchronize(stream);
      world.barrier();
      std::uint64_t now[3] = {0, 0, 0};
      if (rank == 0) world.one_sided().copy(now, segment->local(), sizeof now);
      if (rank == 0) CHECK(now[0] == 7 && now[1] == 7 && now[2] == 2 * (static_cast<unsigned>(replay) + 1));
      const std::uint64_t none[2] = {0, 0};
      if (rank == 0) world.one_sided().copy(segment->local(), none, sizeof none);
      world.barrier();
    }
    const std::string told = plan->explain();
    CHECK(told.find(rank == 0 ? "wait eq" : "signal set to 0") != std::string::npos);
  });
}

CASE(a_wait_of_a_plan_that_never_compares_ends_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 2;
    run_ranks(1, parameters, [](World& world) {
      const auto segment = world.segment(64);
      const OwnStream stream(world);
      PlanBuilder builder = world.plan("never");
      builder.wait(segment->local() + 4, Until{Compare::ne, 0, 4, Sign::unsigned_word});
      const auto plan = builder.build();
      plan->launch(stream);
      CHECK_THROWS(world.synchronize(stream), "wait of 4 B (op 0 of plan 'never') passed its deadline");
    });
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
