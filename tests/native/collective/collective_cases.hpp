// Checks that the tests of collectives make with every algorithm: one reduction or one move against a plain reference,
// beside its input and in place, of memory that peers can address or not.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "collective_values.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/cost.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

namespace onstream::test {

inline std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (int i = 0; i < kElementTypes; ++i) types.push_back(static_cast<ElementType>(i));
  return types;
}
inline std::vector<ReduceOp> ops_for(ElementType type) {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOps; ++i) {
    if (supports(type, static_cast<ReduceOp>(i))) ops.push_back(static_cast<ReduceOp>(i));
  }
  return ops;
}

constexpr Algorithm kEach[] = {
    Algorithm::ll,          Algorithm::two_shot, Algorithm::ll128, Algorithm::simple,
    Algorithm::copy,        Algorithm::ring,     Algorithm::tree,  Algorithm::halving_doubling,
    Algorithm::hierarchical};
// Algorithms for large calls, which go through the stage where they have to.
constexpr Algorithm kBulk[] = {Algorithm::simple, Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling,
                               Algorithm::hierarchical};
// Algorithms that add in the order of the ranks.
constexpr Algorithm kSameBits[] = {Algorithm::ll, Algorithm::two_shot, Algorithm::ll128, Algorithm::simple};

// Two ranks are a group to algorithm hierarchical.
inline Parameters in_pairs(const std::string& device) {
  Parameters parameters = quick(device);
  parameters.collective_group = 2;
  return parameters;
}
inline void on_all_devices_in_pairs(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) run_ranks(size, in_pairs(device), body);
}

// Memory that peers can address, or that they cannot: then the simple protocol goes through the stage.
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

inline void run(World& world, const CollectiveCall& asked, const OwnStream* stream) {
  const CollectiveCall call = where_it_runs(world, asked);
  if (stream == nullptr) return world.collective().run(call);
  world.collective().run(call, *stream);
  world.synchronize(*stream);
}

// Whether the list of algorithms allows this one for a small call of this kind where there is room for everything.
inline bool is_possible(OpKind kind, Algorithm algorithm) {
  const collective::MachineTraits roomy{DeviceKind::host, 0, 4, 1 << 20, 1 << 20, 2};
  std::byte beside;
  CollectiveCall call;
  call.kind = kind;
  call.output = &beside;
  call.count = 8;
  call.type = ElementType::int32;
  for (const collective::AlgorithmRow& row : collective::algorithms()) {
    if (row.algorithm == algorithm) return why_not(row, call, roomy).empty();
  }
  return false;
}

// Ranks of one GPU, whose streams wait by themselves: the streams share its hardware queues, and soon wait in each
// other's way.
inline bool streams_may_wait(World& world) {
  constexpr int kMostOnGpu = 3;
  return world.device().kind() == DeviceKind::host || world.size() <= kMostOnGpu;
}

inline collective::MachineTraits machine_of(World& world) {
  return collective::machine_of(*world.fabric(), world.rank(), static_cast<std::size_t>(world.size()));
}

// The calls that any rank compared with their reference since a Coverage was made: a case skips a call that cannot run
// without a word (can() below), so it states at its end which calls must have run on each device that it had.
class Coverage {
 public:
  Coverage() {
    const std::lock_guard lock(mutex());
    seen().clear();
  }
  // That the case comes to this device.
  static void note(World& world) {
    const std::lock_guard lock(mutex());
    (void)seen()[world.device().kind()];
  }
  static void note(World& world, const CollectiveCall& call) {
    const std::lock_guard lock(mutex());
    Seen& on = seen()[world.device().kind()];
    ++on.counts[{call.kind, call.algorithm}];
    on.streams_may_wait |= streams_may_wait(world);
    on.has_ll128_lines |= machine_of(world).ll128_bytes > 0;  // GPUs that should have them: ll128_lines.cpp
  }
  // Throws unless each of these kinds ran by each of these algorithms that does it there.
  void check(std::span<const OpKind> kinds, std::span<const Algorithm> algorithms) const {
    const std::lock_guard lock(mutex());
    std::string never;
    for (auto& [device, on] : seen()) {
      for (const OpKind kind : kinds) {
        for (const Algorithm algorithm : algorithms) {
          if (!is_possible(kind, algorithm) || on.cannot(algorithm) || on.counts[{kind, algorithm}] > 0) continue;
          never +=
              concat(never.empty() ? "" : ", ", name_of(kind), " by ", name_of(algorithm), " on ", name_of(device));
        }
      }
    }
    if (seen().empty()) never = "anything";
    if (!never.empty()) throw CheckFailed("never ran: " + never);
  }

