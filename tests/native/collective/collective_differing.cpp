// Small collectives whose ranks do not call the same: refused by name, long before the deadline. And the two guarantees
// behind their flags: signatures that differ, and epochs that never come again while a line of theirs is left.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <thread>

#include "onstream/collective.hpp"
#include "onstream/collective/call/call.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/ll128.hpp"
#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::barrier;
using onstream::collective::broadcast;
using onstream::collective::gather;
using onstream::collective::LineWork;
using onstream::collective::reduce;
using onstream::collective::signature_of;
using onstream::collective::Vector;

namespace {

using Make = std::function<CollectiveCall(Vector)>;

CollectiveCall by(Algorithm algorithm, CollectiveCall call) {
  call.algorithm = algorithm;
  return call;
}

// Rank 1 calls `odd`, the others `usual`, then all a barrier: the world fails with those words, on every rank.
void expect_refusal(int size, const std::string& device, const Make& usual, const Make& odd) {
  Parameters parameters = quick(device);
  parameters.timeout_s = 100;
  const auto start = std::chrono::steady_clock::now();
  run_ranks(size, parameters, [&](World& world) {
    TestBuffer buffer(world, 4096);
    const Vector vector{buffer.data(), buffer.data(), 24, ElementType::int32};
    try {
      world.collective().run(barrier());
      world.collective().run(where_it_runs(world, (world.rank() == 1 ? odd : usual)(vector)));
      world.collective().run(barrier());  // ranks that only send find out now
    } catch (const Error&) {              // as soon as anybody knows
    }
    CHECK_THROWS(world.check(), "calls another collective, or the same with another count");
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(50));
}

const Make kSum = [](const Vector& vector) { return by(Algorithm::ll, all_reduce(vector)); };

struct Pair {
  const char* what;
  Make usual, odd;
};

const Pair kPairs[] = {
    {"reduction", kSum, [](const Vector& v) { return by(Algorithm::ll, all_reduce(v, ReduceOp::max)); }},
    {"type", kSum,
     [](Vector v) {
       v.type = ElementType::float32;
       return by(Algorithm::ll, all_reduce(v));
     }},
    {"count", kSum,
     [](Vector v) {
       v.count = 23;
       return by(Algorithm::ll, all_reduce(v));
     }},
    {"kind", kSum, [](const Vector&) { return barrier(); }},
    {"kind, of some to some", kSum, [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 0)); }},
    {"algorithm", kSum, [](const Vector& v) { return by(Algorithm::two_shot, all_reduce(v)); }},
    {"lines and direct", kSum, [](const Vector& v) { return by(Algorithm::simple, all_reduce(v)); }},
    {"LL128 lines", kSum, [](const Vector& v) { return by(Algorithm::ll128, all_reduce(v)); }},
    {"LL128 lines and direct", [](const Vector& v) { return by(Algorithm::ll128, all_reduce(v)); },
     [](const Vector& v) { return by(Algorithm::simple, all_reduce(v)); }},
    {"count in LL128 lines", [](const Vector& v) { return by(Algorithm::ll128, all_reduce(v)); },
     [](Vector v) {
       v.count = 20;
       return by(Algorithm::ll128, all_reduce(v));
     }},
    {"root of a broadcast", [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 0)); },
     [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 1)); }},
    {"root of a reduce", [](const Vector& v) { return by(Algorithm::ll, reduce(v, ReduceOp::sum, 0)); },
     [](const Vector& v) { return by(Algorithm::ll, reduce(v, ReduceOp::sum, 1)); }},
    {"count in two shots", [](const Vector& v) { return by(Algorithm::two_shot, all_reduce(v)); },
     [](Vector v) {
       v.count = 20;
       return by(Algorithm::two_shot, all_reduce(v));
     }},
};

