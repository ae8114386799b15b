// Collectives that fail while they are enqueued: work that is on the stream by then ends, and is kept as long.
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective_cases.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/enqueue/copies.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/resource/block_budget.hpp"
#include "support/check.hpp"
#include "support/device_around.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::BlockBudget;

namespace {

class CannotCopy final : public DeviceAround {
 public:
  using DeviceAround::DeviceAround;
  void copy(void*, const void*, std::size_t, Stream) override { fail(ErrorCode::system, "this device cannot copy"); }
};

struct Nothing {
  void operator()(const HostGroup&) const {}
};

collective::KernelLaunch launching_of(Grid grid) {
  static const Kernel kernel{"nothing", host_entry<Nothing>, nullptr};
  collective::KernelLaunch out;
  out.set(kernel, Nothing(), grid);
  return out;
}

}  // namespace

CASE(copies_that_fail_half_way_leave_no_wait_that_nothing_ends) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 2;
    run_ranks(2, parameters, [](World& world) {
      Fabric& fabric = *world.fabric();
      collective::Copies copies(fabric, {0, 1}, 0);
      TestBuffer all(world, 128);
      CollectiveCall call = collective::all_gather({all.data() + 64 * world.rank(), all.data(), 64});
      call.algorithm = Algorithm::copy;
      const collective::Copies::CopyList work = copies.prepare(fabric, call);
      if (world.rank() == 1) return await_failure(world);
      const OwnStream stream(world);
      CannotCopy around(fabric.device());
      CHECK_THROWS(copies.enqueue(around, work, stream), "this device cannot copy");
      CHECK_THROWS(world.synchronize(stream), "all_gather of 64 B, waiting for rank 1");
    });
  }
}

CASE(a_capture_that_fails_half_way_counts_in_the_room_of_its_channel) {
  run_ranks(2, quick("host"), [](World& world) {
    BlockBudget budget;
    collective::Channel channel(*world.fabric(), budget, {0, 1}, 0);
    collective::Runner runner(world.fabric());
    collective::CompiledCall work;
    work.add(launching_of({40, 1}));
    work.add(launching_of({0, 1}));
    const OwnStream stream(world);
    world.device().begin_capture(stream);
    CHECK_THROWS((void)runner.enqueue(channel.order, stream, work), "with 0 blocks");
    const std::shared_ptr<Graph> graph = world.device().end_capture(stream);
    const auto enter = [&] {
      return budget.enter(*world.fabric(), "a test", BlockBudget::Blocks::in_order, std::vector{0, 1}, {66, 64, 0, 1});
    };
    const auto second = enter();
    const auto third = enter();
    CHECK(third->of_next_call() == 13);  // of the 26 that those 40 leave
  });
}

namespace {

void sleep_on_stream(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2500)); }

}  // namespace

// Rank 2 comes late, when the others have failed, and finds the data that they had sent before they knew.
CASE(nobody_writes_to_buffers_of_ranks_whose_collective_before_has_failed) {
  constexpr std::size_t kCount = 1 << 16;
  constexpr std::size_t kBytes = 3 * kCount * sizeof(std::int32_t);
  const std::vector<unsigned char> untouched(kBytes, 0xee);
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1;
    std::barrier late_one(3);
    run_ranks(3, parameters, [&](World& world) {
      TestBuffer in(world, kBytes);
      in.write(std::vector<unsigned char>(kBytes, 1));
      std::vector<std::unique_ptr<TestBuffer>> outs;
      std::vector<CollectiveCall> calls;
      const auto add = [&](CollectiveCall call, Algorithm algorithm) {
        call.algorithm = algorithm;
        calls.push_back(call);
      };
      const auto out = [&] {
        outs.push_back(std::make_unique<TestBuffer>(world, kBytes));
        outs.back()->write(untouched);
        return outs.back()->data();
      };
      const auto type = ElementType::int32;
      add(collective::all_reduce({in.data(), out(), kCount, type}), Algorithm::simple);
      add(collective::all_reduce({in.data(), out(), 64, type}), Algorithm::two_shot);
      add(collective::all_gather({in.data(), out(), 64, type}), Algorithm::ll);
      add(collective::all_gather({in.data(), out(), kCount, type}), Algorithm::simple);
      add(collective::broadcast({in.data(), out(), 64, type}, 0), Algorithm::ll);
      if (device == "host") add(collective::all_gather({in.data(), out(), 64, type}), Algorithm::ll128);
      add(collective::all_gather({in.data(), out(), kCount, type}), Algorithm::ring);
      CollectiveCall first = collective::all_reduce({in.data(), in.data(), 4, type});
      first.algorithm = Algorithm::ll;
      const OwnStream stream(world);
      world.collective().run(first, stream);
      world.synchronize(stream);
      if (world.rank() == 2) world.device().call(sleep_on_stream, nullptr, stream);
      world.collective().run(first, stream);
      for (const CollectiveCall& call : calls) world.collective().run(call, stream);
      CHECK_THROWS(world.synchronize(stream), "rank 2");
      world.device().synchronize(stream);
      late_one.arrive_and_wait();
      for (std::size_t i = 0; i < outs.size() && world.rank() != 2; ++i) CHECK(outs[i]->read() == untouched);
    });
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
