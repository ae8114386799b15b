// Reductions by a functor of the caller's own, on every device: elements of many sizes at any address, in the order of
// the ranks, by every algorithm that can.
#include <cstring>
#include <type_traits>

#include "collective/collective_cases.hpp"
#include "collective_user_op_kernels.hpp"
#include "onstream/plan.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_reduce;
using onstream::collective::reduced_with;
using onstream::collective::Vector;

namespace {

template <class F>
using ElementOf = typename collective::own::ElementOf<F>::Type;
static_assert(std::is_same_v<ElementOf<Multiply>, Matrix> && std::is_same_v<ElementOf<Largest>, Found>);
constexpr auto kAdd = [](double x, double y) { return x + y; };
static_assert(std::is_same_v<ElementOf<decltype(kAdd)>, double>);

constexpr Algorithm kWithFunctors[] = {Algorithm::ll, Algorithm::two_shot, Algorithm::simple};

// A functor and the ranks' inputs to it.
template <class F, class T>
struct Trial {
  F functor;
  T (*value)(int rank, std::size_t i);
};

const Trial<Multiply, Matrix> kMultiply{{}, [](int rank, std::size_t i) {
                                          const auto n = static_cast<std::uint32_t>(i);
                                          return Matrix{n + 1, static_cast<std::uint32_t>(rank) + 2, n * 3, 5};
                                        }};
const Trial<Compose, Affine> kCompose{Compose(1'000'003), [](int rank, std::size_t i) {
                                        const auto n = static_cast<std::uint32_t>(i);
                                        return Affine{n % 991 + 2, static_cast<std::uint32_t>(rank) * 7 + n % 13};
                                      }};
const Trial<Largest, Found> kLargest{{}, [](int rank, std::size_t i) {
                                       const auto n = static_cast<std::size_t>(rank) * 5 + i;
                                       return Found{static_cast<double>(n % 4), rank * 1000, 1};
                                     }};
const Trial<Join, Span> kJoin{{}, [](int rank, std::size_t i) {
                                const auto first =
                                    static_cast<std::uint8_t>(i % 90 + static_cast<std::size_t>(rank) + 1);
                                return Span{first, first};
                              }};
template <int kBytes>
const Trial<Maps<kBytes>, Bytes<kBytes>> kMaps{
    {}, [](int rank, std::size_t i) {
      Bytes<kBytes> all{};
      for (std::size_t k = 0; k < kBytes; ++k) {
        all.at[k] = static_cast<std::uint8_t>((i * 31 + k * 7 + static_cast<std::size_t>(rank) * 59) % 249 + 1);
      }
      return all;
    }};

// The elements [begin, begin + count) of the ranks [first, last), reduced.
template <class F, class T>
std::vector<unsigned char> result_of(const Trial<F, T>& trial, int first, int last, std::size_t begin,
                                     std::size_t count) {
  std::vector<unsigned char> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    T all = trial.value(first, begin + i);
    for (int rank = first + 1; rank < last; ++rank) all = trial.functor(all, trial.value(rank, begin + i));
    std::memcpy(bytes.data() + i * sizeof(T), &all, sizeof all);
  }
  return bytes;
}

struct How {
  OpKind kind = OpKind::all_reduce;
  std::size_t count = 1;
  Algorithm algorithm = Algorithm::automatic;
  Where where = Where::reachable;
  std::size_t offset = 0;  // of the buffers from the best address
};

