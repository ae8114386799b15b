// Teams: barriers of streams and hosts, new teams by colour, stride and rows, and stream-issued ops on segments.
#include "onstream/one_sided.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "onstream/device/host/group.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

std::uint64_t read(World& world, const void* word) {
  std::uint64_t value = 0;
  world.one_sided().copy(&value, word, sizeof value);
  return value;
}

// Each member stores a number at the next one, meets, reads its own, meets: a barrier must order these steps.
void barriers_on(World& world, Team& team, std::byte* mine, Stream stream, std::uint64_t times) {
  const int next = team.world_rank((team.rank() + 1) % team.size());
  OneSided& one_sided = world.one_sided();
  const TestBuffer got(world, 8 * times);
  for (std::uint64_t i = 0; i < times; ++i) {
    Batch batch(one_sided);
    const std::uint64_t value = 100 * i + static_cast<std::uint64_t>(team.rank());
    batch.put_now(one_sided.symmetric(mine, next), &value, sizeof value);
    one_sided.run(batch, stream);
    team.barrier(stream);
    one_sided.get(got.data() + 8 * i, one_sided.symmetric(mine, world.rank()), 8, stream);
    team.barrier(stream);
  }
  world.synchronize(stream);
  const std::vector<unsigned char> bytes = got.read();
  for (std::uint64_t i = 0; i < times; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + 8 * i, sizeof value);
    CHECK(value == 100 * i + static_cast<std::uint64_t>((team.rank() + team.size() - 1) % team.size()));
  }
}

}  // namespace

CASE(a_barrier_on_streams_orders_what_is_around_it) {
  for (const int size : {1, 2, 3, 4, 5, 9}) {  // 9: more than travel in a kernel's arguments
    on_all_devices_over_gpus(size, [](World& world) {
      const auto segment = world.segment(64);
      const OwnStream stream(world);
      barriers_on(world, *world.team(), segment->local(), stream, 20);
    });
  }
}

CASE(a_captured_barrier_means_the_same_at_every_replay) {
  for (const int size : {1, 2, 4}) {
    on_all_devices_over_gpus(size, [](World& world) {
      constexpr std::uint64_t kReplays = 30;
      const auto segment = world.segment(64);
      auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
      const auto team = world.team();
      const OwnStream stream(world);
      OneSided& one_sided = world.one_sided();
      const int next = (world.rank() + 1) % world.size();
      world.device().begin_capture(stream);
      one_sided.signal({one_sided.symmetric(words, next), SignalOp::add, 1, 8}, stream);
      team->barrier(stream);
      // The neighbour's count has come: it is added to a sum of its own.
      one_sided.get(words + 1, one_sided.symmetric(words, world.rank()), 8, stream);
      team->barrier(stream);
      const auto graph = world.device().end_capture(stream);
      for (std::uint64_t i = 1; i <= kReplays; ++i) {
        world.device().launch(graph, stream);
        if (i % 10 != 0) continue;
        world.synchronize(stream);
        CHECK(read(world, words + 1) == i);
        team->barrier(stream);  // not captured, in between; no member runs ahead of one that reads
      }
      world.synchronize(stream);
    });
  }
}

