// Both directions at once: rings of any length and size, eager and captured, by streams and by hosts, and errors.
#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// A message of the ring, one around every threshold, and one that several blocks move.
const std::vector<std::size_t> kSizes = {0, 1, 8, 100, 8192, 8193, 65536, 300000, (all_or_few(3, 1) << 20) + 5};

unsigned seed_of(int rank, std::size_t bytes, int step) {
  return static_cast<unsigned>(rank) * 7919u + static_cast<unsigned>(bytes) + static_cast<unsigned>(step) * 31u;
}

std::vector<unsigned char> slice_of(std::vector<unsigned char> all, std::size_t bytes) {
  all.resize(bytes);
  return all;
}

struct Ring {
  explicit Ring(World& of_world)
      : world(of_world),
        next((world.rank() + 1) % world.size()),
        last((world.rank() + world.size() - 1) % world.size()),
        stream(world.device().create_stream()) {}
  ~Ring() { world.device().destroy_stream(stream); }

  void enqueue(TestBuffer& out, TestBuffer& in, std::size_t bytes, const MessageOptions& options) {
    world.sendrecv({out.data(), bytes, next, options}, {in.data(), bytes, last, options}, stream);
  }
  void check(const TestBuffer& in, std::size_t bytes, int step) const {
    std::vector<unsigned char> got = in.read();
    got.resize(bytes);
    CHECK(got == pattern(bytes, seed_of(last, bytes, step)));
  }

  World& world;
  int next;
  int last;
  Stream stream;
};

void go_round(World& world, Path path, MemoryKind kind) {
  Ring ring(world);
  TestBuffer out(world, kSizes.back(), kind);
  TestBuffer in(world, kSizes.back(), kind);
  world.barrier();
  for (const std::size_t bytes : kSizes) {
    if (path == Path::ll && bytes > 8192) continue;
    for (int step = 0; step < 3; ++step) {
      out.write(pattern(bytes, seed_of(world.rank(), bytes, step)));
      ring.enqueue(out, in, bytes, {1, path});
      world.synchronize(ring.stream);
      ring.check(in, bytes, step);
    }
  }
  world.barrier();
}

// Every rank to every rank, itself too, at once: from each a message of its own, asked for in an order of its own.
struct Crowd {
  Crowd(World& of_world, std::size_t of_bytes)
      : world(of_world),
        bytes(of_bytes),
        stride(bytes + 16),
        out(world, stride * static_cast<std::size_t>(world.size())),
        in(world, stride * static_cast<std::size_t>(world.size())),
        stream(world.device().create_stream()) {
    for (int i = 0; i < world.size(); ++i) {
      const int to = (world.rank() % 2 == 0 ? i : world.size() - 1 - i + world.rank()) % world.size();
      const std::size_t at = stride * static_cast<std::size_t>(to);
      sends.push_back({out.data() + at, bytes, to, {}});
      receives.insert(receives.begin(), {in.data() + at, bytes, to, {}});
    }
  }
  ~Crowd() { world.device().destroy_stream(stream); }

  unsigned seed(int from, int to, int step) const { return seed_of(from * 16 + to, bytes, step); }
  void fill(int step) {
    std::vector<unsigned char> all(out.bytes());
    for (int to = 0; to < world.size(); ++to) {
      std::ranges::copy(pattern(bytes, seed(world.rank(), to, step)),
                        all.begin() + static_cast<std::ptrdiff_t>(stride) * to);
    }
    out.write(all);
  }
  void check(int step) const {
    const std::vector<unsigned char> all = in.read();
    for (int from = 0; from < world.size(); ++from) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(stride) * from;
      const std::vector<unsigned char> got(begin, begin + static_cast<std::ptrdiff_t>(bytes));
      CHECK(got == pattern(bytes, seed(from, world.rank(), step)));
    }
  }

  World& world;
  std::size_t bytes;
  std::size_t stride;
  TestBuffer out;
  TestBuffer in;
  Stream stream;
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
};

}  // namespace

CASE(a_ring_of_any_length_goes_round) {
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4}, {1, 3})) {
    on_all_devices(size, [](World& world) { go_round(world, Path::automatic, MemoryKind::device); });
  }
}

