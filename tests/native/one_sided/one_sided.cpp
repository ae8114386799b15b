// One-sided ops between ranks of this process, on every device: windows, put, get, signals, waits, batches, the proxy.
#include "onstream/one_sided.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "onstream/device/host/group.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// A stream of the world's device, drained and destroyed at the end.
std::vector<std::size_t> sizes() { return {0, 1, 3, 4, 8, 12, 100, 4096, 65537, 300'000}; }

// Every rank puts to the next one and gets from the one before, in the way that `put` and `get` say.
template <class Put, class Get>
void exchange(World& world, const Window& window, const std::function<std::vector<unsigned char>()>& read_own,
              const Put& put, const Get& get) {
  const auto rank = static_cast<unsigned>(world.rank());
  const int next = (world.rank() + 1) % world.size();
  const auto before = static_cast<unsigned>((world.rank() + world.size() - 1) % world.size());
  for (const std::size_t bytes : sizes()) {
    const std::size_t offset = bytes % 7;
    TestBuffer source(world, bytes);
    TestBuffer destination(world, bytes);
    source.write(pattern(bytes, rank + static_cast<unsigned>(bytes)));
    put(Remote{window, next, offset}, source.data(), bytes);
    world.barrier();
    const std::vector<unsigned char> mine = read_own();
    const std::vector<unsigned char> expected = pattern(bytes, before + static_cast<unsigned>(bytes));
    CHECK(std::equal(expected.begin(), expected.end(), mine.begin() + static_cast<std::ptrdiff_t>(offset)));
    get(destination.data(), Remote{window, next, offset}, bytes);
    CHECK(destination.read() == pattern(bytes, rank + static_cast<unsigned>(bytes)));
    world.barrier();
  }
}

void exchange_all_ways(World& world, const Window& window, const std::function<std::vector<unsigned char>()>& read) {
  OneSided& one_sided = world.one_sided();
  const OwnStream stream(world);
  exchange(
      world, window, read,
      [&](const Remote& to, const void* source, std::size_t bytes) {
        one_sided.put(to, source, bytes, stream);
        world.synchronize(stream);
      },
      [&](void* destination, const Remote& from, std::size_t bytes) {
        one_sided.get(destination, from, bytes, stream);
        world.synchronize(stream);
      });
  exchange(
      world, window, read,
      [&](const Remote& to, const void* source, std::size_t bytes) { one_sided.put(to, source, bytes); },
      [&](void* destination, const Remote& from, std::size_t bytes) { one_sided.get(destination, from, bytes); });
}

constexpr std::size_t kLargest = 300'000 + 8;

}  // namespace

CASE(put_and_get_reach_memory_that_each_rank_names) {
  on_all_devices(3, [](World& world) {
    TestBuffer own(world, kLargest);
    const auto window = world.window(own.data(), kLargest);
    CHECK(world.fabric()->network() != nullptr || (window->direct(0) && window->direct(2)));
    exchange_all_ways(world, *window, [&] { return own.read(); });
  });
}

CASE(put_and_get_reach_a_segment) {
  on_all_devices(2, [](World& world) {
    const auto segment = world.segment(kLargest, MemoryKind::pinned);
    const auto window = world.window(segment);
    exchange_all_ways(world, *window, [&] {
      const auto* first = reinterpret_cast<const unsigned char*>(segment->local());
      return std::vector<unsigned char>(first, first + kLargest);
    });
  });
}

CASE(put_and_get_reach_plain_memory_through_the_proxy) {
  on_all_devices(3, [](World& world) {
    std::vector<unsigned char> own(kLargest);
    const auto window = world.window(own.data(), own.size());
    CHECK(!window->direct((world.rank() + 1) % 3) && window->needs_proxy());
    CHECK(!window->why_not((world.rank() + 1) % 3).empty());
    exchange_all_ways(world, *window, [&] { return own; });
  });
}

CASE(one_rank_alone_makes_a_window_of_what_it_was_told) {
  on_all_devices(2, [](World& world) {
    std::vector<unsigned char> own(kLargest, static_cast<unsigned char>(world.rank() + 1));
    world.one_sided().start_proxy();
    const auto lent = world.one_sided().lend(own.data(), own.size());
    const auto told = world.fabric()->all_gather("test", std::to_string(reinterpret_cast<std::uint64_t>(own.data())));
    const int peer = 1 - world.rank();
    const std::uint64_t there = std::stoull(told[static_cast<std::size_t>(peer)]);
    if (world.rank() == 0) {
      const Window window(*world.fabric(), {peer, there, 0, kLargest});
      std::vector<unsigned char> source(kLargest, 7);
      std::vector<unsigned char> found(kLargest);
      CHECK(!window.direct(peer) && window.bytes(peer) == kLargest && window.bytes(0) == 0);
      world.one_sided().put(Remote{window, peer, 8}, source.data(), kLargest - 8);
      world.one_sided().get(found.data(), Remote{window, peer, 0}, kLargest);
      CHECK(found[0] == 2 && found[7] == 2 && found[8] == 7 && found.back() == 7);
      CHECK_THROWS(world.one_sided().put(Remote{window, peer, 8}, source.data(), kLargest), "not within");
    }
    world.barrier();
    CHECK(own.back() == (world.rank() == 0 ? 1 : 7));
  });
}

CASE(chunks_of_the_proxy_meet_without_a_gap) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.stage_chunk_bytes = 256;
    run_ranks(2, parameters, [](World& world) {
      constexpr std::size_t kOffset = 3;
      std::vector<unsigned char> own(8192);
      const auto window = world.window(own.data(), own.size());
      const int other = 1 - world.rank();
      for (const std::size_t bytes : {255, 256, 257, 511, 512, 513, 767, 768, 769, 1024, 1025, 5000}) {
        const auto seed = static_cast<unsigned>(bytes);
        const std::vector<unsigned char> sent = pattern(bytes, seed + static_cast<unsigned>(world.rank()));
        world.one_sided().put(Remote{*window, other, kOffset}, sent.data(), bytes);
        world.barrier();
        const auto begin = own.begin() + kOffset;
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
        CHECK(std::vector<unsigned char>(begin, end) == pattern(bytes, seed + static_cast<unsigned>(other)));
        CHECK(own[kOffset - 1] == 0 && *end == 0);
        std::vector<unsigned char> got(bytes);
        world.one_sided().get(got.data(), Remote{*window, other, kOffset}, bytes);
        CHECK(got == sent);
        world.barrier();
      }
    });
  }
}