// Two graphs with barriers of one team, in an order that words alone say: the last barrier is placed on a GPU while the
// kernel in front of it waits, and is the third all the same.
CASE(captured_barriers_of_one_team_follow_words) {
  on_all_devices_over_gpus(2, [](World& world) {
    constexpr std::uint64_t kRounds = 10;
    const auto segment = world.segment(8);
    const TestBuffer word(world, 8);
    const TestBuffer begun(world, 8, MemoryKind::pinned);
    const TestBuffer gate(world, 8, MemoryKind::pinned);
    const TestBuffer number(world, 8);
    const TestBuffer got(world, 8);
    OneSided& one_sided = world.one_sided();
    const auto set = [&](const TestBuffer& buffer, std::uint64_t value) {  // as words are that somebody waits for
      Batch batch(one_sided);
      batch.store(buffer.data(), value, 8);
      one_sided.run(batch);
    };
    for (const TestBuffer* const buffer : {&word, &begun, &gate}) set(*buffer, 0);
    const auto team = world.team();
    const OwnStream tells(world);
    const OwnStream listens(world);
    Device& device = world.device();
    const Until is_set{Compare::eq, 1, 8, Sign::unsigned_word};

    device.begin_capture(tells);
    team->barrier(tells);
    Batch tell(one_sided);
    tell.store(word.data(), 1, 8);
    one_sided.run(tell, tells);
    const auto second = device.end_capture(tells);

    device.begin_capture(listens);
    team->barrier(listens);
    Batch listen(one_sided);
    listen.store(begun.data(), 1, 8);
    listen.wait(word.data(), is_set);
    listen.store(word.data(), 0, 8);
    listen.wait(gate.data(), is_set);
    listen.put(one_sided.symmetric(segment->local(), world.rank()), number.data(), 8);
    one_sided.run(listen, listens);
    team->barrier(listens);
    one_sided.get(got.data(), one_sided.symmetric(segment->local(), 1 - world.rank()), 8, listens);
    const auto first_and_third = device.end_capture(listens);

    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      set(number, 10 * round + static_cast<std::uint64_t>(world.rank()));
      device.launch(first_and_third, listens);
      CHECK(one_sided.wait(begun.data(), is_set) == Status::ok);
      set(begun, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // then all of it that can be placed is
      device.launch(second, tells);
      // One rank's number comes late, when the other one has long come to the third barrier.
      if (round % 2 == static_cast<std::uint64_t>(world.rank())) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      set(gate, 1);
      world.synchronize(listens);
      world.synchronize(tells);
      set(gate, 0);
      CHECK(read(world, got.data()) == 10 * round + static_cast<std::uint64_t>(1 - world.rank()));
      world.barrier();  // nobody stores its next number before the other has read this one
    }
  });
}

// A replay of a barrier whose world is gone must not hang, nor touch memory that went with it.
CASE(a_captured_barrier_outlives_its_world_and_ends_at_once) {
  for (const std::string& device_spec : device_specs_over_gpus(2)) {
    const std::string address = meeting_place();
    std::array<std::string, 2> wrong;
    const auto rank_main = [&](int rank) {
      try {
        auto world = World::create(launch_of(rank, 2, address), quick(device_spec));
        const std::shared_ptr<Device> device = world->fabric()->device();
        const OwnStream stream(*device);
        auto team = world->team();
        device->begin_capture(stream);
        team->barrier(stream);
        const auto graph = device->end_capture(stream);
        device->launch(graph, stream);
        device->synchronize(stream);
        world->barrier();
        team.reset();
        world.reset();
        CHECK(DeferredRelease::of_process().finish(kSoonS));
        device->launch(graph, stream);
        const Deadline deadline(kSoonS);
        while (!device->idle(stream) && !deadline.passed()) HostGroup::pause(0, 0);
        CHECK(device->idle(stream));
      } catch (const std::exception& error) {
        wrong[static_cast<std::size_t>(rank)] = error.what();
      }
    };
    std::thread other(rank_main, 1);
    rank_main(0);
    other.join();
    CHECK(wrong[0] + wrong[1] == "");
  }
}

CASE(hosts_meet_and_exchange_words) {
  for (const int size : {1, 2, 5, 9}) {  // 9: more than a view holds itself
    on_all_devices_over_gpus(size, [](World& world) {
      const auto team = world.team();
      CHECK(team->size() == world.size() && team->rank() == world.rank());
      for (std::uint64_t round = 0; round < 50; ++round) {
        const auto mine = static_cast<std::uint64_t>(team->rank());
        const std::vector<Team::Words> all = team->exchange({mine, round, mine * round, 7});
        for (std::uint64_t member = 0; member < all.size(); ++member) {
          CHECK((all[member] == Team::Words{member, round, member * round, 7}));
        }
      }
    });
  }
}

