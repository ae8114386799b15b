// Symmetric memory: segments of any kind, the addresses of peers, refused calls and their errors, and host-issued ops.
#include <sys/wait.h>

#include <cstring>

#include "onstream/device/host/group.hpp"
#include "onstream/kernel.hpp"
#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

int next_of(const World& world) { return (world.rank() + 1) % world.size(); }
int before(const World& world) { return (world.rank() + world.size() - 1) % world.size(); }

// Parameters under which peers are reached directly, and through their proxies.
std::vector<Parameters> both_ways(const std::string& device) {
  Parameters direct = quick(device);
  Parameters staged = quick(device);
  staged.path = "stage";
  return {direct, staged};
}

void on_all_both_ways(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs_over_gpus(size)) {
    for (const Parameters& parameters : both_ways(device)) run_ranks(size, parameters, body);
  }
}

template <class T>
T read_word(World& world, const T* word) {
  T value;
  world.one_sided().copy(&value, word, sizeof value);
  return value;
}

std::vector<unsigned char> read(World& world, const void* from, std::size_t bytes) {
  std::vector<unsigned char> values(bytes);
  world.one_sided().copy(values.data(), from, bytes);
  return values;
}

// Each rank writes to its neighbour in every way of a context.
void exchange_by_context(World& world, MemoryKind kind) {
  constexpr std::size_t kBytes = 300'000;
  const auto segment = world.segment(kBytes + 64, kind);
  std::byte* const mine = segment->local();
  auto* const word = reinterpret_cast<std::uint64_t*>(mine + kBytes + 32);
  const auto team = world.team();
  Context context(world.one_sided());
  const auto rank = static_cast<unsigned>(world.rank());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{4097}, kBytes}) {
    const auto seed = static_cast<unsigned>(bytes);
    const std::vector<unsigned char> source = pattern(bytes, rank + seed);
    const auto expected = pattern(bytes, static_cast<unsigned>(before(world)) + seed);
    context.put(mine, source.data(), bytes, next_of(world));
    context.barrier(*team);
    CHECK(read(world, mine, bytes) == expected);
    std::vector<unsigned char> got(bytes);
    context.get(got.data(), mine, bytes, next_of(world));
    CHECK(got == source);
    context.barrier(*team);
    context.put_later(mine + 1, source.data(), bytes, next_of(world));
    context.quiet();
    context.barrier(*team);
    std::vector<unsigned char> later(bytes);
    context.get_later(later.data(), mine + 1, bytes, world.rank());
    context.quiet();
    CHECK(later == expected);
    context.barrier(*team);
  }
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::vector<unsigned char> source = pattern(1000, rank + static_cast<unsigned>(round));
    context.put_signal(mine, source.data(), 1000, word, round, round % 2 == 0 ? SignalOp::set : SignalOp::add,
                       next_of(world));
    CHECK(context.wait(word, Compare::ge, round) == Status::ok);
    CHECK(read(world, mine, 1000) ==
          pattern(1000, static_cast<unsigned>(before(world)) + static_cast<unsigned>(round)));
    context.barrier(*team);
    context.put_value(word, round, next_of(world));
    context.barrier(*team);
    CHECK(context.get_value(word, next_of(world)) == round);
    context.put_value(word, round, next_of(world));
    context.barrier(*team);
    context.put_value(word, round % 2 == 0 ? std::uint64_t{0} : round, next_of(world));
    context.barrier(*team);
  }
}

