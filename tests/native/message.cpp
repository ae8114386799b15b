// Messages on every device: values, order, lanes, run-ahead, paths, errors, capture. Ranks are threads of this process.
#include "onstream/message/message.hpp"

#include <algorithm>
#include <ranges>

#include "check.hpp"
#include "ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Sizes around every threshold of the protocol: a line, a unit, the ring limits of both devices, a chunk.
const std::vector<std::size_t> kSizes = {0,    1,    7,    8,    9,    24,    25,    63,     64,     65,
                                         4095, 4096, 4097, 8192, 8193, 65536, 65537, 131072, 300000, (1 << 20) + 3};

struct OwnStream {
  explicit OwnStream(World& world) : device(world.device()), stream(device.create_stream()) {}
  ~OwnStream() { device.destroy_stream(stream); }
  Device& device;
  Stream stream;
};

void exchange_on_stream(World& world, Path path, MemoryKind kind) {
  OwnStream own(world);
  const int peer = 1 - world.rank();
  const MessageOptions options{3, path};
  TestBuffer out(world, kSizes.back(), kind);
  TestBuffer in(world, kSizes.back(), kind);
  world.barrier();
  for (const std::size_t bytes : kSizes) {
    if (path == Path::ll && bytes > 8192) continue;
    out.write(pattern(bytes, static_cast<unsigned>(bytes) + static_cast<unsigned>(world.rank())));
    if (world.rank() == 0) {
      world.send(out.data(), bytes, peer, options, own.stream);
      world.recv(in.data(), bytes, peer, options, own.stream);
    } else {
      world.recv(in.data(), bytes, peer, options, own.stream);
      world.send(out.data(), bytes, peer, options, own.stream);
    }
    world.synchronize(own.stream);
    std::vector<unsigned char> got = in.read();
    got.resize(bytes);
    CHECK(got == pattern(bytes, static_cast<unsigned>(bytes) + static_cast<unsigned>(peer)));
  }
  world.barrier();  // freeing pinned memory waits for every running kernel of the process (docs/decisions/0005)
}

void exchange_posted(World& world, const std::vector<std::size_t>& sizes) {
  const int peer = 1 - world.rank();
  std::vector<std::unique_ptr<TestBuffer>> in;
  std::vector<std::unique_ptr<TestBuffer>> out;
  std::vector<std::shared_ptr<Request>> requests;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(std::make_unique<TestBuffer>(world, sizes[i]));
    in.push_back(std::make_unique<TestBuffer>(world, sizes[i]));
    out[i]->write(pattern(sizes[i], static_cast<unsigned>(i) * 2 + static_cast<unsigned>(world.rank())));
    requests.push_back(world.isend(out[i]->data(), sizes[i], peer, {}));
    requests.push_back(world.irecv(in[i]->data(), sizes[i], peer, {}));
  }
  for (std::size_t i = requests.size(); i-- > 0;) CHECK(world.wait(requests[i]) == Status::ok);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(in[i]->read() == pattern(sizes[i], static_cast<unsigned>(i) * 2 + static_cast<unsigned>(peer)));
    CHECK(world.received(requests[2 * i + 1]) == sizes[i]);
  }
}

}  // namespace

CASE(plain_memory_is_read_when_the_stream_gets_there) {
  // Rank 1 sends back what it has received, in stream order and out of the same plain memory. The sender's stream is
  // idle at its first send and busy at the others.
  for (const std::size_t bytes : {8, 4096, 8192, 20000}) {
    on_all_devices(2, [&](World& world) {
      OwnStream own(world);
      constexpr int kTurns = 20;
      std::vector<std::vector<unsigned char>> plain(kTurns, std::vector<unsigned char>(bytes));
      std::vector<std::vector<unsigned char>> back(kTurns, std::vector<unsigned char>(bytes));
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto i = static_cast<std::size_t>(turn);
        if (world.rank() == 0) {
          plain[i] = pattern(bytes, static_cast<unsigned>(turn));
          world.send(plain[i].data(), bytes, 1, {}, own.stream);
          world.recv(back[i].data(), bytes, 1, {}, own.stream);
        } else {
          world.recv(plain[i].data(), bytes, 0, {}, own.stream);
          world.send(plain[i].data(), bytes, 0, {}, own.stream);
        }
      }
      world.synchronize(own.stream);
      for (int turn = 0; world.rank() == 0 && turn < kTurns; ++turn) {
        CHECK(back[static_cast<std::size_t>(turn)] == pattern(bytes, static_cast<unsigned>(turn)));
      }
      world.barrier();
    });
  }
}