CASE(teams_are_split_by_colour_and_ordered_by_key) {
  on_all_devices_over_gpus(5, [](World& world) {
    const auto all = world.team();
    const OwnStream stream(world);
    const auto segment = world.segment(64);
    // 0 2 4 in falling order; 1 and 3 in rising; then nobody but 1 and 4.
    const bool even = world.rank() % 2 == 0;
    const auto half = all->split(even ? 3 : 8, even ? -world.rank() : world.rank());
    CHECK(half->size() == (even ? 3 : 2));
    CHECK(half->world_rank(0) == (even ? 4 : 1) && half->member_of(world.rank()) == half->rank());
    CHECK(half->member_of(even ? 1 : 0) == std::nullopt);
    CHECK_THROWS((void)half->world_rank(3), "there is no member 3");
    barriers_on(world, *half, segment->local(), stream, 10);
    const auto pair = all->split(world.rank() == 1 || world.rank() == 4 ? 0 : Team::kNone, 0);
    CHECK((pair != nullptr) == (world.rank() == 1 || world.rank() == 4));
    if (pair) barriers_on(world, *pair, segment->local() + 8, stream, 10);
    // A team of a team.
    const auto alone = half->split(half->rank(), 0);
    CHECK(alone->size() == 1 && alone->world_rank(0) == world.rank());
    alone->sync();
    all->sync();
  });
}

CASE(teams_are_split_by_stride_and_in_two_dimensions) {
  on_all_devices_over_gpus(5, [](World& world) {
    const auto all = world.team();
    const auto odd = all->split_strided(1, 2, 2);
    CHECK((odd != nullptr) == (world.rank() == 1 || world.rank() == 3));
    const auto back = all->split_strided(4, -1, 3);
    CHECK((back != nullptr) == (world.rank() >= 2));
    if (back) CHECK(back->world_rank(0) == 4 && back->world_rank(2) == 2);
    CHECK_THROWS((void)all->split_strided(0, 1, world.rank() == 2 ? 1 : 3),
                 "split_strided: rank 0 names 0 1 3, but rank 2 names 0 1 1; all members of a team name the same");
    CHECK_THROWS((void)all->split_strided(0, world.rank() == 4 ? 0 : -1, 2),
                 "rank 0 names 0 -1 2, but rank 4 names 0 0 2");
    CHECK_THROWS((void)all->split_2d(world.rank() == 0 ? 1 : 2), "split_2d: rank 0 names 1, but rank 1 names 2");
    CHECK_THROWS((void)all->split_strided(3, 2, 2), "split_strided: members 3, 5");
    constexpr int kMost = std::numeric_limits<int>::max();
    CHECK_THROWS((void)all->split_strided(1, kMost, 2), "split_strided: members 1, 2147483648, ... 2 of them");
    CHECK_THROWS((void)all->split_strided(0, 1, -kMost - 1), "... -2147483648 of them");
    const auto [row, column] = all->split_2d(2);  // 0 1 / 2 3 / 4
    CHECK(row->size() == (world.rank() == 4 ? 1 : 2) && column->size() == (world.rank() % 2 == 0 ? 3 : 2));
    CHECK(row->rank() == world.rank() % 2 && column->rank() == world.rank() / 2);
    row->sync();
    column->sync();
    all->sync();
  });
}

// In the order in which each rank's threads come to run; each is alone with its words, and there are none to spare.
CASE(threads_of_a_rank_split_two_teams_at_once) {
  for (const std::string& device : device_specs_over_gpus(3)) {
    Parameters parameters = quick(device);
    parameters.teams = 5;
    run_ranks(3, parameters, [](World& world) {
      constexpr int kRounds = 200;
      const auto all = world.team();
      const std::array<std::shared_ptr<Team>, 2> parents = {all->split(0, 0), all->split(0, -world.rank())};
      std::array<std::string, 2> wrong;
      const auto go = [&](std::size_t which) {
        try {
          for (std::uint64_t round = 0; round < kRounds; ++round) {
            const auto team = parents[which]->split(0, 0);
            const auto all_said = team->exchange({which, round, static_cast<std::uint64_t>(world.rank()), 0});
            for (int member = 0; member < team->size(); ++member) {
              const auto rank = static_cast<std::uint64_t>(team->world_rank(member));
              CHECK((all_said[static_cast<std::size_t>(member)] == Team::Words{which, round, rank, 0}));
            }
          }
        } catch (const std::exception& error) {
          wrong[which] = error.what();
          world.abort(error.what());
        }
      };
      std::thread other(go, 1);
      go(0);
      other.join();
      CHECK(wrong[0] + wrong[1] == "");
      all->sync();
    });
  }
}

