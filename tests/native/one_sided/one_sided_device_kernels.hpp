// The kernels of one_sided_device.cpp: each rank of a ring talks to the next from inside one kernel.
//
// A body writes its findings into `told`: the number of checks that do not hold, and the last status.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/kernel.hpp"

namespace onstream::test {

struct Told {
  std::uint64_t wrong = 0;
  std::uint64_t status = 0;
};

// The content of each rank's part of a test's segment.
struct Shared {
  static constexpr std::size_t kData = 4096;

  std::uint64_t arrived = 0;
  std::uint64_t counter = 0;
  std::int32_t narrow = 0;
  std::uint32_t bits = 0;
  std::uint64_t vector[8] = {};
  double real = 0;
  std::uint64_t pad = 0;
  Line line = {};
  std::byte in[kData] = {};
  std::byte out[kData] = {};
};

template <Group G>
ONSTREAM_BODY void expect(const G& group, Told* told, bool holds) {
  if (!holds) group.add(&told->wrong, 1);
}
template <Group G>
ONSTREAM_BODY void note(const G& group, Told* told, Status status) {
  if (group.rank() == 0) group.store_relaxed(&told->status, static_cast<std::uint64_t>(status));
}

enum class Who { thread, warp, block };

// Runs `play` with the threads of the group that take part, as a scope of their own.
template <Group G, class Play>
ONSTREAM_BODY void play_as(Who who, const G& group, const Play& play) {
  if (who == Who::block) return play(group);
  if (who == Who::warp && group.rank() < warp_scope(group).size()) return play(warp_scope(group));
  if (who == Who::thread && group.rank() == 0) return play(thread_scope(group));
}

// Puts to the next rank, waits for the put of the one before, and gets the data back from its origin.
struct PutAndWait {
  SegmentView view;
  Shared* mine;
  std::byte* back;  // of this rank alone
  Told* told;
  std::uint64_t rounds;
  std::uint64_t bytes;
  Who who;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    play_as(who, group, [this](const auto& scope) { play(scope); });
  }

 private:
  template <class Scope>
  ONSTREAM_BODY void play(const Scope& scope) const {
    const int next = (view.rank + 1) % view.size;
    const int before = (view.rank + view.size - 1) % view.size;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      for (std::size_t i = static_cast<std::size_t>(scope.rank()); i < bytes;
           i += static_cast<std::size_t>(scope.size())) {
        mine->out[i] = value_at(view.rank, round, i);
      }
      scope.sync();
      // The word is the round's number either way.
      const bool sets = round % 2 == 0;
      view.put_signal(scope, mine->in, mine->out, bytes, &mine->arrived, sets ? round : std::uint64_t{1},
                      sets ? SignalOp::set : SignalOp::add, next);
      const Status status = view.wait(scope, &mine->arrived, Compare::eq, round);
      note(scope, told, status);
      if (status != Status::ok) return;
      view.get(scope, back, mine->out, bytes, before);
      for (std::size_t i = static_cast<std::size_t>(scope.rank()); i < bytes;
           i += static_cast<std::size_t>(scope.size())) {
        expect(scope, told, mine->in[i] == value_at(before, round, i) && back[i] == mine->in[i]);
      }
      // Credit: the next round may overwrite both.
      scope.sync();
      view.signal(scope, &mine->counter, std::uint64_t{1}, SignalOp::add, before);
      if (view.wait(scope, &mine->counter, Compare::ge, round) != Status::ok) return;
      scope.sync();
    }
  }
  ONSTREAM_BODY static std::byte value_at(int rank, std::uint64_t round, std::size_t i) {
    return static_cast<std::byte>((static_cast<std::uint64_t>(rank) * 31 + round * 7 + i * 13) & 0xff);
  }
};

