// A batch does nothing behind a wait that failed, in any number of launches, and with any cause of the wait's end.
#include <functional>
#include <string>
#include <vector>

#include "onstream/one_sided.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kPuts = 300;  // more than a launch takes
constexpr std::size_t kMany = 3'000'000;
constexpr std::size_t kWord = kPuts * 16;  // its offset: it is waited for, and stays 0
constexpr std::size_t kTold = kWord + 8;
constexpr std::size_t kBlock = kTold + 8;
constexpr std::size_t kBytes = kBlock + kMany;

using Run = std::function<void(World&, const Batch&, Stream)>;

void on_a_stream(World& world, const Batch& batch, Stream stream) {
  world.one_sided().run(batch, stream);
  world.synchronize(stream);
}

void by_a_graph(World& world, const Batch& batch, Stream stream) {
  world.device().begin_capture(stream);
  world.one_sided().run(batch, stream);
  const auto graph = world.device().end_capture(stream);
  world.device().launch(graph, stream);
  world.synchronize(stream);
}

void by_the_host(World& world, const Batch& batch, Stream) { world.one_sided().run(batch); }

// Rank 0 waits in vain, in front of puts of words, one of many blocks, and a signal, all to its own part.
void wait_in_vain(World& world, const Window& window, const TestBuffer& own, const TestBuffer& source, const Run& run,
                  const std::string& story) {
  OneSided& one_sided = world.one_sided();
  Batch batch(one_sided);
  batch.wait(own.data() + kWord, {Compare::reached, 1});
  for (std::size_t i = 0; i < kPuts; ++i) batch.put(Remote{window, 0, 16 * i}, source.data(), 8);
  batch.put(Remote{window, 0, kBlock}, source.data(), kMany);
  batch.signal({Remote{window, 0, kTold}, SignalOp::add, 1, 8});
  const OwnStream stream(world);
  CHECK_THROWS(run(world, batch, stream), story);
  CHECK(own.read() == std::vector<unsigned char>(kBytes, 0));
}

void nothing_is_done(const Run& run) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(1, parameters, [&](World& world) {
      const TestBuffer own(world, kBytes);
      TestBuffer source(world, kMany);
      source.write(pattern(kMany, 3));
      const auto window = world.window(own.data(), kBytes);
      wait_in_vain(world, *window, own, source, run, "passed its deadline");
    });
  }
}

}  // namespace

CASE(on_a_stream_nothing_is_done_behind_a_wait_that_passed_its_deadline) { nothing_is_done(on_a_stream); }
CASE(in_a_graph_nothing_is_done_behind_a_wait_that_passed_its_deadline) { nothing_is_done(by_a_graph); }
CASE(by_the_host_nothing_is_done_behind_a_wait_that_passed_its_deadline) { nothing_is_done(by_the_host); }

// Such a wait ends before the host has heard of it.
CASE(nothing_is_done_behind_a_wait_that_ended_because_all_others_left) {
  for (const Run& run : {Run(on_a_stream), Run(by_a_graph), Run(by_the_host)}) {
    on_all_devices(2, [&](World& world) {
      const TestBuffer own(world, kBytes);
      TestBuffer source(world, kMany);
      source.write(pattern(kMany, 3));
      const auto window = world.window(own.data(), kBytes);
      if (world.rank() == 0) wait_in_vain(world, *window, own, source, run, "left the world");
    });
  }
}

// The same list again, once its wait holds.
CASE(all_is_done_behind_a_wait_that_holds) {
  on_all_devices(1, [](World& world) {
    const TestBuffer own(world, kBytes);
    TestBuffer source(world, 8);
    source.write(pattern(8, 3));
    const auto window = world.window(own.data(), kBytes);
    const OwnStream stream(world);
    for (const Run& run : {Run(on_a_stream), Run(by_a_graph), Run(by_the_host)}) {
      Batch batch(world.one_sided());
      batch.wait(own.data() + kWord, {Compare::eq, 0});
      for (std::size_t i = 0; i < kPuts; ++i) batch.put(Remote{*window, 0, 16 * i}, source.data(), 8);
      batch.signal({Remote{*window, 0, kTold}, SignalOp::add, 1, 8});
      run(world, batch, stream);
    }
    const std::vector<unsigned char> got = own.read();
    const std::vector<unsigned char> expected = pattern(8, 3);
    for (std::size_t i = 0; i < kPuts; ++i) {
      CHECK(std::equal(expected.begin(), expected.end(), got.begin() + static_cast<std::ptrdiff_t>(16 * i)));
    }
    CHECK(got[kTold] == 3);
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