CASE(posted_sends_of_plain_memory_keep_their_values_apart) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kMessages = 12;  // they fit into the lane's ring
    const std::size_t bytes = 700;
    const int peer = 1 - world.rank();
    for (std::size_t round = 0; round < 5; ++round) {
      const auto seed = [&](std::size_t i, int rank) {
        return static_cast<unsigned>(100 * round + 2 * i) + static_cast<unsigned>(rank);
      };
      std::vector<std::vector<unsigned char>> out;
      std::vector<std::vector<unsigned char>> in(kMessages, std::vector<unsigned char>(bytes));
      std::vector<std::shared_ptr<Request>> requests;
      for (std::size_t i = 0; i < kMessages; ++i) {
        out.push_back(pattern(bytes, seed(i, world.rank())));
        requests.push_back(world.irecv(in[i].data(), bytes, peer, {}));
        requests.push_back(world.isend(out[i].data(), bytes, peer, {}));
      }
      for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
      for (std::size_t i = 0; i < kMessages; ++i) CHECK(in[i] == pattern(bytes, seed(i, peer)));
      world.barrier();
    }
  });
}

CASE(every_size_arrives_whole_on_the_automatic_path) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::automatic, MemoryKind::device); });
}
CASE(every_size_arrives_whole_on_path_ll) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::ll, MemoryKind::device); });
}
CASE(every_size_arrives_whole_on_path_store) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::store, MemoryKind::device); });
}
CASE(every_size_arrives_whole_on_path_copy) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::copy, MemoryKind::device); });
}
CASE(every_size_arrives_whole_on_path_load) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::load, MemoryKind::device); });
}
CASE(every_size_arrives_whole_on_path_stage) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::stage, MemoryKind::device); });
}
CASE(every_size_arrives_whole_between_pinned_buffers) {
  on_all_devices(2, [](World& world) { exchange_on_stream(world, Path::automatic, MemoryKind::pinned); });
}

CASE(plain_host_memory_is_sent_and_received) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    for (const std::size_t bytes : kSizes) {
      std::vector<unsigned char> data = world.rank() == 0 ? pattern(bytes, 5) : std::vector<unsigned char>(bytes);
      if (world.rank() == 0) world.send(data.data(), bytes, 1, {}, own.stream);
      if (world.rank() == 1) world.recv(data.data(), bytes, 0, {}, own.stream);
      world.synchronize(own.stream);
      CHECK(data == pattern(bytes, 5));
    }
  });
}

CASE(device_memory_reaches_plain_host_memory_and_back) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    for (const std::size_t bytes : {std::size_t{40}, std::size_t{200000}}) {
      TestBuffer buffer(world, bytes);
      std::vector<unsigned char> plain(bytes);
      if (world.rank() == 0) {
        buffer.write(pattern(bytes, 9));
        world.send(buffer.data(), bytes, 1, {}, own.stream);
        world.recv(buffer.data(), bytes, 1, {}, own.stream);
        world.synchronize(own.stream);
        CHECK(buffer.read() == pattern(bytes, 9));
      } else {
        world.recv(plain.data(), bytes, 0, {}, own.stream);
        world.send(plain.data(), bytes, 0, {}, own.stream);
        world.synchronize(own.stream);
        CHECK(plain == pattern(bytes, 9));
      }
    }
  });
}

CASE(posted_sends_before_posted_receives_complete_in_any_wait_order) {
  on_all_devices(2, [](World& world) { exchange_posted(world, {8, 100000, 0, 4096, 5000, 1 << 20, 1}); });
}

CASE(host_synchronous_ping_pong_keeps_values) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 64);
    for (unsigned round = 0; round < 300; ++round) {
      if (world.rank() == 0) {
        buffer.write(pattern(64, round));
        CHECK(world.send(buffer.data(), 64, 1, {}) == Status::ok);
        CHECK(world.recv(buffer.data(), 64, 1, {}) == Status::ok);
        CHECK(buffer.read() == pattern(64, round));
      } else {
        CHECK(world.recv(buffer.data(), 64, 0, {}) == Status::ok);
        CHECK(world.send(buffer.data(), 64, 0, {}) == Status::ok);
      }
    }
  });
}