// Other streams of the rank, which want the peer's slots too, wait for a few chunks at most.
CASE(a_long_op_gives_the_proxy_back_between_chunks) {
  Parameters parameters = quick("host");
  parameters.stage_chunk_bytes = 256;
  run_ranks(2, parameters, [](World& world) {
    std::vector<unsigned char> own(8192);
    const auto window = world.window(own.data(), own.size());
    const int other = 1 - world.rank();
    const int slots = world.fabric()->is_remote(other) ? 8 : 2;
    Batch put(world.one_sided());
    put.put(Remote{*window, other}, own.data(), 8 * 256 + 1);
    Batch get(world.one_sided());
    get.get(own.data(), Remote{*window, other}, 8 * 256 + 1);
    for (const Batch* batch : {&put, &get}) {
      int claims = 0;
      int copies = 0;          // since the last claim
      std::uint64_t held = 0;  // the lock
      for (const one_sided::Step& step : batch->steps()) {
        if (step.kind == one_sided::StepKind::claim) {
          CHECK(held == 0);
          ++claims;
          copies = 0;
          held = step.target;
        } else if (step.kind == one_sided::StepKind::store && step.target == held) {
          held = 0;
        } else if (step.bytes != 0) {
          CHECK(held != 0 && ++copies <= slots);
        }
      }
      CHECK(claims == (9 + slots - 1) / slots && held == 0);
    }
    world.barrier();
  });
}

