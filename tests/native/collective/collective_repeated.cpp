// Calls that are made again: each does its own work, whichever calls like it came before; and a call that cannot work
// any more is refused as it was the first time.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective_cases.hpp"
#include "onstream/collective/enqueue/call_cache.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/device.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::all_reduce;

namespace {

constexpr std::size_t kCount = 24;
constexpr std::size_t kBytes = kCount * sizeof(double);
constexpr int kRanks = 3;

// A call, and its output.
struct Meant {
  const char* name;
  CollectiveCall call;
  std::function<double(std::size_t)> value;  // of element i
};

std::vector<unsigned char> doubles(const std::function<double(std::size_t)>& value) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < kCount; ++i) append(bytes, value(i));
  return bytes;
}

// The values of rank `rank`: whole numbers, so that every order of adding gives the same.
double given(int rank, std::size_t i) { return static_cast<double>(rank + 1) * static_cast<double>(i + 2); }
double sum(std::size_t i) { return 6 * static_cast<double>(i + 2); }
constexpr double kBefore = -7;  // in the output
// The bits of each rank's values, as whole numbers; their sum wraps around, as the collectives' does.
double sum_of_words(std::size_t i) {
  std::uint64_t words = 0;
  for (int rank = 0; rank < kRanks; ++rank) words += std::bit_cast<std::uint64_t>(given(rank, i));
  return std::bit_cast<double>(words);
}

// Calls that differ from the first in one thing each. `elsewhere` holds twice the first's input.
std::vector<Meant> likes(const CollectiveCall& first, std::byte* elsewhere, int rank) {
  std::vector<Meant> all = {{"the first", first, sum}};
  const auto with = [&](const char* name, const auto& change, std::function<double(std::size_t)> value) {
    all.push_back({name, first, std::move(value)});
    change(all.back().call);
  };
  with("op", [](CollectiveCall& it) { it.op = ReduceOp::max; }, [](std::size_t i) { return given(2, i); });
  with("count", [](CollectiveCall& it) { it.count = 5; }, [](std::size_t i) { return i < 5 ? sum(i) : kBefore; });
  with("input", [&](CollectiveCall& it) { it.input = elsewhere; }, [](std::size_t i) { return 2 * sum(i); });
  with("type", [](CollectiveCall& it) { it.type = ElementType::int64; }, sum_of_words);
  with("output", [&](CollectiveCall& it) { it.output = elsewhere; }, sum);
  with("algorithm", [](CollectiveCall& it) { it.algorithm = Algorithm::two_shot; }, sum);
  with("channel", [](CollectiveCall& it) { it.channel = 1; }, sum);
  for (const double factor : {0.5, 4.0}) {
    with(
        "factor",
        [&](CollectiveCall& it) {
          it.op = ReduceOp::premulsum;
          it.factor = factor;
        },
        [factor](std::size_t i) { return factor * sum(i); });
  }
  for (const int root : {0, 2}) {
    with(
        "root",
        [&](CollectiveCall& it) {
          it.kind = OpKind::reduce;
          it.root = root;
        },
        [=](std::size_t i) { return rank == root ? sum(i) : kBefore; });
  }
  with(
      "kind", [](CollectiveCall& it) { it.kind = OpKind::scan; },
      [rank](std::size_t i) {
        double below = 0;
        for (int other = 0; other <= rank; ++other) below += given(other, i);
        return below;
      });
  return all;
}

}  // namespace

