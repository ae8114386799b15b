// Collectives between ranks of this process, on every device: every kind, type, reduction and algorithm against a plain
// reference, in place and beside, eager and captured, of teams and on channels.
#include "onstream/collective/collective.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "check.hpp"
#include "collective_values.hpp"
#include "onstream/collective/algorithm.hpp"
#include "own_stream.hpp"
#include "ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_gather;
using onstream::collective::all_reduce;
using onstream::collective::barrier;
using onstream::collective::broadcast;
using onstream::collective::reduce;
using onstream::collective::Vector;

namespace {

std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (int i = 0; i < kElementTypes; ++i) types.push_back(static_cast<ElementType>(i));
  return types;
}
std::vector<ReduceOp> ops_for(ElementType type) {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i) {
    if (supports(type, static_cast<ReduceOp>(i))) ops.push_back(static_cast<ReduceOp>(i));
  }
  return ops;
}

constexpr Algorithm kEach[] = {Algorithm::lines, Algorithm::two_shot, Algorithm::direct};

// Memory that peers can address, or that they cannot: then direct goes through the stage.
enum class Where { reachable, plain };

// A buffer of a test: device memory, or plain host memory on the host device.
class Buffer {
 public:
  Buffer(World& world, std::size_t bytes, Where where = Where::reachable)
      : device_(where == Where::reachable ? std::make_unique<TestBuffer>(world, bytes) : nullptr),
        plain_(where == Where::plain ? std::max<std::size_t>(bytes, 1) : 0),
        bytes_(bytes) {}
  std::byte* data() { return device_ ? device_->data() : reinterpret_cast<std::byte*>(plain_.data()); }
  void write(const std::vector<unsigned char>& values) {
    if (device_) return device_->write(values);
    std::copy(values.begin(), values.end(), plain_.begin());
  }
  std::vector<unsigned char> read() const {
    if (device_) return device_->read();
    return {plain_.begin(), plain_.begin() + static_cast<std::ptrdiff_t>(bytes_)};
  }

 private:
  std::unique_ptr<TestBuffer> device_;
  std::vector<unsigned char> plain_;
  std::size_t bytes_;
};

void run(World& world, const CollectiveCall& call, const OwnStream* stream) {
  if (stream == nullptr) return world.collective().run(call);
  world.collective().run(call, *stream);
  world.synchronize(*stream);
}

void expect(World& world, const CollectiveCall& call, const std::vector<unsigned char>& got,
            const std::vector<unsigned char>& expected, const char* how) {
  if (got == expected) return;
  const auto differing = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  throw CheckFailed(concat(how, " ", name_of(call.kind), " of ", call.count, " ", name_of(call.type), " ",
                           name_of(call.op), " by ", name_of(call.algorithm), ", rank ", world.rank(),
                           ": differs from byte ", differing));
}

bool can(World& world, const CollectiveCall& call) {
  const std::size_t slots = (4 << 20) / (4 * static_cast<std::size_t>(world.size()));
  const collective::Machine machine{world.device().kind(), world.rank(), world.size(), slots};
  for (const collective::AlgorithmRow& row : collective::algorithms()) {
    if (row.algorithm == call.algorithm) return row.why_not(call, machine).empty();
  }
  return true;
}

struct Reduction {
  OpKind kind;
  ElementType type;
  ReduceOp op;
  std::size_t count;
  Algorithm algorithm;
  Where where = Where::reachable;
};