CASE(parts_may_have_any_size_and_bounds_are_checked) {
  on_all_devices(2, [](World& world) {
    TestBuffer own(world, 64);
    const std::size_t mine = world.rank() == 0 ? 0 : 64;
    const auto window = world.window(world.rank() == 0 ? nullptr : own.data(), mine);
    CHECK(window->bytes(0) == 0 && window->bytes(1) == 64);
    unsigned char source[65] = {};
    OneSided& one_sided = world.one_sided();
    CHECK_THROWS(one_sided.put(Remote{*window, 0, 0}, source, 1), "1 B at offset 0 are not within the 0 B of rank 0");
    CHECK_THROWS(one_sided.put(Remote{*window, 1, 0}, source, 65), "not within the 64 B of rank 1");
    CHECK_THROWS(one_sided.put(Remote{*window, 1, 65}, source, 0), "offset 65");
    CHECK_THROWS(one_sided.put(Remote{*window, 1, ~std::size_t{0}}, source, 2), "not within");
    CHECK_THROWS(one_sided.put(Remote{*window, 2, 0}, source, 1), "rank 2 does not exist");
    CHECK_THROWS(one_sided.put(Remote{*window, -1, 0}, source, 1), "rank -1 does not exist");
    CHECK_THROWS(one_sided.put(Remote{*window, 1, 0}, nullptr, 1), "null");
    CHECK_THROWS(one_sided.signal(Signal{Remote{*window, 1, 4}, SignalOp::add, 1, 8}), "aligned");
    CHECK_THROWS(one_sided.signal(Signal{Remote{*window, 1, 0}, SignalOp::add, 1, 3}), "4 or 8 bytes");
    world.barrier();
  });
}

CASE(a_window_of_bytes_at_a_null_pointer_is_refused) {
  run_ranks(1, quick("host"), [](World& world) { CHECK_THROWS(world.window(nullptr, 8), "8 B at a null pointer"); });
}

CASE(a_signal_is_seen_behind_its_data) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = 100'000;
    constexpr std::uint64_t kRounds = 20;
    TestBuffer own(world, kBytes + 8);
    TestBuffer source(world, kBytes);
    const auto window = world.window(own.data(), kBytes + 8);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    const int other = 1 - world.rank();
    const Signal arrived{Remote{*window, other, kBytes}, SignalOp::add, 1, 8};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const auto seed = static_cast<unsigned>(round);
      if (world.rank() == 0) {
        source.write(pattern(kBytes, seed));
        one_sided.put_signal(Remote{*window, other, 0}, source.data(), kBytes, arrived, stream);
        one_sided.wait(own.data() + kBytes, {Compare::reached, round, 8, Sign::unsigned_word}, stream);
        world.synchronize(stream);
      } else {
        CHECK(one_sided.wait(own.data() + kBytes, {Compare::reached, round, 8, Sign::unsigned_word}) == Status::ok);
        std::vector<unsigned char> got = own.read();
        got.resize(kBytes);
        CHECK(got == pattern(kBytes, seed));
        one_sided.signal(arrived, stream);
      }
    }
    world.synchronize(stream);
  });
}

CASE(waits_on_words_of_both_widths_hold_on_stream_and_host) {
  on_all_devices(1, [](World& world) {
    TestBuffer own(world, 16);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    Batch batch(one_sided);
    batch.store(own.data(), 0xfffffff0, 4);
    batch.store(own.data() + 8, 1ULL << 40, 8);
    one_sided.run(batch, stream);
    one_sided.wait(own.data(), {Compare::eq, 0xfffffff0, 4, Sign::unsigned_word}, stream);
    one_sided.wait(own.data(), {Compare::lt, 0, 4, Sign::signed_word}, stream);
    one_sided.wait(own.data() + 8, {Compare::any_bit, 1ULL << 40, 8, Sign::unsigned_word}, stream);
    world.synchronize(stream);
    CHECK(one_sided.wait(own.data(), {Compare::gt, 5, 4, Sign::unsigned_word}) == Status::ok);
    CHECK(one_sided.wait(own.data() + 8, {Compare::ne, 5, 8, Sign::unsigned_word}) == Status::ok);
    CHECK_THROWS((void)one_sided.wait(own.data() + 2, {Compare::eq, 0, 4, Sign::unsigned_word}), "aligned");
  });
}

