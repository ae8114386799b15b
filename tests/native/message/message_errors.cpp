// Messages that go wrong, on every device: truncation, bad arguments, waits in a cycle, a world that ends too early.
#include "onstream/message/message.hpp"

#include "support/check.hpp"
#include "support/faults.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// The ranks' reports come one after the other, as they get a core.
std::string story_with_cycle(World& world) {
  const Deadline deadline(kSoonS);
  std::string story;
  while (story.find("these waits form a cycle") == std::string::npos) {
    CHECK(!deadline.passed());
    const auto failure = world.failure();
    if (failure) story = failure->story;
    std::this_thread::yield();
  }
  return story;
}

}  // namespace

CASE(truncation_is_an_error_on_both_sides_and_leaves_later_messages_intact) {
  for (const Path path : {Path::automatic, Path::store}) {
    on_all_devices(2, [path](World& world) {
      const std::vector<std::pair<std::size_t, std::size_t>> sent_and_room = {
          {64, 32}, {50000, 32}, {50000, 40000}, {64, 0}};
      for (const auto& [bytes, room] : sent_and_room) {
        TestBuffer buffer(world, 50000);
        if (world.rank() == 0) {
          const Status status = world.send(buffer.data(), bytes, 1, {5, path});
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
        const FaultReport fault = one_fault(world);
        CHECK(fault.status == Status::truncated);
        CHECK(fault.tag == 5);
        CHECK(fault.peer == 1 - world.rank());
        const std::string told = describe(fault);
        CHECK(told.find("tag 5") != std::string::npos);
        const bool at_receiver = world.rank() == 1;
        const std::string ends = at_receiver ? concat(" is too small for its message of ", bytes, " B")
                                             : concat(" does not fit its receive of ", room, " B");
        CHECK(told.ends_with(ends));
        world.barrier();
      }
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
    const FaultReport fault = one_fault(world);
    CHECK(fault.status == Status::truncated);
    if (world.rank() == 0) CHECK(describe(fault).ends_with(" does not fit its receive of 5000 B"));
    world.barrier();
  });
}

CASE(a_check_throws_what_became_of_the_oldest_message) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    const int peer = 1 - world.rank();
    if (world.rank() == 0) {
      world.send(buffer.data(), 64, peer, {}, own);
      world.send(buffer.data(), 64, peer, {}, own);
      world.device().synchronize(own);
      world.barrier();
    } else {
      world.recv(buffer.data(), 8, peer, {}, own);
      world.recv(buffer.data(), 16, peer, {}, own);
      std::string what;
      ErrorCode code = ErrorCode::closed;
      try {
        world.synchronize(own);
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

CASE(a_cycle_of_large_sends_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 2;
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 1 << 20);
      const int next = (world.rank() + 1) % 3;
      const OwnStream own(world);
      world.send(buffer.data(), 1 << 20, next, {2, Path::automatic}, own);
      world.device().synchronize(own);
      CHECK(story_with_cycle(world).find("rank 0 send of 1048576 B to rank 1 with tag 2") != std::string::npos);
      CHECK_THROWS(world.send(buffer.data(), 8, next, {}, own), "the world has failed");
    });
  }
}

// The op behind the one that waits would serve the peer, which then waits no more.
CASE(a_cycle_on_streams_is_named_on_every_rank_whatever_comes_behind) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1;
    struct Way {
      bool receives_first = false;
      bool captured = false;
      bool apart = false;  // the ranks begin one after the other
    };
    for (const auto& [receives_first, captured, apart] :
         {Way{}, Way{.captured = true}, Way{.receives_first = true}, Way{.apart = true}}) {
      run_ranks(3, parameters, [&](World& world) {
        TestBuffer out(world, kBytes);
        TestBuffer in(world, kBytes);
        const OwnStream own(world);
        const auto send = [&] { world.send(out.data(), kBytes, (world.rank() + 1) % 3, {2, Path::automatic}, own); };
        if (apart) std::this_thread::sleep_for(std::chrono::milliseconds(200) * world.rank());
        if (captured) world.device().begin_capture(own);
        if (!receives_first) send();
        world.recv(in.data(), kBytes, (world.rank() + 2) % 3, {2, Path::automatic}, own);
        if (receives_first) send();
        if (captured) world.device().launch(world.device().end_capture(own), own);
        CHECK_THROWS(world.synchronize(own), "the world has failed");
        (void)story_with_cycle(world);
      });
    }
  }
}

