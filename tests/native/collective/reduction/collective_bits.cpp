// Bits of results that depend on the order of adding: the automatic choice, and a call with `deterministic`, give the
// same bits by every algorithm and path, in every run, on every rank, wherever the ranks are.
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "collective/collective_cases.hpp"
#include "onstream/collective.hpp"
#include "onstream/transport/copy_thread.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_reduce;
using onstream::collective::reduce;
using onstream::collective::reduce_scatter;
using onstream::collective::scan;
using onstream::collective::Vector;

namespace {

// The input of the contributor of this number: values whose sum depends on the order, as does their product.
std::vector<unsigned char> contribution(ElementType type, ReduceOp op, std::size_t count, int number) {
  const bool is_prod = op == ReduceOp::prod;
  const double range = is_prod ? 0.5 : is_narrow(type) ? 10 : 1e3;
  const auto wave = [&](std::size_t i) {
    return std::sin(static_cast<double>(i * 13 + static_cast<std::size_t>(number) * 7919)) * range + (is_prod ? 1 : 0);
  };
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < count; ++i) encode(bytes, type, {wave(i), wave(i + 5)});
  return bytes;
}
std::vector<unsigned char> contribution(std::size_t count, int number) {
  return contribution(ElementType::float32, ReduceOp::sum, count, number);
}

struct Kind {
  ElementType type;
  ReduceOp op;
};
constexpr Kind kKinds[] = {{ElementType::float32, ReduceOp::sum},         {ElementType::float64, ReduceOp::sum},
                           {ElementType::float16, ReduceOp::sum},         {ElementType::bfloat16, ReduceOp::sum},
                           {ElementType::float8_e4m3, ReduceOp::sum},     {ElementType::float8_e5m2, ReduceOp::sum},
                           {ElementType::complex64, ReduceOp::sum},       {ElementType::complex128, ReduceOp::sum},
                           {ElementType::float32, ReduceOp::premulsum},   {ElementType::float16, ReduceOp::premulsum},
                           {ElementType::complex64, ReduceOp::premulsum}, {ElementType::float32, ReduceOp::avg},
                           {ElementType::bfloat16, ReduceOp::avg},        {ElementType::int8, ReduceOp::avg},
                           {ElementType::float32, ReduceOp::prod},        {ElementType::float64, ReduceOp::prod},
                           {ElementType::float16, ReduceOp::prod},        {ElementType::complex64, ReduceOp::prod},
                           {ElementType::float8_e4m3, ReduceOp::prod}};

std::vector<Algorithm> of_own_order() {
  std::vector<Algorithm> out;
  for (const collective::AlgorithmRow& row : collective::algorithms()) {
    if (*row.own_order != 0) out.push_back(row.algorithm);
  }
  return out;
}

// Every rank gives `each`, so often that the sum wraps.
template <class T>
void check_wrapped_average(World& world, Algorithm algorithm, ElementType type, T each) {
  constexpr std::size_t kCount = 777;
  TestBuffer buffer(world, kCount * sizeof(T));
  CollectiveCall call = all_reduce({buffer.data(), buffer.data(), kCount, type}, ReduceOp::avg);
  call.algorithm = algorithm;
  if (!can(world, call)) return;
  std::vector<unsigned char> bytes(kCount * sizeof(T));
  for (std::size_t i = 0; i < kCount; ++i) std::memcpy(bytes.data() + i * sizeof(T), &each, sizeof(T));
  buffer.write(bytes);
  world.collective().run(call);
  const auto sum = static_cast<T>(static_cast<std::uint64_t>(each) * static_cast<std::uint64_t>(world.size()));
  const auto wanted = static_cast<T>(sum / static_cast<T>(world.size()));
  CHECK(wanted != each);  // it has wrapped
  bytes = buffer.read();
  for (std::size_t i = 0; i < kCount; ++i) CHECK(std::memcmp(bytes.data() + i * sizeof(T), &wanted, sizeof(T)) == 0);
}

}  // namespace

