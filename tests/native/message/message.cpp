// Messages on every device: every size on every path between every kind of memory arrives whole. Ranks are threads of
// this process. Order and lanes: message_order.cpp; graphs: message_capture.cpp; errors: message_errors.cpp.
#include "onstream/message/message.hpp"

#include <algorithm>
#include <ranges>

#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Sizes around every threshold of the protocol: a line, a unit, the ring limits of both devices, a chunk.
const std::vector<std::size_t> kSizes = {0,    1,    7,    8,    9,    24,    25,    63,     64,     65,
                                         4095, 4096, 4097, 8192, 8193, 65536, 65537, 131072, 300000, (1 << 20) + 3};

void exchange_on_stream(World& world, Path path, MemoryKind kind) {
  const OwnStream own(world);
  const int peer = 1 - world.rank();
  const MessageOptions options{3, path};
  TestBuffer out(world, kSizes.back(), kind);
  TestBuffer in(world, kSizes.back(), kind);
  world.barrier();
  for (const std::size_t bytes : kSizes) {
    if (path == Path::ll && bytes > 8192) continue;
    out.write(pattern(bytes, static_cast<unsigned>(bytes) + static_cast<unsigned>(world.rank())));
    if (world.rank() == 0) {
      world.send(out.data(), bytes, peer, options, own);
      world.recv(in.data(), bytes, peer, options, own);
    } else {
      world.recv(in.data(), bytes, peer, options, own);
      world.send(out.data(), bytes, peer, options, own);
    }
    world.synchronize(own);
    std::vector<unsigned char> got = in.read();
    got.resize(bytes);
    CHECK(got == pattern(bytes, static_cast<unsigned>(bytes) + static_cast<unsigned>(peer)));
  }
  world.barrier();  // freeing pinned memory waits for every running kernel of the process (docs/decisions/0005)
}

}  // namespace

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

// Arrays of small elements begin and end anywhere: whole words, half words and single bytes travel in different
// accesses.
CASE(messages_of_any_alignment_arrive_and_nothing_beside_them_is_written) {
  constexpr std::size_t kBeside = 16;
  constexpr std::size_t kMost = 9000;
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const std::size_t room = kBeside + kMost + kBeside;
    TestBuffer out(world, room);
    TestBuffer in(world, room);
    const std::vector<unsigned char> sent = pattern(room, 11);
    const std::vector<unsigned char> before = pattern(room, 12);
    if (world.rank() == 0) out.write(sent);
    for (const std::size_t from : {0, 1, 2, 4}) {
      for (const std::size_t to : {0, 2, 4, 7}) {
        for (const std::size_t bytes : {1, 3, 4, 5, 8, 12, 20, 1020, 1022, 4092, 8188, 9000}) {
          if (world.rank() == 0) {
            world.send(out.data() + from, bytes, 1, {}, own);
            continue;
          }
          in.write(before);
          world.recv(in.data() + kBeside + to, bytes, 0, {}, own);
          world.synchronize(own);
          std::vector<unsigned char> want = before;
          std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                      want.begin() + static_cast<std::ptrdiff_t>(kBeside + to));
          CHECK(in.read() == want);
        }
      }
    }
    world.synchronize(own);
    world.barrier();
  });
}

CASE(plain_host_memory_is_sent_and_received) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    for (const std::size_t bytes : kSizes) {
      std::vector<unsigned char> data = world.rank() == 0 ? pattern(bytes, 5) : std::vector<unsigned char>(bytes);
      if (world.rank() == 0) world.send(data.data(), bytes, 1, {}, own);
      if (world.rank() == 1) world.recv(data.data(), bytes, 0, {}, own);
      world.synchronize(own);
      CHECK(data == pattern(bytes, 5));
    }
  });
}

CASE(device_memory_reaches_plain_host_memory_and_back) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    for (const std::size_t bytes : {std::size_t{40}, std::size_t{200000}}) {
      TestBuffer buffer(world, bytes);
      std::vector<unsigned char> plain(bytes);
      if (world.rank() == 0) {
        buffer.write(pattern(bytes, 9));
        world.send(buffer.data(), bytes, 1, {}, own);
        world.recv(buffer.data(), bytes, 1, {}, own);
        world.synchronize(own);
        CHECK(buffer.read() == pattern(bytes, 9));
      } else {
        world.recv(plain.data(), bytes, 0, {}, own);
        world.send(plain.data(), bytes, 0, {}, own);
        world.synchronize(own);
        CHECK(plain == pattern(bytes, 9));
      }
    }
  });
}

CASE(plain_memory_is_read_when_the_stream_gets_there) {
  // Rank 1 sends the received bytes back, in stream order and out of the same plain memory. The sender's stream is
  // idle at its first send and busy at the others.
  for (const std::size_t bytes : {8, 4096, 8192, 20000}) {
    on_all_devices(2, [&](World& world) {
      const OwnStream own(world);
      constexpr int kTurns = 20;
      std::vector<std::vector<unsigned char>> plain(kTurns, std::vector<unsigned char>(bytes));
      std::vector<std::vector<unsigned char>> back(kTurns, std::vector<unsigned char>(bytes));
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto i = static_cast<std::size_t>(turn);
        if (world.rank() == 0) {
          plain[i] = pattern(bytes, static_cast<unsigned>(turn));
          world.send(plain[i].data(), bytes, 1, {}, own);
          world.recv(back[i].data(), bytes, 1, {}, own);
        } else {
          world.recv(plain[i].data(), bytes, 0, {}, own);
          world.send(plain[i].data(), bytes, 0, {}, own);
        }
      }
      world.synchronize(own);
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
        requests.push_back(world.irecv(in[i].data(), bytes, peer));
        requests.push_back(world.isend(out[i].data(), bytes, peer, {}));
      }
      for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
      for (std::size_t i = 0; i < kMessages; ++i) CHECK(in[i] == pattern(bytes, seed(i, peer)));
      world.barrier();
    }
  });
}

CASE(a_short_message_leaves_the_rest_of_plain_memory_alone) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    for (const std::size_t room : {std::size_t{100}, std::size_t{50000}}) {
      const std::vector<unsigned char> sent = pattern(60, 4);
      std::vector<unsigned char> posted(room, 7);
      std::vector<unsigned char> ordered(room, 7);
      if (world.rank() == 0) {
        world.send(sent.data(), sent.size(), 1, {}, own);
        world.send(sent.data(), sent.size(), 1, {}, own);
      } else {
        const auto request = world.irecv(posted.data(), room, 0, {}, own);
        world.wait(request, own);
        world.recv(ordered.data(), room, 0, {}, own);
      }
      world.synchronize(own);
      std::vector<unsigned char> expected(room, 7);
      std::ranges::copy(sent, expected.begin());
      if (world.rank() == 1) CHECK(posted == expected && ordered == expected);
    }
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

CASE(how_much_came_is_known_once_a_stream_has_waited) {
  on_all_devices(1, [](World& world) {
    const OwnStream stream(world);
    TestBuffer buffer(world, 128);
    const auto receive = world.irecv(buffer.data() + 64, 64, 0, {}, stream);
    CHECK_THROWS((void)world.received(receive), "the receive has not ended");
    world.send(buffer.data(), 24, 0, {}, stream);
    world.wait(receive, stream);
    world.synchronize(stream);
    CHECK(world.received(receive) == 24);
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
      std::vector<unsigned char> came = in.read();
      std::vector<unsigned char> went = out.read();
      came.resize(bytes);
      went.resize(bytes);
      CHECK(came == went);
    }
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
