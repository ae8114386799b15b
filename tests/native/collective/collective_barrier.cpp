// collective::barrier() is a barrier: behind it every rank sees the writes that all have enqueued before it, by each
// algorithm that can do one, eager and in graphs. Barriers of teams (Team::barrier): teams.cpp.
#include <memory>
#include <set>
#include <string>

#include "collective_cases.hpp"
#include "onstream/collective.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/transport/segment.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kRounds = all_or_few(5, 2);
constexpr std::size_t kSlowBytes = all_or_few(2 << 20, 128 << 10);

// Rounds in which every rank stores a number in its own memory, meets, reads everybody's, meets.
class Rounds {
 public:
  Rounds(World& world, Stream stream)
      : world_(world),
        stream_(stream),
        segment_(world.segment(8)),
        numbers_(world, 8 * kRounds),
        got_(world, 8 * kRounds * size()),
        slow_(world, 2 * kSlowBytes) {}

  void write_numbers(std::uint64_t epoch) {
    std::vector<unsigned char> bytes;
    for (std::size_t round = 0; round < kRounds; ++round) append(bytes, number(epoch, round, world_.rank()));
    numbers_.write(bytes);
  }

  void enqueue(const CollectiveCall& barrier) {
    Device& device = world_.device();
    OneSided& one_sided = world_.one_sided();
    std::byte* const mine = segment_->local();
    for (std::size_t round = 0; round < kRounds; ++round) {
      // Another rank comes late each time: a rank that did not wait for it would miss its number.
      if (round % size() == rank()) device.copy(slow_.data(), slow_.data() + kSlowBytes, kSlowBytes, stream_);
      device.copy(mine, numbers_.data() + 8 * round, 8, stream_);
      world_.collective().run(barrier, stream_);
      for (int peer = 0; peer < world_.size(); ++peer) {
        std::byte* const to = got_.data() + 8 * (round * size() + static_cast<std::size_t>(peer));
        one_sided.get(to, one_sided.symmetric(mine, peer), 8, stream_);
      }
      world_.collective().run(barrier, stream_);
    }
  }

  void check(std::uint64_t epoch, const CollectiveCall& barrier) {
    world_.synchronize(stream_);
    std::vector<unsigned char> expected;
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < world_.size(); ++peer) append(expected, number(epoch, round, peer));
    }
    if (got_.read() == expected) return;
    throw CheckFailed(
        concat("by ", name_of(barrier.algorithm), ", epoch ", epoch, ": numbers of other rounds were seen"));
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(world_.size()); }
  std::size_t rank() const { return static_cast<std::size_t>(world_.rank()); }
  static std::uint64_t number(std::uint64_t epoch, std::size_t round, int rank) {
    return 10000 * (epoch + 1) + 100 * round + static_cast<std::uint64_t>(rank);
  }

  World& world_;
  Stream stream_;
  std::shared_ptr<Segment> segment_;
  TestBuffer numbers_;
  TestBuffer got_;
  TestBuffer slow_;
};

// The barriers of all algorithms that can do one here, and of the choice.
std::vector<CollectiveCall> barriers(World& world) {
  std::vector<CollectiveCall> calls = {collective::barrier()};
  for (const Algorithm algorithm : kEach) {
    CollectiveCall call = collective::barrier();
    call.algorithm = algorithm;
    if (can(world, call)) calls.push_back(call);
  }
  return calls;
}

void on_each_size(void (*body)(World&)) {
  for (int size = 1; size <= 9; ++size) on_all_devices_in_pairs(size, body);
}

}  // namespace

CASE(a_barrier_by_each_algorithm_orders_what_is_around_it) {
  on_each_size([](World& world) {
    const OwnStream stream(world);
    Rounds rounds(world, stream);
    for (const CollectiveCall& barrier : barriers(world)) {
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        rounds.write_numbers(epoch);
        rounds.enqueue(barrier);
        rounds.check(epoch, barrier);
      }
    }
  });
}

CASE(a_captured_barrier_by_each_algorithm_orders_what_is_around_it_at_every_replay) {
  on_each_size([](World& world) {
    const OwnStream stream(world);
    Rounds rounds(world, stream);
    for (const CollectiveCall& barrier : barriers(world)) {
      world.device().begin_capture(stream);
      rounds.enqueue(barrier);
      const auto graph = end_capture_of_all(world, stream);
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        rounds.write_numbers(epoch);
        if (epoch == 2) {
          rounds.enqueue(barrier);  // among eager ones
        } else {
          world.device().launch(graph, stream);
        }
        rounds.check(epoch, barrier);
      }
    }
  });
}

CASE(barriers_are_done_by_lines_and_in_stages) {
  on_all_devices_in_pairs(4, [](World& world) {
    std::set<Algorithm> known;
    for (const CollectiveCall& barrier : barriers(world)) known.insert(barrier.algorithm);
    CHECK((known == std::set<Algorithm>{Algorithm::automatic, Algorithm::ll, Algorithm::hierarchical}));
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