// One reduction, its result beside its input and over it.
void check_reduction(World& world, const Reduction& one, const OwnStream* stream) {
  const int rank = world.rank();
  const int size = world.size();
  const int root = size / 2;
  const bool scatters = one.kind == OpKind::reduce_scatter;
  const std::size_t in_count = scatters ? one.count * static_cast<std::size_t>(size) : one.count;
  const std::size_t begin = scatters ? one.count * static_cast<std::size_t>(rank) : 0;
  const std::vector<unsigned char> mine = input_of(one.type, one.op, rank, in_count);
  Buffer input(world, mine.size(), one.where);
  Buffer output(world, one.count * size_of(one.type), one.where);

  CollectiveCall call;
  call.kind = one.kind;
  call.input = input.data();
  call.output = output.data();
  call.count = one.count;
  call.type = one.type;
  call.op = one.op;
  call.root = root;
  call.factor = factor_of(rank);
  call.int_factor = factor_of(rank);
  call.algorithm = one.algorithm;
  if (!can(world, call)) return;

  std::vector<unsigned char> expected = output.read();  // who gets nothing keeps what it has
  if (one.kind == OpKind::scan) {
    expected = result_of(one.type, one.op, 0, rank + 1, begin, one.count);
  } else if (one.kind == OpKind::exclusive_scan) {
    if (rank > 0) expected = result_of(one.type, one.op, 0, rank, begin, one.count);
  } else if (one.kind != OpKind::reduce || rank == root) {
    expected = result_of(one.type, one.op, 0, size, begin, one.count);
  }
  input.write(mine);
  run(world, call, stream);
  expect(world, call, output.read(), expected, "beside");
  CHECK(input.read() == mine);

  if (one.kind == OpKind::exclusive_scan && rank == 0) expected = mine;
  if (one.kind == OpKind::reduce && rank != root) expected = mine;
  const std::size_t place = begin * size_of(one.type);
  call.output = input.data() + place;
  run(world, call, stream);
  std::vector<unsigned char> got = input.read();
  got = {got.begin() + static_cast<std::ptrdiff_t>(place),
         got.begin() + static_cast<std::ptrdiff_t>(place + expected.size())};
  expect(world, call, got, expected, "in place");
}

// What rank `from` sends to rank `to`.
std::vector<unsigned char> sent(std::size_t bytes, int from, int to) {
  return pattern(bytes, static_cast<unsigned>(from * 100 + to));
}

void fill(std::vector<unsigned char>& all, std::size_t at, const std::vector<unsigned char>& part) {
  std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
}

std::vector<unsigned char> joined(const std::vector<std::vector<unsigned char>>& parts) {
  std::vector<unsigned char> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A kind that moves, of `bytes` bytes; `in_place` where that exists.
void check_move(World& world, OpKind kind, std::size_t bytes, Algorithm algorithm, Where where,
                const OwnStream* stream) {
  const int rank = world.rank();
  const int size = world.size();
  const int root = size - 1;
  std::vector<std::vector<unsigned char>> in;
  std::vector<std::vector<unsigned char>> out;
  const auto each = [&](auto&& make) {
    std::vector<std::vector<unsigned char>> parts;
    for (int peer = 0; peer < size; ++peer) parts.push_back(make(peer));
    return parts;
  };
  switch (kind) {
    case OpKind::all_gather:
      in = {sent(bytes, rank, 0)};
      out = each([&](int peer) { return sent(bytes, peer, 0); });
      break;
    case OpKind::gather:
      in = {sent(bytes, rank, root)};
      if (rank == root) out = each([&](int peer) { return sent(bytes, peer, root); });
      break;
    case OpKind::scatter:
      if (rank == root) in = each([&](int peer) { return sent(bytes, root, peer); });
      out = {sent(bytes, root, rank)};
      break;
    case OpKind::broadcast:
      if (rank == root) in = {sent(bytes, root, 0)};
      out = {sent(bytes, root, 0)};
      break;
    default:
      in = each([&](int peer) { return sent(bytes, rank, peer); });
      out = each([&](int peer) { return sent(bytes, peer, rank); });
  }
  const std::vector<unsigned char> mine = joined(in);
  const std::vector<unsigned char> expected = joined(out);
  Buffer input(world, mine.size(), where);
  Buffer output(world, expected.size(), where);
  CollectiveCall call;
  call.kind = kind;
  call.input = mine.empty() ? nullptr : input.data();
  call.output = expected.empty() ? nullptr : output.data();
  call.count = bytes;
  call.root = root;
  call.algorithm = algorithm;
  if (!can(world, call)) return;
  input.write(mine);
  run(world, call, stream);
  expect(world, call, output.read(), expected, "beside");

  const std::size_t part = bytes * static_cast<std::size_t>(rank);
  if (kind == OpKind::all_to_all) {
    call.output = input.data();
    run(world, call, stream);
    expect(world, call, input.read(), expected, "in place");
  } else if (kind == OpKind::all_gather) {
    Buffer both(world, expected.size(), where);
    std::vector<unsigned char> before(expected.size());
    std::copy(mine.begin(), mine.end(), before.begin() + static_cast<std::ptrdiff_t>(part));
    both.write(before);
    call.input = both.data() + part;
    call.output = both.data();
    run(world, call, stream);
    expect(world, call, both.read(), expected, "in place");
  } else if (kind == OpKind::broadcast) {
    Buffer both(world, bytes, where);
    both.write(rank == root ? mine : std::vector<unsigned char>(bytes, 7));
    call.input = call.output = both.data();
    run(world, call, stream);
    expect(world, call, both.read(), expected, "in place");
  }
}

constexpr OpKind kReductions[] = {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::scan,
                                  OpKind::exclusive_scan};
constexpr OpKind kMoves[] = {OpKind::all_gather, OpKind::gather, OpKind::scatter, OpKind::broadcast,
                             OpKind::all_to_all};

std::vector<Where> places(World& world) {
  if (world.device().kind() == DeviceKind::host) return {Where::reachable, Where::plain};
  return {Where::reachable};
}

}  // namespace