// Among three ranks, rank 0 has `sent` elements for rank 2, which expects `expected`; all others agree. The parts lie
// one behind the other, so that a longer one would end in the next.
void expect_counts_refused(const std::string& device, std::size_t sent, std::size_t expected, bool in_place) {
  constexpr int kSize = 3;
  constexpr std::size_t kPart = 300;
  Parameters parameters = quick(device);
  parameters.timeout_s = 100;
  const auto start = std::chrono::steady_clock::now();
  run_ranks(kSize, parameters, [&](World& world) {
    only_on_one_host(world);  // between hosts it is said in other words
    TestBuffer input(world, kSize * kPart);
    TestBuffer output(world, kSize * kPart);
    std::vector<unsigned char> before(kSize * kPart, 0xee);
    output.write(before);
    input.write(std::vector<unsigned char>(kSize * kPart, static_cast<unsigned char>(world.rank())));
    CollectiveCall call = collective::all_to_all({input.data(), output.data(), kPart, ElementType::uint8});
    call.kind = OpKind::all_to_all_v;
    call.send_counts = call.receive_counts = {kPart, kPart, kPart};
    call.send_offsets = call.receive_offsets = {0, kPart, 2 * kPart};
    if (world.rank() == 0) call.send_counts[2] = sent;
    if (world.rank() == 2) call.receive_counts[0] = expected;
    if (in_place) {  // through the stage
      call.output = input.data();
      call.send_counts = call.receive_counts;
      if (world.rank() == 0) call.send_counts[2] = call.receive_counts[2] = sent;
      if (world.rank() == 2) call.send_counts[0] = expected;
    }
    try {
      world.collective().run(call);
      world.collective().run(barrier());
    } catch (const Error&) {
    }
    const std::string story =
        in_place ? " B of it; what one" : concat(sent, " B found that rank 2 expects ", expected, " B of it");
    CHECK_THROWS(world.check(), story);  // in place both ends find it
    if (world.rank() != 2 || in_place) return;
    const std::vector<unsigned char> after = output.read();
    CHECK(std::ranges::equal(std::span(after).first(kPart), std::span(before).first(kPart)));  // rank 0's part
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(50));
}

}  // namespace

CASE(small_ones_that_differ_are_refused_long_before_the_deadline) {
  for (const std::string& device : device_specs()) {
    for (const Pair& pair : kPairs) {
      if (quick(device).host_ranks > 0 && std::string_view(pair.what) == "algorithm") continue;  // there is one way
      try {
        expect_refusal(3, device, pair.usual, pair.odd);
      } catch (const std::exception& error) {
        throw CheckFailed(concat("another ", pair.what, ": ", error.what()));
      }
    }
  }
}

CASE(two_that_both_send_or_both_wait_are_told_too) {
  for (const std::string& device : device_specs()) {
    expect_refusal(
        2, device, [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 0)); },
        [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 1)); });
    expect_refusal(
        2, device, [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 1)); },
        [](const Vector& v) { return by(Algorithm::ll, broadcast(v, 0)); });
  }
}

CASE(counts_of_a_pair_that_differ_are_refused_before_anything_is_stored_there) {
  for (const std::string& device : device_specs()) {
    expect_counts_refused(device, 300, 8, false);
    expect_counts_refused(device, 300, 0, false);
    expect_counts_refused(device, 8, 300, false);
    expect_counts_refused(device, 0, 300, false);
    expect_counts_refused(device, 8, 300, true);
  }
}

