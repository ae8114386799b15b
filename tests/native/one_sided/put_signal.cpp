// put_signal on streams: the data is there once its signal is, whichever way the two travel - as one store, by one
// block, or by many of which the last one signals - eager and captured, on several streams at once.
#include <memory>

#include "onstream/one_sided.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kHead = 64;

// One rank's copy of the other's data: a word that counts, and the bytes behind it.
class Mailbox {
 public:
  Mailbox(World& world, std::size_t bytes, std::size_t place = kHead)
      : world_(world),
        place_(place),
        segment_(world.segment(place + bytes + kHead)),
        window_(world.window(segment_)),
        source_(world, bytes),
        got_(world, bytes) {}

  void write(unsigned seed) { source_.write(pattern(source_.bytes(), seed)); }
  // Puts to the other rank and waits for its put; the word is 0 again behind the wait, for the next time.
  Batch exchange(std::uint64_t count) {
    const int peer = 1 - world_.rank();
    Batch batch(world_.one_sided());
    batch.put({*window_, peer, place_}, source_.data(), source_.bytes());
    batch.signal({{*window_, peer, 0}, SignalOp::set, count, 8});
    batch.wait(segment_->local(), {Compare::eq, count, 8, Sign::unsigned_word});
    batch.store(segment_->local(), 0, 8);
    batch.copy(got_.data(), segment_->local() + place_, got_.bytes());
    return batch;
  }
  bool has(unsigned seed) const { return got_.read() == pattern(got_.bytes(), seed); }

 private:
  World& world_;
  std::size_t place_;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<Window> window_;
  TestBuffer source_;
  TestBuffer got_;
};

unsigned seed_of(int rank, unsigned round) { return static_cast<unsigned>(rank) * 1000 + round; }

// Three rounds, the streams' side by side.
void go_round(World& world, std::size_t bytes, std::size_t place, int streams) {
  std::vector<std::unique_ptr<Mailbox>> boxes;
  std::vector<std::unique_ptr<OwnStream>> lines;
  for (int k = 0; k < streams; ++k) {
    boxes.push_back(std::make_unique<Mailbox>(world, bytes, place));
    lines.push_back(std::make_unique<OwnStream>(world));
  }
  for (unsigned round = 1; round <= 3; ++round) {
    for (std::size_t k = 0; k < boxes.size(); ++k)
      boxes[k]->write(seed_of(world.rank(), round) + static_cast<unsigned>(k));
    world.barrier();
    for (std::size_t k = 0; k < boxes.size(); ++k) world.one_sided().run(boxes[k]->exchange(round), *lines[k]);
    for (const auto& line : lines) world.synchronize(*line);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      CHECK(boxes[k]->has(seed_of(1 - world.rank(), round) + static_cast<unsigned>(k)));
    }
    world.barrier();
  }
}

}  // namespace

CASE(what_is_put_is_there_when_its_signal_is) {
  on_all_devices_over_gpus(2, [](World& world) {
    for (const std::size_t bytes : {1, 4, 8, 4096, 16'385, 65'536, 3'000'001}) go_round(world, bytes, kHead, 1);
  });
}

CASE(eight_bytes_beside_their_signal_come_with_it) {
  on_all_devices_over_gpus(2, [](World& world) {
    go_round(world, 8, 8, 1);
    go_round(world, 8, 16, 1);  // not in the same line
  });
}

CASE(many_streams_put_and_signal_at_once) {
  on_all_devices_over_gpus(2, [](World& world) { go_round(world, 100'000, kHead, 4); });
}

// The signal lies before or behind the bytes in their line; data put before comes first.
CASE(a_signal_beside_its_bytes_tells_of_all_that_was_put_before) {
  on_all_devices_over_gpus(2, [](World& world) {
    constexpr std::size_t kBytes = 40'000;
    const auto segment = world.segment(kHead + kBytes);
    const auto window = world.window(segment);
    const OwnStream stream(world);
    TestBuffer source(world, kBytes);
    TestBuffer word(world, 8);
    TestBuffer got(world, kHead + kBytes);
    const int peer = 1 - world.rank();
    for (std::uint64_t round = 1; round <= 6; ++round) {
      const std::size_t signal = round % 2 == 0 ? 0 : 8;
      const auto seed = static_cast<unsigned>(round) * 10;
      const auto mine = static_cast<unsigned>(world.rank());
      source.write(pattern(kBytes, seed + mine));
      word.write(pattern(8, seed + 5 + mine));
      Batch batch(world.one_sided());
      batch.put({*window, peer, kHead}, source.data(), kBytes);
      batch.put({*window, peer, 8 - signal}, word.data(), 8);
      batch.signal({{*window, peer, signal}, SignalOp::set, round, 8});
      batch.wait(segment->local() + signal, {Compare::eq, round, 8, Sign::unsigned_word});
      batch.copy(got.data(), segment->local(), kHead + kBytes);
      world.one_sided().run(batch, stream);
      world.synchronize(stream);
      const std::vector<unsigned char> all = got.read();
      const std::vector<unsigned char> bytes(all.begin() + kHead, all.end());
      CHECK(bytes == pattern(kBytes, seed + 1 - mine));
      const auto beside = all.begin() + static_cast<std::ptrdiff_t>(8 - signal);
      CHECK(std::vector<unsigned char>(beside, beside + 8) == pattern(8, seed + 5 + 1 - mine));
      world.barrier();
    }
  });
}

// Two branches of one graph run side by side, beside eager work of the same kind on a third stream.
CASE(branches_of_a_graph_put_and_signal_at_once) {
  on_all_devices_over_gpus(2, [](World& world) {
    constexpr std::size_t kBytes = 200'000;
    Device& device = world.device();
    std::vector<std::unique_ptr<Mailbox>> boxes;
    for (int k = 0; k < 3; ++k) boxes.push_back(std::make_unique<Mailbox>(world, kBytes));
    const OwnStream first(world);
    const OwnStream second(world);
    const OwnStream third(world);
    device.begin_capture(first);
    device.wait(second, device.record(first));
    world.one_sided().run(boxes[0]->exchange(1), first);
    world.one_sided().run(boxes[1]->exchange(1), second);
    device.wait(first, device.record(second));
    const std::shared_ptr<Graph> graph = device.end_capture(first);
    for (unsigned round = 1; round <= 4; ++round) {
      for (unsigned k = 0; k < 3; ++k) boxes[k]->write(seed_of(world.rank(), round) + k);
      world.barrier();
      device.launch(graph, first);
      world.one_sided().run(boxes[2]->exchange(round), third);
      world.synchronize(first);
      world.synchronize(third);
      for (unsigned k = 0; k < 3; ++k) CHECK(boxes[k]->has(seed_of(1 - world.rank(), round) + k));
      world.barrier();
    }
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