// All threads of all ranks change words of rank 0.
struct Change {
  SegmentView view;
  TeamView team;
  Shared* mine;
  Told* told;
  std::uint64_t times;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::uint64_t i = 0; i < times; ++i) {
      view.fetch_add(&mine->counter, std::uint64_t{2}, 0);
      view.fetch_add(&mine->narrow, -1, 0);
      view.fetch_inc(&mine->vector[1], 0);
    }
    view.fetch_or(&mine->bits, std::uint32_t{1} << view.rank, 0);
    if (group.rank() == 0) {
      // A lock: taken by compare-and-swap, given back by a store.
      const Status locked = view.wait_for(thread_scope(group), [&] {
        return view.compare_swap(&mine->vector[2], std::uint64_t{0}, std::uint64_t{1}, 0) == 0;
      });
      note(group, told, locked);
      view.fence(thread_scope(group));
      view.set(&mine->vector[3], view.fetch(&mine->vector[3], 0) + 1, 0);
      view.quiet(thread_scope(group));
      view.set(&mine->vector[2], std::uint64_t{0}, 0);
    }
    if (team.barrier(group) != Status::ok) return;
    const auto all = static_cast<std::uint64_t>(group.size()) * static_cast<std::uint64_t>(view.size) * times;
    expect(group, told, view.fetch(&mine->counter, 0) == 2 * all);
    expect(group, told, view.fetch(&mine->narrow, 0) == -static_cast<std::int32_t>(all));
    expect(group, told, view.fetch(&mine->vector[1], 0) == all);
    expect(group, told, view.fetch(&mine->vector[3], 0) == static_cast<std::uint64_t>(view.size));
    expect(group, told, view.fetch(&mine->bits, 0) == (std::uint32_t{1} << view.size) - 1);
    if (team.barrier(group) != Status::ok) return;
    if (group.rank() == 0 && view.rank == 0) {
      const int last = view.size - 1;
      view.set(&mine->real, 2.5, last);
      expect(group, told, view.swap(&mine->real, -1.0, last) == 2.5 && view.fetch(&mine->real, last) == -1.0);
      view.set(&mine->bits, 0xf0u, last);
      expect(group, told, view.fetch_and(&mine->bits, 0x3cu, last) == 0xf0u);
      expect(group, told, view.fetch_xor(&mine->bits, 0xffu, last) == 0x30u);
      expect(group, told, view.swap(&mine->bits, 1u, last) == 0xcfu);
      expect(group, told, view.compare_swap(&mine->bits, 2u, 3u, last) == 1u && view.fetch(&mine->bits, last) == 1u);
    }
  }
};

// Every rank sets its element of every rank's vector; they wait for it in every way.
struct WaitForMany {
  SegmentView view;
  TeamView team;
  Shared* mine;
  Told* told;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const auto count = static_cast<std::size_t>(view.size);
    const auto thread = thread_scope(group);
    if (group.rank() == 0) {
      expect(group, told, view.test_any(mine->vector, count, nullptr, Compare::gt, std::uint64_t{0}) == count);
    }
    if (team.barrier(group) != Status::ok) return;
    if (group.rank() == 0) {
      for (int of = 0; of < view.size; ++of) {
        view.signal(thread, &mine->vector[view.rank], static_cast<std::uint64_t>(view.rank + 1), SignalOp::set, of);
      }
      take_one_by_one(group, count);
      std::size_t indices[8];
      std::size_t found = 0;
      int left_out[8] = {1};
      const Status some = view.wait_some(mine->vector, count, count > 1 ? left_out : nullptr, Compare::ne,
                                         std::uint64_t{0}, indices, &found);
      expect(group, told, some == Status::ok && found == (count > 1 ? count - 1 : 1));
      expect(group, told, indices[0] == (count > 1 ? 1u : 0u));
    }
    note(group, told, view.wait_all(group, mine->vector, count, Compare::ge, std::uint64_t{1}));
  }

 private:
  template <Group G>
  ONSTREAM_BODY void take_one_by_one(const G& group, std::size_t count) const {
    int left_out[8] = {};
    for (std::size_t taken = 0; taken < count; ++taken) {
      std::size_t index = 0;
      const Status any = view.wait_any(mine->vector, count, left_out, Compare::ne, std::uint64_t{0}, &index, taken);
      expect(group, told, any == Status::ok && index < count && left_out[index] == 0);
      if (any != Status::ok || index >= count) return;
      expect(group, told, mine->vector[index] == index + 1);
      left_out[index] = 1;
    }
    std::size_t none = 0;
    expect(group, told,
           view.wait_any(mine->vector, count, left_out, Compare::ne, std::uint64_t{0}, &none) == Status::ok &&
               none == count);
  }
};

