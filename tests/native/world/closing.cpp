// The end of a world that is still used: finish() tells the errors of work that no call has told, leave() ends the
// waits of other threads.
#include <array>
#include <functional>
#include <thread>

#include "onstream/base/error.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kWord = 8;

// Whether call() ended as one that leave() ends: returned aborted, or thrown as closed.
bool is_broken_off(const std::function<Status()>& call) {
  try {
    return call() == Status::aborted;
  } catch (const Error& error) {
    return error.code() == ErrorCode::closed;
  }
}

}  // namespace

CASE(finish_throws_what_no_call_has_told_and_only_once) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(2, parameters, [](World& world) {
      if (world.rank() == 0) {
        const OwnStream stream(world);
        const TestBuffer box(world, kWord);
        world.recv(box.data(), kWord, 1, {}, stream);  // nobody sends
        CHECK_THROWS(world.finish(), "recv of 8 B from rank 1");
        world.finish();
      } else {
        await_failure(world);
        world.finish();  // no op of this rank has failed
      }
    });
  }
}

CASE(finish_throws_that_a_message_was_cut) {
  on_all_devices(2, [](World& world) {
    const OwnStream stream(world);
    const TestBuffer box(world, 5 * kWord);
    if (world.rank() == 0) {
      world.recv(box.data(), kWord, 1, {}, stream);
      CHECK_THROWS(world.finish(), "too small for its message of 40 B");
    } else {
      CHECK(world.send(box.data(), 5 * kWord, 0) != Status::timeout);
    }
    world.barrier();
    (void)world.take_faults();  // the sender may have heard
  });
}

CASE(finish_waits_for_work_and_is_silent_where_all_is_well) {
  on_all_devices(2, [](World& world) {
    const OwnStream stream(world);
    const TestBuffer box(world, 100'000);
    if (world.rank() == 0) {
      world.send(box.data(), box.bytes(), 1, {}, stream);
    } else {
      world.recv(box.data(), box.bytes(), 0, {}, stream);
    }
    world.finish();
    CHECK(world.device().idle(stream));
    world.barrier();
  });
}

CASE(leave_ends_the_waits_of_other_threads_at_once) {
  on_all_devices(2, [](World& world) {
    const TestBuffer small(world, kWord);
    const TestBuffer large(world, 1'000'000);
    const int peer = 1 - world.rank();
    std::array<bool, 3> broken_off{};
    const std::uint64_t start = now_ns();
    std::array threads = {
        std::thread(
            [&] { broken_off[0] = is_broken_off([&] { return world.recv(small.data(), kWord, peer, {.tag = 1}); }); }),
        std::thread([&] {
          broken_off[1] = is_broken_off([&] { return world.send(large.data(), large.bytes(), peer, {.tag = 2}); });
        }),
        std::thread([&] {
          broken_off[2] = is_broken_off([&] { return world.wait(world.irecv(small.data(), kWord, peer, {.tag = 3})); });
        }),
    };
    world.barrier();
    world.leave();
    for (std::thread& thread : threads) thread.join();
    CHECK(broken_off == (std::array<bool, 3>{true, true, true}));
    CHECK(ended_at_once(start));
    CHECK_THROWS(world.check(), "closed the world while others of its threads were inside calls");
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
