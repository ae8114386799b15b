// Messages on every device: order, lanes, how far sends run ahead, and how many may be under way at once.
#include "onstream/message/message.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <thread>

#include "onstream/base/clock.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

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

// Rank 0 asks for one receive more than a lane holds; the world stays whole.
void ask_for_one_too_many(World& world) {
  constexpr std::size_t kLimit = 4;  // tag_receives of these worlds
  TestBuffer buffer(world, 8 * (kLimit + 1));
  const auto place = [&](std::size_t i) { return buffer.data() + 8 * i; };
  for (int round = 0; round < 3; ++round) {
    if (world.rank() == 0) {
      std::vector<std::shared_ptr<Request>> requests;
      for (std::size_t i = 0; i < kLimit; ++i) requests.push_back(world.irecv(place(i), 8, 1, {}));
      CHECK_THROWS((void)world.irecv(place(kLimit), 8, 1, {}),
                   "irecv: 4 receives from rank 1 are posted with tag 0 already and none of them is waited for");
      CHECK_THROWS((void)world.recv(place(kLimit), 8, 1, {}), "raise tag_receives (4)");
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
  const OwnStream own(world);
  constexpr std::size_t kMany = 50;
  TestBuffer buffer(world, 8 * kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    if (world.rank() == 0) {
      const auto request = world.irecv(buffer.data() + 8 * i, 8, 1, {}, own);
      world.wait(request, own);
    } else {
      world.send(buffer.data() + 8 * i, 8, 0, {}, own);
    }
  }
  world.synchronize(own);
  world.barrier();
}

// Rank 0 fills a lane on one stream and has another wait for it all, which has not come to that when the next receive
// is posted on the first.
void post_behind_a_wait_on_another_stream(World& world) {
  constexpr std::size_t kLimit = 4;  // tag_receives of these worlds
  TestBuffer buffer(world, 8 * (2 * kLimit + 1));
  const auto place = [&](std::size_t i) { return buffer.data() + 8 * i; };
  const OwnStream own(world);
  if (world.rank() == 0) {
    const OwnStream other(world);
    world.recv(place(2 * kLimit), 8, 1, {1}, other);
    std::vector<std::shared_ptr<Request>> requests;
    for (std::size_t i = 0; i < kLimit; ++i) requests.push_back(world.irecv(place(i), 8, 1, {}, own));
    world.wait(requests.back(), other);
    CHECK_THROWS((void)world.irecv(place(0), 8, 1, {}), "the waits for them, on streams, have not ended");
    const std::vector<Incoming> more(kLimit + 1, Incoming{place(0), 8, 1, {}});
    CHECK_THROWS(world.exchange({}, more, own),
                 "exchange: 5 more of 4 receives from rank 1 are posted with tag 0 already");
    for (std::size_t i = kLimit; i < 2 * kLimit; ++i) requests.push_back(world.irecv(place(i), 8, 1, {}, own));
    CHECK_THROWS((void)world.irecv(place(0), 8, 1, {}, own), "none of them is waited for");
    world.barrier();
    for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
    world.synchronize(other);
    CHECK(world.received(requests.front()) == 8);
    const auto got = buffer.read();
    for (std::size_t i = 0; i < requests.size(); ++i) CHECK(got[8 * i] == i + 1);
  } else {
    world.barrier();
    for (std::size_t i = 0; i <= 2 * kLimit; ++i) {
      const std::vector<unsigned char> word(8 * (2 * kLimit + 1), static_cast<unsigned char>(i + 1));
      buffer.write(word);
      CHECK(world.send(place(0), 8, 0, {i == 2 * kLimit ? 1 : 0}) == Status::ok);
    }
  }
  CHECK(!world.failure().has_value());
  world.barrier();
}

// Both ranks' sends are posted before any receive is, and both wait for their sends first.
void wait_for_sends_first(World& world, const MessageOptions& options, const std::vector<std::size_t>& sizes,
                          const std::function<void(std::span<const std::shared_ptr<Request>>)>& await) {
  const int peer = 1 - world.rank();
  std::vector<std::unique_ptr<TestBuffer>> buffers;
  std::vector<std::shared_ptr<Request>> sends;
  std::vector<std::shared_ptr<Request>> receives;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    buffers.push_back(std::make_unique<TestBuffer>(world, sizes[i]));
    buffers.back()->write(pattern(sizes[i], static_cast<unsigned>(2 * i) + static_cast<unsigned>(world.rank())));
    sends.push_back(world.isend(buffers.back()->data(), sizes[i], peer, options));
  }
  world.barrier();
  const std::size_t first = buffers.size();
  for (const std::size_t bytes : sizes) {
    buffers.push_back(std::make_unique<TestBuffer>(world, bytes));
    receives.push_back(world.irecv(buffers.back()->data(), bytes, peer, options));
  }
  await(sends);
  await(receives);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(buffers[first + i]->read() == pattern(sizes[i], static_cast<unsigned>(2 * i) + static_cast<unsigned>(peer)));
  }
  world.barrier();
}