CASE(a_wait_on_stream_that_never_holds_fails_the_world_at_its_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(1, parameters, [](World& world) {
      TestBuffer own(world, 8);
      const OwnStream stream(world);
      world.one_sided().wait(own.data(), {Compare::eq, 7, 8, Sign::unsigned_word}, stream);
      CHECK_THROWS(world.synchronize(stream), concat("wait for a word of 8 B to be 7 (at ",
                                                     static_cast<const void*>(own.data()), ") passed its deadline"));
      CHECK_THROWS(world.one_sided().wait(own.data(), {Compare::eq, 7, 8, Sign::unsigned_word}, stream), "failed");
    });
  }
}

CASE(a_wait_of_the_host_that_never_holds_ends_with_timeout) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::device}) {
      run_ranks(1, parameters, [kind](World& world) {
        const TestBuffer own(world, 8, kind);
        CHECK(world.one_sided().wait(own.data(), {Compare::eq, 7, 8, Sign::unsigned_word}) == Status::timeout);
        // The world has failed. A comparison that holds still holds.
        CHECK(world.one_sided().wait(own.data(), {Compare::eq, 0, 8, Sign::unsigned_word}) == Status::ok);
        CHECK(world.one_sided().wait(own.data(), {Compare::eq, 7, 8, Sign::unsigned_word}) == Status::aborted);
      });
    }
  }
}

CASE(an_aborted_world_ends_a_wait) {
  on_all_devices(2, [](World& world) {
    const TestBuffer pinned(world, 8, MemoryKind::pinned);
    const TestBuffer device(world, 8);
    if (world.rank() == 0) return world.abort("the test says so");
    for (const TestBuffer* own : {&pinned, &device}) {
      CHECK(world.one_sided().wait(own->data(), {Compare::eq, 7, 8, Sign::unsigned_word}) == Status::aborted);
    }
  });
}

CASE(a_captured_ping_pong_means_the_same_at_every_replay) {
  on_all_devices(2, [](World& world) {
    constexpr int kReplays = 25;
    TestBuffer own(world, 32);
    const auto window = world.window(own.data(), 32);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    const int other = 1 - world.rank();
    const Until set{Compare::eq, 1, 8, Sign::unsigned_word};
    // Each turn adds 1 to a counter of the other, hands it the turn, and takes back its own.
    const auto tell = [&] {
      Batch batch(one_sided);
      batch.signal({Remote{*window, other, 8}, SignalOp::add, 1, 8});
      batch.signal({Remote{*window, other, 0}, SignalOp::set, 1, 8});
      one_sided.run(batch, stream);
    };
    const auto listen = [&] {
      Batch batch(one_sided);
      batch.wait(own.data(), set);
      batch.store(own.data(), 0, 8);
      one_sided.run(batch, stream);
    };
    world.device().begin_capture(stream);
    if (world.rank() == 0) tell();
    listen();
    if (world.rank() == 1) tell();
    const auto graph = world.device().end_capture(stream);
    for (int i = 0; i < kReplays; ++i) world.device().launch(graph, stream);
    world.synchronize(stream);
    std::uint64_t words[4];
    std::memcpy(words, own.read().data(), sizeof words);
    CHECK(words[1] == kReplays);
  });
}

CASE(a_batch_longer_than_a_launch_keeps_its_order) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kWords = 500;
    TestBuffer own(world, kWords * 8 + 8);
    TestBuffer source(world, kWords * 8);
    const auto window = world.window(own.data(), kWords * 8 + 8);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    const std::vector<unsigned char> values = pattern(kWords * 8, 3);
    source.write(values);
    if (world.rank() == 0) {
      Batch batch(one_sided);
      CHECK(batch.empty());
      for (std::size_t i = 0; i < kWords; ++i) batch.put(Remote{*window, 1, 8 * i}, source.data() + 8 * i, 8);
      // The same place twice: the later one stays.
      batch.put(Remote{*window, 1, 0}, source.data() + 8, 8);
      batch.signal({Remote{*window, 1, kWords * 8}, SignalOp::set, 9, 4});
      one_sided.run(batch, stream);
      world.synchronize(stream);
    } else {
      CHECK(one_sided.wait(own.data() + kWords * 8, {Compare::eq, 9, 4, Sign::unsigned_word}) == Status::ok);
      std::vector<unsigned char> expected = values;
      std::copy_n(values.begin() + 8, 8, expected.begin());
      std::vector<unsigned char> got = own.read();
      got.resize(kWords * 8);
      CHECK(got == expected);
    }
    world.barrier();
  });
}