CASE(every_path_and_kind_of_memory_goes_round) {
  for (const Path path : {Path::ll, Path::store, Path::load, Path::copy, Path::stage}) {
    on_all_devices(2, [path](World& world) { go_round(world, path, MemoryKind::device); });
  }
  for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::host}) {
    on_all_devices(2, [kind](World& world) { go_round(world, Path::automatic, kind); });
  }
}

CASE(all_messages_between_all_ranks_may_be_one_op) {
  for (const int size : all_or_few<std::vector<int>>({1, 2, 3, 4, 5}, {1, 2, 4})) {
    on_all_devices(size, [](World& world) {
      for (const std::size_t bytes : kSizes) {
        if (world.size() > 3 && bytes > 300000) continue;
        Crowd crowd(world, bytes);
        for (int step = 0; step < 3; ++step) {
          crowd.fill(step);
          world.exchange(crowd.sends, crowd.receives, crowd.stream);
          world.synchronize(crowd.stream);
          crowd.check(step);
        }
        world.barrier();
      }
    });
  }
}

CASE(captured_messages_between_all_ranks_replay) {
  on_all_devices(3, [](World& world) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{70000}}) {
      Crowd crowd(world, bytes);
      world.exchange(crowd.sends, crowd.receives, crowd.stream);
      world.synchronize(crowd.stream);
      world.device().begin_capture(crowd.stream);
      world.exchange(crowd.sends, crowd.receives, crowd.stream);
      const auto graph = world.device().end_capture(crowd.stream);
      world.barrier();
      for (int step = 0; step < 5; ++step) {
        crowd.fill(step);
        world.device().launch(graph, crowd.stream);
        world.synchronize(crowd.stream);
        crowd.check(step);
      }
      world.barrier();
    }
  });
}

namespace {

// Several messages to each of the other ranks and from each, of these sizes, on tags 0 and 1 in turn. The ranks list
// them in different orders, those of one tag and peer in the same.
struct Chains {
  Chains(World& of_world, std::vector<std::size_t> of_sizes)
      : world(of_world), sizes(std::move(of_sizes)), out(world, room()), in(world, room()), stream(world) {
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      for (int i = 1; i < world.size(); ++i) {
        const int to = (world.rank() + i) % world.size();
        const int tag = static_cast<int>(k % 2);
        sends.push_back({out.data() + at(to, k), sizes[k], to, {tag}});
        const int from = (world.rank() + world.size() - i) % world.size();
        receives.push_back({in.data() + at(from, k), sizes[k], from, {tag}});
      }
    }
  }
  void fill(int step) {
    std::vector<unsigned char> all(out.bytes());
    for (int to = 0; to < world.size(); ++to) {
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        std::ranges::copy(pattern(sizes[k], seed(world.rank(), to, k, step)),
                          all.begin() + static_cast<std::ptrdiff_t>(at(to, k)));
      }
    }
    out.write(all);
  }
  void check(int step) const {
    const std::vector<unsigned char> all = in.read();
    for (int from = 0; from < world.size(); ++from) {
      if (from == world.rank()) continue;
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at(from, k));
        const std::vector<unsigned char> got(begin, begin + static_cast<std::ptrdiff_t>(sizes[k]));
        CHECK(got == pattern(sizes[k], seed(from, world.rank(), k, step)));
      }
    }
  }
  std::size_t stride() const {
    std::size_t all = 0;
    for (const std::size_t size : sizes) all += (size + 15) / 16 * 16;
    return all;
  }
  std::size_t room() const { return stride() * static_cast<std::size_t>(world.size()); }
  std::size_t at(int peer, std::size_t k) const {
    std::size_t offset = stride() * static_cast<std::size_t>(peer);
    for (std::size_t i = 0; i < k; ++i) offset += (sizes[i] + 15) / 16 * 16;
    return offset;
  }
  static unsigned seed(int from, int to, std::size_t k, int step) {
    return static_cast<unsigned>(((from * 8 + to) * 8 + static_cast<int>(k)) * 16 + step);
  }

  World& world;
  std::vector<std::size_t> sizes;
  TestBuffer out;
  TestBuffer in;
  OwnStream stream;
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
};

