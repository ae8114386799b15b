// An enqueue that fails in the middle of its list leaves the parts before on the stream, or in the graph. On
// the host device memory runs out for the second part; on a GPU the copy engine refuses a source that is too short.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/kernel/step.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

thread_local int arrays_left = -1;  // that this thread gets before one is refused it; negative: no end to them

}  // namespace

// A host stream keeps the arguments of a kernel of many steps in an array.
void* operator new[](std::size_t bytes) {
  if (arrays_left >= 0 && arrays_left-- == 0) throw std::bad_alloc();
  void* const made = std::malloc(bytes > 0 ? bytes : 1);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}
void operator delete[](void* made) noexcept { std::free(made); }
void operator delete[](void* made, std::size_t) noexcept { std::free(made); }

namespace {

constexpr std::size_t kWord = 8;
constexpr std::size_t kEngineBytes = std::size_t{64} << 20;

Parameters with_small_engine_copies(const std::string& device) {
  Parameters parameters = quick(device);
  parameters.copy_min_bytes = 4096;
  return parameters;
}

std::size_t target_bytes(const World& world) {
  return world.device().kind() == DeviceKind::host ? kWord : kEngineBytes;
}

// A put of `source`, a word, is on the stream; the next op of the batch fails.
void put_and_fail(World& world, const Segment& target, const Memory& source, Stream stream) {
  const Remote there = world.one_sided().symmetric(target.local(), 0);
  Batch batch(world.one_sided());
  if (world.device().kind() == DeviceKind::host) {
    for (int i = 0; i < 2 * one_sided::ManySteps::kCapacity; ++i) batch.put(there, source.data(), kWord);
    arrays_left = 1;
    CHECK_THROWS(world.one_sided().run(batch, stream), "bad_alloc");
    CHECK(arrays_left == -1);
  } else {
    batch.put(there, source.data(), kWord);
    batch.put(there, source.data(), kEngineBytes);
    CHECK_THROWS(world.one_sided().run(batch, stream), "copying");
  }
}

}  // namespace

CASE(a_segment_is_freed_behind_what_came_before_a_part_that_failed) {
  for (const std::string& device : device_specs()) {
    run_ranks(1, with_small_engine_copies(device), [](World& world) {
      const auto target = world.segment(target_bytes(world));
      const auto other = world.segment(kWord);
      const auto source = world.allocate(kWord, MemoryKind::device);
      std::atomic<bool> open = false;
      const OwnStream stream(world);
      const auto hold = [](void* gate) {
        const Deadline deadline(kSoonS);
        while (!static_cast<std::atomic<bool>*>(gate)->load() && !deadline.passed()) HostGroup::pause(0, 0);
      };
      world.device().call(hold, &open, stream);
      put_and_fail(world, *target, *source, stream);
      const std::size_t unfinished = world.unfinished().size();
      std::jthread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        open = true;
      });
      world.free(other);
      CHECK(open);
      CHECK(unfinished == 1);
      world.synchronize(stream);
    });
  }
}

CASE(a_graph_keeps_what_the_parts_before_one_that_failed_use) {
  for (const std::string& spec : device_specs()) {
    auto world = World::create(launch_of(0, 1, meeting_place()), with_small_engine_copies(spec));
    const std::shared_ptr<Device> device = world->fabric()->device();
    const auto source = world->allocate(kWord, MemoryKind::device);
    auto target = world->segment(target_bytes(*world));
    const OwnStream stream(*device);
    device->begin_capture(stream);
    put_and_fail(*world, *target, *source, stream);
    std::shared_ptr<Graph> graph = device->end_capture(stream);
    CHECK(graph->nodes() == 1);
    const void* const looked_at = world->fabric()->wait_view().abort;
    const std::uint64_t memory = device->inspect(looked_at).id;
    target.reset();
    world.reset();
    CHECK(DeferredRelease::of_process().finish(kSoonS));
    CHECK(device->inspect(looked_at).id == memory);
    graph.reset();
    const Deadline deadline(kSoonS);
    while (device->inspect(looked_at).id == memory && !deadline.passed()) HostGroup::pause(0, 0);
    CHECK(device->inspect(looked_at).id != memory);
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