const std::vector<std::size_t> kAlsoLarge = {8, 300000, 4097, 1 << 20, 70001};

}  // namespace

CASE(ranks_may_wait_for_their_sends_before_their_receives) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    for (const Path path : {Path::automatic, Path::store}) {
      wait_for_sends_first(world, {3, path}, kAlsoLarge, [&](auto requests) {
        for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
      });
      wait_for_sends_first(world, {3, path}, kAlsoLarge, [&](auto requests) {
        for (const auto& request : requests) world.wait(request, own);
        world.synchronize(own);
      });
      wait_for_sends_first(world, {3, path}, kAlsoLarge, [&](auto requests) {
        world.wait_all(requests, own);
        world.synchronize(own);
      });
      wait_for_sends_first(world, {3, path}, kAlsoLarge, [&](auto requests) {
        for (const auto& request : requests) {
          const Deadline deadline(kSoonS);
          while (world.test(request) == Status::pending && !deadline.passed()) std::this_thread::yield();
          CHECK(world.test(request) == Status::ok);
        }
      });
    }
  });
}

// A wait for a send and the wait for its receive begin at about the same time: one of them moves the data, once.
CASE(a_message_is_moved_once_whoever_waits_first) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kLarge = 200000;
    const int peer = 1 - world.rank();
    TestBuffer out(world, kLarge);
    TestBuffer in(world, kLarge);
    const std::vector<unsigned char> nothing(kLarge, 0);
    for (unsigned round = 0; round < 60; ++round) {
      const bool sends = round % 2 == static_cast<unsigned>(world.rank());
      const OwnStream own(world);
      if (sends) {
        out.write(pattern(kLarge, round));
        const auto request = world.isend(out.data(), kLarge, peer, {0, Path::store}, own);
        world.synchronize(own);
        world.barrier();
        const std::uint64_t until_ns = now_ns() + round * 500;
        while (now_ns() < until_ns) continue;
        world.wait(request, own);
        CHECK(world.wait(request) == Status::ok);
        world.synchronize(own);
        out.write(nothing);
      } else {
        world.barrier();
        const auto request = world.irecv(in.data(), kLarge, peer, {0, Path::store}, own);
        CHECK(world.wait(request) == Status::ok);
        CHECK(in.read() == pattern(kLarge, round));
        in.write(nothing);
      }
      world.barrier();
      CHECK(in.read() == nothing);
    }
  });
}

CASE(captured_waits_for_sends_may_come_first_too) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kLarge = 300000;
    const int peer = 1 - world.rank();
    const OwnStream own(world);
    TestBuffer out(world, kLarge);
    TestBuffer in(world, kLarge);
    world.device().begin_capture(own);
    const auto send = world.isend(out.data(), kLarge, peer, {}, own);
    const auto receive = world.irecv(in.data(), kLarge, peer, {}, own);
    world.wait(send, own);
    world.wait(receive, own);
    const auto graph = world.device().end_capture(own);
    for (unsigned round = 0; round < 20; ++round) {
      out.write(pattern(kLarge, 2 * round + static_cast<unsigned>(world.rank())));
      world.device().launch(graph, own);
      world.synchronize(own);
      CHECK(in.read() == pattern(kLarge, 2 * round + static_cast<unsigned>(peer)));
    }
    world.barrier();
  });
}

CASE(posted_sends_before_posted_receives_complete_in_any_wait_order) {
  on_all_devices(2, [](World& world) { exchange_posted(world, {8, 100000, 0, 4096, 5000, 1 << 20, 1}); });
}