 private:
  struct Seen {
    std::map<std::pair<OpKind, Algorithm>, int> counts;
    bool streams_may_wait = false;
    bool has_ll128_lines = false;

    bool cannot(Algorithm algorithm) const {
      return (algorithm == Algorithm::copy && !streams_may_wait) || (algorithm == Algorithm::ll128 && !has_ll128_lines);
    }
  };
  using PerDevice = std::map<DeviceKind, Seen>;
  static PerDevice& seen() {
    static PerDevice all;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
};

inline void expect(World& world, const CollectiveCall& call, const std::vector<unsigned char>& got,
                   const std::vector<unsigned char>& expected, const char* how) {
  Coverage::note(world, call);
  if (got == expected) return;
  const auto differing = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  throw CheckFailed(concat(how, " ", name_of(call.kind), " of ", call.count, " ", name_of(call.type), " ",
                           name_of(call.op), " by ", name_of(call.algorithm), ", rank ", world.rank(),
                           ": differs from byte ", differing));
}

inline bool can(World& world, const CollectiveCall& call) {
  Coverage::note(world);
  if (call.algorithm == Algorithm::copy && !streams_may_wait(world)) return false;
  for (const collective::AlgorithmRow& row : collective::algorithms()) {
    if (row.algorithm == call.algorithm) return why_not(row, call, machine_of(world)).empty();
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

// One reduction, its result beside its input and over it. `how` is for run(), here or of the test's own.
template <class How>
void check_reduction(World& world, const Reduction& one, const How& how) {
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

  std::vector<unsigned char> expected = output.read();  // a rank that gets nothing keeps its output
  if (one.kind == OpKind::scan) {
    expected = result_of(one.type, one.op, 0, rank + 1, begin, one.count);
  } else if (one.kind == OpKind::exclusive_scan) {
    if (rank > 0) expected = result_of(one.type, one.op, 0, rank, begin, one.count);
  } else if (one.kind != OpKind::reduce || rank == root) {
    expected = result_of(one.type, one.op, 0, size, begin, one.count);
  }
  input.write(mine);
  run(world, call, how);
  expect(world, call, output.read(), expected, "beside");
  CHECK(input.read() == mine);

  if (one.kind == OpKind::exclusive_scan && rank == 0) expected = mine;
  if (one.kind == OpKind::reduce && rank != root) expected = mine;
  const std::size_t place = begin * size_of(one.type);
  call.output = input.data() + place;
  run(world, call, how);
  std::vector<unsigned char> got = input.read();
  got = {got.begin() + static_cast<std::ptrdiff_t>(place),
         got.begin() + static_cast<std::ptrdiff_t>(place + expected.size())};
  expect(world, call, got, expected, "in place");
}

// The bytes that rank `from` sends to rank `to`.
inline std::vector<unsigned char> sent(std::size_t bytes, int from, int to) {
  return pattern(bytes, static_cast<unsigned>(from * 100 + to));
}

inline void fill(std::vector<unsigned char>& all, std::size_t at, const std::vector<unsigned char>& part) {
  std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
}

inline std::vector<unsigned char> joined(const std::vector<std::vector<unsigned char>>& parts) {
  std::vector<unsigned char> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A kind that moves, of `bytes` bytes; `in_place` where that exists.
template <class How>
void check_move(World& world, OpKind kind, std::size_t bytes, Algorithm algorithm, Where where, const How& how) {
  if (algorithm == Algorithm::copy && where == Where::plain) return;  // refused: collective_errors.cpp
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
  run(world, call, how);
  expect(world, call, output.read(), expected, "beside");

  const std::size_t part = bytes * static_cast<std::size_t>(rank);
  if (kind == OpKind::all_to_all) {
    call.output = input.data();
    if (!can(world, call)) return;
    run(world, call, how);
    expect(world, call, input.read(), expected, "in place");
  } else if (kind == OpKind::all_gather) {
    Buffer both(world, expected.size(), where);
    std::vector<unsigned char> before(expected.size());
    std::copy(mine.begin(), mine.end(), before.begin() + static_cast<std::ptrdiff_t>(part));
    both.write(before);
    call.input = both.data() + part;
    call.output = both.data();
    run(world, call, how);
    expect(world, call, both.read(), expected, "in place");
  } else if (kind == OpKind::broadcast) {
    Buffer both(world, bytes, where);
    both.write(rank == root ? mine : std::vector<unsigned char>(bytes, 7));
    call.input = call.output = both.data();
    run(world, call, how);
    expect(world, call, both.read(), expected, "in place");
  } else if (kind == OpKind::gather || kind == OpKind::scatter) {
    if (rank != root || bytes == 0) {  // whose own part lies where the others' do
      run(world, call, how);
      return expect(world, call, output.read(), expected, "beside the root's in place,");
    }
    const bool gathers = kind == OpKind::gather;
    Buffer both(world, gathers ? expected.size() : mine.size(), where);
    std::vector<unsigned char> before = gathers ? std::vector<unsigned char>(expected.size()) : mine;
    if (gathers) fill(before, part, mine);
    both.write(before);
    call.input = both.data() + (gathers ? part : 0);
    call.output = both.data() + (gathers ? 0 : part);
    run(world, call, how);
    expect(world, call, both.read(), gathers ? expected : mine, "in place");
  }
}

// How many elements each rank has for each, in units of so many, and where they lie. Some have none.
struct Parts {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t end = 0;

  // The first at `begin`, `gap` elements between one and the next.
  template <class Count>
  static Parts of(World& world, std::size_t begin, std::size_t gap, const Count& count) {
    Parts parts;
    parts.end = begin;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(world.size()); ++peer) {
      parts.counts.push_back(count(peer));
      parts.offsets.push_back(parts.end);
      parts.end += count(peer) + gap;
    }
    return parts;
  }
};

// An exchange of 2-byte elements whose counts differ from pair to pair, and one in place, where both ways of a pair
// have as many.
template <class How>
void check_all_to_all_v(World& world, std::size_t unit, Algorithm algorithm, Where where, const How& how) {
  const auto me = static_cast<std::size_t>(world.rank());
  CollectiveCall call;
  call.algorithm = algorithm;
  call.kind = OpKind::all_to_all_v;
  call.type = ElementType::int16;
  const auto set = [&](const Parts& sends, const Parts& receives) {
    call.send_counts = sends.counts;
    call.send_offsets = sends.offsets;
    call.receive_counts = receives.counts;
    call.receive_offsets = receives.offsets;
  };
  const auto fill_all = [&](std::vector<unsigned char>& all, const Parts& parts, bool sends) {
    for (std::size_t peer = 0; peer < parts.counts.size(); ++peer) {
      const int other = static_cast<int>(peer);
      const std::size_t bytes = 2 * parts.counts[peer];
      fill(all, 2 * parts.offsets[peer], sends ? sent(bytes, world.rank(), other) : sent(bytes, other, world.rank()));
    }
  };
  const auto count = [&](std::size_t from, std::size_t to) { return (from * 5 + to * 3) % 7 * unit; };
  const Parts sends = Parts::of(world, 3, 1, [&](std::size_t peer) { return count(me, peer); });
  const Parts receives = Parts::of(world, 1, 2, [&](std::size_t peer) { return count(peer, me); });
  set(sends, receives);
  Buffer input(world, 2 * sends.end, where);
  Buffer output(world, 2 * receives.end, where);
  call.input = input.data();
  call.output = output.data();
  if (!can(world, call)) return;
  std::vector<unsigned char> mine(2 * sends.end);
  fill_all(mine, sends, true);
  input.write(mine);
  std::vector<unsigned char> expected = output.read();
  fill_all(expected, receives, false);
  run(world, call, how);
  expect(world, call, output.read(), expected, "beside");

  const Parts both = Parts::of(world, 2, 1, [&](std::size_t peer) { return (me + peer + me * peer) % 5 * unit; });
  set(both, both);
  Buffer over(world, 2 * both.end, where);
  call.input = call.output = over.data();
  if (!can(world, call)) return;
  std::vector<unsigned char> before(2 * both.end, 9);
  std::vector<unsigned char> after = before;
  fill_all(before, both, true);
  fill_all(after, both, false);
  over.write(before);
  run(world, call, how);
  expect(world, call, over.read(), after, "in place");
}

// Each rank's elements at every rank, beside and in place.
template <class How>
void check_all_gather_v(World& world, std::size_t unit, Algorithm algorithm, Where where, const How& how) {
  const auto me = static_cast<std::size_t>(world.rank());
  const Parts parts = Parts::of(world, 2, 1, [&](std::size_t peer) { return peer * 5 % 7 * unit; });
  CollectiveCall call;
  call.algorithm = algorithm;
  call.kind = OpKind::all_gather_v;
  call.type = ElementType::int16;
  call.count = parts.counts[me];
  call.receive_counts = parts.counts;
  call.receive_offsets = parts.offsets;
  const std::vector<unsigned char> mine = sent(2 * call.count, world.rank(), 0);
  Buffer input(world, mine.size(), where);
  Buffer output(world, 2 * parts.end, where);
  call.input = input.data();
  call.output = output.data();
  if (!can(world, call)) return;
  const auto with_all = [&](std::vector<unsigned char> bytes) {
    for (std::size_t peer = 0; peer < parts.counts.size(); ++peer) {
      fill(bytes, 2 * parts.offsets[peer], sent(2 * parts.counts[peer], static_cast<int>(peer), 0));
    }
    return bytes;
  };
  input.write(mine);
  const std::vector<unsigned char> expected = with_all(output.read());
  run(world, call, how);
  expect(world, call, output.read(), expected, "beside");

  std::vector<unsigned char> before(2 * parts.end, 9);
  const std::vector<unsigned char> after = with_all(before);
  fill(before, 2 * parts.offsets[me], mine);
  output.write(before);
  call.input = output.data() + 2 * parts.offsets[me];
  run(world, call, how);
  expect(world, call, output.read(), after, "in place");
}

// Both, with `unit` elements or a few times as many for each rank.
template <class How>
void check_counts(World& world, std::size_t unit, Algorithm algorithm, Where where, const How& how) {
  if (algorithm == Algorithm::copy && where == Where::plain) return;  // refused: collective_errors.cpp
  check_all_to_all_v(world, unit, algorithm, where, how);
  check_all_gather_v(world, unit, algorithm, where, how);
}

constexpr OpKind kReductions[] = {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::scan,
                                  OpKind::exclusive_scan};
constexpr OpKind kMoves[] = {OpKind::all_gather, OpKind::gather, OpKind::scatter, OpKind::broadcast,
                             OpKind::all_to_all};
constexpr OpKind kCounted[] = {OpKind::all_gather_v, OpKind::all_to_all_v};

inline std::vector<Where> places(World& world) {
  if (world.device().kind() == DeviceKind::host) return {Where::reachable, Where::plain};
  return {Where::reachable};
}

}  // namespace onstream::test
