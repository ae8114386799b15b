// Brief: the kernel of a plan whose ops all travel as LL lines (path ll). One thread for a line or two, each with
// a row that says where its line lies: no walk through layouts, and everything that never changes is read before the
// kernel waits for earlier work of the stream (device/cuda/entry.cuh).
//
// Same protocol, tables and state as body.hpp, which runs all other plans. No deadlock: packs wait for nothing but
// announcements. All rows in one block where they fit; else blocks of packs come first.
#pragma once

#include "onstream/device/kernel/ll.hpp"
#include "onstream/plan/kernel/piece.hpp"
#include "onstream/plan/kernel/report.hpp"
#include "onstream/plan/kernel/view.hpp"

namespace onstream::plan {

constexpr int kRowsEach = 2;  // of a thread

struct Brief {
  PlanState* state = nullptr;
  Epoch* epochs = nullptr;  // of the blocks
  const Row* packs = nullptr;
  const Row* unpacks = nullptr;
  std::uint32_t pack_count = 0;
  std::uint32_t unpack_count = 0;
  std::uint32_t pack_blocks = 0;  // 0: one block does all
  std::uint32_t announce_count = 0;
  std::uint64_t* const* announce = nullptr;
  const Task* tasks = nullptr;
  OpState* ops = nullptr;
  std::uint64_t number = 0;
  WaitView wait;

  // The work of one thread in every launch.
  struct ThreadRows {
    Row packs[kRowsEach];
    Row unpacks[kRowsEach];
    std::uint64_t* announce = nullptr;
    int pack_count = 0;
    int unpack_count = 0;
  };

