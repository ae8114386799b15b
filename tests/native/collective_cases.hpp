// What the tests of collectives do with every algorithm: one reduction or one move against a plain reference, beside
// its input and in place, of memory that peers can address or not.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "check.hpp"
#include "collective_values.hpp"
#include "onstream/collective/algorithm.hpp"
#include "onstream/collective/channel.hpp"
#include "onstream/collective/collective.hpp"
#include "own_stream.hpp"
#include "ranks.hpp"

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
    Algorithm::lines,       Algorithm::two_shot, Algorithm::wide, Algorithm::direct,
    Algorithm::copy,        Algorithm::ring,     Algorithm::tree, Algorithm::halving_doubling,
    Algorithm::hierarchical};
// Those for large ones that go through the stage where they have to.
constexpr Algorithm kBulk[] = {Algorithm::direct, Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling,
                               Algorithm::hierarchical};
// Those that add in the order of the ranks.
constexpr Algorithm kSameBits[] = {Algorithm::lines, Algorithm::two_shot, Algorithm::wide, Algorithm::direct};

// Two ranks are a group to algorithm hierarchical.
inline Parameters in_pairs(const std::string& device) {
  Parameters parameters = quick(device);
  parameters.collective_group = 2;
  return parameters;
}
inline void on_all_devices_in_pairs(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) run_ranks(size, in_pairs(device), body);
}

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

inline void run(World& world, const CollectiveCall& call, const OwnStream* stream) {
  if (stream == nullptr) return world.collective().run(call);
  world.collective().run(call, *stream);
  world.synchronize(*stream);
}

inline void expect(World& world, const CollectiveCall& call, const std::vector<unsigned char>& got,
                   const std::vector<unsigned char>& expected, const char* how) {
  if (got == expected) return;
  const auto differing = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  throw CheckFailed(concat(how, " ", name_of(call.kind), " of ", call.count, " ", name_of(call.type), " ",
                           name_of(call.op), " by ", name_of(call.algorithm), ", rank ", world.rank(),
                           ": differs from byte ", differing));
}

// Ranks of one GPU, whose streams wait by themselves: the streams share its hardware queues, and soon wait in each
// other's way.
inline bool streams_may_wait(World& world) {
  constexpr int kMostOnGpu = 3;
  return world.device().kind() == DeviceKind::host || world.size() <= kMostOnGpu;
}

inline bool can(World& world, const CollectiveCall& call) {
  if (call.algorithm == Algorithm::copy && !streams_may_wait(world)) return false;
  const collective::Machine machine =
      collective::machine_of(*world.fabric(), world.rank(), static_cast<std::size_t>(world.size()));
  for (const collective::AlgorithmRow& row : collective::algorithms()) {
    if (row.algorithm == call.algorithm) return why_not(row, call, machine).empty();
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

  std::vector<unsigned char> expected = output.read();  // who gets nothing keeps what it has
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

// What rank `from` sends to rank `to`.
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
  }
}

constexpr OpKind kReductions[] = {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::scan,
                                  OpKind::exclusive_scan};
constexpr OpKind kMoves[] = {OpKind::all_gather, OpKind::gather, OpKind::scatter, OpKind::broadcast,
                             OpKind::all_to_all};

inline std::vector<Where> places(World& world) {
  if (world.device().kind() == DeviceKind::host) return {Where::reachable, Where::plain};
  return {Where::reachable};
}

}  // namespace onstream::test