void columns_by_context(World& world, MemoryKind kind) {
  constexpr std::int64_t kSide = 24;
  const auto segment = world.segment(kSide * kSide * sizeof(double), kind);
  auto* const mine = reinterpret_cast<double*>(segment->local());
  Context context(world.one_sided());
  std::vector<double> column(kSide);
  for (std::int64_t i = 0; i < kSide; ++i)
    column[static_cast<std::size_t>(i)] = 100.0 * world.rank() + static_cast<double>(i);
  constexpr std::ptrdiff_t kRow = kSide * sizeof(double);
  context.put_strided(mine + 3, column.data(), {kRow, sizeof(double)}, sizeof(double), kSide, next_of(world));
  context.barrier(*world.team());
  std::vector<double> got(kSide);
  context.get_strided(got.data(), mine + 3, {sizeof(double), kRow}, sizeof(double), kSide, next_of(world));
  CHECK(got == column);
  std::vector<double> whole(kSide * kSide);
  world.one_sided().copy(whole.data(), mine, whole.size() * sizeof(double));
  for (std::int64_t i = 0; i < kSide; ++i) {
    CHECK(whole[static_cast<std::size_t>(i * kSide + 3)] == 100.0 * before(world) + static_cast<double>(i));
    CHECK(whole[static_cast<std::size_t>(i * kSide + 4)] == 0);
  }
  context.barrier(*world.team());
  // A reversed column, which begins behind its address.
  context.put_strided(mine + (kSide - 1) * kSide, column.data(), {-kRow, sizeof(double)}, sizeof(double), kSide,
                      next_of(world));
  context.barrier(*world.team());
  CHECK(read_word(world, mine) == 100.0 * before(world) + static_cast<double>(kSide - 1));
  CHECK_THROWS(context.put_strided(mine, column.data(), {-kRow, 8}, 8, 2, next_of(world)), "in no segment");
  CHECK_THROWS(context.put_strided(mine, column.data(), {kRow, 8}, 8, kSide + 1, next_of(world)), "not within");
  CHECK_THROWS(context.put_layout(mine, Layout::contiguous(8), column.data(), Layout::contiguous(16), 0),
               "layouts of equal bytes");
  context.barrier(*world.team());
}

template <class T>
void atomics_by_context(World& world, MemoryKind kind) {
  const auto segment = world.segment(64, kind);
  auto* const words = reinterpret_cast<T*>(segment->local());
  const auto team = world.team();
  Context context(world.one_sided());
  constexpr int kTimes = 50;
  T sum = 0;
  for (int i = 0; i < kTimes; ++i) sum = static_cast<T>(sum + (context.fetch_add(words, T{3}, 0) >= 0 ? 1 : 0));
  CHECK(sum == T{kTimes});
  context.fetch_or(words + 1, static_cast<T>(T{1} << world.rank()), 0);
  context.barrier(*team);
  CHECK(context.fetch(words, 0) == static_cast<T>(3 * kTimes * world.size()));
  CHECK(context.fetch(words + 1, 0) == static_cast<T>((1 << world.size()) - 1));
  context.barrier(*team);
  if (world.rank() == 0) {
    const int last = world.size() - 1;
    context.set(words + 2, T{12}, last);
    CHECK(context.swap(words + 2, T{10}, last) == T{12});
    CHECK(context.compare_swap(words + 2, T{11}, T{1}, last) == T{10});
    CHECK(context.compare_swap(words + 2, T{10}, T{6}, last) == T{10});
    CHECK(context.fetch_and(words + 2, T{3}, last) == T{6});
    CHECK(context.fetch_xor(words + 2, T{7}, last) == T{2});
    CHECK(context.fetch(words + 2, last) == T{5});
  }
  context.barrier(*team);
}

void floats_by_context(World& world, MemoryKind kind) {
  const auto segment = world.segment(64, kind);
  auto* const number = reinterpret_cast<double*>(segment->local());
  auto* const small = reinterpret_cast<float*>(segment->local() + 16);
  Context context(world.one_sided());
  if (world.rank() == 0) {
    const int last = world.size() - 1;
    context.set(number, 2.5, last);
    CHECK(context.swap(number, -1.25, last) == 2.5 && context.fetch(number, last) == -1.25);
    context.set(small, 0.5f, last);
    CHECK(context.swap(small, 8.0f, last) == 0.5f && context.fetch(small, last) == 8.0f);
  }
  context.barrier(*world.team());
}

void everything_as_a_process() {
  const auto world = World::create(launch_from_environment(), quick("host"));
  exchange_by_context(*world, MemoryKind::device);
  columns_by_context(*world, MemoryKind::pinned);
  atomics_by_context<std::int64_t>(*world, MemoryKind::device);
  const auto plain = world->segment(64, MemoryKind::host);  // which no other process maps
  CHECK(!plain->direct(next_of(*world)) && !plain->direct_everywhere());
  exchange_by_context(*world, MemoryKind::host);
  atomics_by_context<std::uint32_t>(*world, MemoryKind::host);
  world->free(plain);
}

}  // namespace

