// Plans: matching, every path, puts and signals, capture and replay, and what goes wrong.
#include "onstream/plan/plan.hpp"

#include <atomic>
#include <cstring>

#include "check.hpp"
#include "onstream/plan/match.hpp"
#include "ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using plan::StatedOp;
using plan::Statement;

namespace {

StatedOp stated(OpKind kind, int peer, std::uint64_t bytes, int lane = 0, std::string note = "") {
  StatedOp op;
  op.kind = kind;
  op.peer = peer;
  op.lane = lane;
  op.bytes = bytes;
  op.layout.run_bytes = bytes;
  op.note = std::move(note);
  return op;
}

std::vector<Statement> statements(std::vector<std::vector<StatedOp>> ops) {
  std::vector<Statement> all;
  for (auto& one : ops) {
    Statement statement;
    statement.name = "p";
    statement.ops = std::move(one);
    all.push_back(statement);
  }
  return all;
}

std::vector<unsigned char> slice(const std::vector<unsigned char>& all, std::size_t first, std::size_t count) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

// What is sent in launch `launch` from `rank`.
std::vector<unsigned char> data_of(int rank, int launch, std::size_t bytes) {
  return pattern(bytes, static_cast<unsigned>(rank * 1000 + launch));
}

class TestStream {
 public:
  explicit TestStream(World& world) : device_(world.device()), stream_(device_.create_stream()) {}
  ~TestStream() { device_.destroy_stream(stream_); }
  operator Stream() const { return stream_; }
  void finish(World& world) const { world.synchronize(stream_); }

 private:
  Device& device_;
  Stream stream_;
};

// Sends `bytes` round a ring `launches` times and checks what came. Returns explain().
std::string ring(World& world, std::size_t bytes, Path path, MemoryKind kind, int launches) {
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  TestBuffer out(world, bytes, kind);
  TestBuffer in(world, bytes, kind);
  const TestStream stream(world);
  PlanBuilder builder = world.plan("ring");
  builder.use_path(path);
  builder.send(out.data(), Layout::contiguous(bytes), next, 3, "right");
  builder.recv(in.data(), Layout::contiguous(bytes), last, 3, "from left");
  const auto plan = builder.build();
  for (int launch = 0; launch < launches; ++launch) {
    out.write(data_of(world.rank(), launch, bytes));
    plan->launch(stream);
    stream.finish(world);
    CHECK(in.read() == data_of(last, launch, bytes));
  }
  world.barrier();
  return plan->explain();
}

}  // namespace

// --- matching, without a world ---

CASE(sends_and_receives_match_in_order_per_lane) {
  const auto edges = plan::match(
      statements({{stated(OpKind::send, 1, 8, 0), stated(OpKind::send, 1, 16, 1), stated(OpKind::send, 1, 24, 0)},
                  {stated(OpKind::recv, 0, 16, 1), stated(OpKind::recv, 0, 8, 0), stated(OpKind::recv, 0, 24, 0)}}));
  CHECK(edges.size() == 3);
  CHECK(edges[0].destination_op == 1);
  CHECK(edges[1].destination_op == 0);
  CHECK(edges[2].destination_op == 2);
}

CASE(an_unmatched_send_is_told_from_both_sides) {
  const auto all = statements({{stated(OpKind::send, 1, 64, 3, "halo x+")}, {stated(OpKind::recv, 0, 64, 4)}});
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 on lane 3 (halo x+) has no recv: rank 1 receives 0 of the 1");
  CHECK_THROWS((void)plan::match(all),
               "rank 1 op 0: recv of 64 B from rank 0 on lane 4 has no send: rank 0 sends 0 of the 1");
}

CASE(sizes_that_differ_name_both_ops) {
  const auto all = statements({{stated(OpKind::send, 1, 64)}, {stated(OpKind::recv, 0, 32)}});
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 on lane 0 meets rank 1 op 0: recv of 32 B from rank 0 on lane 0: "
               "their sizes differ");
}