CASE(what_adds_in_another_order_is_refused_for_a_deterministic_call_whose_bits_it_changes) {
  on_all_devices_in_pairs(3, [](World& world) {
    TestBuffer buffer(world, 4096);
    const auto on = [&](ElementType type) { return Vector{buffer.data(), buffer.data(), 64, type}; };
    const std::vector<Algorithm> others = of_own_order();
    CHECK(others.size() >= 2);
    for (const Algorithm algorithm : others) {
      const auto by = [&](CollectiveCall call) {
        call.algorithm = algorithm;
        call.deterministic = true;
        return call;
      };
      Collective& it = world.collective();
      if (!can(world, by(all_reduce(on(ElementType::int32))))) continue;
      const std::string words = concat("all_reduce: algorithm ", name_of(algorithm), " cannot: it adds in ");
      CHECK_THROWS(it.run(by(all_reduce(on(ElementType::float32)))), words);
      CHECK_THROWS(it.run(by(all_reduce(on(ElementType::float16), ReduceOp::max))), words);
      CHECK_THROWS(it.run(by(all_reduce(on(ElementType::complex64), ReduceOp::prod))), words);
      // Every order gives the same sum of whole numbers.
      it.run(by(all_reduce(on(ElementType::int32))));
      const CollectiveCall average = by(all_reduce(on(ElementType::int8), ReduceOp::avg));
      if (can(world, average)) it.run(average);
      it.run(by(all_reduce(on(ElementType::int64_int64), ReduceOp::minloc)));
      CollectiveCall moves = by(collective::broadcast(on(ElementType::float32), 1));
      if (can(world, moves)) it.run(moves);
    }
  });
}

namespace {

// NaNs of both signs, with other payloads on each rank; every fourth element is of the ranks from the second on, every
// fourth of none.
template <class Bits>
std::vector<unsigned char> nans(std::size_t count, int rank, Bits quiet, Bits sign) {
  std::vector<unsigned char> bytes(count * sizeof(Bits));
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_nan = i % 4 < 2 || (i % 4 == 2 && rank > 0);
    const bool negative = (i + static_cast<std::size_t>(rank)) % 3 == 0;
    const Bits bits = is_nan ? quiet | static_cast<Bits>(rank + 1) | (negative ? sign : 0) : 0;
    std::memcpy(bytes.data() + i * sizeof(Bits), &bits, sizeof(Bits));
  }
  return bytes;
}

std::vector<unsigned char> nans_of(ElementType type, std::size_t count, int rank) {
  switch (type) {
    case ElementType::float16: return nans<std::uint16_t>(count, rank, 0x7e00, 0x8000);
    case ElementType::bfloat16: return nans<std::uint16_t>(count, rank, 0x7fc0, 0x8000);
    case ElementType::float32: return nans<std::uint32_t>(count, rank, 0x7fc00000u, 0x80000000u);
    case ElementType::complex64: return nans<std::uint32_t>(2 * count, rank, 0x7fc00000u, 0x80000000u);
    case ElementType::float64: return nans<std::uint64_t>(count, rank, 0x7ffull << 52 | 1ull << 51, 1ull << 63);
    default: return nans<std::uint64_t>(2 * count, rank, 0x7ffull << 52 | 1ull << 51, 1ull << 63);
  }
}

}  // namespace

CASE(results_that_are_no_numbers_have_the_same_bits_by_every_algorithm) {
  constexpr std::size_t kCount = 777;
  const ElementType types[] = {ElementType::float16, ElementType::bfloat16,  ElementType::float32,
                               ElementType::float64, ElementType::complex64, ElementType::complex128};
  const OpKind kinds[] = {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::scan,
                          OpKind::exclusive_scan};
  for (const int size : {1, 2, 3}) {
    run_ranks(size, quick("host"), [&](World& world) {
      for (const ElementType type : types) {
        const auto mine = nans_of(type, kCount * static_cast<std::size_t>(size), world.rank());
        TestBuffer input(world, mine.size());
        input.write(mine);
        for (const ReduceOp op : ops_for(type)) {
          for (const OpKind kind : kinds) {
            std::vector<unsigned char> first;
            for (const Algorithm algorithm : kSameBits) {
              TestBuffer output(world, kCount * size_of(type));
              CollectiveCall call = all_reduce({input.data(), output.data(), kCount, type}, op);
              call.kind = kind;
              call.factor = 2;
              call.algorithm = algorithm;
              if (!can(world, call)) continue;
              world.collective().run(call);
              if (first.empty()) first = output.read();
              expect(world, call, output.read(), first, "NaNs in");
            }
          }
        }
      }
    });
  }
}

