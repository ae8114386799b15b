// A rank that ends its world: its earlier messages arrive, a rank that waits for more is told at once, and no other one
// notices.
//
// Ranks are threads; a rank leaves when its body returns. Deadlines are 30 s, so a call that ends sooner did not wait
// for one.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>

#include "onstream/base/clock.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/layout.hpp"
#include "onstream/plan.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"
#include "support/standard_error.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kLarge = 300'000;

void await_leave(World& world, int peer) {
  const Deadline deadline(kSoonS);
  for (std::uint32_t round = 0; !world.fabric()->has_left(peer); ++round) {
    CHECK(!deadline.passed());
    HostGroup::pause(round, 0);
  }
}

// Rank 1 leaves before, or while, rank 0 waits for it in `wait`.
void wait_in_vain(const std::string& told, const std::function<void(World&, TestBuffer&)>& wait) {
  on_all_devices(2, [&](World& world) {
    if (world.rank() == 1) return;
    TestBuffer buffer(world, kLarge);
    const std::uint64_t start_ns = now_ns();
    wait(world, buffer);
    CHECK(ended_at_once(start_ns));
    const auto failure = world.failure();
    CHECK(failure.has_value());
    CHECK(failure->reason.find("rank 1 left the world, and rank 0 still waited for it: " + told) != std::string::npos);
  });
}

}  // namespace

CASE(a_receive_from_a_rank_that_left_ends_at_once) {
  wait_in_vain("recv of 64 B from rank 1 with tag 3", [](World& world, TestBuffer& buffer) {
    CHECK(world.recv(buffer.data(), 64, 1, {3}) == Status::aborted);
  });
}

// A program that forgets to look at the status, and ends.
CASE(a_host_call_that_fails_is_logged_before_it_returns) {
  on_all_devices(2, [](World& world) {
    if (world.rank() == 1) return;
    TestBuffer buffer(world, 64);
    await_leave(world, 1);
    const std::string text = standard_error_of([&] { (void)world.recv(buffer.data(), 64, 1, {3}); });
    CHECK(text.find("error: the world failed: rank 1 left the world, and rank 0 still waited") != std::string::npos);
  });
}

CASE(a_posted_receive_from_a_rank_that_left_ends_at_once) {
  wait_in_vain("recv of 300000 B from rank 1 with tag 0", [](World& world, TestBuffer& buffer) {
    const auto request = world.irecv(buffer.data(), kLarge, 1, {});
    CHECK(world.wait(request) == Status::aborted);
  });
}

CASE(asking_again_and_again_for_a_rank_that_left_comes_to_an_end) {
  wait_in_vain("recv of 64 B from rank 1 with tag 0", [](World& world, TestBuffer& buffer) {
    const auto request = world.irecv(buffer.data(), 64, 1, {});
    Status status = Status::pending;
    for (const Deadline deadline(kSoonS); status == Status::pending && !deadline.passed();)
      status = world.test(request);
    CHECK(status == Status::aborted);
  });
}

CASE(a_stream_that_waits_for_a_rank_that_left_ends_at_once) {
  wait_in_vain("recv of 64 B from rank 1 with tag 0", [](World& world, TestBuffer& buffer) {
    const OwnStream stream(world.device());
    world.recv(buffer.data(), 64, 1, {}, stream);
    CHECK_THROWS(world.synchronize(stream), "rank 1 left the world");
  });
}

// The peer is there when the op starts, and leaves once it knows that.
CASE(a_send_whose_receiver_leaves_ends_at_once) {
  on_all_devices(2, [](World& world) {
    if (world.rank() == 1) {
      TestBuffer word(world, 8);
      CHECK(world.recv(word.data(), 8, 0, {}) == Status::ok);
      return;
    }
    TestBuffer buffer(world, kLarge);
    const auto request = world.isend(buffer.data(), kLarge, 1, {5});
    CHECK(world.send(buffer.data(), 8, 1, {}) == Status::ok);
    CHECK(world.wait(request) == Status::aborted);
    CHECK(world.failure()->reason.find("send of 300000 B to rank 1 with tag 5") != std::string::npos);
  });
}