CASE(every_type_and_reduction_is_exact_by_every_algorithm) {
  for (const int size : {1, 2, 3, 4}) {
    on_all_devices(size, [](World& world) {
      const OwnStream stream(world);
      for (const ElementType type : all_types()) {
        for (const ReduceOp op : ops_for(type)) {
          for (const Algorithm algorithm : kEach) {
            check_reduction(world, {OpKind::all_reduce, type, op, 37, algorithm}, &stream);
          }
        }
      }
    });
  }
}

CASE(every_kind_of_reduction_is_right_for_one_to_nine_ranks) {
  for (int size = 1; size <= 9; ++size) {
    on_all_devices(size, [](World& world) {
      const OwnStream stream(world);
      for (const OpKind kind : kReductions) {
        for (const Algorithm algorithm : kEach) {
          for (const std::size_t count : {1, 2, 5, 1000}) {
            check_reduction(world, {kind, ElementType::int32, ReduceOp::sum, count, algorithm}, &stream);
            check_reduction(world, {kind, ElementType::float16, ReduceOp::max, count, algorithm}, nullptr);
            check_reduction(world, {kind, ElementType::complex128, ReduceOp::prod, count, algorithm}, nullptr);
          }
        }
      }
    });
  }
}

CASE(every_kind_of_move_is_right_for_one_to_nine_ranks) {
  for (int size = 1; size <= 9; ++size) {
    on_all_devices(size, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const OpKind kind : kMoves) {
          for (const Algorithm algorithm : {Algorithm::lines, Algorithm::direct}) {
            for (const std::size_t bytes : {1, 7, 8, 100, 5000}) {
              check_move(world, kind, bytes, algorithm, where, bytes % 2 == 0 ? &stream : nullptr);
            }
          }
        }
      }
    });
  }
}

CASE(large_ones_are_right_from_buffer_to_buffer_and_through_the_stage) {
  for (const int size : {2, 3, 4}) {
    on_all_devices(size, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const OpKind kind : kReductions) {
          check_reduction(world, {kind, ElementType::float32, ReduceOp::sum, 200'001, Algorithm::direct, where},
                          &stream);
        }
        for (const OpKind kind : kMoves) check_move(world, kind, 1'500'001, Algorithm::direct, where, &stream);
      }
    });
  }
}