// Small and large ones, through the ring by one block and by several, and past it.
const std::vector<std::vector<std::size_t>> kChains = {{8, 8},
                                                       {8, 5000, 8},
                                                       {70000, 8, 70000},
                                                       {1 << 20, 1 << 20},
                                                       {100000, 8, 300000, 20000},
                                                       {8, 1 << 20, 8},
                                                       {5000, 5000, 5000, 5000, 5000, 5000, 5000},
                                                       {40000, 40000, 40000, 9},
                                                       {0, 8, 0, 300000}};

void exchange_chains(World& world, const std::vector<std::size_t>& sizes) {
  Chains chains(world, sizes);
  for (int step = 0; step < 3; ++step) {
    chains.fill(step);
    world.exchange(chains.sends, chains.receives, chains.stream);
    world.synchronize(chains.stream);
    chains.check(step);
  }
  world.device().begin_capture(chains.stream);
  world.exchange(chains.sends, chains.receives, chains.stream);
  const auto graph = world.device().end_capture(chains.stream);
  world.barrier();
  for (int step = 3; step < 7; ++step) {
    chains.fill(step);
    if ((step + world.rank()) % 3 == 0) {
      world.exchange(chains.sends, chains.receives, chains.stream);
    } else {
      world.device().launch(graph, chains.stream);
    }
    world.synchronize(chains.stream);
    chains.check(step);
  }
  world.barrier();
}

}  // namespace

CASE(messages_of_one_lane_match_in_their_order_within_an_op) {
  for (const int size : {2, 3}) {
    on_all_devices(size, [](World& world) {
      for (const std::vector<std::size_t>& sizes : kChains) exchange_chains(world, sizes);
      const OwnStream stream(world);
      TestBuffer in(world, 16);
      CHECK_THROWS(world.exchange({}, std::vector<Incoming>{{in.data(), 8, 7, {}}}, stream), "rank 7 does not exist");
      world.barrier();
    });
  }
}

CASE(messages_of_one_lane_follow_each_other_on_few_blocks) {
  for (const std::int64_t blocks : {4, 5, 9}) {
    for (const std::string& device : device_specs()) {
      Parameters parameters = quick(device);
      parameters.max_blocks = blocks;
      run_ranks(2, parameters, [](World& world) {
        for (const std::vector<std::size_t>& sizes : kChains) exchange_chains(world, sizes);
      });
    }
  }
}

// The message behind one that is cut off comes whole.
CASE(a_message_that_is_too_large_ends_alone_within_an_op) {
  on_all_devices(2, [](World& world) {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{1} << 20}) {
      const int peer = 1 - world.rank();
      const OwnStream stream(world);
      TestBuffer out(world, 2 * bytes);
      TestBuffer in(world, 2 * bytes);
      out.write(pattern(2 * bytes, static_cast<unsigned>(world.rank())));
      const std::vector<Outgoing> sends = {{out.data(), bytes, peer, {}}, {out.data() + bytes, bytes, peer, {}}};
      const std::vector<Incoming> receives = {{in.data(), bytes / 2, peer, {}}, {in.data() + bytes, bytes, peer, {}}};
      world.exchange(sends, receives, stream);
      ErrorCode told = ErrorCode::system;
      try {
        world.synchronize(stream);
      } catch (const Error& error) {
        told = error.code();
      }
      CHECK(told == ErrorCode::truncated);
      const std::vector<unsigned char> all = in.read();
      const std::vector<unsigned char> sent = pattern(2 * bytes, static_cast<unsigned>(peer));
      CHECK(std::equal(all.begin() + static_cast<std::ptrdiff_t>(bytes), all.end(),
                       sent.begin() + static_cast<std::ptrdiff_t>(bytes)));
      world.barrier();
    }
  });
}

CASE(few_blocks_are_enough) {
  for (const std::int64_t blocks : {1, 2, 3}) {
    for (const std::string& device : device_specs()) {
      Parameters parameters = quick(device);
      parameters.max_blocks = blocks;
      run_ranks(2, parameters, [](World& world) { go_round(world, Path::automatic, MemoryKind::device); });
    }
  }
}