CASE(element_types_that_differ_name_both_ops) {
  auto all = statements({{stated(OpKind::send, 1, 64)}, {stated(OpKind::recv, 0, 64)}});
  all[0].ops[0].element = "float64";
  CHECK(plan::match(all).size() == 1);  // the other side does not tell
  all[1].ops[0].element = "int32";
  CHECK_THROWS((void)plan::match(all),
               "rank 0 op 0: send of 64 B to rank 1 on lane 0 meets rank 1 op 0: recv of 64 B from rank 0 on lane 0: "
               "the one sends float64, the other receives int32");
}

CASE(plans_of_different_names_do_not_match) {
  auto all = statements({{}, {}});
  all[1].name = "q";
  CHECK_THROWS((void)plan::match(all), "rank 1 builds plan 'q' while rank 0 builds plan 'p'");
}

CASE(a_statement_survives_its_travel) {
  Statement statement;
  statement.name = "exchange";
  statement.number = 7;
  statement.device = "a/host/0";
  statement.problems = "none";
  statement.ops = {stated(OpKind::send, 1, 64, 3, "halo x+"), stated(OpKind::recv, 2, 0)};
  statement.ops[0].layout = Layout::strided(8, {8}, {64}).view();
  const Statement back = plan::unpack(plan::pack(statement));
  CHECK(back.name == "exchange" && back.number == 7 && back.device == "a/host/0" && back.problems == "none");
  CHECK(back.ops.size() == 2 && back.ops[0].note == "halo x+" && back.ops[0].layout.strides[0] == 64);
}

CASE(a_broken_statement_is_refused) {
  Statement statement;
  statement.name = "exchange";
  statement.ops = {stated(OpKind::send, 1, 64)};
  const std::string good = plan::pack(statement);
  for (std::size_t cut = 0; cut < good.size(); ++cut) CHECK_THROWS((void)plan::unpack(good.substr(0, cut)), "a rank");
  CHECK_THROWS((void)plan::unpack(good + "x"), "after its end");
  statement.ops[0].bytes = 65;
  CHECK_THROWS((void)plan::unpack(plan::pack(statement)), "layout");
}

CASE(destinations_that_overlap_are_named) {
  std::vector<std::byte> memory(4096);
  const auto recv = [&](std::size_t offset, Layout layout) {
    Op op;
    op.kind = OpKind::recv;
    op.peer = 1;
    op.address = memory.data() + offset;
    op.layout = layout;
    return op;
  };
  const Layout column = Layout::strided(8, {10}, {64});
  CHECK(plan::find_overlaps({recv(0, column), recv(8, column), recv(16, column)}, 0).empty());
  const std::string text =
      plan::find_overlaps({recv(0, column), recv(8, column), recv(3 * 64 + 12, Layout::contiguous(2))}, 4);
  CHECK(text == "rank 4: the destinations of op 1 (recv with rank 1) and op 2 (recv with rank 1) overlap");
}

// --- values ---

CASE(every_path_carries_every_size) {
  for (const Path path : {Path::automatic, Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage}) {
    on_all_devices(3, [&](World& world) {
      for (const std::size_t bytes : {0, 1, 7, 8, 12, 4096, 10007, 300000}) {
        const std::string told = ring(world, bytes, path, MemoryKind::device, 4);
        if (path != Path::automatic) CHECK(told.find(concat(" ", name_of(path), " ")) != std::string::npos);
      }
    });
  }
}

CASE(any_memory_may_be_sent_and_received) {
  for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::managed, MemoryKind::host}) {
    on_all_devices(2, [&](World& world) {
      for (const std::size_t bytes : {8, 100000}) (void)ring(world, bytes, Path::automatic, kind, 3);
    });
  }
}

