// Plans of path memop, on every device: no kernel, mixed with kernels, and how waits of streams end.
#include "onstream/plan.hpp"

#include <thread>

#include "plan_ring.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

CASE(a_plan_of_path_memop_runs_no_kernel) {
  on_all_devices(2, [&](World& world) {
    const std::size_t bytes = 3 << 20;
    TestBuffer out(world, bytes);
    TestBuffer in(world, bytes);
    const OwnStream stream(world);
    const int peer = 1 - world.rank();
    PlanBuilder builder = world.plan("no SM");
    builder.use_path(Path::memop)
        .send(out.data(), Layout::contiguous(bytes), peer)
        .recv(in.data(), Layout::contiguous(bytes), peer)
        .send(out.data(), Layout::contiguous(64), world.rank(), 1)
        .recv(in.data() + bytes - 64, Layout::contiguous(64), world.rank(), 1);
    CHECK_THROWS((void)builder.build(), "overlap");
    PlanBuilder again = world.plan("no SM");
    again.use_path(Path::memop)
        .send(out.data(), Layout::contiguous(bytes - 64), peer)
        .recv(in.data(), Layout::contiguous(bytes - 64), peer)
        .send(out.data(), Layout::contiguous(64), world.rank(), 1)
        .recv(in.data() + bytes - 64, Layout::contiguous(64), world.rank(), 1);
    const auto plan = again.build();
    CHECK(plan->kernels_per_launch() == 0);
    CHECK(plan->explain().find("a launch is 0 kernels and 2 copies and ") != std::string::npos);
    for (int launch = 0; launch < 3; ++launch) {
      out.write(data_of(world.rank(), launch, bytes));
      plan->launch(stream);
      world.synchronize(stream);
      const auto got = in.read();
      CHECK(slice(got, 0, bytes - 64) == slice(data_of(peer, launch, bytes), 0, bytes - 64));
      CHECK(slice(got, bytes - 64, 64) == slice(data_of(world.rank(), launch, bytes), 0, 64));
    }
    CHECK(plan->times()[0].launches == 0 && plan->times()[0].move_ns == 0);
    world.barrier();
  });
}

CASE(streams_that_wait_and_kernels_that_wait_make_one_plan) {
  // Rank 0 asks for path memop, the others for none: their plans mix both.
  on_all_devices(3, [&](World& world) {
    const std::size_t room = 100000;
    const std::vector<std::size_t> sizes = {64, 20000, room};
    TestBuffer out(world, room * 9);
    TestBuffer in(world, room * 9);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("mixed");
    if (world.rank() == 0) builder.use_path(Path::memop);
    const auto mine = static_cast<std::size_t>(world.rank());
    for (const std::size_t peer : {(mine + 1) % 3, (mine + 2) % 3}) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::size_t at = (peer * 3 + i) * room;
        builder.send(out.data() + at, Layout::contiguous(sizes[i]), static_cast<int>(peer));
        builder.recv(in.data() + at, Layout::contiguous(sizes[i]), static_cast<int>(peer));
      }
    }
    const auto plan = builder.build();
    CHECK(plan->kernels_per_launch() == (world.rank() == 0 ? 0 : 2));
    for (int round = 0; round < 10; ++round) {
      out.write(data_of(world.rank(), round, room * 9));
      for (int i = 0; i < 3; ++i) plan->launch(stream);
      world.synchronize(stream);
      const auto got = in.read();
      for (const std::size_t peer : {(mine + 1) % 3, (mine + 2) % 3}) {
        const auto theirs = data_of(static_cast<int>(peer), round, room * 9);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          CHECK(slice(got, (peer * 3 + i) * room, sizes[i]) == slice(theirs, (mine * 3 + i) * room, sizes[i]));
        }
      }
      world.barrier();
    }
  });
}