CASE(a_captured_exchange_replays_like_an_eager_one) {
  on_all_devices(3, [](World& world) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{70000}, std::size_t{1} << 20}) {
      Ring ring(world);
      TestBuffer out(world, bytes);
      TestBuffer in(world, bytes);
      ring.enqueue(out, in, bytes, {});
      world.synchronize(ring.stream);
      world.device().begin_capture(ring.stream);
      ring.enqueue(out, in, bytes, {});
      const auto graph = world.device().end_capture(ring.stream);
      world.barrier();
      for (int step = 0; step < 9; ++step) {
        out.write(pattern(bytes, seed_of(world.rank(), bytes, step)));
        if ((step + world.rank()) % 3 == 0) {
          ring.enqueue(out, in, bytes, {});
        } else {
          world.device().launch(graph, ring.stream);
        }
        world.synchronize(ring.stream);
        ring.check(in, bytes, step);
      }
      world.barrier();
    }
  });
}

CASE(many_exchanges_follow_each_other_on_a_stream) {
  on_all_devices(3, [](World& world) {
    constexpr int kSteps = 50;
    constexpr std::size_t kBytes = 20000;
    Ring ring(world);
    TestBuffer out(world, kBytes * kSteps);
    TestBuffer in(world, kBytes * kSteps);
    out.write(pattern(kBytes * kSteps, seed_of(world.rank(), kBytes, 0)));
    for (std::size_t step = 0; step < kSteps; ++step) {
      world.sendrecv({out.data() + step * kBytes, kBytes, ring.next, {}},
                     {in.data() + step * kBytes, kBytes, ring.last, {}}, ring.stream);
    }
    world.synchronize(ring.stream);
    CHECK(in.read() == pattern(kBytes * kSteps, seed_of(ring.last, kBytes, 0)));
    world.barrier();
  });
}

CASE(its_halves_match_plain_sends_and_receives_of_other_sizes) {
  on_all_devices(2, [](World& world) {
    const std::vector<std::size_t> sizes = {8, 5000, 100000, 1 << 20};
    const int peer = 1 - world.rank();
    Ring ring(world);
    TestBuffer out(world, sizes.back());
    TestBuffer in(world, sizes.back());
    for (const std::size_t there : sizes) {
      for (const std::size_t back : sizes) {
        const std::size_t mine = world.rank() == 0 ? there : back;
        const std::size_t theirs = world.rank() == 0 ? back : there;
        out.write(pattern(mine, seed_of(world.rank(), mine, 0)));
        if (world.rank() == 0) {
          world.sendrecv({out.data(), mine, peer, {2}}, {in.data(), theirs, peer, {3}}, ring.stream);
        } else {
          world.recv(in.data(), theirs, peer, {2}, ring.stream);
          world.send(out.data(), mine, peer, {3}, ring.stream);
        }
        world.synchronize(ring.stream);
        ring.check(in, theirs, 0);
      }
    }
    world.barrier();
  });
}

CASE(hosts_exchange_in_a_ring) {
  on_all_devices(3, [](World& world) {
    Ring ring(world);
    TestBuffer out(world, kSizes.back());
    TestBuffer in(world, kSizes.back());
    for (const std::size_t bytes : kSizes) {
      out.write(pattern(bytes, seed_of(world.rank(), bytes, 1)));
      std::size_t received = 1;
      CHECK(world.sendrecv({out.data(), bytes, ring.next, {}}, {in.data(), in.bytes(), ring.last, {}}, &received) ==
            Status::ok);
      CHECK(received == bytes);
      ring.check(in, bytes, 1);
    }
    world.barrier();
  });
}

CASE(a_message_too_long_is_truncated_and_the_next_is_whole) {
  on_all_devices(2, [](World& world) {
    const int peer = 1 - world.rank();
    Ring ring(world);
    TestBuffer out(world, 100000);
    TestBuffer in(world, 100000);
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100000}}) {
      out.write(pattern(bytes, seed_of(world.rank(), bytes, 2)));
      CHECK(world.sendrecv({out.data(), bytes, peer, {}}, {in.data(), bytes / 2, peer, {}}) == Status::truncated);
      CHECK(world.sendrecv({out.data(), bytes, peer, {}}, {in.data(), bytes, peer, {}}) == Status::ok);
      ring.check(in, bytes, 2);
      CHECK(!world.take_faults().empty());
    }
    world.barrier();
  });
}

