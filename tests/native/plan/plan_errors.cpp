// Plans that go wrong: at the build, on all ranks alike; at the launch; and alone.
#include "onstream/plan.hpp"

#include <functional>
#include <thread>
#include <vector>

#include "plan_ring.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

CASE(all_ranks_throw_the_same_text) {
  on_all_devices(3, [&](World& world) {
    TestBuffer buffer(world, 64);
    PlanBuilder builder = world.plan("lonely");
    if (world.rank() == 2) builder.send(buffer.data(), Layout::contiguous(64), 0, 5, "nobody waits");
    CHECK_THROWS((void)builder.build(),
                 "rank 2 op 0: send of 64 B to rank 0 with tag 5 (nobody waits) has no recv: rank 0 receives 0");
    // The next plan is intact.
    (void)ring(world, 64, Path::automatic, MemoryKind::device, 1);
  });
}

CASE(overlapping_destinations_fail_the_build_everywhere) {
  on_all_devices(2, [&](World& world) {
    TestBuffer buffer(world, 256);
    PlanBuilder builder = world.plan("overlap");
    if (world.rank() == 0) {
      builder.recv(buffer.data(), Layout::contiguous(64), 1).recv(buffer.data() + 60, Layout::contiguous(64), 1);
    } else {
      builder.send(buffer.data(), Layout::contiguous(64), 0).send(buffer.data(), Layout::contiguous(64), 0);
    }
    CHECK_THROWS(
        (void)builder.build(),
        "rank 0: rank 0 op 0: recv of 64 B from rank 1 with tag 0 and rank 0 op 1: recv of 64 B from rank 1 with "
        "tag 0 overlap in rank 0's memory; ops of a launch run at once");
    (void)ring(world, 64, Path::automatic, MemoryKind::device, 1);
  });
}

CASE(destinations_of_two_ranks_that_overlap_in_a_third_fail_the_build) {
  on_all_devices(3, [](World& world) {
    const auto segment = world.segment(4096);
    TestBuffer buffer(world, 64);
    const auto build = [&](std::size_t offset) {
      PlanBuilder builder = world.plan("crossing");
      if (world.rank() == 0) {
        builder.recv(segment->local() + 1000, Layout::contiguous(64), 1);
      } else {
        if (world.rank() == 1) builder.send(buffer.data(), Layout::contiguous(64), 0);
        const Layout there = Layout::strided(8, {8}, {16});
        builder.put(segment->peer(0) + offset * static_cast<std::size_t>(world.rank()), there, buffer.data(),
                    Layout::contiguous(64), 0);
      }
      return builder.build();
    };
    CHECK(build(200)->explain().find("not looked at") == std::string::npos);
    CHECK_THROWS((void)build(4), "rank 1 op 1: put of 64 B to rank 0 and rank 2 op 0: put of 64 B to rank 0 overlap");
    CHECK_THROWS((void)build(504),
                 "rank 0 op 0: recv of 64 B from rank 1 with tag 0 and rank 2 op 0: put of 64 B to rank 0");
    CHECK(build(200) != nullptr);
  });
}