CASE(calls_that_differ_in_one_thing_have_other_flags) {
  const auto flag = [](const CollectiveCall& call, Algorithm algorithm = Algorithm::ll) {
    const collective::Flag both = collective::flag_of(1, signature_of(call, algorithm));
    CHECK((both.low & 1) == 1 && (both.high & 1) == 1);
    return both.low;
  };
  const Vector vector{nullptr, nullptr, 5, ElementType::int32};
  const CollectiveCall call = reduce(vector, ReduceOp::sum, 1);
  for (std::size_t count = 0; count < 2048; ++count) {
    CollectiveCall other = call;
    other.count = count;
    CHECK(count == call.count || flag(other) != flag(call));
  }
  for (int i = 0; i < kElementTypes; ++i) {
    CollectiveCall other = call;
    other.type = static_cast<ElementType>(i);
    CHECK(other.type == call.type || flag(other) != flag(call));
  }
  for (int i = 0; i < kReduceOps; ++i) {
    CollectiveCall other = call;
    other.op = static_cast<ReduceOp>(i);
    CHECK(other.op == call.op || flag(other) != flag(call));
  }
  for (int root = 0; root < collective::kMostRanks; ++root) {
    CollectiveCall other = call;
    other.root = root;
    CHECK(root == call.root || flag(other) != flag(call));
  }
  CHECK(flag(call, Algorithm::ll) != flag(call, Algorithm::two_shot));
  CollectiveCall large = call;
  for (int bit = 11; bit < 50; ++bit) {
    large.count = call.count + (std::size_t{1} << bit);
    const auto other = collective::flag_of(1, signature_of(large, Algorithm::ll));
    const auto mine = collective::flag_of(1, signature_of(call, Algorithm::ll));
    CHECK(other.low != mine.low || other.high != mine.high);
  }
}

namespace {

// A channel of two ranks by hand: its memory, and the number of the collective that comes next.
class Pairing {
 public:
  static constexpr std::uint32_t kSlotLines = 64;
  static constexpr std::uint32_t kLl128Lines = 128;

  explicit Pairing(Algorithm algorithm)
      : algorithm_(algorithm), places_(collective::places_of(2, kSlotLines, kLl128Lines, 256)) {
    for (int rank = 0; rank < 2; ++rank) {
      parts_[rank] = std::vector<Line>(places_.bytes / sizeof(Line) + 1);
      addresses_[rank] = reinterpret_cast<std::uint64_t>(parts_[rank].data());
    }
  }
  // `heard`: everybody heard from everybody in the collective before.
  void start_at(std::uint64_t epoch, bool heard = true) {
    for (auto& state : states_) {
      for (collective::EpochCount& one : state.epochs) one.word = (epoch - 1) << 1 | (heard ? 1 : 0);
    }
  }
  // That both have started `epoch`, to both.
  void announce(std::uint64_t epoch) {
    for (const std::uint64_t part : addresses_) {
      auto* const words = reinterpret_cast<std::uint64_t*>(part + places_.started);
      for (int peer = 0; peer < 2; ++peer) HostGroup::store_release(words + peer, epoch << 32);
    }
  }
  // One all_gather of `bytes` bytes that both ranks do; returns the output of rank 1.
  std::vector<std::byte> gather(std::size_t bytes, int value) {
    std::vector<std::byte> in[2];
    std::vector<std::byte> out[2];
    std::thread threads[2];
    for (int rank = 0; rank < 2; ++rank) {
      in[rank] = std::vector<std::byte>(bytes, static_cast<std::byte>(value + rank));
      out[rank] = std::vector<std::byte>(2 * bytes);
      const auto run = [&](auto body) {
        body.view = view(rank);
        body.input = in[rank].data();
        body.output = out[rank].data();
        body.bytes = bytes;
        body.out_stride = bytes;
        body.keeps = 1;
        body.kind = OpKind::all_gather;
        body.signature = signature_of(all_gather({nullptr, nullptr, bytes, ElementType::uint8}), algorithm_);
        threads[rank] = std::thread([body] { body(HostGroup(0, 1)); });
      };
      if (algorithm_ == Algorithm::ll128) {
        collective::ExchangeLl128 body;
        body.stripes = collective::stripes_for(bytes);
        body.part = body.whole = bytes;
        run(body);
      } else {
        run(collective::ExchangeLl{});
      }
    }
    for (std::thread& thread : threads) thread.join();
    return out[1];
  }
  // Lines that somebody has written and nobody has cleared, of both ranks.
  std::size_t lines_left() const {
    const auto written = [](const Line& line) { return line.low != 0 || line.high != 0; };
    std::size_t left = 0;
    for (const auto& part : parts_) {
      const auto wide = part.begin() + static_cast<std::ptrdiff_t>(places_.ll128 / sizeof(Line));
      left += static_cast<std::size_t>(std::count_if(part.begin(), part.begin() + 4 * kSlotLines, written));
      left += static_cast<std::size_t>(std::count_if(wide, wide + 4 * kLl128Lines, written));
    }
    return left;
  }
  bool failed() const { return states_[0].epochs[0].failed != 0 || states_[1].epochs[0].failed != 0; }