// Messages that do not fit the ring, or are told to go through it all the same: both ranks send first.
CASE(hosts_exchange_whatever_the_bounds_of_the_ring_are) {
  Parameters wide = quick("host");
  wide.host_ll_max_bytes = 16384;
  Parameters narrow = quick("host");
  narrow.tag_bytes = 1024;
  for (const Parameters& parameters : {wide, narrow}) {
    run_ranks(2, parameters, [](World& world) {
      const int peer = 1 - world.rank();
      Ring ring(world);
      TestBuffer out(world, 20000);
      TestBuffer in(world, 20000);
      for (const std::size_t bytes : {8, 300, 400, 1000, 1700, 5000, 12000, 13000, 20000}) {
        out.write(pattern(bytes, seed_of(world.rank(), bytes, 1)));
        CHECK(world.sendrecv({out.data(), bytes, peer, {}}, {in.data(), bytes, peer, {}}) == Status::ok);
        ring.check(in, bytes, 1);
        CHECK(world.sendrecv({out.data(), bytes, world.rank(), {1}}, {in.data(), bytes, world.rank(), {1}}) ==
              Status::ok);
      }
      world.barrier();
    });
  }
}

CASE(a_receive_without_room_is_refused_before_anything_is_sent) {
  Parameters parameters = quick("host");
  parameters.tag_receives = 2;
  run_ranks(2, parameters, [](World& world) {
    const int peer = 1 - world.rank();
    Ring ring(world);
    TestBuffer out(world, 64);
    TestBuffer in(world, 64);
    std::vector<std::shared_ptr<Request>> open;
    for (std::size_t i = 0; i < 2; ++i) open.push_back(world.irecv(in.data() + 8 * i, 8, peer, {}));
    CHECK_THROWS((void)world.sendrecv({out.data(), 8, peer, {}}, {in.data() + 16, 8, peer, {}}), "wait for some first");
    for (std::size_t i = 0; i < 3; ++i) {
      out.write(pattern(64, seed_of(world.rank(), 64, static_cast<int>(i))));
      if (i < 2) CHECK(world.send(out.data(), 8, peer, {}) == Status::ok);
    }
    for (const auto& request : open) CHECK(world.wait(request) == Status::ok);
    CHECK(world.sendrecv({out.data(), 8, peer, {}}, {in.data() + 16, 8, peer, {}}) == Status::ok);
    const std::vector<unsigned char> got = in.read();
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<unsigned char> one(got.begin() + static_cast<std::ptrdiff_t>(8 * i),
                                           got.begin() + static_cast<std::ptrdiff_t>(8 * i + 8));
      CHECK(one == slice_of(pattern(64, seed_of(peer, 64, static_cast<int>(i))), 8));
    }
    world.barrier();
  });
}

CASE(wrong_arguments_throw_and_nothing_happens) {
  on_all_devices(2, [](World& world) {
    const int peer = 1 - world.rank();
    Ring ring(world);
    TestBuffer out(world, 64);
    TestBuffer in(world, 64);
    out.write(pattern(64, seed_of(world.rank(), 64, 0)));
    const auto refuse = [&](const Outgoing& one, const Incoming& other, const char* text) {
      CHECK_THROWS(world.sendrecv(one, other, ring.stream), text);
      CHECK_THROWS((void)world.sendrecv(one, other), text);
    };
    refuse({out.data(), 64, peer, {}}, {in.data(), 64, 2, {}}, "sendrecv: rank 2 does not exist");
    refuse({out.data(), 64, -1, {}}, {in.data(), 64, peer, {}}, "sendrecv: rank -1 does not exist");
    refuse({out.data(), 64, peer, {64}}, {in.data(), 64, peer, {}}, "tag 64 does not exist");
    refuse({out.data(), 64, peer, {}}, {nullptr, 64, peer, {}}, "null pointer");
    ring.enqueue(out, in, 64, {});
    world.synchronize(ring.stream);
    ring.check(in, 64, 0);
    world.barrier();
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