CASE(the_ring_wraps_many_times_with_mixed_sizes) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    const std::size_t most = 3000;
    TestBuffer buffer(world, most);
    for (unsigned i = 0; i < 400; ++i) {
      const std::size_t bytes = (i * 7919u) % most;
      if (world.rank() == 0) {
        buffer.write(pattern(bytes, i));
        world.send(buffer.data(), bytes, 1, {}, own.stream);
        world.synchronize(own.stream);
      } else {
        world.recv(buffer.data(), bytes, 0, {}, own.stream);
        world.synchronize(own.stream);
        const std::vector<unsigned char> got = buffer.read();
        const std::vector<unsigned char> wanted = pattern(bytes, i);
        CHECK(std::equal(wanted.begin(), wanted.end(), got.begin()));
      }
    }
  });
}

CASE(lanes_are_independent_queues) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 16 * 64);
    if (world.rank() == 0) {
      for (int lane = 0; lane < 64; ++lane) {
        std::vector<unsigned char> all = pattern(16 * 64, 1);
        if (lane == 0) buffer.write(all);
        world.send(buffer.data() + 16 * lane, 16, 1, {lane, Path::automatic}, own.stream);
      }
    } else {
      for (int lane = 63; lane >= 0; --lane)
        world.recv(buffer.data() + 16 * lane, 16, 0, {lane, Path::automatic}, own.stream);
    }
    world.synchronize(own.stream);
    CHECK(buffer.read() == pattern(16 * 64, 1));
  });
}

CASE(small_sends_run_ahead_of_their_receives) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 8 * 200);
    if (world.rank() == 0) {
      buffer.write(pattern(8 * 200, 3));
      for (int i = 0; i < 200; ++i) world.send(buffer.data() + 8 * i, 8, 1, {}, own.stream);
      world.synchronize(own.stream);  // before any receive exists
    }
    world.barrier();
    if (world.rank() == 1) {
      for (int i = 0; i < 200; ++i) world.recv(buffer.data() + 8 * i, 8, 0, {}, own.stream);
      world.synchronize(own.stream);
    }
    CHECK(buffer.read() == pattern(8 * 200, 3));
  });
}

CASE(a_message_shorter_than_its_receive_says_its_size) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 100000);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, std::size_t{50000}}) {
      std::size_t received = 7;
      if (world.rank() == 0) CHECK(world.send(buffer.data(), bytes, 1, {}) == Status::ok);
      if (world.rank() == 1) {
        CHECK(world.recv(buffer.data(), 100000, 0, {}, &received) == Status::ok);
        CHECK(received == bytes);
      }
    }
  });
}

CASE(truncation_is_an_error_on_both_sides_and_leaves_later_messages_intact) {
  on_all_devices(2, [](World& world) {
    const std::vector<std::pair<std::size_t, std::size_t>> sent_and_room = {
        {64, 32}, {50000, 32}, {50000, 40000}, {64, 0}};
    for (const auto& [bytes, room] : sent_and_room) {
      TestBuffer buffer(world, 50000);
      if (world.rank() == 0) {
        const Status status = world.send(buffer.data(), bytes, 1, {5, Path::automatic});
        CHECK(status == Status::truncated || status == Status::ok);  // a small one was gone before anyone could know
        buffer.write(pattern(100, 8));
        CHECK(world.send(buffer.data(), 100, 1, {5, Path::automatic}) == Status::ok);
      } else {
        CHECK(world.recv(buffer.data(), room, 0, {5, Path::automatic}) == Status::truncated);
        CHECK(world.recv(buffer.data(), 100, 0, {5, Path::automatic}) == Status::ok);
        std::vector<unsigned char> got = buffer.read();
        got.resize(100);
        CHECK(got == pattern(100, 8));
      }
      const Deadline deadline(5);
      std::vector<FaultReport> faults;
      while (faults.empty() && !deadline.passed()) {
        faults = world.take_faults();
        std::this_thread::yield();
      }
      CHECK(faults.size() == 1);
      CHECK(faults[0].status == Status::truncated);
      CHECK(faults[0].lane == 5);
      CHECK(faults[0].peer == 1 - world.rank());
      CHECK(describe(faults[0]).find("lane 5") != std::string::npos);
      world.barrier();
    }
  });
}

