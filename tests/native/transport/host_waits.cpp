// The host's own waits for the other ranks: the causes of their end, the messages, and whether the world lives on.
//
// A deadline that passes, and a world that fails, end every one of them at once and on every rank. A step that fails on
// some ranks alone ends on all of them with its cause, and then the world goes on.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <string>

#include "onstream/base/clock.hpp"
#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/plan.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

Parameters patient(const std::string& device) {
  Parameters parameters = quick(device);
  parameters.timeout_s = 60;
  parameters.log = "off";
  return parameters;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Rank 0 waits in `call`; rank 1 fails the world meanwhile, and lives on.
void aborted_meanwhile(const std::function<void(World&)>& call) {
  for (const std::string& device : device_specs()) {
    std::atomic<bool> calling = false;
    std::atomic<bool> ended = false;
    run_ranks(2, patient(device), [&](World& world) {
      const Deadline deadline(40);
      if (world.rank() == 1) {
        while (!calling && !deadline.passed()) std::this_thread::yield();
        // Trips through both mesh threads, so that rank 0's own thread comes to wait.
        for (int i = 0; i < 20; ++i) world.register_memory(world.allocate(64)->data(), 64);
        world.abort("the cat");
        while (!ended && !deadline.passed()) std::this_thread::yield();
        return;
      }
      const std::uint64_t start_ns = now_ns();
      calling = true;
      const std::string told = error_of([&] { call(world); });
      ended = true;
      CHECK(has(told, "aborted: the cat"));
      CHECK(ended_at_once(start_ns));
    });
  }
}

}  // namespace

CASE(an_abort_ends_a_barrier_that_another_rank_waits_in) {
  aborted_meanwhile([](World& world) { world.barrier(); });
}

CASE(an_abort_ends_the_making_of_a_segment) {
  aborted_meanwhile([](World& world) { (void)world.segment(64); });
}

CASE(an_abort_ends_the_build_of_a_plan) {
  aborted_meanwhile([](World& world) { (void)world.plan("lonely").build(); });
}

CASE(a_collective_that_passes_its_deadline_fails_the_world_and_says_who_did_not_come) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = patient(device);
    parameters.timeout_s = 1.5;
    run_ranks(2, parameters, [&](World& world) {
      const Deadline deadline(kSoonS);
      if (world.rank() == 0) {
        const std::string told = error_of([&] { (void)world.segment(4096); });
        CHECK(has(told, "rank 1 (pid ") && has(told, " of 2 did not come to the allocation of a segment within 1.5 s"));
      }
      while (!world.failure() && !deadline.passed()) std::this_thread::yield();
      // Nothing is matched with the call that was given up.
      const std::string told = error_of([&] { (void)world.segment(4096); });
      CHECK(has(told, "the world has failed: rank 0: rank 1 (pid ") && has(told, "did not come to the allocation"));
      while (world.rank() == 0 && !world.fabric()->has_left(1) && !deadline.passed()) std::this_thread::yield();
    });
  }
}

CASE(an_argument_that_is_wrong_on_one_rank_is_told_to_all_and_the_world_goes_on) {
  for (const std::string& device : device_specs()) {
    run_ranks(3, patient(device), [](World& world) {
      const std::uint64_t start_ns = now_ns();
      TestBuffer buffer(world, 4096);
      const std::size_t bytes = world.rank() == 1 ? 1 << 20 : 4096;
      const std::string told = error_of([&] { (void)world.window(buffer.data(), bytes); });
      CHECK(has(told, "rank 1: the buffer of 1048576 B at "));
      CHECK(!has(told, "rank 0") && !has(told, "rank 2"));
      CHECK(has(error_of([&] { (void)world.segment(world.rank() == 2 ? 0 : 64); }), "rank 2: a segment needs"));
      CHECK(has(error_of([&] { (void)world.window(nullptr, world.rank() == 0 ? 8 : 0); }), "rank 0: window: 8 B at"));
      CHECK(world.window(buffer.data(), 4096)->ranks() == 3);
      CHECK(world.segment(64)->bytes() == 64);
      CHECK(!world.failure());
      CHECK(ended_at_once(start_ns));
      world.barrier();
    });
  }
}

// Rank 1 is a process of its own, which may write no file of this size: the host device's memory is files.
namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 20;

void build_without_memory(World& world, const std::function<void()>& before, const std::function<void()>& after) {
  std::vector<std::byte> plain(kTooMuch);
  world.barrier();
  const std::uint64_t start_ns = now_ns();
  before();
  PlanBuilder builder = world.plan("large");
  builder.use_path(Path::ll);
  if (world.rank() == 0) builder.send(plain.data(), Layout::contiguous(kTooMuch), 1);
  if (world.rank() == 1) builder.recv(plain.data(), Layout::contiguous(kTooMuch), 0);
  const std::string of_plan = error_of([&] { (void)builder.build(); });
  const std::string of_segment = error_of([&] { (void)world.segment(kTooMuch); });
  after();
  CHECK(has(of_plan, "plan 'large' cannot be built:\n  rank 1: "));
  CHECK(has(of_segment, "rank 1: ") && !has(of_segment, "rank 0"));
  CHECK(ended_at_once(start_ns));
  CHECK(world.segment(kTooMuch)->bytes() == kTooMuch);
  CHECK(!world.failure());
  world.barrier();
}

void limited_rank() {
  ::signal(SIGXFSZ, SIG_IGN);
  const auto world = World::create(launch_from_environment(), patient("host"));
  const auto limit = [](rlim_t bytes) {
    rlimit limits{};
    ::getrlimit(RLIMIT_FSIZE, &limits);
    limits.rlim_cur = bytes;
    CHECK(::setrlimit(RLIMIT_FSIZE, &limits) == 0);
  };
  build_without_memory(*world, [&] { limit(64 << 10); }, [&] { limit(RLIM_INFINITY); });
}

}  // namespace

CASE(memory_that_one_rank_does_not_get_is_told_to_all_and_the_world_goes_on) {
  const Launch launch = launch_of(0, 2, meeting_place());
  Launch other = launch;
  other.rank = other.local_rank = 1;
  const pid_t child = spawn_rank("limited_rank", other);
  {
    const auto world = World::create(launch, patient("host"));
    build_without_memory(*world, [] {}, [] {});
  }
  CHECK(wait_for_exit(child) == 0);
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) return run_role({{"limited_rank", limited_rank}}, argv[2]);
  return run(argc, argv);
}