std::vector<unsigned char> behind(std::size_t offset, const std::vector<unsigned char>& values) {
  std::vector<unsigned char> all(offset, 0xa5);
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

// Beside its input and over it.
template <class F, class T>
void check(World& world, const Trial<F, T>& trial, const How& how, const OwnStream* stream) {
  const int rank = world.rank();
  const int size = world.size();
  const int root = size / 2;
  const bool scatters = how.kind == OpKind::reduce_scatter;
  const std::size_t in_count = scatters ? how.count * static_cast<std::size_t>(size) : how.count;
  const std::size_t begin = scatters ? how.count * static_cast<std::size_t>(rank) : 0;
  const std::vector<unsigned char> mine = behind(how.offset, result_of(trial, rank, rank + 1, 0, in_count));
  Buffer input(world, mine.size(), how.where);
  Buffer output(world, how.offset + how.count * sizeof(T), how.where);
  CollectiveCall call;
  call.kind = how.kind;
  call.input = input.data() + how.offset;
  call.output = output.data() + how.offset;
  call.count = how.count;
  call.root = root;
  call.algorithm = how.algorithm;
  call = with<F, T>(call, trial.functor);
  if (how.algorithm != Algorithm::automatic && !can(world, call)) return;

  const bool gets = !(how.kind == OpKind::reduce && rank != root) && !(how.kind == OpKind::exclusive_scan && rank == 0);
  int last = size;
  if (how.kind == OpKind::scan) last = rank + 1;
  if (how.kind == OpKind::exclusive_scan) last = rank;
  const auto result = gets ? result_of(trial, 0, last, begin, how.count) : std::vector<unsigned char>();
  auto expected = behind(how.offset, std::vector<unsigned char>(how.count * sizeof(T), 0x5a));
  output.write(expected);
  input.write(mine);
  run(world, call, stream);
  std::copy(result.begin(), result.end(), expected.begin() + static_cast<std::ptrdiff_t>(how.offset));
  expect(world, call, output.read(), expected, "beside");
  CHECK(input.read() == mine);

  expected = mine;
  const std::size_t place = how.offset + begin * sizeof(T);
  std::copy(result.begin(), result.end(), expected.begin() + static_cast<std::ptrdiff_t>(place));
  call.output = input.data() + place;
  run(world, call, stream);
  auto got = input.read();
  // The rest of the input of a reduce_scatter in place may be anything.
  if (scatters) {
    const auto at = static_cast<std::ptrdiff_t>(place);
    const auto length = static_cast<std::ptrdiff_t>(how.count * sizeof(T));
    got = {got.begin() + at, got.begin() + at + length};
    expected = {expected.begin() + at, expected.begin() + at + length};
  }
  expect(world, call, got, expected, "in place");
}

// Every kind by every algorithm.
template <class F, class T>
void check_all(int size, const Trial<F, T>& trial, const std::vector<std::size_t>& counts) {
  on_all_devices(size, [&](World& world) {
    const OwnStream stream(world);
    std::size_t offset = 0;
    for (const OpKind kind : kReductions) {
      for (const std::size_t count : counts) {
        for (const Algorithm algorithm : kSameBits) {
          for (const Where where : places(world)) {
            check(world, trial, {kind, count, algorithm, where, offset++ % 17}, offset % 3 == 0 ? &stream : nullptr);
          }
        }
      }
    }
  });
}

}  // namespace

CASE(a_product_of_matrices_is_made_in_the_order_of_the_ranks) {
  for (int size = 1; size <= 5; ++size) check_all(size, kMultiply, {1, 7, 1000});
}
CASE(a_functor_has_members) {
  for (const int size : {1, 2, 4, 8, 9}) check_all(size, kCompose, {1, 7, 500});
}
CASE(elements_of_24_bytes_are_compared) {
  for (int size = 2; size <= 5; ++size) check_all(size, kLargest, {1, 6, 700});
}
CASE(elements_that_nobody_gave_are_never_combined) {
  strange_spans = 0;
  for (const int size : {1, 2, 3, 4, 8, 9}) check_all(size, kJoin, {1, 3, 7, 601});
  CHECK(strange_spans == 0);
}
CASE(elements_may_have_any_size_and_lie_at_any_address) {
  for (const int size : {2, 3}) {
    check_all(size, kMaps<1>, {1, 13, 300});
    check_all(size, kMaps<3>, {1, 5, 300});
    check_all(size, kMaps<12>, {1, 9, 200});
    check_all(size, kMaps<40>, {1, 9, 150});
    check_all(size, kMaps<255>, {1, 3, 40});
  }
}
CASE(large_elements_are_of_many_ranks_too) {
  check_all(9, kMaps<12>, {7});
  check_all(9, kMaps<40>, {1, 50});
  check_all(9, kMaps<255>, {20});
}

// The most ranks that there can be; packs of which no whole number is in 64.
CASE(many_ranks_reduce_elements_of_24_and_40_bytes) {
  run_ranks(all_or_few(64, 16), quick("host"), [](World& world) {
    check(world, kLargest, {OpKind::all_reduce, 3, Algorithm::ll}, nullptr);
    check(world, kMaps<40>, {OpKind::scan, 2, Algorithm::ll}, nullptr);
  });
}