CASE(the_ring_wraps_many_times_with_mixed_sizes) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const std::size_t most = 3000;
    TestBuffer buffer(world, most);
    for (unsigned i = 0; i < 400; ++i) {
      const std::size_t bytes = (i * 7919u) % most;
      if (world.rank() == 0) {
        buffer.write(pattern(bytes, i));
        world.send(buffer.data(), bytes, 1, {}, own);
        world.synchronize(own);
      } else {
        world.recv(buffer.data(), bytes, 0, {}, own);
        world.synchronize(own);
        const std::vector<unsigned char> got = buffer.read();
        const std::vector<unsigned char> wanted = pattern(bytes, i);
        CHECK(std::equal(wanted.begin(), wanted.end(), got.begin()));
      }
    }
  });
}

CASE(every_allowed_size_fits_a_ring_that_keeps_credit_back) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_bytes = 8192;
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

CASE(lanes_are_independent_queues) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 16 * 64);
    if (world.rank() == 0) {
      for (int lane = 0; lane < 64; ++lane) {
        std::vector<unsigned char> all = pattern(16 * 64, 1);
        if (lane == 0) buffer.write(all);
        world.send(buffer.data() + 16 * lane, 16, 1, {lane, Path::automatic}, own);
      }
    } else {
      for (int lane = 63; lane >= 0; --lane) world.recv(buffer.data() + 16 * lane, 16, 0, {lane, Path::automatic}, own);
    }
    world.synchronize(own);
    CHECK(buffer.read() == pattern(16 * 64, 1));
  });
}

CASE(as_many_sends_as_are_promised_run_ahead_of_their_receives) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const auto ahead = [](std::size_t bytes) { return 12288 / 32 / ((bytes + 8 + 31) / 32); };  // README
    // The receiver gives room back late, by a quarter of the ring: after any number of messages that must not show.
    for (const std::size_t before : {0, 1, 100, 127, 128, 300}) {
      for (const std::size_t bytes : {1, 24, 25, 100, 4096}) {
        const std::size_t many = ahead(bytes);
        TestBuffer buffer(world, bytes * std::max(many, before));
        const auto each = [&](std::size_t count, const auto& call) {
          for (std::size_t i = 0; i < count; ++i) call(buffer.data() + bytes * i);
        };
        const auto send = [&](std::byte* data) { world.send(data, bytes, 1, {}, own); };
        const auto recv = [&](std::byte* data) { world.recv(data, bytes, 0, {}, own); };
        if (world.rank() == 0) buffer.write(pattern(buffer.bytes(), 3));
        world.rank() == 0 ? each(before, send) : each(before, recv);
        world.synchronize(own);
        world.barrier();
        if (world.rank() == 0) each(many, send);
        world.synchronize(own);  // before any receive exists
        world.barrier();
        if (world.rank() == 1) each(many, recv);
        world.synchronize(own);
        CHECK(buffer.read() == pattern(buffer.bytes(), 3));
      }
    }
  });
}

// More than a ring holds, and both ranks alike.
void post_everything(World& world, std::size_t bytes, bool sends_first) {
  constexpr int kWindow = 60;
  const int peer = 1 - world.rank();
  std::vector<std::vector<unsigned char>> in(kWindow, std::vector<unsigned char>(bytes));
  std::vector<std::vector<unsigned char>> out;
  const auto sent_by = [&](int rank, int i) { return pattern(bytes, static_cast<unsigned>(kWindow * rank + i)); };
  for (int i = 0; i < kWindow; ++i) out.push_back(sent_by(world.rank(), i));
  std::vector<std::shared_ptr<Request>> requests;
  const auto receive = [&] {
    for (auto& buffer : in) requests.push_back(world.irecv(buffer.data(), bytes, peer, {}));
  };
  if (!sends_first) receive();
  for (const auto& buffer : out) requests.push_back(world.isend(buffer.data(), bytes, peer, {}));
  if (sends_first) receive();
  for (std::size_t i = requests.size(); i-- > 0;) CHECK(world.wait(requests[i]) == Status::ok);
  for (int i = 0; i < kWindow; ++i) CHECK(in[static_cast<std::size_t>(i)] == sent_by(peer, i));
  world.barrier();
}

CASE(posting_everything_before_waiting_for_anything_never_deadlocks) {
  on_all_devices(2, [](World& world) {
    for (const std::size_t bytes : {8, 256, 4096, 20000}) {
      for (const bool sends_first : {false, true}) post_everything(world, bytes, sends_first);
    }
  });
}