CASE(a_check_throws_what_became_of_the_oldest_message) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 64);
    const int peer = 1 - world.rank();
    if (world.rank() == 0) {
      world.send(buffer.data(), 64, peer, {}, own.stream);
      world.send(buffer.data(), 64, peer, {}, own.stream);
      world.device().synchronize(own.stream);
      world.barrier();
    } else {
      world.recv(buffer.data(), 8, peer, {}, own.stream);
      world.recv(buffer.data(), 16, peer, {}, own.stream);
      std::string what;
      ErrorCode code = ErrorCode::closed;
      try {
        world.synchronize(own.stream);
      } catch (const Error& error) {
        what = error.what();
        code = error.code();
      }
      CHECK(code == ErrorCode::truncated);
      CHECK(what.find("recv of 8 B from rank 0") != std::string::npos);
      CHECK(what.find("recv of 16 B from rank 0") != std::string::npos);
      world.check();  // each is told once
      world.barrier();
    }
  });
}

CASE(captured_messages_replay_mixed_with_eager_ones) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    const int peer = 1 - world.rank();
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{100000}}) {
      TestBuffer buffer(world, bytes);
      const auto ping_pong = [&] {
        if (world.rank() == 0) {
          world.send(buffer.data(), bytes, peer, {}, own.stream);
          world.recv(buffer.data(), bytes, peer, {}, own.stream);
        } else {
          world.recv(buffer.data(), bytes, peer, {}, own.stream);
          world.send(buffer.data(), bytes, peer, {}, own.stream);
        }
      };
      world.device().begin_capture(own.stream);
      for (int i = 0; i < 3; ++i) ping_pong();
      const auto graph = world.device().end_capture(own.stream);
      for (unsigned round = 0; round < 20; ++round) {
        if (world.rank() == 0) buffer.write(pattern(bytes, round));
        if (round % 3 == 1) {
          ping_pong();
        } else {
          world.device().launch(graph, own.stream);
        }
        world.synchronize(own.stream);
        CHECK(buffer.read() == pattern(bytes, round));
      }
    }
  });
}

CASE(captured_requests_replay) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, 20000);
    TestBuffer in(world, 20000);
    world.device().begin_capture(own.stream);
    const auto sent = world.isend(out.data(), 20000, peer, {}, own.stream);
    const auto got = world.irecv(in.data(), 20000, peer, {}, own.stream);
    world.wait(got, own.stream);
    world.wait(sent, own.stream);
    const auto graph = world.device().end_capture(own.stream);
    for (unsigned round = 0; round < 10; ++round) {
      out.write(pattern(20000, round * 2 + static_cast<unsigned>(world.rank())));
      world.device().launch(graph, own.stream);
      world.synchronize(own.stream);
      CHECK(in.read() == pattern(20000, round * 2 + static_cast<unsigned>(peer)));
    }
  });
}

CASE(a_captured_wait_on_another_branch_follows_its_op) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = 100000;
    OwnStream own(world);
    OwnStream branch(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, kBytes);
    TestBuffer in(world, kBytes);
    TestBuffer copy(world, kBytes);
    Device& device = world.device();
    device.begin_capture(own.stream);
    device.wait(branch.stream, device.record(own.stream));  // before the ops: nothing else orders the waits behind them
    const auto got = world.irecv(in.data(), kBytes, peer, {}, own.stream);
    const auto sent = world.isend(out.data(), kBytes, peer, {}, own.stream);
    world.wait(got, branch.stream);
    device.copy(copy.data(), in.data(), kBytes, branch.stream);
    world.wait(sent, branch.stream);
    device.wait(own.stream, device.record(branch.stream));
    const auto graph = device.end_capture(own.stream);
    for (unsigned round = 0; round < 20; ++round) {
      out.write(pattern(kBytes, round * 2 + static_cast<unsigned>(world.rank())));
      device.launch(graph, own.stream);
      world.synchronize(own.stream);
      CHECK(copy.read() == pattern(kBytes, round * 2 + static_cast<unsigned>(peer)));
    }
    CHECK_THROWS(world.wait(got, branch.stream), "is part of a graph, and this stream is not being captured");
    world.barrier();
  });
}