CASE(layouts_of_different_shape_may_meet) {
  for (const Path path : {Path::automatic, Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage}) {
    on_all_devices(2, [&](World& world) {
      for (const std::size_t element : {1, 2, 4, 8, 16}) {
        // A column of rows on one side, a transposed box on the other; both of 12 x 5 elements.
        const auto e = static_cast<std::int64_t>(element);
        const Layout from = Layout::strided(element, {12, 5}, {9 * e, e});
        const Layout to = Layout::strided(element, {5, 3, 4}, {e, 40 * e, 8 * e});
        const std::size_t room = 4096;
        TestBuffer out(world, room);
        TestBuffer in(world, room);
        const TestStream stream(world);
        const int peer = 1 - world.rank();
        PlanBuilder builder = world.plan("shapes");
        builder.use_path(path).send(out.data(), from, peer).recv(in.data(), to, peer);
        const auto plan = builder.build();
        for (int launch = 0; launch < 3; ++launch) {
          const auto mine = data_of(world.rank(), launch, room);
          const auto theirs = data_of(peer, launch, room);
          auto expected = data_of(7, launch, room);
          out.write(mine);
          in.write(expected);
          world.barrier();
          plan->launch(stream);
          stream.finish(world);
          for (std::int64_t i = 0; i < 60; ++i) {
            const std::int64_t source = (i / 5) * 9 * e + (i % 5) * e;
            const std::int64_t target = (i / 12) * e + (i / 4 % 3) * 40 * e + (i % 4) * 8 * e;
            for (std::int64_t b = 0; b < e; ++b) {
              expected[static_cast<std::size_t>(target + b)] = theirs[static_cast<std::size_t>(source + b)];
            }
          }
          CHECK(in.read() == expected);
        }
        world.barrier();
      }
    });
  }
}

CASE(many_messages_between_all_ranks_arrive) {
  for (int size = 1; size <= 8; ++size) {
    on_all_devices(size, [&](World& world) {
      // Sizes on both sides of every threshold; a rank sends to itself too.
      const std::vector<std::size_t> sizes = {8, 4096, 5000, 40000, 72};
      const std::size_t room = 65536;
      const auto ranks = static_cast<std::size_t>(world.size());
      TestBuffer out(world, room * ranks);
      TestBuffer in(world, room * ranks);
      const TestStream stream(world);
      PlanBuilder builder = world.plan("all to all");
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        std::size_t offset = peer * room;
        for (std::size_t k = 0; k < sizes.size(); ++k) {
          builder.send(out.data() + offset, Layout::contiguous(sizes[k]), static_cast<int>(peer),
                       static_cast<int>(k % 2));
          builder.recv(in.data() + offset, Layout::contiguous(sizes[k]), static_cast<int>(peer),
                       static_cast<int>(k % 2));
          offset += sizes[k];
        }
      }
      const auto plan = builder.build();
      for (int launch = 0; launch < 3; ++launch) {
        out.write(data_of(world.rank(), launch, room * ranks));
        plan->launch(stream);
        stream.finish(world);
        const auto got = in.read();
        for (std::size_t peer = 0; peer < ranks; ++peer) {
          const auto theirs = data_of(static_cast<int>(peer), launch, room * ranks);
          const std::size_t total = 8 + 4096 + 5000 + 40000 + 72;
          CHECK(slice(got, peer * room, total) == slice(theirs, static_cast<std::size_t>(world.rank()) * room, total));
        }
        world.barrier();
      }
      CHECK(plan->kernels_per_launch() == 1);
    });
  }
}

CASE(captured_launches_replay_mixed_with_eager_ones) {
  for (const Path path : {Path::ll, Path::store, Path::copy, Path::memop}) {
    on_all_devices(2, [&](World& world) {
      const std::size_t bytes = 3000;
      const int peer = 1 - world.rank();
      TestBuffer out(world, bytes);
      TestBuffer in(world, bytes);
      const TestStream stream(world);
      PlanBuilder builder = world.plan("captured");
      builder.use_path(path)
          .send(out.data(), Layout::contiguous(bytes), peer)
          .recv(in.data(), Layout::contiguous(bytes), peer);
      const auto plan = builder.build();
      Device& device = world.device();
      device.begin_capture(stream);
      plan->launch(stream);
      plan->launch(stream);
      const auto graph = device.end_capture(stream);
      for (int round = 0; round < 20; ++round) {
        out.write(data_of(world.rank(), round, bytes));
        // The ranks mix differently: three launches a round each.
        if (round % 3 != world.rank()) {
          plan->launch(stream);
          device.launch(graph, stream);
        } else {
          for (int i = 0; i < 3; ++i) plan->launch(stream);
        }
        stream.finish(world);
        CHECK(in.read() == data_of(peer, round, bytes));
        world.barrier();
      }
    });
  }
}