// Many barriers, each of which must order a plain store before it and a load behind it.
struct Barriers {
  SegmentView view;
  TeamView team;
  Shared* mine;
  Told* told;
  std::uint64_t times;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const int next = (view.rank + 1) % view.size;
    for (std::uint64_t i = 1; i <= times; ++i) {
      if (group.rank() == 0) view.put_value(&mine->vector[0], i, next);
      const Status status = team.barrier(group);
      note(group, told, status);
      if (status != Status::ok) return;
      expect(group, told, group.load_relaxed(&mine->vector[0]) == i);
      if (team.barrier(group) != Status::ok) return;
    }
  }
};

// 8 bytes that prove their own arrival, round the ring.
struct Lines {
  SegmentView view;
  Shared* mine;
  Told* told;
  std::uint32_t rounds;
  std::uint32_t before;  // rounds that earlier kernels have played: tags differ
  Who who;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    play_as(who, group, [this](const auto& scope) { play(scope); });
  }

 private:
  template <class Scope>
  ONSTREAM_BODY void play(const Scope& scope) const {
    const int next = (view.rank + 1) % view.size;
    std::uint64_t value = 0;
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      const bool puts = scope.rank() == 0;
      if (puts && view.rank == 0) view.put_line(&mine->line, value + 0x100000001u, before + round, next);
      const Status status = view.wait_line(scope, &mine->line, before + round, &value);
      note(scope, told, status);
      if (status != Status::ok) return;
      if (puts && view.rank != 0) view.put_line(&mine->line, value + 0x100000001u, before + round, next);
    }
    const std::uint64_t hops =
        view.rank == 0 ? static_cast<std::uint64_t>(view.size) : static_cast<std::uint64_t>(view.rank);
    const std::uint64_t all = static_cast<std::uint64_t>(view.size) * (rounds - 1) + hops;
    expect(scope, told, value == all * 0x100000001u);
  }
};

// All blocks put together; the last one tells.
struct PutByGrid {
  SegmentView view;
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
  std::uint64_t* word;
  std::uint64_t* ticket;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    view.put_signal_by_grid(group, to, from, bytes, word, std::uint64_t{1}, SignalOp::add, (view.rank + 1) % view.size,
                            ticket);
  }
};

// One column of a matrix of doubles to the next rank, and one of its own back.
struct Columns {
  static constexpr std::size_t kSide = 16;
  SegmentView view;
  double* matrix;
  double* column;
  TeamView team;
  Told* told;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    constexpr std::ptrdiff_t kRow = kSide * sizeof(double);
    constexpr std::ptrdiff_t kOne = sizeof(double);
    const int next = (view.rank + 1) % view.size;
    view.put_strided(group, matrix + 2, column, kRow, kOne, sizeof(double), kSide, next);
    note(group, told, team.barrier(group));
    view.get_strided(group, column + kSide, matrix + 2, kOne, kRow, sizeof(double), kSide, next);
    for (std::size_t i = static_cast<std::size_t>(group.rank()); i < kSide;
         i += static_cast<std::size_t>(group.size())) {
      expect(group, told, column[kSide + i] == column[i]);
      expect(group, told, matrix[i * kSide + 3] == 0);
    }
  }
};

// A word that nobody sets.
struct WaitInVain {
  SegmentView view;
  Shared* mine;
  Told* told;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    note(group, told, view.wait(group, &mine->arrived, Compare::eq, std::uint64_t{77}));
  }
};

#ifdef ONSTREAM_WITH_CUDA
template <class Body>
const void* one_sided_entry();  // one_sided_device_kernels.cu
#else
template <class Body>
const void* one_sided_entry() {
  return nullptr;
}
#endif

}  // namespace onstream::test
