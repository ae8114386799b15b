// Eight neighbouring threads store 128 bytes in one access, and eight that load them so never see a part of them: LL128
// lines rely on this (collective/kernel/ll128.hpp) where Device::whole_lines_to says so. One kernel stores
// ever new rounds into lines of another rank, a kernel there looks; on one GPU, and over the link where there are two.
#include "ll128_lines_kernels.hpp"

#include <atomic>
#include <cstring>

#include "onstream/device.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

#ifndef ONSTREAM_WITH_CUDA

CASE(ll128_lines_are_looked_at_on_gpus) { SKIP("no cuda device: " + no_cuda_reason()); }

#else

namespace {

struct Found {
  std::uint64_t torn = 0;
  std::uint64_t changes = 0;
};

// Rank 0 stores, rank 1 looks.
Found look(World& world, std::uint64_t rounds, bool by_halves) {
  constexpr Grid kGrid{8, 256};
  constexpr std::size_t kLines = static_cast<std::size_t>(kGrid.blocks * kGrid.threads);
  constexpr std::uint64_t kLimitNs = 5'000'000'000;
  const auto lines = world.segment(kLines * sizeof(Line), MemoryKind::device);
  TestBuffer counts(world, 2 * sizeof(std::uint64_t));
  counts.write(std::vector<unsigned char>(counts.bytes()));
  const OwnStream stream(world);
  const Kernel writes{"write_subgroups", nullptr, write_subgroups_entry()};
  const Kernel reads{"read_subgroups", nullptr, read_subgroups_entry()};
  for (const Kernel* kernel : {&writes, &reads})
    world.device().load(*kernel);  // a kernel that waits may hold up loading
  world.fabric()->barrier("the start of a look");
  if (world.rank() == 0) {
    const WriteSubgroups body{reinterpret_cast<Line*>(lines->peer(1)), rounds, by_halves ? 1u : 0u};
    launch(world.device(), writes, body, kGrid, stream);
  } else {
    auto* const words = reinterpret_cast<std::uint64_t*>(counts.data());
    const ReadSubgroups body{reinterpret_cast<const Line*>(lines->local()), rounds, kLimitNs, words, words + 1};
    launch(world.device(), reads, body, kGrid, stream);
  }
  world.synchronize(stream);
  Found found;
  const std::vector<unsigned char> bytes = counts.read();
  std::memcpy(&found, bytes.data(), sizeof found);
  world.fabric()->barrier("the end of a look");
  return found;
}

void check_lines(const std::string& device) {
  std::atomic<bool> promised = true;
  run_ranks(2, quick(device), [&](World& world) {
    promised = world.fabric()->whole_lines();
    if (!promised) return;
    const Found whole = look(world, 200'000, false);
    const Found halves = look(world, 20'000, true);
    if (world.rank() == 0) return;
    CHECK(whole.torn == 0);
    CHECK(whole.changes > 10'000);
    CHECK(halves.torn > 0);  // the look can see it
  });
  if (promised) return;
  CHECK(device != "cuda:0" || capability_of_first_gpu() < 90);  // a GPU that can has to say so for itself at least
  SKIP("these GPUs promise no whole lines");
}

int gpus() { return static_cast<int>(list_devices().size()) - 1; }

}  // namespace

CASE(ll128_lines_are_whole_on_one_gpu) {
  if (const std::string why = no_cuda_reason(); !why.empty()) SKIP("no cuda device: " + why);
  check_lines("cuda:0");
}

CASE(ll128_lines_are_whole_between_gpus) {
  if (const std::string why = no_cuda_reason(); !why.empty()) SKIP("no cuda device: " + why);
  if (gpus() < 2) SKIP("needs 2 GPUs, this machine has " + std::to_string(gpus()));
  check_lines("cuda");
}

#endif

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