CASE(launches_run_ahead_of_a_slow_peer_without_losing_data) {
  // One direction only: the sender has no proof of progress but the receiver's announcements.
  for (const Path path : {Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage}) {
    on_all_devices(2, [&](World& world) {
      constexpr int kLaunches = 200;
      const std::size_t bytes = 64;
      TestBuffer buffer(world, bytes * kLaunches);
      TestBuffer window(world, bytes);
      const TestStream stream(world);
      PlanBuilder builder = world.plan("one way");
      builder.use_path(path);
      if (world.rank() == 0) builder.send(window.data(), Layout::contiguous(bytes), 1);
      if (world.rank() == 1) builder.recv(window.data(), Layout::contiguous(bytes), 0);
      const auto plan = builder.build();
      const auto all = data_of(0, 0, bytes * kLaunches);
      if (world.rank() == 0) buffer.write(all);
      for (int launch = 0; launch < kLaunches; ++launch) {
        std::byte* part = buffer.data() + static_cast<std::size_t>(launch) * bytes;
        if (world.rank() == 0) world.device().copy(window.data(), part, bytes, stream);
        plan->launch(stream);
        if (world.rank() == 1) world.device().copy(part, window.data(), bytes, stream);
      }
      stream.finish(world);
      if (world.rank() == 1) CHECK(buffer.read() == all);
      world.barrier();
    });
  }
}

CASE(a_signal_follows_its_puts) {
  for (const Path path : {Path::automatic, Path::copy, Path::memop}) {
    on_all_devices(3, [&](World& world) {
      const std::size_t bytes = 100000;
      const auto segment = world.segment(2 * bytes + 64);
      TestBuffer out(world, 2 * bytes);
      TestBuffer in(world, 2 * bytes);
      const TestStream stream(world);
      const int next = (world.rank() + 1) % world.size();
      const int last = (world.rank() + 2) % world.size();
      const auto counter_at = [&](std::byte* part) { return reinterpret_cast<std::uint64_t*>(part + 2 * bytes); };
      PlanBuilder builder = world.plan("puts");
      builder.use_path(path);
      const Layout half = Layout::contiguous(bytes);
      builder.put(segment->peer(next), half, out.data(), half, next, "first");
      builder.put(segment->peer(next) + bytes, half, out.data() + bytes, half, next, "second");
      builder.signal(counter_at(segment->peer(next)), 5, next);
      builder.wait(counter_at(segment->local()), 5);
      const auto plan = builder.build();
      for (int launch = 0; launch < 4; ++launch) {
        out.write(data_of(world.rank(), launch, 2 * bytes));
        world.barrier();
        plan->launch(stream);
        world.device().copy(in.data(), segment->local(), 2 * bytes, stream);
        stream.finish(world);
        CHECK(in.read() == data_of(last, launch, 2 * bytes));
        world.barrier();
      }
    });
  }
}

CASE(a_signal_alone_ends_a_wait) {
  on_all_devices(2, [&](World& world) {
    const auto segment = world.segment(64);
    const TestStream stream(world);
    PlanBuilder builder = world.plan("signals");
    builder.signal(reinterpret_cast<std::uint64_t*>(segment->peer(1 - world.rank())), 1, 1 - world.rank());
    builder.wait(reinterpret_cast<std::uint64_t*>(segment->local()), 1);
    const auto plan = builder.build();
    for (int launch = 0; launch < 10; ++launch) plan->launch(stream);
    stream.finish(world);
    CHECK(plan->times()[1].launches == 10);
    world.barrier();
  });
}

CASE(an_empty_plan_does_nothing) {
  on_all_devices(2, [&](World& world) {
    const TestStream stream(world);
    const auto plan = world.plan("empty").build();
    plan->launch(stream);
    plan->launch(stream);
    stream.finish(world);
    CHECK(plan->ops().empty());
    world.barrier();
  });
}

CASE(times_are_counted_and_reset) {
  on_all_devices(2, [&](World& world) {
    const std::size_t bytes = 1 << 20;
    TestBuffer out(world, bytes);
    TestBuffer in(world, bytes);
    const TestStream stream(world);
    PlanBuilder builder = world.plan("timed");
    builder.send(out.data(), Layout::contiguous(bytes), 1 - world.rank(), 0, "there");
    builder.recv(in.data(), Layout::contiguous(bytes), 1 - world.rank(), 0, "back");
    const auto plan = builder.build();
    for (int i = 0; i < 5; ++i) plan->launch(stream);
    stream.finish(world);
    const auto times = plan->times();
    CHECK(times.size() == 2 && times[0].launches == 5);
    CHECK(times[0].what == concat("send to ", 1 - world.rank(), ", there"));
    CHECK(times[0].move_ns > 0);
    plan->reset_times();
    CHECK(plan->times()[0].move_ns == 0 && plan->times()[0].launches == 0);
    world.barrier();
  });
}