 private:
  collective::ChannelView view(int rank) {
    collective::ChannelView view;
    view.state = &states_[rank];
    view.parts = addresses_;
    view.rank = static_cast<std::uint32_t>(rank);
    view.size = 2;
    view.slot_lines = kSlotLines;
    view.ll128_lines = kLl128Lines;
    view.stage_bytes = 256;
    view.places = places_;
    view.worlds = worlds_;
    view.wait.timeout_ns = 10'000'000'000;
    view.wait.abort = abort_;
    return view;
  }

  Algorithm algorithm_;
  collective::PartLayout places_;
  std::vector<Line> parts_[2];
  std::uint64_t addresses_[2] = {};
  collective::ChannelState states_[2];
  std::int32_t worlds_[2] = {0, 1};
  std::uint64_t abort_[8] = {};
};

std::vector<std::byte> gathered(std::size_t bytes, int value) {
  std::vector<std::byte> out(2 * bytes, static_cast<std::byte>(value));
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(bytes), out.end(), static_cast<std::byte>(value + 1));
  return out;
}

}  // namespace

CASE(lines_are_cleared_before_their_flags_come_again) {
  Pairing pair(Algorithm::ll);
  const std::uint64_t again = 2 * collective::kCleanEvery;  // when flags come again
  pair.start_at(7);
  for (int i = 0; i < 4; ++i) CHECK(pair.gather(256, i) == gathered(256, i));  // 32 lines of each parity and rank
  CHECK(pair.lines_left() == 4 * 32);
  pair.start_at(collective::kCleanEvery - 2);
  for (int i = 0; i < 4; ++i) CHECK(pair.gather(8, i) == gathered(8, i));
  CHECK(pair.lines_left() == 0);
  // A rank that does not clear its lines would take the old ones here, which have the same flags, for new ones.
  for (const std::uint64_t begin : {again + 7, again - 3}) {
    pair.start_at(begin);
    for (int i = 0; i < 6; ++i) CHECK(pair.gather(256, 50 + i) == gathered(256, 50 + i));
  }
  CHECK(!pair.failed());
}

CASE(ll128_lines_are_cleared_before_their_flags_come_again) {
  Pairing pair(Algorithm::ll128);
  const std::uint64_t again = 2 * collective::kCleanEvery;
  pair.start_at(7);
  for (int i = 0; i < 4; ++i) CHECK(pair.gather(500, 100 + i) == gathered(500, 100 + i));  // three stripes
  CHECK(pair.lines_left() > 4 * 32);
  pair.start_at(collective::kCleanEvery - 2);
  for (int i = 0; i < 4; ++i) CHECK(pair.gather(8, i) == gathered(8, i));
  CHECK(pair.lines_left() == 0);
  for (const std::uint64_t begin : {again + 7, again - 3}) {
    pair.start_at(begin);
    for (int i = 0; i < 6; ++i) CHECK(pair.gather(500, 50 + i) == gathered(500, 50 + i));
  }
  CHECK(!pair.failed());
}

// A rank may not write before the peer has started the collective before. The words of a peer that has announced
// nothing must never look like an announcement, also beside numbers that have come round.
CASE(what_nobody_announced_is_waited_for_at_every_epoch) {
  for (const std::uint64_t epoch : {std::uint64_t{7}, (std::uint64_t{1} << 31) + 7, (std::uint64_t{1} << 32) + 7}) {
    Pairing pair(Algorithm::ll128);
    pair.start_at(epoch, false);
    pair.announce(epoch - 2);
    std::atomic<bool> done = false;
    std::thread gathering([&] {
      const bool right = pair.gather(500, 100) == gathered(500, 100);
      done = right;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool early = done || pair.lines_left() > 0;
    pair.announce(epoch - 1);
    gathering.join();
    CHECK(!early);
    CHECK(done && !pair.failed());
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