CASE(a_plan_launched_when_its_peer_has_left_ends_at_once) {
  const auto launch_alone = [](std::size_t bytes, Path path) {
    on_all_devices(2, [bytes, path](World& world) {
      const OwnStream stream(world.device());
      TestBuffer out(world, bytes);
      TestBuffer in(world, bytes);
      PlanBuilder builder = world.plan("p");
      builder.use_path(path);
      builder.send(out.data(), Layout::contiguous(bytes), 1 - world.rank());
      builder.recv(in.data(), Layout::contiguous(bytes), 1 - world.rank());
      const auto plan = builder.build();
      plan->launch(stream);
      world.synchronize(stream);
      if (world.rank() == 1) return;
      await_leave(world, 1);
      plan->launch(stream);
      CHECK_THROWS(world.synchronize(stream), "rank 1 left the world, and rank 0 still waited for it");
    });
  };
  launch_alone(512, Path::automatic);
  launch_alone(kLarge, Path::automatic);
  launch_alone(512, Path::memop);
}

CASE(what_a_rank_sent_before_it_left_is_received) {
  on_all_devices(2, [](World& world) {
    constexpr int kMessages = 5;
    TestBuffer buffer(world, 1000);
    const OwnStream stream(world.device());
    if (world.rank() == 1) {
      for (int i = 0; i < kMessages; ++i) {
        buffer.write(pattern(1000, static_cast<unsigned>(i)));
        CHECK(world.send(buffer.data(), 1000, 0, {}) == Status::ok);
      }
      return;
    }
    await_leave(world, 1);
    for (int i = 0; i < kMessages; ++i) {
      if (i % 2 == 0) {
        CHECK(world.recv(buffer.data(), 1000, 1, {}) == Status::ok);
      } else {
        world.recv(buffer.data(), 1000, 1, {}, stream);
        world.synchronize(stream);
      }
      CHECK(buffer.read() == pattern(1000, static_cast<unsigned>(i)));
    }
    CHECK(!world.failure().has_value());
  });
}

// The wait begins long before its receive is posted: it waits for this rank's own work, which the peer's leave must not
// end.
CASE(a_wait_whose_receive_is_queued_outlives_the_senders_leave) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 1000);
    if (world.rank() == 1) {
      buffer.write(pattern(1000, 9));
      CHECK(world.send(buffer.data(), 1000, 0, {}) == Status::ok);
      return;
    }
    const OwnStream posting(world.device());
    const OwnStream waiting(world.device());
    std::atomic<bool> open = false;
    const auto hold = [](void* gate) {
      const Deadline deadline(kSoonS);
      while (!static_cast<std::atomic<bool>*>(gate)->load() && !deadline.passed()) HostGroup::pause(0, 0);
    };
    world.device().call(hold, &open, posting);
    const auto request = world.irecv(buffer.data(), 1000, 1, {}, posting);
    world.wait(request, waiting);
    await_leave(world, 1);
    for (std::uint32_t round = 0; round < 4000; ++round) HostGroup::pause(round);  // the wait looks up meanwhile
    open = true;
    world.synchronize(posting);
    world.synchronize(waiting);
    CHECK(buffer.read() == pattern(1000, 9));
  });
}

CASE(a_send_to_a_rank_that_left_is_refused_and_nothing_else_happens) {
  on_all_devices(2, [](World& world) {
    if (world.rank() == 1) return;
    TestBuffer buffer(world, 64);
    await_leave(world, 1);
    CHECK_THROWS((void)world.send(buffer.data(), 64, 1, {2}),
                 "send of 64 B to rank 1 with tag 2: rank 1 left the world; nobody will receive it");
    CHECK(!world.failure().has_value());
  });
}

CASE(what_is_wrong_with_a_send_is_told_also_when_its_peer_has_left_or_the_world_has_failed) {
  const auto is_told = [](World& world) {
    constexpr std::size_t kTooLarge = 100'000;
    TestBuffer buffer(world, kTooLarge);
    await_leave(world, 1);
    const MessageOptions small{0, Path::ll};
    CHECK_THROWS((void)world.send(buffer.data(), kTooLarge, 1, small), "path ll carries at most");
    CHECK_THROWS((void)world.recv(buffer.data(), kTooLarge, 1, small), "path ll carries at most");
  };
  on_all_devices(2, [&](World& world) {
    if (world.rank() == 0) is_told(world);
  });
  on_all_devices(2, [&](World& world) {
    if (world.rank() == 0) return is_told(world);
    world.abort("seed 7 is odd");
  });
}