CASE(peers_load_and_store_each_others_parts_of_many_segments) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices_over_gpus(size, [](World& world) {
      if (world.size() > 1) only_on_one_host(world);
      std::vector<std::shared_ptr<Segment>> segments;
      for (int i = 0; i < 6; ++i) {
        segments.push_back(world.segment(static_cast<std::size_t>(1000 * (i + 1)),
                                         i % 2 == 0 ? MemoryKind::device : MemoryKind::pinned));
        CHECK(segments.back()->direct_everywhere());
      }
      for (const auto& segment : segments) {
        const auto word = static_cast<std::uint64_t>(world.rank()) + segment->bytes();
        world.one_sided().copy(segment->peer(next_of(world)) + 8, &word, sizeof word);
      }
      world.barrier();
      for (const auto& segment : segments) {
        const auto* const word = reinterpret_cast<const std::uint64_t*>(segment->local() + 8);
        CHECK(read_word(world, word) == static_cast<std::uint64_t>(before(world)) + segment->bytes());
        CHECK(segment->peer(world.rank()) == segment->local());
      }
      world.barrier();
    });
  }
}

CASE(ranks_that_ask_for_different_segments_are_all_told_who_has_what) {
  on_all_devices(3, [](World& world) {
    CHECK_THROWS((void)world.segment(world.rank() == 2 ? 100 : 64),
                 "rank 0 asks for 64 B of device memory and rank 2 asks for 100 B of device memory");
    CHECK_THROWS((void)world.segment(64, world.rank() == 1 ? MemoryKind::pinned : MemoryKind::device),
                 "rank 1 asks for 64 B of pinned memory");
    CHECK_THROWS((void)world.segment(0), "at least one byte");
    const auto good = world.segment(64);
    CHECK(good->bytes() == 64 && good->kind() == MemoryKind::device);
    world.barrier();
  });
}

CASE(a_rank_that_never_asks_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(2, parameters, [](World& world) {
      if (world.rank() == 0) {
        CHECK_THROWS((void)world.segment(64), "rank 1");
      }
    });
  }
}

CASE(memory_that_one_rank_does_not_have_fails_the_call_on_all) {
  run_ranks(2, quick("host"), [](World& world) {
    CHECK_THROWS((void)world.segment(std::size_t{1} << 62), "rank 1: cannot map 4611686018427387904 B");
    CHECK(world.segment(64) != nullptr);
    world.barrier();
  });
}

CASE(a_freed_segment_is_of_no_use_and_says_so) {
  on_all_devices_over_gpus(2, [](World& world) {
    const auto kept = world.segment(128);
    const auto gone = world.segment(64);
    void* const address = gone->local();
    Context context(world.one_sided());
    const std::size_t held = world.statistics().segment_bytes;
    context.put_value(reinterpret_cast<std::uint64_t*>(address), std::uint64_t{1}, next_of(world));
    const auto window = world.window(gone);
    CHECK_THROWS(world.free(world.rank() == 0 ? gone : kept), "rank 0 frees segment");
    world.free(gone);
    CHECK(world.statistics().segment_bytes == held - 64);
    CHECK(!gone->direct(0));
    CHECK_THROWS((void)gone->peer(0), "was freed");
    CHECK_THROWS((void)gone->local(), "was freed");
    const std::uint64_t one = 1;
    CHECK_THROWS(world.one_sided().put(Remote{*window, 0, 0}, &one, sizeof one), "was freed");
    CHECK_THROWS(world.free(gone), "was freed before");
    CHECK_THROWS(world.free(nullptr), "no segment");
    CHECK_THROWS(context.put_value(static_cast<std::uint64_t*>(address), std::uint64_t{1}, next_of(world)),
                 "is in no segment");
    CHECK_THROWS((void)kept->peer(2), "rank 2 does not exist");
    world.barrier();
  });
}