CASE(a_rank_can_message_itself) {
  on_all_devices(1, [](World& world) {
    TestBuffer out(world, 100000);
    TestBuffer in(world, 100000);
    out.write(pattern(100000, 2));
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{100000}}) {
      const auto got = world.irecv(in.data(), bytes, 0, {});
      const auto sent = world.isend(out.data(), bytes, 0, {});
      CHECK(world.wait(got) == Status::ok);
      CHECK(world.wait(sent) == Status::ok);
      CHECK(std::ranges::equal(std::vector(in.read()) | std::views::take(bytes),
                               std::vector(out.read()) | std::views::take(bytes)));
    }
  });
}

CASE(a_cycle_of_large_sends_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.0;
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 1 << 20);
      const int next = (world.rank() + 1) % 3;
      OwnStream own(world);
      world.send(buffer.data(), 1 << 20, next, {2, Path::automatic}, own.stream);
      world.device().synchronize(own.stream);
      const Deadline deadline(5);
      std::string story;
      while (story.find("cycle") == std::string::npos && !deadline.passed()) {
        const auto failure = world.failure();
        if (failure) story = failure->story;
        std::this_thread::yield();
      }
      CHECK(story.find("rank 0 send of 1048576 B to rank 1 on lane 2") != std::string::npos);
      CHECK(story.find("form a cycle") != std::string::npos);
      CHECK_THROWS(world.send(buffer.data(), 8, next, {}, own.stream), "the world has failed");
    });
  }
}

CASE(bad_arguments_are_named) {
  on_all_devices(1, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 64);
    CHECK_THROWS(world.send(buffer.data(), 64, 7, {}, own.stream), "rank 7 does not exist");
    CHECK_THROWS(world.recv(buffer.data(), 64, -1, {}, own.stream), "rank -1 does not exist");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {64, Path::automatic}, own.stream), "lane 64 does not exist");
    CHECK_THROWS(world.send(nullptr, 64, 0, {}, own.stream), "null pointer");
    CHECK_THROWS(world.send(buffer.data(), static_cast<std::size_t>(-1), 0, {}, own.stream), "no size of a buffer");
    CHECK_THROWS(world.send(buffer.data(), 1 << 20, 0, {}, own.stream), "after its allocation");
    CHECK_THROWS(world.send(buffer.data(), 1 << 20, 0, {0, Path::ll}, own.stream), "path ll carries at most");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {0, Path::net}, own.stream), "network");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {0, Path::memop}, own.stream), "Build a plan");
  });
}

CASE(a_request_of_another_world_is_refused) {
  run_ranks(1, quick("host"), [](World& world) {
    const auto other = World::create(launch_of(0, 1, ""), quick("host"));
    std::byte data[8]{};
    const auto request = other->isend(data, 8, 0, {});
    CHECK_THROWS((void)world.wait(request), "another world");
  });
}

// --- what once went wrong ---

CASE(a_ticket_is_not_reused_while_a_wait_on_it_is_enqueued) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 64);
    const int peer = 1 - world.rank();
    for (int i = 0; i < 50; ++i) {
      if (world.rank() == 0) {
        world.wait(world.isend(buffer.data(), 8, peer, {}, own.stream), own.stream);
      } else {
        world.wait(world.irecv(buffer.data(), 8, peer, {}, own.stream), own.stream);
      }
    }
    world.synchronize(own.stream);
  });
}

CASE(waiting_for_a_pushed_send_from_its_start_does_not_stall) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    OwnStream own(world);
    TestBuffer buffer(world, kBytes);
    const std::uint64_t start = now_ns();
    if (world.rank() == 1) {
      const auto request = world.irecv(buffer.data(), kBytes, 0, {});
      world.barrier();
      CHECK(world.wait(request) == Status::ok);
    } else {
      world.barrier();
      CHECK(world.wait(world.isend(buffer.data(), kBytes, 1, {}, own.stream)) == Status::ok);
    }
    CHECK(now_ns() - start < 5'000'000'000u);
  });
}

CASE(posting_everything_before_waiting_for_anything_never_deadlocks) {
  on_all_devices(2, [](World& world) {
    constexpr int kWindow = 60;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{256}, std::size_t{4096}, std::size_t{20000}}) {
      std::vector<std::vector<unsigned char>> in(kWindow, std::vector<unsigned char>(bytes));
      std::vector<unsigned char> out = pattern(bytes, static_cast<unsigned>(world.rank()));
      std::vector<std::shared_ptr<Request>> requests;
      for (auto& buffer : in) requests.push_back(world.irecv(buffer.data(), bytes, 1 - world.rank(), {}));
      for (int i = 0; i < kWindow; ++i) requests.push_back(world.isend(out.data(), bytes, 1 - world.rank(), {}));
      for (std::size_t i = requests.size(); i-- > 0;) CHECK(world.wait(requests[i]) == Status::ok);
      for (const auto& buffer : in) CHECK(buffer == pattern(bytes, static_cast<unsigned>(1 - world.rank())));
    }
    world.barrier();
  });
}