CASE(buffers_that_only_some_peers_can_address_take_the_stage_everywhere) {
  run_ranks(3, quick("host"), [](World& world) {
    const Where where = world.rank() == 1 ? Where::plain : Where::reachable;
    for (const OpKind kind : kReductions) {
      check_reduction(world, {kind, ElementType::int16, ReduceOp::sum, 50'000, Algorithm::direct, where}, nullptr);
    }
    for (const OpKind kind : kMoves) check_move(world, kind, 100'000, Algorithm::direct, where, nullptr);
  });
}

CASE(two_shot_is_right_up_to_the_size_of_its_slots) {
  on_all_devices(4, [](World& world) {
    const OwnStream stream(world);
    for (const std::size_t count : {999, 4096, 40'001, 131'072}) {
      check_reduction(world, {OpKind::all_reduce, ElementType::float32, ReduceOp::sum, count, Algorithm::two_shot},
                      &stream);
      check_reduction(world, {OpKind::all_reduce, ElementType::int8, ReduceOp::bxor, count, Algorithm::two_shot},
                      &stream);
    }
  });
}

CASE(sums_of_floats_have_the_same_bits_by_every_algorithm_and_on_every_rank) {
  on_all_devices(4, [](World& world) {
    constexpr std::size_t kCount = 10'007;
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] = std::sin(static_cast<float>(i * 13 + static_cast<std::size_t>(world.rank()) * 7919)) * 1e3F;
    }
    std::vector<unsigned char> bytes(kCount * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    TestBuffer input(world, bytes.size());
    TestBuffer output(world, bytes.size());
    input.write(bytes);
    std::vector<unsigned char> first;
    for (const Algorithm algorithm : kEach) {
      CollectiveCall call = all_reduce({input.data(), output.data(), kCount, ElementType::float32});
      call.algorithm = algorithm;
      world.collective().run(call);
      if (first.empty()) first = output.read();
      CHECK(output.read() == first);
    }
    const std::string mine(first.begin(), first.end());
    for (const std::string& other : world.fabric()->all_gather("the results of a test", mine)) CHECK(other == mine);
  });
}

CASE(counts_may_differ_from_rank_to_rank) {
  for (const int size : {1, 3, 5}) {
    on_all_devices(size, [](World& world) {
      const auto ranks = static_cast<std::size_t>(world.size());
      const auto me = static_cast<std::size_t>(world.rank());
      const auto count = [](std::size_t from, std::size_t to) { return (from * 5 + to * 3) % 7 * 1000; };
      for (const Where where : places(world)) {
        CollectiveCall call;
        call.kind = OpKind::all_to_all_v;
        call.type = ElementType::int16;
        std::size_t in = 3;
        std::size_t out = 1;
        for (std::size_t peer = 0; peer < ranks; ++peer) {
          call.send_counts.push_back(count(me, peer));
          call.send_offsets.push_back(in);
          in += count(me, peer) + 1;
          call.receive_counts.push_back(count(peer, me));
          call.receive_offsets.push_back(out);
          out += count(peer, me) + 2;
        }
        Buffer input(world, 2 * in, where);
        Buffer output(world, 2 * out, where);
        std::vector<unsigned char> mine(2 * in);
        std::vector<unsigned char> expected(2 * out);
        for (std::size_t peer = 0; peer < ranks; ++peer) {
          const int other = static_cast<int>(peer);
          fill(mine, 2 * call.send_offsets[peer], sent(2 * count(me, peer), world.rank(), other));
          fill(expected, 2 * call.receive_offsets[peer], sent(2 * count(peer, me), other, world.rank()));
        }
        input.write(mine);
        call.input = input.data();
        call.output = output.data();
        world.collective().run(call);
        expect(world, call, output.read(), expected, "beside");

        CollectiveCall gathers;
        gathers.kind = OpKind::all_gather_v;
        gathers.type = ElementType::int16;
        gathers.count = count(me, 0);
        std::size_t place = 0;
        std::vector<std::vector<unsigned char>> parts;
        for (std::size_t peer = 0; peer < ranks; ++peer) {
          gathers.receive_counts.push_back(count(peer, 0));
          gathers.receive_offsets.push_back(place);
          place += count(peer, 0);
          parts.push_back(sent(2 * count(peer, 0), static_cast<int>(peer), 0));
        }
        Buffer own(world, 2 * gathers.count, where);
        Buffer all(world, 2 * place, where);
        own.write(parts[me]);
        gathers.input = own.data();
        gathers.output = all.data();
        world.collective().run(gathers);
        expect(world, gathers, all.read(), joined(parts), "beside");
      }
    });
  }
}

CASE(odd_addresses_are_fine) {
  on_all_devices(3, [](World& world) {
    constexpr std::size_t kBytes = 3001;
    TestBuffer input(world, kBytes + 16);
    TestBuffer output(world, kBytes + 16);
    for (const std::size_t skew : {1, 2, 4, 8}) {
      for (const Algorithm algorithm : kEach) {
        std::vector<unsigned char> mine(kBytes + 16);
        const std::vector<unsigned char> values = input_of(ElementType::int8, ReduceOp::sum, world.rank(), kBytes);
        std::copy(values.begin(), values.end(), mine.begin() + static_cast<std::ptrdiff_t>(skew));
        input.write(mine);
        CollectiveCall call = all_reduce({input.data() + skew, output.data() + skew, kBytes, ElementType::int8});
        call.algorithm = algorithm;
        world.collective().run(call);
        std::vector<unsigned char> got = output.read();
        got = {got.begin() + static_cast<std::ptrdiff_t>(skew),
               got.begin() + static_cast<std::ptrdiff_t>(skew + kBytes)};
        expect(world, call, got, result_of(ElementType::int8, ReduceOp::sum, 0, 3, 0, kBytes), "skewed");
      }
    }
  });
}

CASE(captured_collectives_mean_the_same_at_every_replay_among_eager_ones) {
  on_all_devices(4, [](World& world) {
    constexpr std::size_t kCount = 300;
    TestBuffer values(world, kCount * 8);
    const OwnStream stream(world);
    Collective& all = world.collective();
    const auto all_ones = [&] {
      std::vector<unsigned char> bytes;
      for (std::size_t i = 0; i < kCount; ++i) append(bytes, std::int64_t{1});
      values.write(bytes);
    };
    // Each multiplies by four: all_reduce in place of what is the same everywhere.
    const auto call = [&](Algorithm algorithm) {
      CollectiveCall one = all_reduce({values.data(), values.data(), kCount, ElementType::int64});
      one.algorithm = algorithm;
      return one;
    };
    all_ones();
    all.run(call(Algorithm::lines), stream);  // channels are made outside of captures and within them
    world.device().begin_capture(stream);
    for (const Algorithm algorithm : kEach) all.run(call(algorithm), stream);
    all.run(broadcast({values.data(), values.data(), kCount, ElementType::int64}, 1), stream);
    all.run(barrier(), stream);
    const auto graph = world.device().end_capture(stream);
    constexpr int kReplays = 5;
    std::int64_t expected = 4;
    for (int i = 0; i < kReplays; ++i) {
      world.device().launch(graph, stream);
      expected *= 64;
      if (i % 2 == 0) {
        all.run(call(Algorithm::lines), stream);
        expected *= 4;
      }
    }
    world.synchronize(stream);
    std::vector<unsigned char> bytes;
    for (std::size_t i = 0; i < kCount; ++i) append(bytes, expected);
    CHECK(values.read() == bytes);
  });
}

CASE(broadcasts_may_run_ahead_of_slow_readers) {
  on_all_devices(3, [](World& world) {
    constexpr int kRounds = 200;
    constexpr std::size_t kCount = 64;
    TestBuffer input(world, kCount * 4);
    TestBuffer output(world, kCount * 4 * kRounds);
    const OwnStream stream(world);
    // The root sends and never receives; then another root; each result is kept.
    for (int round = 0; round < kRounds; ++round) {
      const int root = round / 50 % 3;
      if (round % 50 == 0) {
        world.synchronize(stream);
        input.write(input_of(ElementType::int32, ReduceOp::sum, root + round, kCount));
      }
      auto* const out = output.data() + static_cast<std::size_t>(round) * kCount * 4;
      world.collective().run(broadcast({input.data(), out, kCount, ElementType::int32}, root), stream);
    }
    world.synchronize(stream);
    const std::vector<unsigned char> got = output.read();
    for (int round = 0; round < kRounds; ++round) {
      const int root = round / 50 % 3;
      const auto expected = input_of(ElementType::int32, ReduceOp::sum, root + round / 50 * 50, kCount);
      CHECK(std::equal(expected.begin(), expected.end(), got.begin() + round * static_cast<int>(kCount) * 4));
    }
  });
}

CASE(streams_may_take_turns_on_one_channel) {
  on_all_devices(3, [](World& world) {
    TestBuffer values(world, 8);
    std::vector<unsigned char> one;
    append(one, std::int64_t{1});
    values.write(one);
    const OwnStream first(world);
    const OwnStream second(world);
    std::int64_t expected = 1;
    for (int i = 0; i < 30; ++i) {
      world.collective().run(all_reduce({values.data(), values.data(), 1, ElementType::int64}),
                             i % 3 == 0 ? first : second);
      expected *= i < 20 ? 3 : 3;
    }
    world.synchronize(first);
    world.synchronize(second);
    std::vector<unsigned char> bytes;
    append(bytes, expected);
    CHECK(values.read() == bytes);
  });
}

CASE(channels_run_at_once_in_any_order) {
  on_all_devices(2, [](World& world) {
    TestBuffer a(world, 8);
    TestBuffer b(world, 8);
    std::vector<unsigned char> one;
    append(one, std::int64_t{1});
    a.write(one);
    b.write(one);
    const OwnStream first(world);
    const OwnStream second(world);
    CollectiveCall on_a = all_reduce({a.data(), a.data(), 1, ElementType::int64});
    CollectiveCall on_b = all_reduce({b.data(), b.data(), 1, ElementType::int64});
    on_b.channel = 1;
    world.collective().run(on_a, first);  // both channels are made in the same order
    world.collective().run(on_b, second);
    for (int i = 0; i < 20; ++i) {
      if (world.rank() == 0) {
        world.collective().run(on_a, first);
        world.collective().run(on_b, second);
      } else {
        world.collective().run(on_b, second);
        world.collective().run(on_a, first);
      }
    }
    world.synchronize(first);
    world.synchronize(second);
    std::vector<unsigned char> bytes;
    append(bytes, std::int64_t{1} << 21);
    CHECK(a.read() == bytes);
    CHECK(b.read() == bytes);
  });
}

CASE(teams_of_some_ranks_work_beside_each_other) {
  on_all_devices(5, [](World& world) {
    // {3, 1} numbered so, {0, 2}, and nobody.
    const int rank = world.rank();
    std::vector<int> ranks;
    if (rank == 1 || rank == 3) ranks = {3, 1};
    if (rank == 0 || rank == 2) ranks = {0, 2};
    const auto team = world.collective().among(ranks);
    if (ranks.empty()) {
      CHECK(team->rank() == -1 && team->size() == 0);
      CHECK_THROWS(team->run(barrier()), "not in this team");
    } else {
      CHECK(team->size() == 2 && team->ranks()[static_cast<std::size_t>(team->rank())] == rank);
      TestBuffer mine(world, 4);
      TestBuffer all(world, 8);
      std::vector<unsigned char> bytes;
      append(bytes, rank);
      mine.write(bytes);
      for (const Algorithm algorithm : {Algorithm::lines, Algorithm::direct}) {
        CollectiveCall call = all_gather({mine.data(), all.data(), 1, ElementType::int32});
        call.algorithm = algorithm;
        team->run(call);
        std::vector<unsigned char> expected;
        for (const int each : ranks) append(expected, each);
        CHECK(all.read() == expected);
      }
    }
    world.barrier();
  });
}

CASE(sixty_four_ranks_agree) {
  Parameters parameters = quick("host");
  parameters.lanes = 1;
  parameters.lane_bytes = 1024;
  parameters.timeout_s = 60;
  parameters.bootstrap_timeout_s = 60;
  run_ranks(64, parameters, [](World& world) {
    for (const Algorithm algorithm : kEach) {
      check_reduction(world, {OpKind::all_reduce, ElementType::int32, ReduceOp::sum, 100, algorithm}, nullptr);
    }
    check_move(world, OpKind::all_to_all, 64, Algorithm::lines, Where::reachable, nullptr);
    check_move(world, OpKind::all_to_all, 64, Algorithm::direct, Where::plain, nullptr);
  });
}

CASE(what_cannot_work_is_refused_with_its_values) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 64);
    Collective& it = world.collective();
    const auto on = [&](ElementType type) { return Vector{buffer.data(), buffer.data(), 4, type}; };
    CHECK_THROWS(it.run(all_reduce(on(ElementType::float32), ReduceOp::bor)), "bor has no meaning for float32");
    CHECK_THROWS(it.run(all_reduce(on(ElementType::complex64), ReduceOp::max)), "max has no meaning for complex64");
    CHECK_THROWS(it.run(all_reduce(on(ElementType::int32), ReduceOp::minloc)), "minloc has no meaning for int32");
    CHECK_THROWS(it.run(reduce(on(ElementType::int32), ReduceOp::sum, 2)), "root 2 does not exist");
    CHECK_THROWS(it.run(all_reduce({nullptr, buffer.data(), 4, ElementType::int32})),
                 "input of 16 B is a null pointer");
    CHECK_THROWS(it.run(all_reduce({buffer.data() + 2, buffer.data(), 4, ElementType::int32})), "not aligned");
    CHECK_THROWS(it.run(all_reduce({buffer.data() + 4, buffer.data(), 4, ElementType::int32})), "overlap");
    CHECK_THROWS(it.run(all_reduce({buffer.data(), buffer.data(), 40, ElementType::int32})), "ends");
    CollectiveCall call = all_reduce(on(ElementType::int32));
    call.channel = 99;
    CHECK_THROWS(it.run(call), "channel 99 does not exist");
    call = broadcast(on(ElementType::int32), 0);
    call.algorithm = Algorithm::two_shot;
    CHECK_THROWS(it.run(call), "algorithm two_shot cannot: it is for all_reduce");
    CHECK_THROWS(it.among(std::vector{0, 0}), "named twice");
    CHECK_THROWS(it.among(std::vector{7}), "rank 7 does not exist");
    CHECK_THROWS((void)reduce_op_of("plus"), "no reduction 'plus'");
    CHECK_THROWS((void)element_type_of("quad"), "no elements of type 'quad'");
    it.run(all_reduce(on(ElementType::int32)));  // nothing is broken
  });
}