CASE(calls_that_differ_in_one_thing_are_told_apart) {
  on_all_devices_in_pairs(kRanks, [](World& world) {
    TestBuffer input(world, kBytes);
    TestBuffer elsewhere(world, kBytes);
    TestBuffer output(world, kBytes);
    const OwnStream stream(world);
    input.write(doubles([&](std::size_t i) { return given(world.rank(), i); }));
    elsewhere.write(doubles([&](std::size_t i) { return 2 * given(world.rank(), i); }));
    const CollectiveCall first = all_reduce({input.data(), output.data(), kCount, ElementType::float64});
    std::vector<Meant> all = likes(first, elsewhere.data(), world.rank());
    if (world.device().kind() == DeviceKind::host) {
      const auto largest = [](const void* in, void* inout, std::size_t count) {
        const auto* theirs = static_cast<const double*>(in);
        auto* mine = static_cast<double*>(inout);
        for (std::size_t i = 0; i < count; ++i) mine[i] = std::max(mine[i], theirs[i]);
      };
      all.push_back({"a function", collective::reduced_by(first, sizeof(double), largest),
                     [](std::size_t i) { return given(2, i); }});
    }
    // Every one behind every other one, and behind itself.
    for (const Meant& one : all) {
      for (const Meant& other : all) {
        for (const Meant* meant : {&one, &one, &other}) {
          for (const OwnStream* where : {static_cast<const OwnStream*>(nullptr), &stream}) {
            output.write(doubles([](std::size_t) { return kBefore; }));
            elsewhere.write(doubles([&](std::size_t i) { return 2 * given(world.rank(), i); }));
            run(world, meant->call, where);
            const TestBuffer& result = meant->call.output == output.data() ? output : elsewhere;
            if (result.read() != doubles(meant->value)) {
              throw CheckFailed(concat(meant->name, " between ", one.name, " and ", other.name));
            }
          }
        }
      }
    }
  });
}

CASE(a_call_means_the_same_before_and_behind_stages_captures_and_new_channels) {
  on_all_devices_in_pairs(4, [](World& world) {
    TestBuffer input(world, kBytes);
    TestBuffer output(world, kBytes);
    const OwnStream stream(world);
    Collective& all = world.collective();
    input.write(doubles([&](std::size_t i) { return given(world.rank(), i); }));
    CollectiveCall lines = all_reduce({input.data(), output.data(), kCount, ElementType::float64});
    lines.algorithm = Algorithm::ll;
    const auto is_right = [&](const std::function<void()>& act) {
      for (int i = 0; i < 3; ++i) {
        output.write(doubles([](std::size_t) { return kBefore; }));
        act();
        world.synchronize(stream);
        if (output.read() != doubles([](std::size_t k) { return 10 * static_cast<double>(k + 2); })) return false;
      }
      return true;
    };
    const auto eager = [&] { all.run(lines, stream); };
    CHECK(is_right(eager));
    CollectiveCall staged = lines;
    staged.algorithm = Algorithm::hierarchical;
    run(world, staged, &stream);
    CHECK(is_right(eager));
    world.device().begin_capture(stream);
    eager();
    const auto graph = end_capture_of_all(world, stream);
    CHECK(is_right([&] { world.device().launch(graph, stream); }));
    CHECK(is_right(eager));
    CollectiveCall aside = lines;
    aside.channel = 1;
    run(world, aside, &stream);
    CHECK(is_right(eager));
    const auto team = all.among(all.ranks());
    CHECK(is_right([&] { team->run(lines, stream); }));
    CHECK(is_right(eager));
  });
}

