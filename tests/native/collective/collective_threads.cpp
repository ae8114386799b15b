// Several threads of a rank that use collectives at once, each a channel of its own: none waits for data that only
// another thread's call would bring.
#include <thread>

#include "collective_cases.hpp"
#include "onstream/collective.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;

namespace {

// A small call of one channel, with its buffers.
struct Small {
  explicit Small(World& world) : input(world, 64), output(world, 64 * static_cast<std::size_t>(world.size())) {}
  CollectiveCall sum(int channel) const {
    CollectiveCall call = all_reduce({input.data(), output.data(), 16, ElementType::int32});
    call.channel = channel;
    return call;
  }
  CollectiveCall copies(int channel) const {
    CollectiveCall call = all_gather({input.data(), output.data(), 64});
    call.channel = channel;
    call.algorithm = Algorithm::copy;
    return call;
  }

  TestBuffer input;
  TestBuffer output;
};

// Runs `body` in a thread of its own; finish() rethrows its exception.
class Beside {
 public:
  explicit Beside(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          try {
            body();
          } catch (...) {
            thrown_ = std::current_exception();
          }
        }) {}
  ~Beside() {
    if (thread_.joinable()) thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  void finish() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace

CASE(threads_of_different_channels_are_checked_apart) {
  constexpr int kRounds = 20;
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.collective_check = "on";
    run_ranks(2, parameters, [&](World& world) {
      Collective& it = world.collective();
      const Small one(world);
      const Small other(world);
      const auto run = [&](const CollectiveCall& call) { it.run(call); };
      run(one.sum(0));
      run(other.sum(1));
      const std::uint64_t start_ns = now_ns();
      if (world.rank() == 0) {
        Beside beside([&] {
          for (int round = 0; round < kRounds; ++round) run(other.sum(1));
        });
        for (int round = 0; round < kRounds; ++round) run(one.sum(0));
        beside.finish();
      } else {
        for (int round = 0; round < kRounds; ++round) {
          run(other.sum(1));
          run(one.sum(0));
        }
      }
      CHECK(ended_at_once(start_ns));
    });
  }
}

CASE(the_first_call_of_a_channel_and_the_first_by_copy_on_another_may_come_in_any_order) {
  on_all_devices(2, [](World& world) {
    Collective& it = world.collective();
    const Small one(world);
    const Small other(world);
    const OwnStream stream(world);
    it.run(one.sum(0));
    const std::uint64_t start_ns = now_ns();
    if (world.rank() == 0) it.run(other.sum(1), stream);
    it.run(one.copies(0));
    if (world.rank() == 1) it.run(other.sum(1), stream);
    world.synchronize(stream);
    CHECK(ended_at_once(start_ns));
  });
}

CASE(calls_by_copy_go_on_while_another_thread_starts_a_channel) {
  constexpr int kCalls = 50;
  on_all_devices(2, [](World& world) {
    Collective& it = world.collective();
    const Small one(world);
    const Small other(world);
    it.run(one.copies(0));
    const auto copy_often = [&] {
      for (int i = 0; i < kCalls; ++i) it.run(one.copies(0));
    };
    for (int channel = 1; channel < 4; ++channel) {
      const std::uint64_t start_ns = now_ns();
      if (world.rank() == 0) {
        Beside beside([&] { it.run(other.sum(channel)); });
        copy_often();
        beside.finish();
      } else {
        copy_often();
        it.run(other.sum(channel));
      }
      CHECK(ended_at_once(start_ns));
    }
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
