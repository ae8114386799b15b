// Ranks for tests: threads of this process, each with a world of its own, on every device that is there. Those of
// "cuda:0" share one GPU; tests of kernels that reach a peer's memory also run on "cuda", each rank on a GPU of its own
// as far as there are as many. A thread's calls are made on its world's device, which sees to it that its GPU is
// current.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/collective.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/world.hpp"
#include "own_stream.hpp"
#include "sanitizer.hpp"

namespace onstream::test {

// Where the ranks of one job meet: a name that nobody else has.
inline std::string meeting_place() { return "unix:onstream-test-" + to_hex(random_bytes(16)); }

// The device specs that tests run on: the host always, the first GPU where there is one. Where there is none, a line of
// the program says once that its cuda rows were left out, and why; tools/gpu_check.sh fails for it.
inline std::vector<std::string> device_specs() {
  std::vector<std::string> specs = {"host"};
  for (const DeviceRow& row : list_devices()) {
    if (row.kind == DeviceKind::cuda && row.index == 0) specs.push_back("cuda:0");
  }
  static std::atomic<bool> told = false;
  if (specs.size() == 1 && !told.exchange(true)) {
    std::printf("skipped cuda: %s\n", no_cuda_reason().c_str());
    std::fflush(stdout);  // ranks that are forked later would write it again
  }
  return specs;
}

// Why ranks cannot each have a GPU of their own: empty if there are several, and all reach each other's memory.
inline std::string why_not_over_gpus() {
  int count = 0;
  for (const DeviceRow& row : list_devices()) count += row.kind == DeviceKind::cuda ? 1 : 0;
  if (count < 2) return concat("needs 2 GPUs, this process sees ", count);
  for (int owner = 0; owner < count; ++owner) {
    const std::shared_ptr<Memory> memory = open_device("cuda", owner)->allocate(1, MemoryKind::device);
    for (int other = 0; other < count; ++other) {
      if (open_device("cuda", other)->inspect(memory->data()).kernel_access) continue;
      return concat("GPU ", other, " does not reach the memory of GPU ", owner);
    }
  }
  return "";
}

// device_specs(), and for two ranks or more "cuda", where GPUs reach each other. If not, a line says once why.
inline std::vector<std::string> device_specs_over_gpus(int size) {
  std::vector<std::string> specs = device_specs();
  if (size < 2 || specs.size() == 1) return specs;
  static const std::string why_not = [] {
    const std::string why = why_not_over_gpus();
    if (!why.empty()) std::printf("skipped between GPUs: %s\n", why.c_str());
    std::fflush(stdout);
    return why;
  }();
  if (why_not.empty()) specs.push_back("cuda");
  return specs;
}

inline Launch launch_of(int rank, int size, const std::string& address) {
  Launch launch;
  launch.rank = rank;
  launch.size = size;
  launch.local_rank = rank;
  launch.local_size = size;
  launch.address = address;
  launch.secret = "a secret of the tests";
  return launch;
}

// The stream that fills and reads the buffers of a rank: one for all of them, as the streams of all ranks share the 32
// hardware queues of the GPU, and an op behind another rank's wait in a queue waits too.
class CopyStream {
 public:
  explicit CopyStream(World& world) : stream_(world) { current() = this; }
  ~CopyStream() { current() = nullptr; }
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // The stream of the rank whose thread this is, or a new one.
  static std::shared_ptr<const OwnStream> of(World& world) {
    if (current() == nullptr) return std::make_shared<const OwnStream>(world);
    return {std::shared_ptr<void>(), &current()->stream_};
  }

 private:
  static CopyStream*& current() {
    thread_local CopyStream* mine = nullptr;
    return mine;
  }