CASE(what_a_context_is_asked_wrongly_is_told_with_the_values) {
  on_all_devices(2, [](World& world) {
    const auto segment = world.segment(64, MemoryKind::pinned);
    auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
    Context context(world.one_sided());
    std::uint64_t own[16] = {};
    CHECK_THROWS(context.put(own, own, 8, 0), "is in no segment");
    CHECK_THROWS(context.put(words, own, 65, 0), "65 B at offset 0 are not within the 64 B");
    CHECK_THROWS(context.put(words + 7, own, 16, 0), "16 B at offset 56");
    CHECK_THROWS(context.get(own, words, 8, 2), "rank 2 does not exist");
    CHECK_THROWS(context.get(nullptr, words, 8, 1), "null");
    CHECK_THROWS(context.put(words, nullptr, 8, 1), "null");
    auto* const crooked = reinterpret_cast<std::uint64_t*>(segment->local() + 4);
    CHECK_THROWS(context.signal(crooked, 1, SignalOp::set, 1), "not aligned");
    CHECK_THROWS((void)context.fetch_add(crooked, std::uint64_t{1}, 1), "not aligned");
    CHECK_THROWS((void)context.wait(crooked, Compare::eq, std::uint64_t{1}), "not aligned");
    world.barrier();
  });
}

CASE(a_context_moves_data_directly_and_through_helpers) {
  for (const int size : {1, 2, 3, 5}) {
    on_all_both_ways(size, [](World& world) {
      exchange_by_context(world, MemoryKind::device);
      exchange_by_context(world, MemoryKind::pinned);
    });
  }
}

CASE(a_context_moves_columns_and_any_layout) {
  for (const int size : {1, 2, 4}) {
    on_all_both_ways(size, [](World& world) {
      columns_by_context(world, MemoryKind::device);
      columns_by_context(world, MemoryKind::pinned);
    });
  }
}

CASE(atomics_of_all_ranks_on_one_word_lose_nothing) {
  for (const int size : {1, 2, 5}) {
    on_all_both_ways(size, [](World& world) {
      atomics_by_context<std::uint64_t>(world, MemoryKind::device);
      atomics_by_context<std::int64_t>(world, MemoryKind::pinned);
      atomics_by_context<std::uint32_t>(world, MemoryKind::device);
      atomics_by_context<std::int32_t>(world, MemoryKind::pinned);
      floats_by_context(world, MemoryKind::device);
      floats_by_context(world, MemoryKind::pinned);
    });
  }
}

// Behind data that the device moves, and at once, where the data is the host's.
CASE(signals_that_add_to_host_memory_lose_nothing_whoever_moves_the_data) {
  on_all_both_ways(3, [](World& world) {
    constexpr std::uint64_t kTimes = 500;
    const auto words = world.segment(64, MemoryKind::pinned);
    const auto data = world.segment(64 * 3);
    auto* const word = reinterpret_cast<std::uint64_t*>(words->local());
    const auto team = world.team();
    const TestBuffer source(world, 64);
    const std::uint64_t here = 7;
    std::byte* const place = data->local() + 64 * world.rank();
    Context context(world.one_sided());
    for (std::uint64_t i = 0; i < kTimes; ++i) {
      context.put_signal_later(place, source.data(), 64, word, 1, SignalOp::add, 0);
      context.put_later(place, &here, sizeof here, 0);
      context.signal(word, 1, SignalOp::add, 0);
      (void)context.fetch_add(word, std::uint64_t{1}, 0);
    }
    context.barrier(*team);
    if (world.rank() == 0) CHECK(context.fetch(word, 0) == 3 * 3 * kTimes);
    CHECK(read_word(world, word) == (world.rank() == 0 ? 3 * 3 * kTimes : 0));
    context.barrier(*team);
  });
}

CASE(a_host_waits_for_all_any_or_some_of_many_words) {
  for (const int size : {1, 2, 5}) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto count = static_cast<std::size_t>(world.size());
      const auto segment = world.segment(8 * count, MemoryKind::pinned);
      auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
      Context context(world.one_sided());
      std::size_t found = 0;
      CHECK(context.test_any(words, count, nullptr, Compare::gt, std::uint64_t{0}) == count);
      world.barrier();
      for (int rank = 0; rank < world.size(); ++rank) {
        context.signal(words + world.rank(), static_cast<std::uint64_t>(world.rank()) + 1, SignalOp::set, rank);
      }
      std::vector<int> left_out(count);
      for (std::size_t taken = 0; taken < count; ++taken) {
        CHECK(context.wait_any(words, count, left_out.data(), Compare::ne, std::uint64_t{0}, &found) == Status::ok);
        CHECK(found < count && left_out[found] == 0 && words[found] == found + 1);
        left_out[found] = 1;
      }
      CHECK(context.wait_any(words, count, left_out.data(), Compare::ne, std::uint64_t{0}, &found) == Status::ok);
      CHECK(found == count);
      std::vector<std::size_t> indices(count);
      CHECK(context.wait_some(words, count, nullptr, Compare::le, count, indices.data(), &found) == Status::ok);
      CHECK(found == count && indices[count - 1] == count - 1);
      CHECK(context.wait_all(words, count, nullptr, Compare::gt, std::uint64_t{0}) == Status::ok);
      world.barrier();
    });
  }
}