CASE(a_short_message_leaves_the_rest_of_plain_memory_alone) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    for (const std::size_t room : {std::size_t{100}, std::size_t{50000}}) {
      const std::vector<unsigned char> sent = pattern(60, 4);
      std::vector<unsigned char> posted(room, 7);
      std::vector<unsigned char> ordered(room, 7);
      if (world.rank() == 0) {
        world.send(sent.data(), sent.size(), 1, {}, own.stream);
        world.send(sent.data(), sent.size(), 1, {}, own.stream);
      } else {
        const auto request = world.irecv(posted.data(), room, 0, {}, own.stream);
        world.wait(request, own.stream);
        world.recv(ordered.data(), room, 0, {}, own.stream);
      }
      world.synchronize(own.stream);
      std::vector<unsigned char> expected(room, 7);
      std::ranges::copy(sent, expected.begin());
      if (world.rank() == 1) CHECK(posted == expected && ordered == expected);
    }
  });
}

CASE(every_allowed_size_fits_a_ring_that_keeps_credit_back) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_bytes = 8192;
    run_ranks(2, parameters, [](World& world) {
      TestBuffer buffer(world, 8192);
      for (const std::size_t bytes :
           {std::size_t{8}, std::size_t{3000}, std::size_t{8}, std::size_t{4080}, std::size_t{4096}}) {
        if (world.rank() == 0) CHECK(world.send(buffer.data(), bytes, 1, {}) == Status::ok);
        if (world.rank() == 1) CHECK(world.recv(buffer.data(), bytes, 0, {}) == Status::ok);
      }
    });
  }
}

// Rank 0 asks for one receive more than a lane holds; the world stays whole.
void ask_for_one_too_many(World& world) {
  constexpr std::size_t kLimit = 4;  // lane_receives of these worlds
  TestBuffer buffer(world, 8 * (kLimit + 1));
  const auto place = [&](std::size_t i) { return buffer.data() + 8 * i; };
  for (int round = 0; round < 3; ++round) {
    if (world.rank() == 0) {
      std::vector<std::shared_ptr<Request>> requests;
      for (std::size_t i = 0; i < kLimit; ++i) requests.push_back(world.irecv(place(i), 8, 1, {}));
      CHECK_THROWS((void)world.irecv(place(kLimit), 8, 1, {}),
                   "irecv: 4 receives from rank 1 are posted on lane 0 already and none of them is waited for");
      CHECK_THROWS((void)world.recv(place(kLimit), 8, 1, {}), "raise lane_receives (4)");
      requests.push_back(world.irecv(place(kLimit), 8, 1, {1}));  // another lane has its own room
      world.barrier();
      for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
    } else {
      world.barrier();
      for (std::size_t i = 0; i < kLimit; ++i) CHECK(world.send(place(i), 8, 0, {}) == Status::ok);
      CHECK(world.send(place(kLimit), 8, 0, {1}) == Status::ok);
    }
    CHECK(!world.failure().has_value());
  }
  world.barrier();
}

// Many more than a lane holds, each waited for on its stream before the next is posted.
void post_many_with_waits_enqueued(World& world) {
  OwnStream own(world);
  constexpr std::size_t kMany = 50;
  TestBuffer buffer(world, 8 * kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    if (world.rank() == 0) {
      const auto request = world.irecv(buffer.data() + 8 * i, 8, 1, {}, own.stream);
      world.wait(request, own.stream);
    } else {
      world.send(buffer.data() + 8 * i, 8, 0, {}, own.stream);
    }
  }
  world.synchronize(own.stream);
  world.barrier();
}

CASE(a_receive_more_than_a_lane_holds_is_refused_alone) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_receives = 4;
    run_ranks(2, parameters, ask_for_one_too_many);
  }
}