  OwnStream stream_;
};

// Between hosts some calls are refused, by a text that says so: a case of them is not for a network.
inline void skip_one_host(const std::string& failure) {
  for (const char* const refusal : {"needs one host", "ranks on one host", "is on another host"}) {
    if (failure.find(refusal) != std::string::npos) throw Skipped{failure};
  }
}

// Between hosts there is one way.
inline CollectiveCall where_it_runs(World& world, CollectiveCall call) {
  if (world.fabric()->network() != nullptr) call.algorithm = Algorithm::automatic;
  return call;
}

// For what only ranks of one host have: algorithms, and texts about them.
inline void only_on_one_host(World& world) {
  if (world.fabric()->network() != nullptr) throw std::runtime_error("it needs ranks on one host");
}

// Runs body(world) on `size` ranks; throws the first exception, with its rank. Waits are bounded: a hang is a failure.
// They are long enough for a machine that stands still for a while.
inline void run_ranks(int size, Parameters parameters, const std::function<void(World&)>& body) {
  const std::string address = meeting_place();
  std::mutex mutex;
  std::string first;
  const auto rank_main = [&](int rank) {
    try {
      const auto world = World::create(launch_of(rank, size, address), parameters);
      const CopyStream copies(*world);
      try {
        body(*world);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (first.empty()) first = concat("rank ", rank, " of ", size, " on ", parameters.device, ": ", error.what());
        }
        world->abort("a test failed");
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (first.empty()) first = concat("rank ", rank, " of ", size, " could not start: ", error.what());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
  if (parameters.host_ranks > 0) skip_one_host(first);
  if (!first.empty()) throw std::runtime_error(first);
}

constexpr double kQuickTimeoutS = 30;

// The whole suite over a network: TEST_NET=sim or ucx, and TEST_NET_RANKS=N for so many ranks of each pretended host.
inline void use_network(Parameters& parameters) {
  const char* const network = std::getenv("TEST_NET");
  if (network == nullptr) return;
  const char* const ranks = std::getenv("TEST_NET_RANKS");
  const char* const seed = std::getenv("TEST_NET_SEED");
  const char* const wheel = std::getenv("ONSTREAM_UCX_WHEEL");
  parameters.network = network;
  parameters.host_ranks = ranks == nullptr ? 1 : std::atoi(ranks);
  if (seed != nullptr) parameters.sim_seed = std::atoi(seed);
  if (wheel != nullptr) parameters.ucx_wheel = wheel;
}

inline bool over_sim() {
  const char* const network = std::getenv("TEST_NET");
  return network != nullptr && std::string_view(network) == "sim";
}

// The paths that this run can try: between hosts each is the network.
inline std::vector<Path> paths_to_try(std::vector<Path> of_one_host) {
  return std::getenv("TEST_NET") == nullptr ? of_one_host : std::vector<Path>{Path::automatic};
}

inline Parameters quick(const std::string& device) {
  Parameters parameters;
  use_network(parameters);
  parameters.device = device;
  parameters.timeout_s = kQuickTimeoutS;
  parameters.bootstrap_timeout_s = kQuickTimeoutS;
  return parameters;
}

// Whether a call that began then has ended without waiting for a deadline of quick(), on a machine that may be busy.
inline bool ended_at_once(std::uint64_t start_ns) {
  return now_ns() - start_ns < static_cast<std::uint64_t>(kQuickTimeoutS / 2 * 1e9);
}

// Waits until this rank has heard that the world has failed.
inline void await_failure(World& world) {
  const Deadline deadline(60);
  while (!world.failure()) {
    if (deadline.passed()) throw std::runtime_error("the world has not failed in 60 s");
    HostGroup::pause(1u << 20, 0);
  }
}

// Runs body on every device with `size` ranks.
inline void on_all_devices(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) run_ranks(size, quick(device), body);
}

// The same, and with each rank on a GPU of its own.
inline void on_all_devices_over_gpus(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs_over_gpus(size)) run_ranks(size, quick(device), body);
}

// Device memory that tests fill and read through the host.
class TestBuffer {
 public:
  TestBuffer(World& world, std::size_t bytes, MemoryKind kind = MemoryKind::device)
      : world_(world),
        memory_(world.allocate(std::max<std::size_t>(bytes, 1), kind)),
        bytes_(bytes),
        stream_(CopyStream::of(world)) {}

  std::byte* data() const { return memory_->data(); }
  std::size_t bytes() const { return bytes_; }
  void write(const std::vector<unsigned char>& values) {
    world_.device().copy(memory_->data(), values.data(), values.size(), *stream_);
    world_.device().synchronize(*stream_);
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> values(bytes_);
    world_.device().copy(values.data(), memory_->data(), bytes_, *stream_);
    world_.device().synchronize(*stream_);
    return values;
  }

 private:
  World& world_;
  std::shared_ptr<Memory> memory_;
  std::size_t bytes_;
  std::shared_ptr<const OwnStream> stream_;
};

// Bytes that differ by seed and place.
ONSTREAM_TEST_ALONE inline void fill_pattern(unsigned char* values, std::size_t bytes, unsigned seed) {
  unsigned state = seed * 2654435761u + 12345u;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<unsigned char>(state >> 24);
  }
}
inline std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> values(bytes);
  fill_pattern(values.data(), bytes, seed);
  return values;
}

// All ranks end their captures before any goes on: while a kernel of a launched graph waits, CUDA may not make another
// rank's graph (docs/decisions/0005).
inline std::shared_ptr<Graph> end_capture_of_all(World& world, Stream stream) {
  std::shared_ptr<Graph> graph = world.device().end_capture(stream);
  world.barrier();
  return graph;
}

}  // namespace onstream::test