  // Reads nothing that a launch changes.
  template <Group G>
  ONSTREAM_BODY ThreadRows prepare(const G& group) const {
    ThreadRows held;
    const std::uint32_t block = static_cast<std::uint32_t>(group.block());
    if (block < pack_blocks || pack_blocks == 0) held.pack_count = take(group, packs, pack_count, block, held.packs);
    if (block >= pack_blocks) {
      held.unpack_count = take(group, unpacks, unpack_count, block - pack_blocks, held.unpacks);
    }
    const std::uint32_t rank = static_cast<std::uint32_t>(group.rank());
    if (block == 0 && rank < announce_count) held.announce = announce[rank];
    return held;
  }

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (*this)(group, prepare(group));
  }

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group, const ThreadRows& held) const {
    const std::uint64_t epoch = group.load_relaxed(epochs + group.block()) + 1;
    bool failed = group.load_relaxed(&state->failed) != 0;
    std::uint64_t data[kRowsEach];
    ONSTREAM_UNROLL
    for (int k = 0; k < kRowsEach; ++k) {
      if (k < held.pack_count) data[k] = gather(held.packs[k]);
    }
    std::uint64_t running = 0;
    if (group.block() == 0) {
      if (group.rank() == group.size() - 1) running = group.exchange(&state->running, 1);
      if (!failed) tell_start(group, held, epoch);
    }
    if (!failed) failed = !pack(group, held, data, epoch) || !unpack(group, held, epoch);
    // Looked at only here: the answer of the exchange takes most of a microsecond.
    if (running != 0) report_overlap(group, state, number, wait, epoch);
    group.sync();  // every thread has read the epoch
    if (group.rank() != 0) return;
    if (group.block() == 0) group.store_relaxed(&state->running, 0);
    group.store_relaxed(epochs + group.block(), epoch);
  }

 private:
  // This thread's rows of a list that is dealt to blocks from `block` 0 on.
  template <Group G>
  ONSTREAM_BODY static int take(const G& group, const Row* rows, std::uint32_t count, std::uint32_t block,
                                Row (&out)[kRowsEach]) {
    const std::uint32_t size = static_cast<std::uint32_t>(group.size());
    const std::uint32_t first = block * kRowsEach * size + static_cast<std::uint32_t>(group.rank());
    int taken = 0;
    ONSTREAM_UNROLL
    for (int k = 0; k < kRowsEach; ++k) {
      if (first + k * size >= count) continue;
      out[k] = rows[first + k * size];
      taken = k + 1;
    }
    return taken;
  }

  template <Group G>
  ONSTREAM_BODY void tell_start(const G& group, const ThreadRows& held, std::uint64_t epoch) const {
    if (held.announce != nullptr) group.store_relaxed(held.announce, epoch);
    const std::uint32_t size = static_cast<std::uint32_t>(group.size());
    for (std::uint32_t i = static_cast<std::uint32_t>(group.rank()) + size; i < announce_count; i += size) {
      group.store_relaxed(announce[i], epoch);
    }
  }

  // The two slots of an op are used by turns.
  ONSTREAM_BODY static Line* slot_of(const Row& row, std::uint64_t epoch) {
    return row.slot + (epoch % 2 != 0 ? row.odd_slot : 0);
  }

  template <Group G>
  ONSTREAM_BODY bool pack(const G& group, const ThreadRows& held, const std::uint64_t (&data)[kRowsEach],
                          std::uint64_t epoch) const {
    ONSTREAM_UNROLL
    for (int k = 0; k < kRowsEach; ++k) {
      if (k >= held.pack_count) continue;
      const Row& row = held.packs[k];
      const std::uint32_t task = row.task;
      const std::uint64_t start_ns = row.times != 0 ? group.now_ns() : 0;
      if (row.started != nullptr) {
        const auto started = [&] { return reached(group.load_acquire(row.started), epoch - 1); };
        const Status status = wait_on(group, wait, [&] { return word_of(group, task); }, started);
        if (status != Status::ok) return gave_up(group, task, epoch, status);
      }
      group.store_line(slot_of(row, epoch), flag_line(data[k], flag_of(epoch)));
      if (row.times != 0) group.add(&ops[row.times - 1].move_ns, group.now_ns() - start_ns);
    }
    return true;
  }

  template <Group G>
  ONSTREAM_BODY bool unpack(const G& group, const ThreadRows& held, std::uint64_t epoch) const {
    if (held.unpack_count == 0) return true;
    const std::uint32_t flag = flag_of(epoch);
    const bool times = held.unpacks[0].times != 0 || held.unpacks[kRowsEach - 1].times != 0;
    const std::uint64_t start_ns = times ? group.now_ns() : 0;
    Line lines[kRowsEach];
    const auto arrived = [&] {
      bool all = true;
      ONSTREAM_UNROLL
      for (int k = 0; k < kRowsEach; ++k) {
        if (k < held.unpack_count) lines[k] = group.load_line(slot_of(held.unpacks[k], epoch));
      }
      ONSTREAM_UNROLL
      for (int k = 0; k < kRowsEach; ++k) all = all && (k >= held.unpack_count || has_flag(lines[k], flag));
      return all;
    };
    // A peer that has left ends the wait only while its own line is missing.
    const auto word = [&] {
      std::uint64_t bits = 0;
      ONSTREAM_UNROLL
      for (int k = 0; k < kRowsEach; ++k) {
        if (k < held.unpack_count && !has_flag(lines[k], flag)) bits |= word_of(group, held.unpacks[k].task);
      }
      return bits;
    };
    const Status status = wait_on(group, wait, word, arrived);
    if (status != Status::ok) {
      const bool first = held.unpack_count == 1 || !has_flag(lines[0], flag);
      return gave_up(group, first ? held.unpacks[0].task : held.unpacks[kRowsEach - 1].task, epoch, status);
    }
    ONSTREAM_UNROLL
    for (int k = 0; k < kRowsEach; ++k) {
      if (k >= held.unpack_count) continue;
      scatter(held.unpacks[k], line_data(lines[k]));
      if (held.unpacks[k].times != 0) {
        group.add(&ops[held.unpacks[k].times - 1].wait_ns, group.now_ns() - start_ns);
      }
    }
    return true;
  }

  template <Group G>
  ONSTREAM_BODY std::uint64_t word_of(const G& group, std::uint32_t task) const {
    return word_of_peer(group, wait, tasks[task].peer);
  }

  // False. Rows are only asked for by numbers that the compiler knows: else all of them lie in memory.
  template <Group G>
  ONSTREAM_BODY bool gave_up(const G& group, std::uint32_t task, std::uint64_t epoch, Status status) const {
    report_wait(group, state, ops, tasks[task], number, wait, status, epoch);
    return false;
  }

  ONSTREAM_BODY static std::uint64_t gather(const Row& row) {
    if (row.access_width == kLineData) return *reinterpret_cast<const std::uint64_t*>(row.local);
    return gather_pieces(row.local, row.stride, row.pieces, row.access_width);
  }
  ONSTREAM_BODY static void scatter(const Row& row, std::uint64_t data) {
    if (row.access_width == kLineData) {
      *reinterpret_cast<std::uint64_t*>(row.local) = data;
    } else {
      scatter_pieces(row.local, row.stride, row.pieces, row.access_width, data);
    }
  }

  ONSTREAM_CALL static std::uint64_t gather_pieces(const std::byte* from, std::int64_t stride, std::uint32_t pieces,
                                                   std::uint32_t access_width) {
    std::uint64_t data = 0;
    for (std::uint32_t piece = 0; piece < pieces; ++piece, from += stride) {
      data |= load_piece(from, access_width) << (8 * access_width * piece);
    }
    return data;
  }

  ONSTREAM_CALL static void scatter_pieces(std::byte* to, std::int64_t stride, std::uint32_t pieces,
                                           std::uint32_t access_width, std::uint64_t data) {
    for (std::uint32_t piece = 0; piece < pieces; ++piece, to += stride) {
      store_piece(to, access_width, data >> (8 * access_width * piece));
    }
  }
};

}  // namespace onstream::plan