CASE(waiting_for_a_pushed_send_from_its_start_does_not_stall) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    const OwnStream own(world);
    TestBuffer buffer(world, kBytes);
    const std::uint64_t start = now_ns();
    if (world.rank() == 1) {
      const auto request = world.irecv(buffer.data(), kBytes, 0, {});
      world.barrier();
      CHECK(world.wait(request) == Status::ok);
    } else {
      world.barrier();
      CHECK(world.wait(world.isend(buffer.data(), kBytes, 1, {}, own)) == Status::ok);
    }
    CHECK(ended_at_once(start));
  });
}

CASE(a_ticket_is_not_reused_while_a_wait_on_it_is_enqueued) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    const int peer = 1 - world.rank();
    for (int i = 0; i < 50; ++i) {
      if (world.rank() == 0) {
        world.wait(world.isend(buffer.data(), 8, peer, {}, own), own);
      } else {
        world.wait(world.irecv(buffer.data(), 8, peer, {}, own), own);
      }
    }
    world.synchronize(own);
  });
}

// Small and large, of several lanes; more than one launch takes.
CASE(many_messages_are_posted_and_awaited_together) {
  const auto exchange = [](World& world) {
    constexpr std::size_t kCount = 150;
    constexpr std::size_t kRoom = 20'000;
    TestBuffer buffer(world, kCount * kRoom);
    const OwnStream stream(world);
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
  };
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 128;
    run_ranks(2, parameters, exchange);
  }
}

CASE(a_receive_more_than_a_lane_holds_is_refused_alone) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 4;
    run_ranks(2, parameters, ask_for_one_too_many);
  }
}

CASE(a_wait_enqueued_on_a_stream_makes_room_for_the_next_receive) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 4;
    run_ranks(2, parameters, post_many_with_waits_enqueued);
  }
}

CASE(a_receive_that_needs_the_room_of_others_comes_after_their_wait_on_another_stream) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 4;
    run_ranks(2, parameters, post_behind_a_wait_on_another_stream);
  }
}

CASE(one_outstanding_receive_a_lane_is_enough) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 1;
    run_ranks(2, parameters, [](World& world) {
      TestBuffer buffer(world, 8192);
      for (int i = 0; i < 40; ++i) {
        const std::size_t room = i % 2 == 0 ? 5000 : 8192;
        const OwnStream own(world);
        if (world.rank() == 0) world.send(buffer.data(), 8192, 1, {}, own);
        if (world.rank() == 1) world.recv(buffer.data(), room, 0, {}, own);
      }
      world.barrier();
    });
  }
}

CASE(a_large_send_is_not_over_because_a_later_one_in_its_place_is) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 2;
    run_ranks(2, parameters, [](World& world) {
      const std::vector<std::size_t> sizes = {1 << 20, 16384, 16384, 1 << 20, 16384};
      std::vector<std::unique_ptr<TestBuffer>> buffers;
      for (const std::size_t bytes : sizes) buffers.push_back(std::make_unique<TestBuffer>(world, bytes));
      const auto all = [&](const auto& each) {
        for (std::size_t i = 0; i < sizes.size(); ++i) each(i, *buffers[i]);
      };
      TestBuffer word(world, 8);
      if (world.rank() == 0) {
        std::vector<std::shared_ptr<Request>> sends;
        all([&](std::size_t i, TestBuffer& buffer) {
          buffer.write(pattern(sizes[i], static_cast<unsigned>(i)));
          sends.push_back(world.isend(buffer.data(), sizes[i], 1, {}));
        });
        for (const Deadline limit(0.1); !limit.passed();) {
          CHECK(world.test(sends[0]) == Status::pending);
          CHECK(world.test(sends[3]) == Status::pending);
        }
        CHECK(world.send(word.data(), 8, 1, {1}) == Status::ok);
        for (const auto& send : sends) CHECK(world.wait(send) == Status::ok);
      } else {
        CHECK(world.recv(word.data(), 8, 0, {1}) == Status::ok);
        all([&](std::size_t i, TestBuffer& buffer) {
          CHECK(world.recv(buffer.data(), sizes[i], 0, {}) == Status::ok);
          CHECK(buffer.read() == pattern(sizes[i], static_cast<unsigned>(i)));
        });
      }
    });
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