// --- what goes wrong ---

CASE(all_ranks_throw_the_same_text) {
  on_all_devices(3, [&](World& world) {
    TestBuffer buffer(world, 64);
    PlanBuilder builder = world.plan("lonely");
    if (world.rank() == 2) builder.send(buffer.data(), Layout::contiguous(64), 0, 5, "nobody waits");
    CHECK_THROWS((void)builder.build(),
                 "rank 2 op 0: send of 64 B to rank 0 on lane 5 (nobody waits) has no recv: rank 0 receives 0");
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
    CHECK_THROWS((void)builder.build(),
                 "rank 0: the destinations of op 0 (recv with rank 1) and op 1 (recv with rank 1) overlap");
  });
}

CASE(bad_arguments_are_refused_where_they_are_given) {
  run_ranks(1, quick("host"), [&](World& world) {
    TestBuffer buffer(world, 64);
    PlanBuilder builder = world.plan("bad");
    const Layout layout = Layout::contiguous(64);
    CHECK_THROWS(builder.send(buffer.data(), layout, 1), "rank 1 is not one of the world's 0 to 0");
    CHECK_THROWS(builder.recv(buffer.data(), layout, -1), "rank -1 is not one");
    CHECK_THROWS(builder.recv(buffer.data(), layout, 0, 64), "lane 64 is not one of 0 to 63");
    CHECK_THROWS(builder.send(nullptr, layout, 0), "64 B at a null address");
    CHECK_THROWS(builder.recv(buffer.data(), Layout::strided(8, {4}, {0}), 0), "overlaps itself");
    CHECK_THROWS(builder.put(buffer.data(), Layout::contiguous(32), buffer.data(), layout, 0),
                 "64 B and the destination 32");
    CHECK_THROWS(builder.signal(nullptr, 1, 0), "counter is null");
    CHECK_THROWS(builder.wait(nullptr, 1), "counter is null");
    const auto segment = world.segment(64);
    auto* words = reinterpret_cast<std::uint64_t*>(segment->local());
    CHECK_THROWS(builder.put(buffer.data(), layout, buffer.data(), layout, 0),
                 "do not lie in rank 0's part of a segment");
    CHECK_THROWS(builder.put(segment->local() + 8, layout, buffer.data(), layout, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.signal(words + 8, 1, 0), "do not lie in rank 0's part");
    CHECK_THROWS(builder.wait(reinterpret_cast<std::uint64_t*>(segment->local() + 4), 1), "not aligned to 8 bytes");
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
      CHECK_THROWS((void)builder.build(), "(set by use_path) cannot work: ");
    }
    PlanBuilder builder = world.plan("two minds");
    builder.use_path(world.rank() == 0 ? Path::ll : Path::store);
    if (world.rank() == 0) builder.send(out.data(), Layout::contiguous(8), 1);
    if (world.rank() == 1) builder.recv(in.data(), Layout::contiguous(8), 0);
    CHECK_THROWS((void)builder.build(),
                 "asks for path ll but rank 1 op 0: recv of 8 B from rank 0 on lane 0 asks for path store");
  });
}

