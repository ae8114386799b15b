// bench_startup: how long it takes to make a world, and how much device memory it takes.
//
//   bench_startup [--device SPEC] [--set NAME=VALUE] [--samples N]
//
// Any number of processes of one host, under any launcher. The device is opened first, so that no figure has the
// creation of a GPU's context in it. A sample is the time from the last rank's call of World::create to the last rank's
// return, on the host's monotonic clock, which all processes of a host share; the first world also loads the kernels
// and is told apart. Memory is the driver's count of GPU memory taken since before the first world, shared by the ranks
// of that GPU, kernels included; on the host device, the bytes of the world's segments. Rank 0 prints one JSON line.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/world.hpp"
#include "support/options.hpp"

namespace {

using namespace onstream;

struct Setup {
  std::string device;
  bench::Settings parameters;
  int samples = 5;
};

Setup setup_from(int argc, char** argv) {
  Setup setup;
  bench::Options()
      .text("--device", setup.device)
      .setting("--set", setup.parameters)
      .count("--samples", setup.samples, 1, 1000)
      .read(argc, argv);
  return setup;
}

struct Made {
  std::shared_ptr<World> world;
  double seconds = 0;
};

Made make_world(const Launch& launch, const Parameters& parameters) {
  const std::uint64_t called = now_ns();
  std::shared_ptr<World> world = World::create(launch, parameters);
  const std::uint64_t returned = now_ns();
  std::uint64_t last_call = 0;
  std::uint64_t last_return = 0;
  for (const std::string& times : world->fabric()->all_gather("bench.startup", concat(called, " ", returned))) {
    const std::size_t split = times.find(' ');
    last_call = std::max<std::uint64_t>(last_call, std::stoull(times.substr(0, split)));
    last_return = std::max<std::uint64_t>(last_return, std::stoull(times.substr(split + 1)));
  }
  return {world, static_cast<double>(last_return - last_call) * 1e-9};
}

// The memory that the ranks of this rank's GPU have taken since the object was made, by the driver's account. The ranks
// meet before each look, here in a world of host memory: every context is there at the first, every world at the
// second.
class Taken {
 public:
  Taken(Device& device, const Launch& launch) : device_(device) {
    constexpr double kMomentS = 10;
    require(DeferredRelease::of_process().finish(kMomentS), "the memory of earlier worlds was not freed within ",
            kMomentS, " s");
    const std::shared_ptr<World> meeting = World::create(launch, bench::parameters_from("host", {}));
    for (const std::string& one : meeting->fabric()->all_gather("bench.gpu", device.identity())) {
      sharers_ += one == device.identity() ? 1 : 0;
    }
    before_ = device_.free_bytes();
    meeting->barrier();
  }
  std::size_t of_each_rank(World& world) const {
    world.barrier();
    const std::size_t after = device_.free_bytes();
    world.barrier();
    return before_ > after ? (before_ - after) / sharers_ : 0;
  }

 private:
  Device& device_;
  std::size_t sharers_ = 0;
  std::size_t before_ = 0;
};

void run(const Setup& setup) {
  const Launch launch = launch_from_environment();
  const Parameters parameters = bench::parameters_from(setup.device, setup.parameters);
  const std::shared_ptr<Device> device = open_device(parameters.device, launch.local_rank);
  const Taken by_first(*device, launch);
  Made made = make_world(launch, parameters);
  const double first_s = made.seconds;
  const std::size_t first_bytes = by_first.of_each_rank(*made.world);
  std::vector<double> samples_s;
  for (int s = 0; s < setup.samples; ++s) {
    made.world->barrier();
    made.world = nullptr;
    made = make_world(launch, parameters);
    samples_s.push_back(made.seconds);
  }
  made.world->barrier();
  made.world = nullptr;
  const Taken by_last(*device, launch);
  made = make_world(launch, parameters);
  const std::size_t world_bytes = by_last.of_each_rank(*made.world);
  if (launch.rank == 0) {
    std::cout << concat("{\"device\":", bench::quoted(device->name()), ",\"device_kind\":\"", name_of(device->kind()),
                        "\",\"ranks\":", launch.size, ",\"device_bytes\":",
                        device->kind() == DeviceKind::cuda ? world_bytes : made.world->fabric()->device_bytes(),
                        ",\"first_bytes\":", first_bytes, ",\"lane_bytes\":", made.world->device_bytes(),
                        ",\"world\":", bench::quoted(made.world->describe()),
                        ",\"first_s\":", bench::seconds_text(first_s),
                        ",\"samples_s\":", bench::seconds_list(samples_s), "}")
              << std::endl;
  }
  made.world->barrier();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(setup_from(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_startup: %s\n", error.what());
    return 1;
  }
}