CASE(put_now_takes_the_bytes_before_it_returns) {
  on_all_devices(2, [](World& world) {
    TestBuffer own(world, 64);
    std::vector<unsigned char> plain(64);
    const auto device_window = world.window(own.data(), 64);
    const auto plain_window = world.window(plain.data(), 64);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    if (world.rank() == 0) {
      std::vector<unsigned char> source = pattern(61, 5);
      Batch batch(one_sided);
      batch.put_now(Remote{*device_window, 1, 3}, source.data(), source.size());
      batch.put_now(Remote{*plain_window, 1, 3}, source.data(), source.size());
      std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
      one_sided.run(batch, stream);
      world.synchronize(stream);
    }
    world.barrier();
    if (world.rank() == 1) {
      const std::vector<unsigned char> expected = pattern(61, 5);
      const std::vector<unsigned char> got = own.read();
      CHECK(std::equal(expected.begin(), expected.end(), got.begin() + 3));
      CHECK(std::equal(expected.begin(), expected.end(), plain.begin() + 3));
    }
  });
}

CASE(signals_and_captured_puts_go_through_the_proxy) {
  on_all_devices(2, [](World& world) {
    alignas(8) std::uint64_t words[4] = {};
    const auto window = world.window(words, sizeof words);
    const OwnStream stream(world);
    OneSided& one_sided = world.one_sided();
    constexpr std::uint64_t kReplays = 10;
    TestBuffer source(world, 8);
    source.write({1, 2, 3, 4, 5, 6, 7, 8});
    if (world.rank() == 0) {
      Batch batch(one_sided);
      batch.put(Remote{*window, 1, 16}, source.data(), 8);
      batch.signal({Remote{*window, 1, 0}, SignalOp::add, 2, 4});
      batch.signal({Remote{*window, 1, 8}, SignalOp::add, 3, 8});
      world.device().begin_capture(stream);
      one_sided.run(batch, stream);
      const auto graph = world.device().end_capture(stream);
      for (std::uint64_t i = 0; i < kReplays; ++i) world.device().launch(graph, stream);
      world.synchronize(stream);
    } else {
      CHECK(one_sided.wait(words + 1, {Compare::ge, 3 * kReplays, 8, Sign::unsigned_word}) == Status::ok);
      CHECK(words[0] == 2 * kReplays);
      CHECK(words[2] == 0x0807060504030201);
    }
    world.barrier();
  });
}

CASE(streams_of_one_rank_share_the_proxy) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = 200'000;
    std::vector<unsigned char> own(2 * kBytes);
    const auto window = world.window(own.data(), own.size());
    OneSided& one_sided = world.one_sided();
    if (world.rank() == 0) {
      const OwnStream first(world);
      const OwnStream second(world);
      TestBuffer a(world, kBytes);
      TestBuffer b(world, kBytes);
      a.write(pattern(kBytes, 1));
      b.write(pattern(kBytes, 2));
      one_sided.put(Remote{*window, 1, 0}, a.data(), kBytes, first);
      one_sided.put(Remote{*window, 1, kBytes}, b.data(), kBytes, second);
      world.synchronize(first);
      world.synchronize(second);
    }
    world.barrier();
    if (world.rank() == 1) {
      const auto half = own.begin() + kBytes;
      CHECK(std::vector<unsigned char>(own.begin(), half) == pattern(kBytes, 1));
      CHECK(std::vector<unsigned char>(half, own.end()) == pattern(kBytes, 2));
    }
  });
}