CASE(a_plan_that_one_rank_launches_alone_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1;
    run_ranks(2, parameters, [&](World& world) {
      TestBuffer out(world, 64);
      TestBuffer in(world, 64);
      const TestStream stream(world);
      PlanBuilder builder = world.plan("alone");
      builder.send(out.data(), Layout::contiguous(64), 1 - world.rank());
      builder.recv(in.data(), Layout::contiguous(64), 1 - world.rank());
      const auto plan = builder.build();
      if (world.rank() == 0) {
        plan->launch(stream);
        CHECK_THROWS(stream.finish(world), "recv of 64 B from rank 1 (op 1 of plan ");
        CHECK_THROWS(plan->launch(stream), "passed its deadline");
      } else {
        // Waits for the news from rank 0, bounded by the world's own deadlines.
        const Deadline deadline(10);
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
    const TestStream stream(world);
    const auto out = world.allocate(1 << 20);
    auto in = world.allocate(1 << 20);
    PlanBuilder builder = world.plan("p");
    builder.send(out->data(), Layout::contiguous(1 << 20), 0, 0, "mine");
    builder.recv(in->data(), Layout::contiguous(1 << 20), 0);
    const auto plan = builder.build();
    plan->launch(stream);
    stream.finish(world);
    (void)world.allocate(64);  // freed at once: not the plan's
    plan->launch(stream);
    stream.finish(world);
    in.reset();
    CHECK_THROWS(plan->launch(stream), "plan 'p' op 1, recv from 0: its memory at");
    CHECK(!world.failure().has_value());
  });
}

// --- path memop ---

CASE(a_plan_of_path_memop_runs_no_kernel) {
  on_all_devices(2, [&](World& world) {
    const std::size_t bytes = 3 << 20;
    TestBuffer out(world, bytes);
    TestBuffer in(world, bytes);
    const TestStream stream(world);
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
      stream.finish(world);
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
    const TestStream stream(world);
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
      stream.finish(world);
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
      parameters.timeout_s = 0.5;
      run_ranks(2, parameters, [&](World& world) {
        TestBuffer buffer(world, 64);
        const TestStream stream(world);
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
          CHECK_THROWS(stream.finish(world), alone_sends ? "send of 64 B to rank 1 (op 0 of plan "
                                                         : "recv of 64 B from rank 1 (op 0 of plan ");
          CHECK_THROWS(plan->launch(stream), "passed its deadline");
        } else {
          const Deadline deadline(10);
          while (!world.failure() && !deadline.passed()) std::this_thread::yield();
          CHECK(world.failure().has_value());
        }
      });
    }
  }
}

CASE(streams_that_wait_end_when_the_world_is_aborted) {
  on_all_devices(2, [&](World& world) {
    TestBuffer buffer(world, 64);
    const TestStream stream(world);
    PlanBuilder builder = world.plan("aborted");
    builder.use_path(Path::memop);
    if (world.rank() == 0) builder.send(buffer.data(), Layout::contiguous(64), 1);
    if (world.rank() == 1) builder.recv(buffer.data(), Layout::contiguous(64), 0);
    const auto plan = builder.build();
    if (world.rank() == 0) {
      plan->launch(stream);
      plan->launch(stream);
      world.barrier();
      CHECK_THROWS(stream.finish(world), "rank 1 has had enough");
      CHECK(world.failure()->story.find("send of 64 B to rank 1") != std::string::npos);
    } else {
      world.barrier();
      world.abort("rank 1 has had enough");
    }
  });
}

CASE(a_plan_of_path_memop_launched_twice_at_once_ends) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 0.5;
  run_ranks(2, parameters, [&](World& world) {
    TestBuffer buffer(world, 64);
    const TestStream first(world);
    const TestStream second(world);
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

CASE(a_plan_launched_twice_at_once_is_misused) {
  run_ranks(2, quick("host"), [&](World& world) {
    TestBuffer out(world, 64);
    TestBuffer in(world, 64);
    const TestStream first(world);
    const TestStream second(world);
    PlanBuilder builder = world.plan("twice");
    builder.send(out.data(), Layout::contiguous(64), 1 - world.rank());
    builder.recv(in.data(), Layout::contiguous(64), 1 - world.rank());
    const auto plan = builder.build();
    if (world.rank() == 0) {
      // Rank 1 never launches, so the first launch is still running whenever the second starts.
      plan->launch(first);
      plan->launch(second);
      const Deadline deadline(8);
      while (!world.failure() && !deadline.passed()) std::this_thread::yield();
      CHECK(world.failure().has_value());
      CHECK(world.failure()->story.find("found its plan already running") != std::string::npos);
      world.device().synchronize(first);
      world.device().synchronize(second);
    } else {
      const Deadline deadline(10);
      while (!world.failure() && !deadline.passed()) std::this_thread::yield();
      CHECK(world.failure().has_value());
    }
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
