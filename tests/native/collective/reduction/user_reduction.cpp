// Reductions by a function of the caller's own, on elements of any size: matrices, whose product does not commute, in
// the order of the ranks.
#include <cstring>
#include <stdexcept>

#include "onstream/collective.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::reduced_by;
using onstream::collective::Vector;

namespace {

struct Matrix {
  std::uint64_t a, b, c, d;
};

Matrix product(const Matrix& x, const Matrix& y) {
  return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

void multiply(const void* in, void* inout, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Matrix x;
    Matrix y;
    std::memcpy(&x, static_cast<const Matrix*>(in) + i, sizeof x);
    std::memcpy(&y, static_cast<Matrix*>(inout) + i, sizeof y);
    y = product(x, y);
    std::memcpy(static_cast<Matrix*>(inout) + i, &y, sizeof y);
  }
}

// The same for blocks of so many matrices of every rank, of which [first, last) are multiplied.
Matrix matrix_of(int rank, std::size_t i) {
  const std::uint64_t n = i % 97;
  return {n + 1, static_cast<std::uint64_t>(rank) + 2, n * 3, 5};
}
std::vector<unsigned char> bytes_of(std::size_t begin, std::size_t count, int first, int last) {
  std::vector<unsigned char> bytes(count * sizeof(Matrix));
  for (std::size_t i = 0; i < count; ++i) {
    Matrix all = matrix_of(first, begin + i);
    for (int rank = first + 1; rank < last; ++rank) all = product(all, matrix_of(rank, begin + i));
    std::memcpy(bytes.data() + i * sizeof(Matrix), &all, sizeof all);
  }
  return bytes;
}

constexpr OpKind kKinds[] = {OpKind::all_reduce, OpKind::reduce, OpKind::reduce_scatter, OpKind::scan,
                             OpKind::exclusive_scan};

void check_kind(World& world, OpKind kind, std::size_t count, const OwnStream* stream) {
  const int rank = world.rank();
  const int size = world.size();
  const bool scatters = kind == OpKind::reduce_scatter;
  const std::size_t in_count = scatters ? count * static_cast<std::size_t>(size) : count;
  const std::size_t begin = scatters ? count * static_cast<std::size_t>(rank) : 0;
  TestBuffer input(world, in_count * sizeof(Matrix));
  TestBuffer output(world, count * sizeof(Matrix));
  const auto mine = bytes_of(0, in_count, rank, rank + 1);
  input.write(mine);
  std::vector<unsigned char> expected = output.read();
  if (kind == OpKind::scan) {
    expected = bytes_of(begin, count, 0, rank + 1);
  } else if (kind == OpKind::exclusive_scan) {
    if (rank > 0) expected = bytes_of(begin, count, 0, rank);
  } else if (kind != OpKind::reduce || rank == size / 2) {
    expected = bytes_of(begin, count, 0, size);
  }
  CollectiveCall call;
  call.kind = kind;
  call.input = input.data();
  call.output = output.data();
  call.count = count;
  call.root = size / 2;
  const auto run = [&] {
    if (stream == nullptr) return world.collective().run(reduced_by(call, sizeof(Matrix), multiply));
    world.collective().run(reduced_by(call, sizeof(Matrix), multiply), *stream);  // the call itself may go at once
    world.synchronize(*stream);
  };
  run();
  CHECK(output.read() == expected);
  CHECK(input.read() == mine);

  const bool stays = (kind == OpKind::exclusive_scan && rank == 0) || (kind == OpKind::reduce && rank != size / 2);
  call.output = input.data() + begin * sizeof(Matrix);
  run();
  const auto got = input.read();
  const auto place = static_cast<std::ptrdiff_t>(begin * sizeof(Matrix));
  const auto wanted = stays ? mine : expected;
  CHECK(std::equal(wanted.begin(), wanted.end(), got.begin() + place));
}

}  // namespace

CASE(a_function_that_does_not_commute_is_applied_in_the_order_of_the_ranks) {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, quick("host"), [](World& world) {
      const OwnStream stream(world);
      for (const OpKind kind : kKinds) {
        for (const std::size_t count : {1, 6, 4000}) {
          check_kind(world, kind, count, nullptr);
          check_kind(world, kind, count, &stream);
        }
      }
    });
  }
}

