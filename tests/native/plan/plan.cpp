// Plans on every device: values on every path, puts and signals, capture and replay. Matching: plan_match.cpp; path
// memop: plan_memop.cpp; errors: plan_errors.cpp.
#include "onstream/plan.hpp"
#include "onstream/one_sided.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "plan_ring.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

CASE(every_path_carries_every_size) {
  for (const Path path :
       paths_to_try({Path::automatic, Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage})) {
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

CASE(a_run_by_the_host_comes_behind_a_launch_that_has_not_ended) {
  on_all_devices(2, [](World& world) {
    const int peer = 1 - world.rank();
    TestBuffer out(world, 8);
    TestBuffer in(world, 8);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("behind");
    builder.send(out.data(), Layout::contiguous(8), peer).recv(in.data(), Layout::contiguous(8), peer);
    const auto plan = builder.build();
    for (int round = 0; round < 20; ++round) {
      out.write(pattern(8, static_cast<unsigned>(10 * round + world.rank())));
      if (world.rank() == 0 && round % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      plan->launch(stream);
      plan->run();
      world.synchronize(stream);
      CHECK(in.read() == pattern(8, static_cast<unsigned>(10 * round + peer)));
      world.barrier();
    }
  });
}

CASE(a_launch_with_plain_memory_returns_before_its_data_comes) {
  std::atomic<int> launches = 0;  // of rank 0, so far; rank 1 sends their data only after them
  on_all_devices(2, [&](World& world) {
    const std::size_t elements = 5000;
    const int peer = 1 - world.rank();
    const Layout every_second = Layout::strided(8, {elements}, {16});
    std::vector<std::uint64_t> out(2 * elements);
    std::vector<std::uint64_t> in(elements);
    std::vector<std::uint64_t> own(2 * elements);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("plain");
    builder.send(out.data(), every_second, peer)
        .recv(in.data(), Layout::contiguous(8 * elements), peer)
        .send(out.data(), every_second, world.rank())
        .recv(own.data(), every_second, world.rank());
    const auto plan = builder.build();
    Device& device = world.device();
    device.begin_capture(stream);
    plan->launch(stream);
    const auto graph = device.end_capture(stream);
    if (world.rank() == 0) launches = 0;
    world.barrier();
    for (int round = 0; round < 6; ++round) {
      const auto value = [&](int rank, std::size_t i) { return std::uint64_t{1000} * i + 10U * round + rank; };
      for (std::size_t i = 0; i < 2 * elements; ++i) out[i] = value(world.rank(), i);
      const Deadline deadline(kSoonS);
      while (world.rank() == 1 && launches <= round && !deadline.passed()) std::this_thread::yield();
      const bool in_time = world.rank() == 0 || launches > round;
      if (round % 2 == 0) {
        plan->launch(stream);
      } else {
        device.launch(graph, stream);
      }
      if (world.rank() == 0) ++launches;
      world.synchronize(stream);
      CHECK(in_time);
      for (std::size_t i = 0; i < elements; ++i) {
        CHECK(in[i] == value(peer, 2 * i));
        CHECK(own[2 * i] == value(world.rank(), 2 * i) && own[2 * i + 1] == 0);
      }
    }
    world.barrier();
  });
}

CASE(layouts_of_different_shape_may_meet) {
  for (const Path path :
       paths_to_try({Path::automatic, Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage})) {
    on_all_devices(2, [&](World& world) {
      for (const std::size_t element : {1, 2, 4, 8, 16}) {
        // A column of rows on one side, a transposed box on the other; both of 12 x 5 elements.
        const auto e = static_cast<std::int64_t>(element);
        const Layout from = Layout::strided(element, {12, 5}, {9 * e, e});
        const Layout to = Layout::strided(element, {5, 3, 4}, {e, 40 * e, 8 * e});
        const std::size_t room = 4096;
        TestBuffer out(world, room);
        TestBuffer in(world, room);
        const OwnStream stream(world);
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
          world.synchronize(stream);
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
      const OwnStream stream(world);
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
        world.synchronize(stream);
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
  for (const Path path : paths_to_try({Path::ll, Path::store, Path::copy, Path::memop})) {
    on_all_devices(2, [&](World& world) {
      const std::size_t bytes = 3000;
      const int peer = 1 - world.rank();
      TestBuffer out(world, bytes);
      TestBuffer in(world, bytes);
      const OwnStream stream(world);
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
        world.synchronize(stream);
        CHECK(in.read() == data_of(peer, round, bytes));
        world.barrier();
      }
    });
  }
}

CASE(launches_run_ahead_of_a_slow_peer_without_losing_data) {
  // One direction only: the sender has no proof of progress but the receiver's announcements.
  for (const Path path : paths_to_try({Path::ll, Path::store, Path::load, Path::copy, Path::memop, Path::stage})) {
    on_all_devices(2, [&](World& world) {
      constexpr int kLaunches = 200;
      const std::size_t bytes = 64;
      TestBuffer buffer(world, bytes * kLaunches);
      TestBuffer window(world, bytes);
      const OwnStream stream(world);
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
      world.synchronize(stream);
      if (world.rank() == 1) CHECK(buffer.read() == all);
      world.barrier();
    });
  }
}

CASE(a_signal_follows_its_puts) {
  for (const Path path : paths_to_try({Path::automatic, Path::copy, Path::memop})) {
    on_all_devices(3, [&](World& world) {
      const std::size_t bytes = 100000;
      const auto segment = world.segment(2 * bytes + 64);
      TestBuffer out(world, 2 * bytes);
      TestBuffer in(world, 2 * bytes);
      const OwnStream stream(world);
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
        world.synchronize(stream);
        CHECK(in.read() == data_of(last, launch, 2 * bytes));
        world.barrier();
      }
    });
  }
}

CASE(a_get_reads_what_was_there_when_the_launch_began) {
  for (const Path path : paths_to_try({Path::automatic, Path::copy, Path::memop})) {
    on_all_devices(3, [&](World& world) {
      constexpr std::int64_t kRows = 50;
      constexpr std::size_t kBytes = 8 * kRows * 4;
      const auto segment = world.segment(kBytes);
      TestBuffer in(world, kBytes);
      TestBuffer column(world, 8 * kRows);
      const OwnStream stream(world);
      const int next = (world.rank() + 1) % world.size();
      PlanBuilder builder = world.plan("gets");
      builder.use_path(path);
      const Layout whole = Layout::contiguous(kBytes);
      const Layout tall = Layout::strided(8, {kRows}, {32});
      builder.get(in.data(), whole, segment->peer(next), whole, next, "whole");
      builder.get(column.data(), Layout::contiguous(8 * kRows), segment->peer(next) + 8, tall, next, "column");
      const auto plan = builder.build();
      CHECK(plan->explain().find("get from " + std::to_string(next)) != std::string::npos);
      CHECK(plan->ops()[0].path == (path == Path::automatic ? Path::load : path));
      for (int launch = 0; launch < 4; ++launch) {
        const std::vector<unsigned char> mine = data_of(world.rank(), launch, kBytes);
        world.one_sided().copy(segment->local(), mine.data(), kBytes);
        world.barrier();
        plan->launch(stream);
        world.synchronize(stream);
        const std::vector<unsigned char> theirs = data_of(next, launch, kBytes);
        CHECK(in.read() == theirs);
        const std::vector<unsigned char> got = column.read();
        for (std::size_t row = 0; row < kRows; ++row) {
          CHECK(std::equal(got.begin() + 8 * row, got.begin() + 8 * row + 8, theirs.begin() + 32 * row + 8));
        }
        world.barrier();
      }
    });
  }
}

CASE(a_get_that_cannot_be_made_says_why) {
  on_all_devices(2, [](World& world) {
    const auto segment = world.segment(64);
    TestBuffer in(world, 128);
    const Layout all = Layout::contiguous(64);
    const int other = 1 - world.rank();
    CHECK_THROWS(world.plan("p").get(in.data(), all, in.data(), all, other), "take what segment.peer(");
    CHECK_THROWS(world.plan("p").get(in.data(), all, segment->peer(other) + 8, all, other), "do not lie in rank");
    CHECK_THROWS(world.plan("p").get(in.data(), all, segment->peer(other), Layout::contiguous(8), other),
                 "the source has 8 B and the destination 64");
    CHECK_THROWS(world.plan("p").get(in.data(), all, nullptr, all, other), "the source is null");
    CHECK_THROWS(world.plan("p").get(in.data(), all, segment->peer(other), all, 2), "rank 2");
    PlanBuilder twice = world.plan("twice");
    twice.get(in.data(), all, segment->peer(other), all, other)
        .get(in.data() + 32, all, segment->peer(other), all, other);
    CHECK_THROWS((void)twice.build(), "overlap");
    PlanBuilder wrong = world.plan("wrong");
    wrong.use_path(Path::ll).get(in.data(), all, segment->peer(other), all, other);
    CHECK_THROWS((void)wrong.build(), "cannot carry a get; load, copy and memop can");
  });
}

CASE(a_signal_alone_ends_a_wait) {
  on_all_devices(2, [&](World& world) {
    const auto segment = world.segment(64);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("signals");
    builder.signal(reinterpret_cast<std::uint64_t*>(segment->peer(1 - world.rank())), 1, 1 - world.rank());
    builder.wait(reinterpret_cast<std::uint64_t*>(segment->local()), 1);
    const auto plan = builder.build();
    for (int launch = 0; launch < 10; ++launch) plan->launch(stream);
    world.synchronize(stream);
    CHECK(plan->times()[1].launches == 10);
    world.barrier();
  });
}

// Rank 0 works on words of the last rank, behind a put that fills them.
template <class Word>
void change_words(World& world) {
  constexpr std::size_t kWords = 8;
  struct Row {
    AtomicOp op;
    Word before, value, expected, after;
  };
  const Row rows[kWords] = {
      {AtomicOp::fetch, 7, 1, 0, 7},    {AtomicOp::set, 7, 9, 0, 9},          {AtomicOp::add, 7, Word(0) - 3, 0, 4},
      {AtomicOp::bit_and, 7, 12, 0, 4}, {AtomicOp::bit_or, 7, 12, 0, 15},     {AtomicOp::bit_xor, 7, 12, 0, 11},
      {AtomicOp::swap, 7, 5, 0, 5},     {AtomicOp::compare_swap, 7, 6, 7, 6},
  };
  const auto bytes_of = [&](auto pick) {
    std::vector<unsigned char> bytes(kWords * sizeof(Word));
    for (std::size_t i = 0; i < kWords; ++i) {
      const Word word = pick(rows[i]);
      std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
    }
    return bytes;
  };
  const auto before = bytes_of([](const Row& row) { return row.before; });
  const auto after = bytes_of([](const Row& row) { return row.after; });

  const auto segment = world.segment(before.size());
  TestBuffer start(world, before.size());
  TestBuffer old(world, before.size());
  const OwnStream stream(world);
  start.write(before);
  const int last = world.size() - 1;
  PlanBuilder builder = world.plan("words");
  if (world.rank() == 0) {
    const Layout all = Layout::contiguous(before.size());
    builder.put(segment->peer(last), all, start.data(), all, last);
    for (std::size_t i = 0; i < kWords; ++i) {
      builder.atomic(rows[i].op, segment->peer(last) + i * sizeof(Word), sizeof(Word), rows[i].value, last,
                     old.data() + i * sizeof(Word), rows[i].expected);
    }
  }
  const auto plan = builder.build();
  for (int launch = 0; launch < 3; ++launch) {
    old.write(after);
    plan->launch(stream);
    world.synchronize(stream);
    world.barrier();
    // A set does not return the old value.
    auto told = old.read();
    std::memcpy(told.data() + sizeof(Word), before.data() + sizeof(Word), sizeof(Word));
    if (world.rank() == 0) CHECK(told == before);
    std::vector<unsigned char> words(before.size());
    if (world.rank() == last) world.one_sided().copy(words.data(), segment->local(), words.size());
    if (world.rank() == last) CHECK(words == after);
    world.barrier();
  }
}

CASE(atomics_follow_their_puts_and_tell_the_old_values) {
  for (const int size : {1, 2, 3}) {
    on_all_devices(size, [](World& world) {
      change_words<std::uint64_t>(world);
      change_words<std::uint32_t>(world);
    });
  }
}

CASE(ranks_count_together_in_captured_plans) {
  on_all_devices(3, [](World& world) {
    const auto segment = world.segment(64);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("count");
    builder.atomic(AtomicOp::add, segment->peer(0), 8, 5, 0);
    builder.atomic(AtomicOp::add, segment->peer(0) + 8, 4, std::uint32_t{0} - 1, 0);
    const auto plan = builder.build();
    Device& device = world.device();
    device.begin_capture(stream);
    plan->launch(stream);
    const auto graph = device.end_capture(stream);
    for (int replay = 0; replay < 4; ++replay) device.launch(graph, stream);
    plan->launch(stream);
    world.synchronize(stream);
    world.barrier();
    std::uint64_t words[2] = {0, 0};
    if (world.rank() == 0) world.one_sided().copy(words, segment->local(), sizeof words);
    if (world.rank() == 0) CHECK(words[0] == 75 && words[1] == std::uint32_t{0} - 15);
    CHECK(plan->explain().find("atomic add to 0") != std::string::npos);
    world.barrier();
  });
}

CASE(an_empty_plan_does_nothing) {
  on_all_devices(2, [&](World& world) {
    const OwnStream stream(world);
    const auto plan = world.plan("empty").build();
    plan->launch(stream);
    plan->launch(stream);
    world.synchronize(stream);
    CHECK(plan->ops().empty());
    world.barrier();
  });
}

CASE(times_are_counted_and_reset) {
  on_all_devices(2, [&](World& world) {
    const std::size_t bytes = 1 << 20;
    TestBuffer out(world, bytes);
    TestBuffer in(world, bytes);
    const OwnStream stream(world);
    PlanBuilder builder = world.plan("timed");
    builder.send(out.data(), Layout::contiguous(bytes), 1 - world.rank(), 0, "there");
    builder.recv(in.data(), Layout::contiguous(bytes), 1 - world.rank(), 0, "back");
    const auto plan = builder.build();
    for (int i = 0; i < 5; ++i) plan->launch(stream);
    world.synchronize(stream);
    const auto times = plan->times();
    CHECK(times.size() == 2 && times[0].launches == 5);
    CHECK(times[0].what == concat("send to ", 1 - world.rank(), ", there"));
    CHECK(times[0].move_ns > 0);
    plan->reset_times();
    CHECK(plan->times()[0].move_ns == 0 && plan->times()[0].launches == 0);
    world.barrier();
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