CASE(a_split_that_some_members_have_no_words_for_fails_on_all_and_leaves_none) {
  for (const int teams : {2, 3}) {  // for no rows of two, and for rows but no columns
    Parameters parameters = quick("host");
    parameters.teams = teams;
    run_ranks(4, parameters, [&](World& world) {
      const auto all = world.team();
      const bool has_more = world.rank() < 2;
      const auto held = all->split(has_more ? 0 : Team::kNone, 0);
      CHECK_THROWS((void)all->split_2d(2), "raise parameter teams");
      if (teams == 2) CHECK_THROWS((void)all->split(has_more ? 0 : 1, 0), "of colour 0");
      if (teams == 2) CHECK_THROWS((void)all->split(has_more ? 0 : Team::kNone, 0), "of colour 0");
      for (int round = 0; round < 4; ++round) {  // a failed split holds no words
        const auto pair = all->split(has_more ? Team::kNone : 0, 0);
        CHECK((pair == nullptr) == has_more);
        if (pair) pair->sync();
      }
      all->sync();
    });
  }
}

CASE(words_of_teams_that_went_are_used_again_and_their_number_is_bounded) {
  for (const std::string& device : device_specs_over_gpus(3)) {
    Parameters parameters = quick(device);
    parameters.teams = 3;
    run_ranks(3, parameters, [](World& world) {
      const auto all = world.team();
      const OwnStream stream(world);
      const auto segment = world.segment(64);
      for (int round = 0; round < 6; ++round) {
        const auto pair = all->split(world.rank() < 2 ? 0 : Team::kNone, round % 2 == 0 ? world.rank() : -world.rank());
        if (pair) barriers_on(world, *pair, segment->local(), stream, static_cast<std::uint64_t>(1 + round % 3));
        const auto three = all->split(0, 0);
        barriers_on(world, *three, segment->local(), stream, 2);
      }
      const auto second = all->split(0, 0);
      const auto third = all->split(0, 0);
      CHECK_THROWS((void)all->split(0, 0), "raise parameter teams");
      all->sync();
    });
  }
}

CASE(a_member_that_does_not_come_is_named_at_the_deadline) {
  for (const std::string& device : device_specs_over_gpus(3)) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 1.5;
    run_ranks(3, parameters, [](World& world) {
      const auto team = world.team();
      const OwnStream stream(world);
      if (world.rank() != 1) {
        team->barrier(stream);
        CHECK_THROWS(world.synchronize(stream), "to which rank 1 did not come");
      } else {
        CHECK_THROWS(for (;;) world.check(), "failed");
      }
    });
    run_ranks(3, parameters, [](World& world) {
      const auto team = world.team();
      if (world.rank() != 1) {
        CHECK_THROWS(team->sync(), "rank 1 did not come within 1.5 s");
      } else {
        CHECK_THROWS(for (;;) world.check(), "rank 1 did not come");
      }
    });
  }
}

CASE(a_member_that_leaves_ends_the_barrier_of_the_others) {
  on_all_devices_over_gpus(2, [](World& world) {
    const auto team = world.team();
    world.barrier();
    if (world.rank() == 1) return;
    CHECK_THROWS(team->sync(), "rank 1 left the world");
  });
}