CASE(a_captured_function_is_called_at_every_replay) {
  run_ranks(3, quick("host"), [](World& world) {
    TestBuffer buffer(world, sizeof(std::uint64_t));
    Device& device = world.device();
    const OwnStream stream(world);
    std::vector<unsigned char> one(sizeof(std::uint64_t));
    one[0] = static_cast<unsigned char>(world.rank() + 1);
    buffer.write(one);
    device.begin_capture(stream);
    {
      const std::uint64_t by = 2;  // the function owns its state
      world.collective().run(
          reduced_by(collective::all_reduce({buffer.data(), buffer.data(), 1}), sizeof(std::uint64_t),
                     [by](const void* in, void* inout, std::size_t) {
                       std::uint64_t x = 0;
                       std::uint64_t y = 0;
                       std::memcpy(&x, in, sizeof x);
                       std::memcpy(&y, inout, sizeof y);
                       y = x + y + by;
                       std::memcpy(inout, &y, sizeof y);
                     }),
          stream);
    }
    const auto graph = device.end_capture(stream);
    for (int i = 0; i < 2; ++i) device.launch(graph, stream);
    world.synchronize(stream);
    std::uint64_t got = 0;
    std::memcpy(&got, buffer.read().data(), sizeof got);
    CHECK(got == 3 * (1 + 2 + 3 + 2 * 2) + 2 * 2);
  });
}

CASE(what_a_function_throws_fails_the_world_by_name) {
  run_ranks(2, quick("host"), [](World& world) {
    TestBuffer buffer(world, 64);
    const auto call = collective::all_reduce({buffer.data(), buffer.data(), 8});
    const auto throws = [&](const void*, void*, std::size_t) {
      if (world.rank() == 1) throw std::runtime_error("no such element");
    };
    try {
      world.collective().run(reduced_by(call, 8, throws));
      world.collective().run(collective::barrier());  // the other one hears of it
    } catch (const Error&) {
    }
    CHECK_THROWS(world.check(), "the program's own reduction threw on rank 1: no such element");
  });
}

CASE(what_a_function_of_a_stream_throws_is_told_by_the_end_of_the_world) {
  run_ranks(2, quick("host"), [](World& world) {
    TestBuffer buffer(world, 64);
    const OwnStream stream(world);
    const auto call = collective::all_reduce({buffer.data(), buffer.data(), 8});
    const auto throws = [](const void*, void*, std::size_t) { throw std::runtime_error("no such element"); };
    world.collective().run(reduced_by(call, 8, throws), stream);
    CHECK_THROWS(world.finish({}, {}), "the program's own reduction threw on rank");
  });
}

// Several of different sizes under way at once, again and again: nothing is freed.
CASE(calls_have_the_memory_of_those_before) {
  run_ranks(3, quick("host"), [](World& world) {
    const OwnStream stream(world);
    const auto all_sizes = [&] {
      std::vector<std::unique_ptr<TestBuffer>> buffers;
      for (const std::size_t count : {1, 40, 3000}) {
        buffers.push_back(std::make_unique<TestBuffer>(world, count * sizeof(Matrix)));
        buffers.back()->write(bytes_of(0, count, world.rank(), world.rank() + 1));
      }
      world.barrier();
      const std::uint64_t frees = world.device().frees();
      for (int turn = 0; turn < 5; ++turn) {
        for (const auto& buffer : buffers) {
          const Vector vector{buffer->data(), buffer->data(), buffer->bytes() / sizeof(Matrix)};
          world.collective().run(reduced_by(collective::all_reduce(vector), sizeof(Matrix), multiply), stream);
        }
        world.synchronize(stream);
        world.barrier();
      }
      CHECK(world.device().frees() == frees);
      world.barrier();
    };
    all_sizes();
    all_sizes();
  });
}

CASE(where_no_function_can_be_called_is_told) {
  on_all_devices(2, [](World& world) {
    only_on_one_host(world);
    TestBuffer buffer(world, 64);
    Collective& it = world.collective();
    const Vector vector{buffer.data(), buffer.data(), 2};
    if (world.device().kind() != DeviceKind::host) {
      CHECK_THROWS(it.run(reduced_by(collective::all_reduce(vector), 8, multiply)), "works on the host device");
      return;
    }
    CHECK_THROWS(it.run(reduced_by(collective::all_gather(vector), 8, multiply)), "all_gather reduces nothing");
    CHECK_THROWS(it.run(reduced_by(collective::all_reduce(vector), 0, multiply)), "elements of 0 bytes");
    CHECK_THROWS(it.run(reduced_by(collective::all_reduce(vector), 64, multiply)), "ends");
    CHECK(it.explain(reduced_by(collective::all_reduce(vector), 8, multiply)).find("behind all_gather of 16 B") !=
          std::string::npos);
    it.run(collective::all_reduce(vector));  // nothing is broken
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