CASE(large_reductions_and_small_stages_are_right_too) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.collective_stage_bytes = 4096;
    run_ranks(3, parameters, [](World& world) {
      const OwnStream stream(world);
      for (const Where where : places(world)) {
        for (const OpKind kind : kReductions) {
          check(world, kMultiply, {kind, 20000, Algorithm::automatic, where}, &stream);
          check(world, kMaps<255>, {kind, 500, Algorithm::automatic, where, 3}, &stream);
        }
      }
    });
  }
  on_all_devices(2, [](World& world) {
    const OwnStream stream(world);
    check(world, kMultiply, {OpKind::all_reduce, 100000}, &stream);
    check(world, kLargest, {OpKind::scan, 100000}, &stream);
    check(world, kMaps<3>, {OpKind::reduce_scatter, 100000}, &stream);
  });
}

CASE(nothing_is_reduced_to_nothing) {
  on_all_devices(2, [](World& world) {
    world.collective().run(with<Multiply, Matrix>(all_reduce({nullptr, nullptr, 0}), {}));
    world.collective().run(collective::barrier());
  });
}

CASE(captured_functors_mean_the_same_at_every_replay) {
  on_all_devices(3, [](World& world) {
    constexpr std::size_t kCount = 50;
    TestBuffer values(world, kCount * sizeof(Matrix));
    const OwnStream stream(world);
    load<Multiply, Matrix>(world.collective());
    std::vector<Matrix> wanted(kCount);
    std::vector<unsigned char> bytes(kCount * sizeof(Matrix));
    for (std::size_t i = 0; i < kCount; ++i) wanted[i] = Matrix{1, static_cast<std::uint32_t>(i), 2, 3};
    std::memcpy(bytes.data(), wanted.data(), bytes.size());
    values.write(bytes);
    world.device().begin_capture(stream);
    for (const Algorithm algorithm : kWithFunctors) {
      CollectiveCall call = with<Multiply, Matrix>(all_reduce({values.data(), values.data(), kCount}), {});
      call.algorithm = algorithm;
      world.collective().run(call, stream);
    }
    const auto graph = end_capture_of_all(world, stream);
    constexpr int kReplays = 3;
    for (int i = 0; i < kReplays; ++i) world.device().launch(graph, stream);
    world.synchronize(stream);
    for (Matrix& matrix : wanted) {  // each is the third power
      for (int i = 0; i < 3 * kReplays; ++i) matrix = Multiply{}(Multiply{}(matrix, matrix), matrix);
    }
    std::memcpy(bytes.data(), wanted.data(), bytes.size());
    CHECK(values.read() == bytes);
  });
}

CASE(a_plan_runs_a_functor_at_every_launch) {
  on_all_devices(3, [](World& world) {
    TestBuffer values(world, sizeof(Affine));
    const OwnStream stream(world);
    values.write(result_of(kCompose, world.rank(), world.rank() + 1, 0, 1));
    PlanBuilder builder = world.plan("functors");
    builder.add(world.collective().planned(
        with<Compose, Affine>(all_reduce({values.data(), values.data(), 1}), kCompose.functor)));
    const auto plan = builder.build();
    for (int i = 0; i < 2; ++i) plan->launch(stream);
    world.synchronize(stream);
    Affine all = kCompose.value(0, 0);
    for (int rank = 1; rank < 3; ++rank) all = kCompose.functor(all, kCompose.value(rank, 0));
    all = kCompose.functor(kCompose.functor(all, all), all);
    std::vector<unsigned char> bytes(sizeof all);
    std::memcpy(bytes.data(), &all, sizeof all);
    CHECK(values.read() == bytes);
  });
}

CASE(functors_run_on_several_channels_at_once_and_among_teams) {
  on_all_devices(4, [](World& world) {
    const int rank = world.rank();
    const std::vector<int> ranks = rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
    const auto team = world.collective().among(ranks);
    TestBuffer spans(world, sizeof(Span));
    spans.write({static_cast<unsigned char>(team->rank() + 1), static_cast<unsigned char>(team->rank() + 1)});
    team->run(with<Join, Span>(all_reduce({spans.data(), spans.data(), 1}), {}));
    CHECK(spans.read() == (std::vector<unsigned char>{1, 2}));

    const OwnStream streams[] = {OwnStream(world), OwnStream(world)};
    const auto mine = result_of(kMultiply, rank, rank + 1, 0, 40);
    TestBuffer first(world, mine.size());
    TestBuffer second(world, mine.size());
    first.write(mine);
    second.write(mine);
    for (int i = 0; i < 2; ++i) {
      const int channel = (i + rank) % 2;  // not all ranks begin with the same
      const TestBuffer& buffer = channel == 0 ? first : second;
      CollectiveCall call = with<Multiply, Matrix>(all_reduce({buffer.data(), buffer.data(), 40}), {});
      call.channel = channel;
      world.collective().run(call, streams[channel]);
    }
    for (const OwnStream& stream : streams) world.synchronize(stream);
    const auto wanted = result_of(kMultiply, 0, world.size(), 0, 40);
    CHECK(first.read() == wanted && second.read() == wanted);
  });
}