CASE(streams_change_words_atomically) {
  for (const std::string& device : device_specs_over_gpus(3)) {
    for (const char* path : {"auto", "stage"}) {
      Parameters parameters = quick(device);
      parameters.path = path;
      run_ranks(3, parameters, [](World& world) {
        constexpr int kReplays = 10;
        const auto segment = world.segment(64);
        auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
        const auto team = world.team();
        const OwnStream stream(world);
        OneSided& one_sided = world.one_sided();
        const TestBuffer old(world, 64);
        const auto at = [&](std::uint64_t* word, int rank) { return one_sided.symmetric(word, rank); };
        world.device().begin_capture(stream);
        one_sided.atomic(AtomicOp::add, at(words, 0), 8, 5, nullptr, 0, stream);
        one_sided.atomic(AtomicOp::bit_or, at(words + 1, 0), 4, 1u << world.rank(), nullptr, 0, stream);
        const auto graph = world.device().end_capture(stream);
        for (int i = 0; i < kReplays; ++i) world.device().launch(graph, stream);
        team->barrier(stream);
        one_sided.atomic(AtomicOp::fetch, at(words, 0), 8, 0, old.data(), 0, stream);
        one_sided.atomic(AtomicOp::fetch, at(words + 1, 0), 4, 0, old.data() + 8, 0, stream);
        if (world.rank() == 0) {
          one_sided.atomic(AtomicOp::set, at(words + 2, 2), 8, 40, nullptr, 0, stream);
          one_sided.atomic(AtomicOp::compare_swap, at(words + 2, 2), 8, 41, old.data() + 16, 40, stream);
          one_sided.atomic(AtomicOp::compare_swap, at(words + 2, 2), 8, 42, old.data() + 24, 40, stream);
          one_sided.atomic(AtomicOp::swap, at(words + 2, 2), 8, 50, old.data() + 32, 0, stream);
        }
        world.synchronize(stream);
        std::uint64_t got[8];
        std::memcpy(got, old.read().data(), sizeof got);
        CHECK(got[0] == 5 * kReplays * 3 && got[1] == 7);
        if (world.rank() == 0) CHECK(got[2] == 40 && got[3] == 41 && got[4] == 41);
        team->sync();
        if (world.rank() == 2) CHECK(read(world, words + 2) == 50);
        Batch batch(one_sided);
        CHECK_THROWS(batch.atomic(AtomicOp::compare_swap, at(words, 0), 8, 1), "needs a word for the old value");
        CHECK_THROWS(batch.atomic(AtomicOp::add, at(words, 0), 2, 1), "4 or 8 bytes, not 2");
        CHECK_THROWS((void)one_sided.symmetric(&batch, 0), "in no segment");
      });
    }
  }
}

namespace {

void layouts_by_stream(World& world) {
  constexpr std::int64_t kSide = 40;
  const auto segment = world.segment(kSide * kSide * 8);
  const auto team = world.team();
  const OwnStream stream(world);
  OneSided& one_sided = world.one_sided();
  TestBuffer column(world, kSide * 8);
  column.write(pattern(kSide * 8, static_cast<unsigned>(world.rank())));
  const Layout tall = Layout::strided(8, {kSide}, {kSide * 8});
  const Layout plain = Layout::contiguous(kSide * 8);
  const int other = 1 - world.rank();
  one_sided.put(one_sided.symmetric(segment->local() + 24, other), tall, column.data(), plain, stream);
  team->barrier(stream);
  TestBuffer back(world, kSide * 8);
  one_sided.get(back.data(), plain, one_sided.symmetric(segment->local() + 24, other), tall, stream);
  world.synchronize(stream);
  CHECK(back.read() == pattern(kSide * 8, static_cast<unsigned>(world.rank())));
  std::vector<unsigned char> matrix(kSide * kSide * 8);
  one_sided.copy(matrix.data(), segment->local(), matrix.size());
  const std::vector<unsigned char> theirs = pattern(kSide * 8, static_cast<unsigned>(other));
  for (std::int64_t i = 0; i < kSide; ++i) {
    const auto row = matrix.begin() + i * kSide * 8;
    CHECK(std::equal(row + 24, row + 32, theirs.begin() + i * 8) && row[16] == 0 && row[32] == 0);
  }
  CHECK_THROWS(
      one_sided.put(one_sided.symmetric(segment->local() + 8 * kSide, other), tall, column.data(), plain, stream),
      "not within");
  CHECK_THROWS(
      one_sided.put(one_sided.symmetric(segment->local(), other), tall, column.data(), Layout::contiguous(8), stream),
      "layouts of equal bytes");
  team->sync();
}

}  // namespace

