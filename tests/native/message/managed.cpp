// Managed memory in a world: as source and destination of messages and plans, under every hint, while the CPU uses it.
// Sizes are small: more managed memory than a GPU has moves back and forth for ever.
#include <atomic>
#include <string_view>

#include "onstream/device/cuda/memory/managed_room.hpp"
#include "onstream/layout.hpp"
#include "onstream/plan.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kBytes = 300'000;

void on_all_hints(const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) {
    for (const char* prefetch : {"device", "off"}) {
      for (const char* advice : {"none", "device", "host", "read_mostly"}) {
        // Ranks that share a GPU: a prefetch away from the preferred place waits for running kernels (decision 0005).
        const bool against = std::string_view(prefetch) == "device" && std::string_view(advice) == "host";
        if (against && device != "host") continue;
        Parameters parameters = quick(device);
        parameters.managed_prefetch = prefetch;
        parameters.managed_advice = advice;
        run_ranks(2, parameters, body);
      }
    }
  }
}

// Filled and read by the CPU itself, with no copy.
std::vector<unsigned char> held(const std::shared_ptr<Memory>& memory) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(memory->data());
  return {bytes, bytes + kBytes};
}

void fill(const std::shared_ptr<Memory>& memory, unsigned seed) {
  const auto values = pattern(kBytes, seed);
  std::copy(values.begin(), values.end(), reinterpret_cast<unsigned char*>(memory->data()));
}

unsigned seed_of(int rank, int turn) { return static_cast<unsigned>(100 * rank + turn); }

}  // namespace

CASE(the_cpu_fills_and_reads_what_messages_carry) {
  on_all_hints([](World& world) {
    const auto out = world.allocate(kBytes, MemoryKind::managed);
    const auto in = world.allocate(kBytes, MemoryKind::managed);
    world.barrier();  // ranks that share a GPU: the driver allocates such memory behind running kernels
    const OwnStream stream(world);
    const int peer = 1 - world.rank();
    for (int turn = 0; turn < 6; ++turn) {
      fill(out, seed_of(world.rank(), turn));
      if (turn % 2 == 0) {
        const auto request = world.irecv(in->data(), kBytes, peer, {}, stream);
        world.send(out->data(), kBytes, peer, {}, stream);
        world.wait(request, stream);
        world.synchronize(stream);
      } else {
        const auto request = world.irecv(in->data(), kBytes, peer, {});
        CHECK(world.send(out->data(), kBytes, peer, {}) == Status::ok);
        CHECK(world.wait(request) == Status::ok);
      }
      CHECK(held(in) == pattern(kBytes, seed_of(peer, turn)));
    }
    world.barrier();
  });
}

CASE(the_cpu_fills_and_reads_what_plans_carry_also_captured) {
  on_all_hints([](World& world) {
    const auto out = world.allocate(kBytes, MemoryKind::managed);
    const auto in = world.allocate(kBytes, MemoryKind::managed);
    world.barrier();  // ranks that share a GPU: the driver allocates such memory behind running kernels
    Device& device = world.device();
    const OwnStream stream(device);
    const int peer = 1 - world.rank();
    PlanBuilder builder = world.plan("managed");
    builder.send(out->data(), Layout::contiguous(kBytes), peer).recv(in->data(), Layout::contiguous(kBytes), peer);
    const auto plan = builder.build();
    device.begin_capture(stream);
    plan->launch(stream);
    const auto graph = end_capture_of_all(world, stream);
    for (int turn = 0; turn < 4; ++turn) {
      fill(out, seed_of(world.rank(), turn));
      if (turn % 2 == 0) {
        plan->launch(stream);
      } else {
        device.launch(graph, stream);
      }
      world.synchronize(stream);
      CHECK(held(in) == pattern(kBytes, seed_of(peer, turn)));
    }
    world.barrier();
  });
}

CASE(the_cpu_goes_on_counting_beside_a_message_in_the_same_pages) {
  on_all_devices(2, [](World& world) {
    const auto memory = world.allocate(kBytes + 64, MemoryKind::managed);
    const auto in = world.allocate(kBytes, MemoryKind::managed);
    world.barrier();  // ranks that share a GPU: the driver allocates such memory behind running kernels
    auto* counter = reinterpret_cast<std::uint64_t*>(memory->data() + (kBytes + 7) / 8 * 8);
    const OwnStream stream(world);
    const int peer = 1 - world.rank();
    fill(memory, seed_of(world.rank(), 0));
    const auto request = world.irecv(in->data(), kBytes, peer, {}, stream);
    world.send(memory->data(), kBytes, peer, {}, stream);
    world.wait(request, stream);
    for (int i = 0; i < 1000; ++i) std::atomic_ref(*counter).fetch_add(1);
    world.synchronize(stream);
    CHECK(*counter == 1000);
    CHECK(held(in) == pattern(kBytes, seed_of(peer, 0)));
    world.barrier();
  });
}

CASE(managed_memory_fits_a_gpu_together_wherever_its_pages_are) {
  cuda::ManagedRoom room;
  CHECK(room.left(70, 100) == 70);  // others use 30
  room.take(40);
  CHECK(room.left(30, 100) == 30);  // its pages are on the GPU
  CHECK(room.left(70, 100) == 30);  // on the host
  CHECK(room.left(50, 100) == 30);  // on both
  room.take(30);
  CHECK(room.left(70, 100) == 0 && room.held() == 70);
  room.give_back(70);
  CHECK(room.left(70, 100) == 70 && room.held() == 0);
}

CASE(what_others_use_of_a_gpu_is_followed_while_managed_memory_is_held) {
  cuda::ManagedRoom room;
  CHECK(room.left(90, 100) == 90);  // others use 10
  room.take(20);
  CHECK(room.left(40, 100) == 40);  // 40 now, if all that is held is on the GPU
  CHECK(room.left(60, 100) == 40);  // they may still: the held pages may have left
  CHECK(room.left(95, 100) == 75);  // 5 at most
  CHECK(room.left(0, 100) == 0);
  room.take(90);
  CHECK(room.left(100, 100) == 0);  // more is held than there is
  CHECK(room.left(200, 100) == 0);
}

CASE(more_managed_memory_than_a_gpu_has_room_for_is_refused_with_what_is_held) {
  for (const std::string& device : device_specs()) {
    if (device == "host") continue;
    run_ranks(1, quick(device), [](World& world) {
      constexpr std::size_t kTooMuch = std::size_t{1} << 50;  // no GPU has it
      CHECK_THROWS((void)world.allocate(kTooMuch, MemoryKind::managed), "and 0 B of managed memory are held");
      auto memory = world.allocate(kBytes, MemoryKind::managed);
      CHECK_THROWS((void)world.allocate(kTooMuch, MemoryKind::managed),
                   concat("and ", human_bytes(kBytes), " of managed memory are held by this process"));
      memory.reset();
      CHECK_THROWS((void)world.allocate(kTooMuch, MemoryKind::managed), "and 0 B of managed memory are held");
    });
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