CASE(bad_arguments_are_named) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    CHECK_THROWS(world.send(buffer.data(), 64, 7, {}, own), "rank 7 does not exist");
    CHECK_THROWS(world.recv(buffer.data(), 64, -1, {}, own), "rank -1 does not exist");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {64, Path::automatic}, own), "tag 64 does not exist");
    CHECK_THROWS(world.send(nullptr, 64, 0, {}, own), "null pointer");
    CHECK_THROWS(world.send(buffer.data(), static_cast<std::size_t>(-1), 0, {}, own), "no size of a buffer");
    CHECK_THROWS(world.send(buffer.data(), 1 << 20, 0, {}, own), "after its allocation");
    CHECK_THROWS(world.send(buffer.data(), 1 << 20, 0, {0, Path::ll}, own), "path ll carries at most");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {0, Path::net}, own), "network");
    CHECK_THROWS(world.send(buffer.data(), 64, 0, {0, Path::memop}, own), "Build a plan");
  });
}

CASE(a_sendrecv_whose_send_is_refused_has_posted_no_receive) {
  on_all_devices(1, [](World& world) {
    constexpr std::size_t kLarge = 1 << 20;  // more than a lane's ring takes
    const OwnStream stream(world);
    TestBuffer large(world, kLarge);
    TestBuffer small(world, 192);
    small.write(pattern(192, 4));
    const Outgoing out{large.data(), kLarge, 0, {0, Path::ll}};
    const Incoming in{small.data() + 64, 64, 0, {}};
    CHECK_THROWS(world.sendrecv(out, in, stream), "ll");
    CHECK_THROWS((void)world.sendrecv(out, in), "ll");
    CHECK_THROWS((void)world.isendrecv(out, in), "ll");
    const std::array sends = {out, Outgoing{large.data(), 8, 0, {1, Path::automatic}}};
    const std::array receives = {in, Incoming{large.data() + 64, 8, 0, {1, Path::automatic}}};
    CHECK_THROWS(world.exchange(sends, receives, stream), "ll");
    world.synchronize(stream);
    const auto sent = world.isend(small.data(), 64, 0, {});
    CHECK(world.recv(small.data() + 128, 64, 0, {}) == Status::ok);
    CHECK(world.wait(sent) == Status::ok);
    std::vector<unsigned char> wanted = pattern(192, 4);
    std::copy_n(wanted.begin(), 64, wanted.begin() + 128);
    CHECK(small.read() == wanted);
    world.check();
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

CASE(a_world_destroyed_with_work_under_way_ends_that_work_first) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 1.5;
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

// Rank 0 posts all before rank 1 receives any; the first does not fit. The acks' places are used again and again before
// rank 0 asks for their results.
void ask_late(World& world) {
  constexpr std::size_t kBytes = 300000;
  constexpr int kLater = 9;  // tag_receives of these worlds is 4
  OwnStream own(world);
  TestBuffer buffer(world, kBytes);
  std::vector<std::shared_ptr<Request>> sends;
  if (world.rank() == 0) {
    for (int i = 0; i <= kLater; ++i) sends.push_back(world.isend(buffer.data(), kBytes, 1, {}, own));
    world.device().synchronize(own);
  }
  world.barrier();
  if (world.rank() == 1) {
    CHECK(world.recv(buffer.data(), 100, 0, {}) == Status::truncated);
    for (int i = 0; i < kLater; ++i) {
      const std::size_t room = i == 4 ? 200000 : kBytes;  // in the place of the first: two of it are refused
      CHECK((world.recv(buffer.data(), room, 0, {}) == Status::truncated) == (room < kBytes));
    }
  }
  world.barrier();
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Status expected = i == 0 || i == 5 ? Status::truncated : Status::ok;
    CHECK(world.wait(sends[i]) == expected);
  }
  const std::size_t told = 2;
  const Deadline deadline(kSoonS);
  std::size_t faults = 0;
  while (faults < told && !deadline.passed()) faults += world.take_faults().size();
  CHECK(faults == told);
  world.barrier();
}

CASE(a_posted_send_that_was_refused_says_so_however_late_it_is_asked) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 4;
    run_ranks(2, parameters, ask_late);
  }
}

