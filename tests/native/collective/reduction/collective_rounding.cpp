// Sums of 16 and 8 bits of floating point are made in float and rounded once, by every algorithm: values whose sums
// float holds exactly, in any order of adding, and which come out wrong if any partial sum is rounded.
#include "collective/collective_cases.hpp"
#include "onstream/collective/element/rules.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

struct Narrow {
  ElementType type;
  int bits;         // of a value, the first one counted
  int factor_bits;  // of a factor: float holds the product of three
};
constexpr Narrow kNarrow[] = {{ElementType::float16, 11, 8},
                              {ElementType::bfloat16, 8, 8},
                              {ElementType::float8_e4m3, 4, 4},
                              {ElementType::float8_e5m2, 3, 3}};
constexpr ReduceOp kRounded[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premulsum, ReduceOp::prod};

// Element i of a rank's input: between 1 and 2, with all its bits.
double value_of(const Narrow& narrow, ReduceOp op, int rank, std::size_t i) {
  if (op == ReduceOp::prod && rank > 2) return 1;
  const int steps = 1 << ((op == ReduceOp::prod ? narrow.factor_bits : narrow.bits) - 1);
  const auto n = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * (i / 5 + 3) + i / 11) %
                                  static_cast<std::size_t>(steps));
  return 1 + static_cast<double>(n) / steps;
}

std::vector<unsigned char> input_of(const Narrow& narrow, ReduceOp op, int rank, std::size_t count) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < count; ++i) encode(bytes, narrow.type, value_of(narrow, op, rank, i));
  return bytes;
}

double rounded(ElementType type, double value) {
  std::vector<unsigned char> bytes;
  encode(bytes, type, value);
  const auto bits16 = [&] { return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8); };
  switch (type) {
    case ElementType::float16: return collective::widen(collective::Float16{bits16()});
    case ElementType::bfloat16: return collective::widen(collective::BFloat16{bits16()});
    case ElementType::float8_e4m3: return collective::widen(collective::Float8E4M3{bytes[0]});
    default: return collective::widen(collective::Float8E5M2{bytes[0]});
  }
}

enum class Rounds { once, always };

// The result of ranks [0, last) for elements [begin, begin + count).
std::vector<unsigned char> result_of(const Narrow& narrow, ReduceOp op, int last, std::size_t begin, std::size_t count,
                                     Rounds rounds) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = begin; i < begin + count; ++i) {
    double result = 0;
    for (int rank = 0; rank < last; ++rank) {
      const double value = value_of(narrow, op, rank, i) * (op == ReduceOp::premulsum ? factor_of(rank) : 1);
      result = rank == 0 ? value : op == ReduceOp::prod ? result * value : result + value;
      if (rounds == Rounds::always) result = rounded(narrow.type, result);
    }
    const auto exact = static_cast<float>(result);
    encode(bytes, narrow.type, op == ReduceOp::avg ? exact / static_cast<float>(last) : exact);
  }
  return bytes;
}

constexpr std::size_t kCount = all_or_few<std::size_t>(1500, 300);

void check_call(World& world, const Narrow& narrow, ReduceOp op, CollectiveCall call, Where where) {
  const int rank = world.rank();
  const int size = world.size();
  const bool scatters = call.kind == OpKind::reduce_scatter;
  const std::size_t ranks = scatters ? static_cast<std::size_t>(size) : 1;
  call.count = kCount;
  call.type = narrow.type;
  call.op = op;
  call.root = size - 1;
  call.factor = factor_of(rank);
  Buffer input(world, kCount * ranks * size_of(narrow.type), where);
  Buffer output(world, kCount * size_of(narrow.type), where);
  call.input = input.data();
  call.output = output.data();
  if (!can(world, call)) return;
  const std::vector<unsigned char> mine = input_of(narrow, op, rank, kCount * ranks);
  std::vector<unsigned char> expected = output.read();
  if (call.kind != OpKind::reduce || rank == call.root) {
    const std::size_t begin = scatters ? kCount * static_cast<std::size_t>(rank) : 0;
    expected = result_of(narrow, op, size, begin, kCount, Rounds::once);
  }
  input.write(mine);
  world.collective().run(call);
  expect(world, call, output.read(), expected, "rounded once:");
  CHECK(input.read() == mine);
  if (call.kind != OpKind::all_reduce) return;
  call.output = input.data();
  world.collective().run(call);
  expect(world, call, input.read(), expected, "rounded once, in place:");
}

void check_algorithms(World& world) {
  for (const Narrow& narrow : kNarrow) {
    for (const ReduceOp op : kRounded) {
      for (const OpKind kind : {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter}) {
        for (const collective::AlgorithmRow& row : collective::algorithms()) {
          for (const Where where : places(world)) {
            CollectiveCall call;
            call.kind = kind;
            call.algorithm = row.algorithm;
            check_call(world, narrow, op, call, where);
          }
        }
      }
    }
  }
}

}  // namespace

// Without this the cases below would show nothing.
CASE(the_values_come_out_wrong_when_partial_sums_are_rounded) {
  for (const Narrow& narrow : kNarrow) {
    for (const ReduceOp op : kRounded) {
      for (int size = 3; size <= 9; ++size) {
        const auto result = [&](Rounds rounds) { return result_of(narrow, op, size, 0, kCount, rounds); };
        if (result(Rounds::once) != result(Rounds::always)) continue;
        throw CheckFailed(concat(name_of(op), " of ", name_of(narrow.type), " on ", size, " ranks"));
      }
    }
  }
}

CASE(sums_of_narrow_types_are_rounded_once_by_every_algorithm_among_few_ranks) {
  for (const int size : all_or_few<std::vector<int>>({2, 3, 4, 5}, {3}))
    on_all_devices_in_pairs(size, check_algorithms);
}

CASE(sums_of_narrow_types_are_rounded_once_by_every_algorithm_among_more_ranks) {
  for (const int size : all_or_few<std::vector<int>>({6, 7, 8, 9}, {8}))
    on_all_devices_in_pairs(size, check_algorithms);
}

// Windows fill the stage many times.
CASE(sums_of_narrow_types_are_rounded_once_where_the_stage_is_small) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = in_pairs(device);
    parameters.collective_stage_bytes = 4096;
    for (const int size : all_or_few<std::vector<int>>({3, 4}, {3})) run_ranks(size, parameters, check_algorithms);
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