CASE(the_late_rank_and_the_collective_are_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1;
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 64);
      const OwnStream stream(world);
      const Vector vector{buffer.data(), buffer.data(), 4, ElementType::int32};
      world.collective().run(all_reduce(vector));
      if (world.rank() == 1) {
        while (!world.failure()) HostGroup::pause(1u << 20, 0);
        CHECK_THROWS(world.check(), "waiting for rank 1");
      } else {
        world.collective().run(all_reduce(vector), stream);
        CHECK_THROWS(world.synchronize(stream), "all_reduce of 16 B, waiting for rank 1, (number 2 on channel 0)");
      }
    });
  }
}

CASE(large_ones_that_differ_are_refused_before_anything_is_moved) {
  struct Odd {
    const char* what;
    std::function<CollectiveCall(const Vector&)> usual, odd;
  };
  const auto sum = [](const Vector& vector) { return all_reduce(vector); };
  const Odd rows[] = {
      {"all_reduce", sum, [](const Vector& vector) { return broadcast(vector, 0); }},
      {"all_reduce", sum, [](const Vector& vector) { return all_reduce(vector, ReduceOp::max); }},
      {"all_reduce", sum,
       [](Vector vector) {
         vector.type = ElementType::float32;
         return all_reduce(vector);
       }},
      {"reduce", [](const Vector& vector) { return reduce(vector, ReduceOp::sum, 0); },
       [](const Vector& vector) { return reduce(vector, ReduceOp::sum, 2); }},
      {"all_reduce", sum,
       [](Vector vector) {
         vector.count -= 4;
         return all_reduce(vector);
       }},
  };
  for (const Odd& row : rows) {
    on_all_devices(3, [&](World& world) {
      constexpr std::size_t kCount = 1 << 15;
      TestBuffer buffer(world, kCount * sizeof(std::int32_t));
      const auto before = std::vector<unsigned char>(kCount * sizeof(std::int32_t), 7);
      buffer.write(before);
      CollectiveCall call =
          (world.rank() == 1 ? row.odd : row.usual)({buffer.data(), buffer.data(), kCount, ElementType::int32});
      call.algorithm = Algorithm::direct;
      CHECK_THROWS(world.collective().run(call), "calls another collective, or the same with another count");
      CHECK(buffer.read() == before);
    });
  }
}