CASE(what_is_kept_is_replaced_and_forgotten) {
  using collective::CompiledCall;
  const auto device = open_device("host", 0);
  const auto memory = device->allocate(kBytes, MemoryKind::device);
  const collective::Buffers buffers = {{{memory->data(), device->inspect(memory->data()), device->frees()}, {}}};
  const auto made = [](int most, bool reusable) {
    CompiledCall work;
    work.most = most;
    work.reusable = reusable;
    return std::make_shared<const CompiledCall>(work);
  };
  const auto call = [&](int root) { return collective::broadcast({memory->data(), nullptr, 8, {}}, root); };
  collective::CallCache recent;
  const auto most_of = [&](int root) {
    const auto work = recent.find(call(root), *device);
    return work == nullptr ? 0 : work->most;
  };
  recent.keep(call(0), buffers, made(9, false));
  CHECK(most_of(0) == 0);
  recent.keep(call(0), buffers, made(1, true));
  CHECK(most_of(0) == 1 && most_of(1) == 0);
  recent.keep(call(0), buffers, made(2, true));
  CHECK(most_of(0) == 2);
  collective::Buffers others = buffers;
  ++others[0].info.id;
  (void)device->allocate(kBytes, MemoryKind::device);  // and it is freed: memory is looked at again
  CHECK(device->frees() != others[0].frees);
  recent.keep(call(0), others, made(3, true));
  CHECK(most_of(0) == 0);
  recent.keep(call(0), buffers, made(4, true));
  CHECK(most_of(0) == 4 && most_of(0) == 4);
  for (int root = 0; root < 64; ++root) recent.keep(call(root), buffers, made(root + 1, true));
  int kept = 0;
  for (int root = 0; root < 64; ++root) {
    CHECK(most_of(root) == 0 || most_of(root) == root + 1);
    kept += most_of(root) != 0 ? 1 : 0;
  }
  CHECK(kept >= 8);
  recent.forget();
  for (int root = 0; root < 64; ++root) CHECK(most_of(root) == 0);
}

CASE(a_buffer_that_was_freed_is_refused_however_often_it_was_used) {
  run_ranks(2, quick("host"), [](World& world) {
    auto buffer = std::make_unique<TestBuffer>(world, kBytes);
    const CollectiveCall call = all_reduce({buffer->data(), buffer->data(), kCount, ElementType::float64});
    for (int i = 0; i < 3; ++i) world.collective().run(call);
    world.barrier();
    buffer.reset();
    CHECK_THROWS(world.collective().run(call), "nothing is mapped");
  });
}

CASE(memory_at_an_address_that_was_freed_is_what_it_is_now) {
  run_ranks(2, quick("host"), [](World& world) {
    constexpr std::size_t kLarge = std::size_t{1} << 20;
    auto large = std::make_unique<TestBuffer>(world, kLarge);
    std::byte* const address = large->data();
    CollectiveCall call = all_reduce({address, address, 512, ElementType::float64});
    call.algorithm = Algorithm::ll;  // by the simple protocol a peer in this process would keep the pages
    for (int i = 0; i < 2; ++i) world.collective().run(call);
    for (int turn = 0; turn < world.size(); ++turn) {
      world.barrier();  // else this rank's address might be that of the other's next allocation
      if (turn != world.rank()) continue;
      large.reset();
      // The next allocation at the address, if there is one, is smaller than the call.
      const TestBuffer small(world, 64);
      CHECK_THROWS(world.collective().run(call), small.data() == address ? "ends 4032 B after" : "nothing is mapped");
    }
    world.barrier();
  });
}

CASE(plain_memory_is_looked_at_before_it_is_used_the_first_time) {
  run_ranks(2, quick("host"), [](World& world) {
    std::vector<double> values(kCount, 1);
    const auto in_place = [](void* at) { return all_reduce({at, at, kCount, ElementType::float64}); };
    for (int i = 0; i < 3; ++i) {
      world.collective().run(in_place(values.data()));
      CHECK(values == std::vector<double>(kCount, 2 << i));
    }
    // In the first page, which nobody maps; an unmapped address can be another thread's by now.
    void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1024});
    world.barrier();
    CHECK_THROWS(world.collective().run(in_place(nowhere)), "nothing is mapped");
  });
}

CASE(a_call_of_a_failed_world_is_refused_however_often_it_was_made) {
  on_all_devices_in_pairs(2, [](World& world) {
    TestBuffer buffer(world, kBytes);
    const CollectiveCall call = all_reduce({buffer.data(), buffer.data(), kCount, ElementType::float64});
    const OwnStream stream(world);
    for (int i = 0; i < 3; ++i) run(world, call, &stream);
    try {
      world.barrier();
    } catch (const Error&) {  // the other rank is past it, and the world is over
    }
    world.abort("it is over");
    CHECK_THROWS(world.collective().run(call, stream), "it is over");
    CHECK_THROWS(world.collective().run(call), "it is over");
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