CASE(destinations_of_too_many_runs_are_told_by_explain) {
  run_ranks(1, quick("host"), [](World& world) {
    const Layout many = Layout::strided(1, {600'000}, {4});
    TestBuffer to(world, 2'400'004);
    TestBuffer from(world, 600'000);
    PlanBuilder builder = world.plan("many");
    for (const int at : {0, 1}) {
      builder.recv(to.data() + at, many, 0, at).send(from.data(), Layout::contiguous(600'000), 0, at);
    }
    CHECK(builder.build()->explain().find("not looked at: whether destinations of 1200000 runs on rank 0 overlap; that "
                                          "is done up to 1000000") != std::string::npos);
  });
}

CASE(bad_arguments_are_refused_where_they_are_given) {
  run_ranks(1, quick("host"), [&](World& world) {
    TestBuffer buffer(world, 64);
    PlanBuilder builder = world.plan("bad");
    const Layout layout = Layout::contiguous(64);
    CHECK_THROWS(builder.send(buffer.data(), layout, 1), "rank 1 is not one of the world's 0 to 0");
    CHECK_THROWS(builder.recv(buffer.data(), layout, -1), "rank -1 is not one");
    CHECK_THROWS(builder.recv(buffer.data(), layout, 0, 64), "tag 64 is not one of 0 to 63");
    CHECK_THROWS(builder.send(nullptr, layout, 0), "64 B at a null address");
    CHECK_THROWS(builder.recv(buffer.data(), Layout::strided(8, {4}, {0}), 0), "overlaps itself");
    CHECK_THROWS(builder.put(buffer.data(), Layout::contiguous(32), buffer.data(), layout, 0),
                 "64 B and the destination 32");
    CHECK_THROWS(builder.signal(nullptr, 1, 0), "the word is null");
    CHECK_THROWS(builder.wait(nullptr, 1), "the word is null");
    const auto segment = world.segment(64);
    auto* words = reinterpret_cast<std::uint64_t*>(segment->local());
    CHECK_THROWS(builder.put(buffer.data(), layout, buffer.data(), layout, 0),
                 "do not lie in rank 0's part of a segment");
    CHECK_THROWS(builder.put(segment->local() + 8, layout, buffer.data(), layout, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.signal(words + 8, 1, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.wait(reinterpret_cast<std::uint64_t*>(segment->local() + 4), 1), "not aligned to 8 bytes");
    const auto until = [](Compare compare, std::size_t width) { return Until{compare, 1, width, Sign::unsigned_word}; };
    CHECK_THROWS(builder.wait(segment->local(), until(static_cast<Compare>(9), 8)), "9 is no comparison");
    CHECK_THROWS(builder.wait(segment->local(), until(Compare::eq, 2)), "4 or 8 bytes, not 2");
    CHECK_THROWS(builder.wait(segment->local() + 2, until(Compare::eq, 4)), "not aligned to 4 bytes");
    CHECK_THROWS(builder.wait(nullptr, until(Compare::eq, 4)), "the word is null");
    CHECK_THROWS(builder.signal(static_cast<SignalOp>(7), words, 8, 1, 0), "it adds or sets, and 7 is neither");
    CHECK_THROWS(builder.signal(SignalOp::set, words, 16, 1, 0), "4 or 8 bytes, not 16");
    CHECK_THROWS(builder.signal(SignalOp::set, segment->local() + 4, 8, 1, 0), "not aligned to 8 bytes");
    CHECK_THROWS(builder.signal(SignalOp::set, words + 8, 4, 1, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.signal(SignalOp::set, words, 8, 1, -1), "rank -1 is not one");
    CHECK_THROWS(builder.atomic(AtomicOp::add, nullptr, 8, 1, 0), "the word is null");
    CHECK_THROWS(builder.atomic(AtomicOp::add, segment->local(), 2, 1, 0), "4 or 8 bytes, not 2");
    CHECK_THROWS(builder.atomic(AtomicOp::add, segment->local() + 2, 4, 1, 0), "not aligned to 4 bytes");
    CHECK_THROWS(builder.atomic(AtomicOp::add, buffer.data(), 8, 1, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.atomic(AtomicOp::add, segment->local(), 8, 1, 1), "rank 1 is not one");
    CHECK_THROWS(builder.atomic(AtomicOp::fetch, segment->local(), 8, 0, 0, buffer.data() + 4),
                 "not aligned to 8 bytes");
    PlanBuilder twice = world.plan("twice");
    twice.atomic(AtomicOp::fetch, segment->local(), 8, 0, 0, buffer.data());
    twice.atomic(AtomicOp::fetch, segment->local() + 8, 4, 0, 0, buffer.data() + 4);
    CHECK_THROWS((void)twice.build(), "overlap");
  });
}

CASE(a_path_that_cannot_work_says_why) {
  on_all_devices(2, [&](World& world) {
    const std::size_t bytes = 100000;
    TestBuffer out(world, bytes, MemoryKind::host);
    TestBuffer in(world, bytes, MemoryKind::host);
    for (const Path path : {Path::store, Path::net}) {
      PlanBuilder builder = world.plan("forced");
      builder.use_path(path);
      if (world.rank() == 0) builder.send(out.data(), Layout::contiguous(bytes), 1);
      if (world.rank() == 1) builder.recv(in.data(), Layout::contiguous(bytes), 0);
      const bool within = world.fabric()->network() == nullptr;
      if (within || path == Path::store) {
        CHECK_THROWS((void)builder.build(),
                     within ? "(set by use_path) cannot work: " : "(set by use_path) needs one host");
      }
    }
    PlanBuilder builder = world.plan("two minds");
    builder.use_path(world.rank() == 0 ? Path::ll : Path::store);
    if (world.rank() == 0) builder.send(out.data(), Layout::contiguous(8), 1);
    if (world.rank() == 1) builder.recv(in.data(), Layout::contiguous(8), 0);
    CHECK_THROWS((void)builder.build(),
                 "asks for path ll but rank 1 op 0: recv of 8 B from rank 0 with tag 0 asks for path store");
  });
}

CASE(a_plan_that_one_rank_launches_alone_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 2;
    run_ranks(2, parameters, [&](World& world) {
      TestBuffer out(world, 64);
      TestBuffer in(world, 64);
      const OwnStream stream(world);
      PlanBuilder builder = world.plan("alone");
      builder.send(out.data(), Layout::contiguous(64), 1 - world.rank());
      builder.recv(in.data(), Layout::contiguous(64), 1 - world.rank());
      const auto plan = builder.build();
      if (world.rank() == 0) {
        plan->launch(stream);
        CHECK_THROWS(world.synchronize(stream), "recv of 64 B from rank 1 with tag 0 (op 1 of plan ");
        CHECK_THROWS(plan->launch(stream), "passed its deadline");
      } else {
        // Waits for the news from rank 0, bounded by the world's own deadlines.
        const Deadline deadline(kSoonS);
        while (!world.failure() && !deadline.passed()) std::this_thread::yield();
        CHECK(world.failure().has_value());
      }
    });
  }
}

CASE(a_layout_that_leaves_its_allocation_is_refused) {
  on_all_devices(1, [](World& world) {
    const auto memory = world.allocate(4096);
    PlanBuilder builder = world.plan("p");
    CHECK_THROWS(builder.send(memory->data(), Layout::contiguous(1 << 22), 0),
                 "send op 0 of plan 'p': the buffer of 4194304 B at");
    CHECK_THROWS(builder.recv(memory->data() + 4000, Layout::contiguous(100), 0), "ends 4 B after its allocation");
    builder.send(memory->data(), Layout::contiguous(2048), 0);
    builder.recv(memory->data() + 2048, Layout::contiguous(2048), 0);
    (void)builder.build();
  });
}

CASE(memory_freed_since_the_build_is_noticed_at_launch) {
  on_all_devices(1, [](World& world) {
    const OwnStream stream(world);
    const auto out = world.allocate(1 << 20);
    auto in = world.allocate(1 << 20);
    PlanBuilder builder = world.plan("p");
    builder.send(out->data(), Layout::contiguous(1 << 20), 0, 0, "mine");
    builder.recv(in->data(), Layout::contiguous(1 << 20), 0);
    const auto plan = builder.build();
    plan->launch(stream);
    world.synchronize(stream);
    (void)world.allocate(64);  // freed at once: not the plan's
    plan->launch(stream);
    world.synchronize(stream);
    in.reset();
    CHECK_THROWS(plan->launch(stream), "plan 'p' op 1, recv from 0: its memory at");
    CHECK(!world.failure().has_value());
  });
}

CASE(a_segment_freed_since_the_build_is_noticed_at_launch) {
  on_all_devices(2, [](World& world) {
    const OwnStream stream(world);
    TestBuffer local(world, 8);
    const int peer = 1 - world.rank();
    const Layout word = Layout::contiguous(8);
    const std::vector<std::function<void(PlanBuilder&, Segment&)>> ops = {
        [&](PlanBuilder& builder, Segment& segment) {
          builder.put(segment.peer(peer), word, local.data(), word, peer);
        },
        [&](PlanBuilder& builder, Segment& segment) {
          builder.get(local.data(), word, segment.peer(peer), word, peer);
        },
        [&](PlanBuilder& builder, Segment& segment) { builder.signal(SignalOp::set, segment.peer(peer), 8, 1, peer); },
        [&](PlanBuilder& builder, Segment& segment) { builder.atomic(AtomicOp::add, segment.peer(peer), 8, 1, peer); },
        [&](PlanBuilder& builder, Segment& segment) { builder.wait(segment.local(), Until{Compare::eq, 0}); },
    };
    for (const auto& add : ops) {
      const auto segment = world.segment(64);
      PlanBuilder builder = world.plan("late");
      add(builder, *segment);
      const auto plan = builder.build();
      plan->launch(stream);
      world.synchronize(stream);
      world.barrier();
      world.free(segment);
      CHECK_THROWS(plan->launch(stream), "freed since the plan was built");
      world.barrier();
    }
    CHECK(!world.failure().has_value());
  });
}

CASE(a_plan_launched_twice_at_once_is_misused) {
  run_ranks(2, quick("host"), [&](World& world) {
    TestBuffer out(world, 64);
    TestBuffer in(world, 64);
    const OwnStream first(world);
    const OwnStream second(world);
    PlanBuilder builder = world.plan("twice");
    builder.send(out.data(), Layout::contiguous(64), 1 - world.rank());
    builder.recv(in.data(), Layout::contiguous(64), 1 - world.rank());
    const auto plan = builder.build();
    if (world.rank() == 0) {
      // Rank 1 never launches, so the first launch is still running whenever the second starts.
      plan->launch(first);
      plan->launch(second);
      const Deadline deadline(kSoonS);
      while (!world.failure() && !deadline.passed()) std::this_thread::yield();
      CHECK(world.failure().has_value());
      CHECK(world.failure()->story.find(": plan 'twice' was launched while it ran") != std::string::npos);
      world.device().synchronize(first);
      world.device().synchronize(second);
    } else {
      const Deadline deadline(kSoonS);
      while (!world.failure() && !deadline.passed()) std::this_thread::yield();
      CHECK(world.failure().has_value());
    }
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