// A send that its receiver fetches gives back its resources also if no call waits for it.
CASE(requests_let_go_before_their_waits_hold_nothing_for_ever) {
  on_all_devices(2, [](World& world) {
    constexpr int kMessages = 640;
    constexpr int kAhead = 16;
    constexpr std::size_t kBytes = 20000;
    OwnStream own(world);
    TestBuffer buffer(world, kBytes);
    const auto exported = [&] { return world.statistics().peer_mapping.exported; };
    const auto before = exported();
    for (int i = 0; i < kMessages; ++i) {
      if (world.rank() == 0) {
        static_cast<void>(world.isend(buffer.data(), kBytes, 1, {0, Path::stage}, own));
      } else {
        CHECK(world.recv(buffer.data(), kBytes, 0, {0, Path::stage}) == Status::ok);
      }
      if (i % kAhead == kAhead - 1) world.barrier();
    }
    CHECK(exported() - before <= kMessages / 4);
    world.barrier();
  });
}

// The receive expects to fetch it with several blocks; the send puts it in the ring.
CASE(a_message_of_the_ring_lets_blocks_go_that_came_to_fetch_it) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.block_bytes = 256;
    parameters.tag_bytes = 131072;
    run_ranks(2, parameters, [](World& world) {
      only_on_one_host(world);
      constexpr std::size_t kBytes = 20000;
      OwnStream own(world);
      TestBuffer buffer(world, kBytes);
      if (world.rank() == 0) {
        buffer.write(pattern(kBytes, 4));
        world.send(buffer.data(), kBytes, 1, {0, Path::ll}, own);
      } else {
        world.recv(buffer.data(), kBytes, 0, {0, Path::stage}, own);
        const Deadline deadline(kSoonS);
        while (!world.device().idle(own) && !deadline.passed()) std::this_thread::yield();
        CHECK(world.device().idle(own));
        CHECK(buffer.read() == pattern(kBytes, 4));
      }
      world.barrier();
    });
  }
}

namespace {

constexpr std::size_t kInVain = 1 << 20;

// Seconds until rank 0's call, which nobody answers, ends at its deadline.
double ended_after_s(const std::string& device, double timeout_s, const std::function<Status(World&, void*)>& call) {
  Parameters parameters = quick(device);
  parameters.timeout_s = timeout_s;
  double seconds = 0;
  run_ranks(2, parameters, [&](World& world) {
    TestBuffer buffer(world, kInVain);
    world.barrier();
    if (world.rank() == 1) return await_failure(world);
    const std::uint64_t start = now_ns();
    CHECK(call(world, buffer.data()) == Status::timeout);
    seconds = static_cast<double>(now_ns() - start) * 1e-9;
  });
  return seconds;
}

}  // namespace

CASE(a_wait_for_nobody_ends_at_its_deadline_not_at_twice_that) {
  constexpr double kTimeoutS = 2;
  constexpr int kTries = 3;  // a machine may stand still for a while, but not always
  const std::function<Status(World&, void*)> calls[] = {
      [](World& world, void* data) { return world.recv(data, kInVain, 1, {}); },
      [](World& world, void* data) { return world.wait(world.irecv(data, 8, 1, {})); },
      [](World& world, void* data) { return world.send(data, kInVain, 1, {}); }};
  for (const std::string& device : device_specs()) {
    for (const auto& call : calls) {
      double seconds = ended_after_s(device, kTimeoutS, call);
      for (int i = 1; i < kTries && seconds >= 1.8 * kTimeoutS; ++i) seconds = ended_after_s(device, kTimeoutS, call);
      CHECK(seconds >= 0.99 * kTimeoutS && seconds < 1.8 * kTimeoutS);
    }
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