CASE(streams_that_wait_for_a_peer_that_never_comes_end_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    for (const bool alone_sends : {true, false}) {
      Parameters parameters = quick(device);
      parameters.timeout_s = 1.5;
      run_ranks(2, parameters, [&](World& world) {
        TestBuffer buffer(world, 64);
        const OwnStream stream(world);
        PlanBuilder builder = world.plan("alone");
        builder.use_path(Path::memop);
        if ((world.rank() == 0) == alone_sends) {
          builder.send(buffer.data(), Layout::contiguous(64), 1 - world.rank());
        } else {
          builder.recv(buffer.data(), Layout::contiguous(64), 1 - world.rank());
        }
        const auto plan = builder.build();
        if (world.rank() == 0) {
          world.device().begin_capture(stream);
          plan->launch(stream);
          plan->launch(stream);
          const auto graph = world.device().end_capture(stream);
          for (int i = 0; i < 20; ++i) {
            plan->launch(stream);
            world.device().launch(graph, stream);
          }
          CHECK_THROWS(world.synchronize(stream), alone_sends ? "send of 64 B to rank 1 with tag 0 (op 0 of plan "
                                                              : "recv of 64 B from rank 1 with tag 0 (op 0 of plan ");
          CHECK_THROWS(plan->launch(stream), "passed its deadline");
        } else {
          const Deadline deadline(kSoonS);
          while (!world.failure() && !deadline.passed()) std::this_thread::yield();
          CHECK(world.failure().has_value());
        }
      });
    }
  }
}

CASE(a_graph_that_is_through_is_not_taken_for_waiting) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(2, parameters, [](World& world) {
      TestBuffer buffer(world, 64);
      const OwnStream stream(world);
      PlanBuilder builder = world.plan("again");
      builder.use_path(Path::memop);
      if (world.rank() == 0) {
        builder.recv(buffer.data(), Layout::contiguous(64), 1);
      } else {
        builder.send(buffer.data(), Layout::contiguous(64), 0);
      }
      const auto plan = builder.build();
      world.device().begin_capture(stream);
      plan->launch(stream);
      const auto graph = world.device().end_capture(stream);
      world.device().launch(graph, stream);
      world.synchronize(stream);
      const auto let_pass = [](double seconds) {
        const Deadline deadline(seconds);
        while (!deadline.passed()) std::this_thread::yield();
      };
      let_pass(1.8);  // longer than the deadline of a wait; the other rank is late, but by less than that
      if (world.rank() == 1) let_pass(0.2);
      plan->launch(stream);
      world.synchronize(stream);
    });
  }
}

CASE(streams_that_wait_end_when_the_world_is_aborted) {
  on_all_devices(2, [&](World& world) {
    TestBuffer buffer(world, 64);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("aborted");
    builder.use_path(Path::memop);
    if (world.rank() == 0) builder.send(buffer.data(), Layout::contiguous(64), 1);
    if (world.rank() == 1) builder.recv(buffer.data(), Layout::contiguous(64), 0);
    const auto plan = builder.build();
    if (world.rank() == 0) {
      plan->launch(stream);
      plan->launch(stream);
      world.barrier();
      CHECK_THROWS(world.synchronize(stream), "rank 1 has had enough");
      CHECK(world.failure()->story.find("send of 64 B to rank 1") != std::string::npos);
    } else {
      world.barrier();
      world.abort("rank 1 has had enough");
    }
  });
}

CASE(a_plan_of_path_memop_launched_twice_at_once_ends) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 1.5;
  run_ranks(2, parameters, [&](World& world) {
    TestBuffer buffer(world, 64);
    const OwnStream first(world);
    const OwnStream second(world);
    PlanBuilder builder = world.plan("twice");
    builder.use_path(Path::memop);
    if (world.rank() == 0) builder.send(buffer.data(), Layout::contiguous(64), 1);
    if (world.rank() == 1) builder.recv(buffer.data(), Layout::contiguous(64), 0);
    const auto plan = builder.build();
    plan->launch(first);
    if (world.rank() == 0) plan->launch(second);
    // Whether the two meet is up to the streams. Neither may wait for ever.
    world.device().synchronize(first);
    world.device().synchronize(second);
    CHECK(world.device().idle(first) && world.device().idle(second));
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