CASE(a_part_that_is_not_reachable_says_why) {
  for (const std::string& device : device_specs_over_gpus(2)) {
    Parameters staged = quick(device);
    staged.path = "stage";
    run_ranks(2, staged, [](World& world) {
      const auto segment = world.segment(64);
      const std::string why =
          world.fabric()->is_remote(next_of(world)) ? "is on another host" : "parameter path is stage";
      CHECK(segment->direct(world.rank()) && !segment->direct(next_of(world)) && !segment->direct_everywhere());
      CHECK(segment->why_not(next_of(world)).ends_with(why) && segment->why_not(world.rank()).empty());
      CHECK_THROWS((void)segment->peer(next_of(world)), "cannot load and store rank");
      CHECK_THROWS((void)world.one_sided().view(*segment), why);
      world.barrier();
    });
  }
}

// Rank 1's stream is in a kernel, and its CPU in a loop, until rank 0 has got its data: a get that needed either would
// pass its deadline.
CASE(a_get_from_a_busy_rank_completes_without_it) {
  on_all_both_ways(2, [](World& world) {
    constexpr std::size_t kBytes = 8192;
    const auto data = world.segment(kBytes);
    const auto words = world.segment(64, MemoryKind::pinned);
    auto* const go_on = reinterpret_cast<std::uint64_t*>(words->local());
    const std::vector<unsigned char> values = pattern(kBytes, 9);
    if (world.rank() == 1) world.one_sided().copy(data->local(), values.data(), kBytes);
    const Stream stream = world.device().create_stream();
    if (world.rank() == 1) world.one_sided().wait(go_on, {Compare::eq, 1, 8, Sign::unsigned_word}, stream);
    world.barrier();
    Context context(world.one_sided());
    if (world.rank() == 1) {
      const Deadline deadline(kSoonS);
      while (HostGroup::load_acquire(go_on) == 0) CHECK(!deadline.passed());
    } else {
      for (int i = 0; i < 10; ++i) {
        std::vector<unsigned char> got(kBytes);
        context.get(got.data(), data->local(), kBytes, 1);
        CHECK(got == values);
      }
      CHECK(context.fetch(go_on, 1) == 0);  // so it was busy all the while
      context.signal(go_on, 1, SignalOp::set, 1);
    }
    world.synchronize(stream);
    world.device().destroy_stream(stream);
    world.barrier();
  });
}

// Rank 1 leaves while rank 0 waits. Deadlines are 30 s: a wait that ends sooner did not wait for one.
CASE(a_wait_of_a_context_ends_once_all_others_have_left) {
  on_all_devices_over_gpus(2, [](World& world) {
    const auto segment = world.segment(64, MemoryKind::pinned);
    auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
    world.barrier();
    if (world.rank() == 1) return;
    const Deadline deadline(kSoonS);
    while (!world.fabric()->has_left(1) && !deadline.passed()) HostGroup::pause(0, 0);
    Context context(world.one_sided());
    const std::uint64_t start = now_ns();
    CHECK(context.wait(words, Compare::ne, std::uint64_t{0}) == Status::aborted);
    CHECK(ended_at_once(start));
    CHECK(world.failure().has_value());
    CHECK(world.failure()->reason.find("left the world") != std::string::npos);
    CHECK_THROWS((void)context.wait(words, Compare::ne, std::uint64_t{0}), "left the world");
  });
}

CASE(segments_work_between_processes) {
  needs_sight_of_other_processes();
  if (over_sim()) throw Skipped{"network sim is for the ranks of one process"};
  for (const int size : {2, 3, 5}) {
    const std::string address = meeting_place();
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      children.push_back(spawn_rank("everything", launch_of(rank, size, address)));
    }
    for (const pid_t child : children) CHECK(wait_for_exit(child) == 0);
  }
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) {
    return run_role({{"everything", everything_as_a_process}}, argv[2]);
  }
  return onstream::test::run(argc, argv);
}