CASE(checking_names_who_calls_something_else) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.collective_check = "on";
    run_ranks(3, parameters, [](World& world) {
      TestBuffer buffer(world, 256);
      const bool odd = world.rank() == 1;
      const auto vector = [&](std::size_t count, ElementType type) {
        return Vector{buffer.data(), buffer.data(), count, type};
      };
      Collective& it = world.collective();
      CHECK_THROWS(it.run(all_reduce(vector(odd ? 5 : 4, ElementType::int32))),
                   "rank 0: all_reduce of 4 int32 sum\n  rank 1: all_reduce of 5 int32 sum");
      CHECK_THROWS(it.run(all_reduce(vector(4, odd ? ElementType::float32 : ElementType::int32))),
                   "rank 1: all_reduce of 4 float32 sum");
      CHECK_THROWS(it.run(all_reduce(vector(4, ElementType::int32), odd ? ReduceOp::max : ReduceOp::sum)),
                   "rank 1: all_reduce of 4 int32 max");
      CHECK_THROWS(it.run(broadcast(vector(4, ElementType::int32), odd ? 2 : 0)),
                   "rank 1: broadcast of 4 int32, root 2");
      CHECK_THROWS(it.run(odd ? barrier() : all_reduce(vector(4, ElementType::int32))), "rank 1: barrier");
      CollectiveCall call;
      call.kind = OpKind::all_to_all_v;
      call.input = buffer.data();
      call.output = buffer.data() + 128;
      call.send_counts = call.receive_counts = {1, odd ? std::size_t{2} : std::size_t{1}, 1};
      call.send_offsets = call.receive_offsets = {0, 4, 8};
      if (odd) call.receive_counts[2] = 9;
      CHECK_THROWS(it.run(call), "rank 1: all_to_all_v of uint8, which gets 1 elements of rank 2 and expects 9");
      // Nothing is broken.
      buffer.write(input_of(ElementType::int32, ReduceOp::sum, world.rank(), 64));
      it.run(all_reduce(vector(64, ElementType::int32)));
      CHECK(buffer.read() == result_of(ElementType::int32, ReduceOp::sum, 0, 3, 0, 64));
    });
  }
}

CASE(an_algorithm_is_chosen_by_cost_and_explained) {
  on_all_devices(4, [](World& world) {
    TestBuffer buffer(world, 64);
    CollectiveCall call = all_reduce({buffer.data(), buffer.data(), 1, ElementType::float64});
    CHECK(world.collective().explain(call).find("float64 on 4 ranks: lines") != std::string::npos);
    call.count = 100'000'000;
    const std::string large = world.collective().explain(call);
    CHECK(large.find("4 ranks: direct") != std::string::npos &&
          large.find("do not fit the slots") != std::string::npos);
    call.algorithm = Algorithm::direct;
    CHECK(world.collective().explain(call).find("asked for") != std::string::npos);
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