CASE(what_cannot_be_reduced_with_a_functor_is_told) {
  on_all_devices(2, [](World& world) {
    TestBuffer buffer(world, 256);
    Collective& it = world.collective();
    const Vector vector{buffer.data(), buffer.data(), 4};
    CHECK_THROWS(reduced_with<Multiply>(collective::all_gather(vector)), "all_gather reduces nothing");
    CHECK_THROWS(reduced_with<Multiply>(with<Join, Span>(all_reduce(vector), {})),
                 "has a reduction of your own already");
    CHECK_THROWS(reduced_with<Multiply>(all_reduce({buffer.data(), buffer.data(), ~std::size_t{0} / 2})),
                 "more than there are addresses");
    CHECK_THROWS(it.run(with<Multiply, Matrix>(all_reduce({buffer.data(), buffer.data(), 20}), {})), "ends");
    auto changed = with<Multiply, Matrix>(all_reduce(vector), {});
    changed.count = 5;
    CHECK_THROWS(it.run(changed), "5 uint8 are no whole elements of 16 B; the call was changed behind reduced_with");
    for (const char* name : {"ring", "tree", "copy"}) {
      auto call = with<Multiply, Matrix>(all_reduce(vector), {});
      call.algorithm = algorithm_of(name);
      CHECK_THROWS(it.run(call), concat("algorithm ", name, " cannot: it has no kernel with a functor of yours"));
    }
    auto call = with<Largest, Found>(all_reduce(vector), {});
    call.algorithm = Algorithm::two_shot;
    CHECK_THROWS(it.run(call), "algorithm two_shot cannot: it is for elements of 1, 2, 4, 8 or 16 B");
    if (world.device().kind() == DeviceKind::cuda) {  // this file is not compiled by nvcc
      CHECK_THROWS(it.run(reduced_with<Multiply>(all_reduce(vector))),
                   "Multiply has no kernels for cuda: have nvcc compile the file");
    } else {
      it.run(reduced_with<Multiply>(all_reduce(vector)));
    }
    const std::string told = it.explain(with<Multiply, Matrix>(all_reduce(vector), {}));
    CHECK(told.find("all_reduce of 4 elements of 16 B by onstream::test::Multiply on 2 ranks: ") == 0);
    it.run(all_reduce(vector));  // nothing is broken
  });
}

CASE(functors_that_differ_are_told_at_once) {
  for (const std::string& device : device_specs()) {
    for (const Algorithm algorithm : kWithFunctors) {
      Parameters parameters = quick(device);
      parameters.timeout_s = 100;
      run_ranks(3, parameters, [&](World& world) {
        TestBuffer buffer(world, 256);
        Collective& it = world.collective();
        const Vector vector{buffer.data(), buffer.data(), 16};
        auto call = with<Compose, Affine>(all_reduce(vector), Compose(world.rank() == 1 ? 7 : 11));
        call.algorithm = algorithm;
        try {
          it.run(collective::barrier());
          it.run(call);
          it.run(collective::barrier());
        } catch (const Error&) {  // as soon as anybody knows
        }
        CHECK_THROWS(world.check(), "calls another collective, or the same with another count");
      });
    }
  }
}

CASE(the_checking_mode_names_functors_that_differ) {
  Parameters parameters = quick("host");
  parameters.collective_check = "on";
  run_ranks(2, parameters, [](World& world) {
    TestBuffer buffer(world, 256);
    const Vector vector{buffer.data(), buffer.data(), 8};
    Collective& it = world.collective();
    const auto call =
        world.rank() == 0 ? reduced_with<Multiply>(all_reduce(vector)) : reduced_with<Largest>(all_reduce(vector));
    CHECK_THROWS(it.run(call), "all_reduce of 8 elements of 16 B by onstream::test::Multiply");
    CHECK_THROWS(it.run(call), "all_reduce of 8 elements of 24 B by onstream::test::Largest");
    const auto other = reduced_with(all_reduce(vector), Compose(world.rank() == 0 ? 7 : 11));
    CHECK_THROWS(it.run(other), "by onstream::test::Compose (members' digest ");
    it.run(reduced_with(all_reduce(vector), Compose(7)));  // the world goes on
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