CASE(ranks_go_on_when_another_has_left) {
  on_all_devices(3, [](World& world) {
    if (world.rank() == 2) return;
    TestBuffer buffer(world, kLarge);
    await_leave(world, 2);
    for (int i = 0; i < 20; ++i) {
      const auto request = world.irecv(buffer.data(), kLarge / 2, 1 - world.rank(), {});
      CHECK(world.send(buffer.data() + kLarge / 2, kLarge / 2, 1 - world.rank(), {}) == Status::ok);
      CHECK(world.wait(request) == Status::ok);
    }
    CHECK(!world.failure().has_value());
  });
}

int main(int argc, char** argv) { return run(argc, argv); }

// The child shares the rings and a request's completion words: a message that it took would be lost to its parent.
CASE(a_forked_child_takes_no_message_of_its_parent) {
  run_ranks(1, quick("host"), [](World& world) {
    std::vector<unsigned char> buffer(1000, 0);
    const auto request = world.irecv(buffer.data(), buffer.size(), 0);
    CHECK(world.send(pattern(1000, 3).data(), 1000, 0) == Status::ok);
    for (const bool waits : {false, true}) {
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          waits ? (void)world.wait(request) : (void)world.test(request);
        } catch (const Error& error) {
          ::_exit(error.code() == ErrorCode::closed ? 0 : 2);
        }
        ::_exit(1);
      }
      int status = -1;
      CHECK(::waitpid(child, &status, 0) == child);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(world.wait(request) == Status::ok);
    CHECK(buffer == pattern(1000, 3));
  });
}

// Packed messages, messages in LL lines, and as many as end a lap of the ring.
CASE(messages_that_no_receive_took_are_told_when_the_world_ends) {
  const std::string text = standard_error_of([] {
    run_ranks(2, quick("host"), [](World& world) {
      std::vector<unsigned char> buffer(4096);
      if (world.rank() == 0) {
        for (int i = 0; i < 500; ++i) CHECK(world.send(buffer.data(), 8, 1, {1}) == Status::ok);
        CHECK(world.send(buffer.data(), 1000, 1, {1}) == Status::ok);
        CHECK(world.send(buffer.data(), 24, 1, {1}) == Status::ok);
        CHECK(world.send(buffer.data(), 4096, 1, {2}) == Status::ok);
        CHECK(world.send(buffer.data(), 100, 1, {2}) == Status::ok);
        CHECK(world.send(buffer.data(), 8, 1, {3}) == Status::ok);
      } else {
        for (int i = 0; i < 500; ++i) CHECK(world.recv(buffer.data(), 8, 0, {1}) == Status::ok);
        CHECK(world.recv(buffer.data(), 8, 0, {3}) == Status::ok);
        (void)world.irecv(buffer.data(), 4096, 0, {2});  // and nobody waits for it
      }
      world.barrier();
    });
  });
  CHECK(text.find("rank 1 leaves the world with 2 messages of rank 0 with tag 1 that no receive took, the first of "
                  "1000 B\n") != std::string::npos);
  CHECK(text.find("rank 1 leaves the world with 1 message of rank 0 with tag 2 that no receive took, of 100 B\n") !=
        std::string::npos);
  CHECK(text.find("tag 3") == std::string::npos && text.find("tag 0") == std::string::npos);
}

CASE(a_world_whose_messages_were_taken_ends_without_a_word) {
  CHECK(standard_error_of([] {
          run_ranks(2, quick("host"), [](World& world) {
            std::vector<unsigned char> buffer(4096);
            for (int i = 0; i < 20; ++i) {
              if (world.rank() == 0) CHECK(world.send(buffer.data(), 4096, 1) == Status::ok);
              if (world.rank() == 1) CHECK(world.recv(buffer.data(), 4096, 0) == Status::ok);
            }
          });
        }).empty());
}