CASE(a_wait_enqueued_on_a_stream_makes_room_for_the_next_receive) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_receives = 4;
    run_ranks(2, parameters, post_many_with_waits_enqueued);
  }
}

CASE(one_outstanding_receive_a_lane_is_enough) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_receives = 1;
    run_ranks(2, parameters, [](World& world) {
      TestBuffer buffer(world, 8192);
      for (int i = 0; i < 40; ++i) {
        const std::size_t room = i % 2 == 0 ? 5000 : 8192;
        OwnStream own(world);
        if (world.rank() == 0) world.send(buffer.data(), 8192, 1, {}, own.stream);
        if (world.rank() == 1) world.recv(buffer.data(), room, 0, {}, own.stream);
      }
      world.barrier();
    });
  }
}

CASE(a_truncated_posted_send_is_told_however_many_follow) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 9000);
    std::vector<std::shared_ptr<Request>> sends;
    if (world.rank() == 0) {
      for (int i = 0; i < 70; ++i) sends.push_back(world.isend(buffer.data(), 9000, 1, {}));
    } else {
      CHECK(world.recv(buffer.data(), 5000, 0, {}) == Status::truncated);
      for (int i = 1; i < 70; ++i) CHECK(world.recv(buffer.data(), 9000, 0, {}) == Status::ok);
    }
    for (const auto& request : sends) (void)world.wait(request);
    const Deadline deadline(5);
    std::vector<FaultReport> faults;
    while (faults.empty() && !deadline.passed()) faults = world.take_faults();
    CHECK(faults.size() == 1 && faults[0].status == Status::truncated);
    world.barrier();
  });
}

CASE(a_world_destroyed_with_work_under_way_ends_that_work_first) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 0.5;
  const auto device = open_device("host", 0);
  const Stream stream = device->create_stream();
  std::vector<unsigned char> buffer(100);
  {
    const auto world = World::create(launch_of(0, 1, ""), parameters);
    world->recv(buffer.data(), buffer.size(), 0, {}, stream);
  }
  CHECK(device->idle(stream));
  device->destroy_stream(stream);
}

CASE(a_captured_request_is_not_waited_for_by_the_host) {
  on_all_devices(1, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 64);
    world.device().begin_capture(own.stream);
    const auto request = world.isend(buffer.data(), 64, 0, {}, own.stream);
    const auto graph = world.device().end_capture(own.stream);
    CHECK_THROWS((void)world.wait(request), "part of a graph");
    CHECK_THROWS((void)world.test(request), "part of a graph");
  });
}

// Small and large, of several lanes; more than one launch takes.
CASE(many_messages_are_posted_and_awaited_together) {
  const auto exchange = [](World& world) {
    constexpr std::size_t kCount = 150;
    constexpr std::size_t kRoom = 20'000;
    TestBuffer buffer(world, kCount * kRoom);
    const Stream stream = world.device().create_stream();
    const int other = 1 - world.rank();
    const auto bytes_of = [](std::size_t i) { return i % 50 == 49 ? kRoom : i % 8; };
    const auto lane_of = [](std::size_t i) { return static_cast<int>(i / 100); };
    std::vector<unsigned char> all;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto part = pattern(kRoom, static_cast<unsigned>(i));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::vector<std::shared_ptr<Request>> requests;
    if (world.rank() == 0) {
      buffer.write(all);
      std::vector<Outgoing> messages;
      for (std::size_t i = 0; i < kCount; ++i) {
        messages.push_back({buffer.data() + i * kRoom, bytes_of(i), other, {lane_of(i), Path::automatic}});
      }
      requests = world.isend_all(messages, stream);
    } else {
      for (std::size_t i = 0; i < kCount; ++i) {
        requests.push_back(world.irecv(buffer.data() + i * kRoom, bytes_of(i), other, {lane_of(i), Path::automatic}));
      }
    }
    CHECK(requests.size() == kCount);
    world.wait_all(requests, stream);
    world.synchronize(stream);
    for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
    const auto got = buffer.read();
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto first = got.begin() + static_cast<std::ptrdiff_t>(i * kRoom);
      CHECK(std::equal(first, first + static_cast<std::ptrdiff_t>(bytes_of(i)),
                       all.begin() + static_cast<std::ptrdiff_t>(i * kRoom)));
    }
    world.barrier();
    world.device().destroy_stream(stream);
  };
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_receives = 128;
    run_ranks(2, parameters, exchange);
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