CASE(streams_put_and_get_layouts) {
  for (const std::string& device : device_specs_over_gpus(2)) {
    for (const char* path : {"auto", "stage"}) {
      Parameters parameters = quick(device);
      parameters.path = path;
      run_ranks(2, parameters, layouts_by_stream);
    }
  }
}

// Each rank sets its own word at every rank, the highest last; the streams wait for all, for any, for some.
CASE(streams_wait_for_all_any_or_some_of_many_words) {
  for (const int size : {1, 2, 5}) {
    on_all_devices_over_gpus(size, [](World& world) {
      const auto count = static_cast<std::size_t>(world.size());
      const auto segment = world.segment(8 * count);
      auto* const words = reinterpret_cast<std::uint64_t*>(segment->local());
      const auto out = world.allocate(4 * count, MemoryKind::pinned);
      auto* const left_out = reinterpret_cast<int*>(out->data());
      const auto answers = world.allocate(8 * (count + 1), MemoryKind::pinned);
      auto* const found = reinterpret_cast<std::uint64_t*>(answers->data());
      std::uint64_t* const indices = found + 1;
      const OwnStream stream(world);
      OneSided& one_sided = world.one_sided();
      const Until set{Compare::gt, 0, 8, Sign::unsigned_word};
      std::fill(left_out, left_out + count, 1);
      one_sided.wait_all({words, count, left_out}, set, stream);  // none of them: does not wait
      one_sided.wait_any({words, count, left_out}, set, found, stream);
      world.synchronize(stream);
      CHECK(*found == count);
      one_sided.wait_some({words, count, left_out}, set, indices, found, stream);
      world.synchronize(stream);
      CHECK(*found == 0);
      std::fill(left_out, left_out + count, 0);
      world.barrier();
      for (int rank = 0; rank < world.size(); ++rank) {
        one_sided.signal({one_sided.symmetric(words + world.rank(), rank), SignalOp::set,
                          static_cast<std::uint64_t>(world.rank()) + 1, 8},
                         stream);
      }
      for (std::size_t taken = 0; taken < count; ++taken) {
        one_sided.wait_any({words, count, left_out}, set, found, stream);
        world.synchronize(stream);
        CHECK(*found < count && left_out[*found] == 0 && read(world, words + *found) == *found + 1);
        left_out[*found] = 1;
      }
      one_sided.wait_all({words, count}, {Compare::ge, 1, 8, Sign::unsigned_word}, stream);
      if (world.size() == 1) return;
      one_sided.wait_some({words, count}, {Compare::ne, 1, 8, Sign::unsigned_word}, indices, found, stream);
      world.synchronize(stream);
      CHECK(*found == count - 1);
      for (std::size_t i = 0; i < *found; ++i) CHECK(indices[i] == i + 1);
      std::uint64_t* const crooked = reinterpret_cast<std::uint64_t*>(answers->data() + 4);
      CHECK_THROWS(one_sided.wait_any({words, count}, set, crooked, stream), "words of 8 B");
      CHECK_THROWS(one_sided.wait_some({words, count}, set, nullptr, found, stream), "words of 8 B");
      CHECK_THROWS(one_sided.wait_all({words, count}, {Compare::eq, 0, 2}, stream), "4 or 8 bytes");
      world.barrier();
    });
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }

// They have words of their own, so no barrier is taken for a split's.
CASE(barriers_of_the_world_and_splits_of_all_may_run_at_once) {
  on_all_devices(3, [](World& world) {
    constexpr int kRounds = 200;
    std::thread splits([&] {
      for (int round = 0; round < kRounds; ++round) {
        const int colour = (world.rank() + round) % 2;
        const std::shared_ptr<Team> part = world.team()->split(colour, world.rank());
        int same = 0;
        for (int rank = 0; rank < world.size(); ++rank) same += (rank + round) % 2 == colour ? 1 : 0;
        CHECK(part->size() == same && part->member_of(world.rank()).has_value());
        part->sync();
      }
    });
    for (int round = 0; round < 5 * kRounds; ++round) world.barrier();
    splits.join();
    world.barrier();
  });
}