// A past bug: the proxy's slots went with the world.
void put_by_the_proxy_in_a_graph(const std::string& device_spec, int rank, const std::string& address) {
  constexpr std::size_t kWord = 8;
  auto world = World::create(launch_of(rank, 2, address), quick(device_spec));
  const std::shared_ptr<Device> device = world->fabric()->device();
  std::vector<unsigned char> part(64);
  std::vector<unsigned char> word = pattern(kWord, 3);
  auto window = world->window(part.data(), part.size());
  const Stream stream = device->create_stream();
  std::shared_ptr<Graph> graph;
  if (rank == 0) {
    const auto source = world->allocate(kWord, MemoryKind::pinned);
    std::memcpy(source->data(), word.data(), kWord);
    device->begin_capture(stream);
    world->one_sided().put(Remote{*window, 1, 0}, source->data(), kWord, stream);
    device->retain(stream, source);
    graph = device->end_capture(stream);
    device->launch(graph, stream);
    device->synchronize(stream);
  }
  world->barrier();
  if (rank == 1) CHECK(std::equal(word.begin(), word.end(), part.begin()));
  window.reset();
  world.reset();
  CHECK(DeferredRelease::of_process().finish(kSoonS));
  if (rank == 0) device->launch(graph, stream);
  const Deadline deadline(kSoonS);
  while (!device->idle(stream) && !deadline.passed()) HostGroup::pause(0, 0);
  CHECK(device->idle(stream));
  device->destroy_stream(stream);
}

CASE(a_captured_put_through_the_proxy_outlives_its_world) {
  for (const std::string& device : device_specs()) {
    const std::string address = meeting_place();
    std::string wrong;
    std::thread other([&] {
      try {
        put_by_the_proxy_in_a_graph(device, 1, address);
      } catch (const std::exception& error) {
        wrong = error.what();
      }
    });
    std::string here;
    try {
      put_by_the_proxy_in_a_graph(device, 0, address);
    } catch (const std::exception& error) {
      here = error.what();
    }
    other.join();
    if (!(here + wrong).empty()) throw std::runtime_error(here + wrong);
  }
}

// Rank 1 leaves; rank 0 waits for a word, or for rank 1's proxy. Deadlines are 30 s: a call that ends sooner did not
// wait for one.
void wait_after_all_left(const std::function<void(World&, const Window&, std::uint64_t*)>& wait) {
  on_all_devices(2, [&](World& world) {
    const auto word = world.allocate(sizeof(std::uint64_t), MemoryKind::pinned);
    std::vector<unsigned char> part(64);
    const auto window = world.window(part.data(), part.size());
    world.barrier();
    if (world.rank() == 1) return;
    const Deadline deadline(kSoonS);
    while (!world.fabric()->has_left(1) && !deadline.passed()) std::this_thread::yield();
    const std::uint64_t start = now_ns();
    wait(world, *window, reinterpret_cast<std::uint64_t*>(word->data()));
    CHECK(ended_at_once(start));
    CHECK(world.failure().has_value());
    CHECK(world.failure()->reason.find("left the world") != std::string::npos);
  });
}

CASE(a_wait_of_the_host_ends_once_all_others_have_left) {
  wait_after_all_left([](World& world, const Window&, std::uint64_t* word) {
    CHECK(world.one_sided().wait(word, {Compare::reached, 1}) == Status::aborted);
  });
}

CASE(a_wait_on_a_stream_ends_once_all_others_have_left) {
  wait_after_all_left([](World& world, const Window&, std::uint64_t* word) {
    const OwnStream stream(world);
    world.one_sided().wait(word, {Compare::reached, 1}, stream);
    CHECK_THROWS(world.synchronize(stream), "left the world");
  });
}

CASE(a_put_to_a_rank_that_left_ends_at_once) {
  wait_after_all_left([](World& world, const Window& window, std::uint64_t* word) {
    const OwnStream stream(world);
    world.one_sided().put(Remote{window, 1, 0}, word, sizeof *word, stream);
    CHECK_THROWS(world.synchronize(stream), "left the world");
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