CASE(an_average_of_whole_numbers_is_that_of_the_sum_as_it_wraps_by_every_algorithm) {
  on_all_devices_in_pairs(3, [](World& world) {
    for (const collective::AlgorithmRow& row : collective::algorithms()) {
      check_wrapped_average<std::int8_t>(world, row.algorithm, ElementType::int8, 100);
      check_wrapped_average<std::int8_t>(world, row.algorithm, ElementType::int8, -77);
      check_wrapped_average<std::uint8_t>(world, row.algorithm, ElementType::uint8, 200);
      check_wrapped_average<std::int16_t>(world, row.algorithm, ElementType::int16, 30'000);
      check_wrapped_average<std::uint16_t>(world, row.algorithm, ElementType::uint16, 60'000);
      check_wrapped_average<std::int32_t>(world, row.algorithm, ElementType::int32, 2'000'000'000);
      check_wrapped_average<std::uint64_t>(world, row.algorithm, ElementType::uint64, std::uint64_t{1} << 63);
    }
  });
}

CASE(a_deterministic_call_passes_by_the_algorithm_that_a_parameter_asks_for) {
  for (const std::string& device : device_specs()) {
    for (const Algorithm algorithm : of_own_order()) {
      Parameters parameters = in_pairs(device);
      parameters.collective_algorithm = name_of(algorithm);
      run_ranks(4, parameters, [&](World& world) {
        constexpr std::size_t kCount = 3001;
        TestBuffer input(world, kCount * sizeof(float));
        TestBuffer output(world, kCount * sizeof(float));
        input.write(contribution(kCount, world.rank()));
        CollectiveCall call = all_reduce({input.data(), output.data(), kCount, ElementType::float32});
        call.deterministic = true;
        const std::string told = world.collective().explain(call);
        CHECK(told.find(concat(name_of(algorithm), ": it adds in ")) != std::string::npos);
        world.collective().run(call);
        const std::vector<unsigned char> here = output.read();
        call.algorithm = Algorithm::ll;
        world.collective().run(call);
        CHECK(output.read() == here);
        call.type = ElementType::int32;
        call.algorithm = Algorithm::automatic;
        if (can(world, all_reduce({nullptr, nullptr, kCount, ElementType::int32}))) {
          CHECK(world.collective().explain(call).find("(asked for)") != std::string::npos);
        }
      });
    }
  }
}

// The n-th contribution comes from the n-th rank of a team, in any process, by any algorithm and path, every time.
CASE(the_same_contributions_in_the_same_order_have_the_same_bits_wherever_the_ranks_are) {
  constexpr std::size_t kCount = all_or_few<std::size_t>(1501, 301);
  constexpr int kSize = 4;
  for (const std::string& device : device_specs()) {
    std::map<std::string, std::string> first;  // by the name of the call; of rank 0 of the world alone
    const auto orders = all_or_few<std::vector<std::vector<int>>>({{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 2, 1, 0}},
                                                                  {{0, 1, 2, 3}, {2, 0, 3, 1}});
    for (const int run_number : {0, 1}) {
      Parameters parameters = in_pairs(device);
      if (run_number == 1) parameters.collective_blocks = 2;
      run_ranks(kSize, parameters, [&](World& world) {
        for (const std::vector<int>& order : orders) {
          const auto team = world.collective().among(order);
          for (const Kind& kind : kKinds) {
            for (const Where where : places(world)) {
              const std::vector<unsigned char> mine = contribution(kind.type, kind.op, kCount * kSize, team->rank());
              Buffer input(world, mine.size(), where);
              Buffer output(world, kCount * size_of(kind.type), where);
              input.write(mine);
              const Vector vector{input.data(), output.data(), kCount, kind.type};
              for (CollectiveCall call : {all_reduce(vector, kind.op), reduce(vector, kind.op, 0),
                                          reduce_scatter(vector, kind.op), scan(vector, kind.op)}) {
                const std::string what = concat(name_of(call.kind), name_of(kind.type), name_of(kind.op));
                for (const Algorithm algorithm : kSameBits) {
                  call.deterministic = true;
                  call.algorithm = algorithm;
                  call.factor = 1 + 0.1 * team->rank();
                  if (!can(world, call)) continue;
                  team->run(call);
                  const std::vector<unsigned char> got = output.read();
                  // Compares the result of the team's first rank (a scan's last one) with that of the first run.
                  const int teller = order[call.kind == OpKind::scan ? kSize - 1 : 0];
                  const auto told =
                      world.fabric()->all_gather("the results of a test", std::string(got.begin(), got.end()));
                  const std::string& now = told[static_cast<std::size_t>(teller)];
                  if (call.kind == OpKind::all_reduce) {
                    for (const std::string& other : told) CHECK(other == now);
                  }
                  if (world.rank() != 0) continue;
                  if (first.emplace(what, now).first->second != now) {
                    throw CheckFailed(concat(what, " by ", name_of(algorithm), " has other bits"));
                  }
                }
              }
            }
          }
        }
      });
    }
  }
}

// Calls in which the copy engine pushes the sums, and calls that finish all sums before they send the first.
CASE(sums_by_the_engine_and_in_two_halves_have_the_bits_of_lines) {
  constexpr std::size_t kCount = 1504;  // whole packs for each of four
  for (const std::string& device : device_specs()) {
    for (const bool engine : {false, true}) {
      Parameters parameters = in_pairs(device);
      parameters.collective_halves_bytes = 0;
      if (engine) parameters.collective_engine = "on";
      run_ranks(4, parameters, [&](World& world) {
        for (const Kind& kind : kKinds) {
          const auto mine = contribution(kind.type, kind.op, kCount, world.rank());
          TestBuffer input(world, mine.size());
          TestBuffer output(world, mine.size());
          input.write(mine);
          CollectiveCall call = all_reduce({input.data(), output.data(), kCount, kind.type}, kind.op);
          call.factor = 1 + 0.1 * world.rank();
          call.algorithm = Algorithm::ll;
          world.collective().run(call);
          const std::vector<unsigned char> by_lines = output.read();
          const std::uint64_t before = world.fabric()->copies().served();
          call.algorithm = Algorithm::simple;
          world.collective().run(call);
          expect(world, call, output.read(), by_lines, engine ? "engine" : "halves");
          const bool by_engine = world.fabric()->copies().served() > before;
          if (kind.op == ReduceOp::sum && size_of(kind.type) > 1) CHECK(by_engine == engine);
        }
      });
    }
  }
}

// Without this the cases above would show little.
CASE(the_contributions_have_other_bits_in_another_order) {
  for (const std::string& device : device_specs()) {
    run_ranks(4, quick(device), [](World& world) {
      constexpr std::size_t kCount = 1501;
      for (const Kind& kind : kKinds) {
        if (size_of(kind.type) < sizeof(float)) continue;  // rounded once, so that few orders show
        std::vector<unsigned char> results[2];
        for (const int epoch : {0, 1}) {
          const auto mine = contribution(kind.type, kind.op, kCount, epoch == 0 ? world.rank() : 3 - world.rank());
          TestBuffer buffer(world, mine.size());
          buffer.write(mine);
          CollectiveCall call = all_reduce({buffer.data(), buffer.data(), kCount, kind.type}, kind.op);
          call.factor = epoch == 0 ? 1 + 0.1 * world.rank() : 1 + 0.1 * (3 - world.rank());
          world.collective().run(call);
          results[epoch] = buffer.read();
        }
        CHECK(results[0] != results[1]);
      }
    });
  }
}

namespace {

// As product() in rules.hpp: rounded by itself, whichever options compile this file.
template <class Real>
Real rounded(Real a, Real b) {
  volatile Real product = a * b;
  return product;
}

// The premulsum of two ranks' elements, and its value if the sum were merged with its second product.
template <class Real>
struct Scaled {
  Real apart = 0;
  Real merged = 0;

  Scaled(Real a, Real factor_a, Real b, Real factor_b)
      : apart(rounded(a, factor_a) + rounded(b, factor_b)), merged(std::fma(b, factor_b, rounded(a, factor_a))) {}
};

template <class Real>
void check_products(World& world, ElementType type) {
  constexpr std::size_t kCount = 500;
  const auto value = [](int rank, std::size_t i) {
    return static_cast<Real>(std::sin(static_cast<double>(i * 13) + rank));
  };
  const auto factor = [](int rank) { return 1.1 + 0.1 * rank; };
  std::vector<unsigned char> mine;
  std::vector<unsigned char> apart;
  std::vector<unsigned char> merged;
  for (std::size_t i = 0; i < kCount; ++i) {
    append(mine, value(world.rank(), i));
    const Scaled<Real> both(value(0, i), static_cast<Real>(factor(0)), value(1, i), static_cast<Real>(factor(1)));
    append(apart, both.apart);
    append(merged, both.merged);
  }
  CHECK(apart != merged);
  TestBuffer input(world, mine.size());
  TestBuffer output(world, mine.size());
  input.write(mine);
  for (const Algorithm algorithm : kEach) {
    CollectiveCall call = all_reduce({input.data(), output.data(), kCount, type}, ReduceOp::premulsum);
    call.factor = factor(world.rank());
    call.algorithm = algorithm;
    if (!can(world, call)) continue;
    world.collective().run(call);
    expect(world, call, output.read(), apart, "with each product rounded:");
  }
}

// Products of complex numbers, whose parts are sums of products.
template <class Real>
void check_complex_products(World& world, ElementType type) {
  constexpr std::size_t kCount = 500;
  const auto value = [](int number, std::size_t i) {
    return static_cast<Real>(std::sin(static_cast<double>(i * 13) + number));
  };
  std::vector<unsigned char> mine;
  std::vector<unsigned char> apart;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Real a[2] = {value(0, i), value(1, i)};
    const Real b[2] = {value(2, i), value(3, i)};
    for (const int part : {0, 1}) append(mine, world.rank() == 0 ? a[part] : b[part]);
    append(apart, rounded(a[0], b[0]) - rounded(a[1], b[1]));
    append(apart, rounded(a[0], b[1]) + rounded(a[1], b[0]));
  }
  TestBuffer input(world, mine.size());
  TestBuffer output(world, mine.size());
  input.write(mine);
  for (const Algorithm algorithm : kEach) {
    CollectiveCall call = all_reduce({input.data(), output.data(), kCount, type}, ReduceOp::prod);
    call.algorithm = algorithm;
    if (!can(world, call)) continue;
    world.collective().run(call);
    expect(world, call, output.read(), apart, "with each product rounded:");
  }
}

}  // namespace

// A compiler may merge a product with the sum behind it, in some kernels and not in others. Every order of adding
// gives the same for two ranks.
CASE(products_are_rounded_before_they_are_added_by_every_algorithm) {
  const Coverage coverage;
  on_all_devices(2, [](World& world) {
    check_products<float>(world, ElementType::float32);
    check_products<double>(world, ElementType::float64);
    check_complex_products<float>(world, ElementType::complex64);
    check_complex_products<double>(world, ElementType::complex128);
  });
  coverage.check(std::array{OpKind::all_reduce},
                 std::array{Algorithm::ll, Algorithm::two_shot, Algorithm::ll128, Algorithm::simple, Algorithm::ring,
                            Algorithm::tree, Algorithm::halving_doubling});
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
