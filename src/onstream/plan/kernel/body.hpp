// The body of a plan's kernel: one launch runs all ops of the plan, over tables made at build (view.hpp).
//
// Each block, in this order: announces that the launch has started (first block only), packs and moves, and then
// unpacks and awaits. No deadlock: an announcement waits for nothing; movers wait for nothing but announcements;
// finishers wait for movers. Blocks with movers have lower numbers than blocks with finishers only, so wherever a
// device starts blocks in order, a waiting block never keeps a mover from running, however few blocks fit at once (one,
// on the host).
//
// Slots of path ll are two, used by turns, and written without asking. The sender may write a slot in launch e when the
// receiver is through with launch e - 2, which holds when the receiver has started launch e - 1. Either the sender's
// launch e - 1, finished by now, waited for something that the receiver did in its own launch e - 1 (lower.cpp finds
// out), or the task waits for the announcement of e - 1.
#pragma once

#include "onstream/device/kernel/ll.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/plan/kernel/piece.hpp"
#include "onstream/plan/kernel/report.hpp"
#include "onstream/plan/kernel/view.hpp"

namespace onstream::plan {

struct Body {
  PlanView view;

  // A block's only move, if it is one between two contiguous buffers, as in most blocks of a large plan.
  struct OnlyMove {
    const Task* task = nullptr;  // null: there is none
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t part = 0;
    std::uint32_t parts = 1;
    std::uint32_t pulls = 0;
  };
  struct BlockWork {
    Block block;
    OnlyMove errand;
  };

  // Reads nothing that a launch changes, so a GPU does it before earlier work has finished (device/cuda/entry.cuh).
  template <Group G>
  ONSTREAM_BODY BlockWork prepare(const G& group) const {
    BlockWork held;
    held.block = view.blocks[view.first_block + static_cast<std::uint32_t>(group.block())];
    const ItemSpan moves = held.block.moves;
    if (kSerial<G> || moves.last - moves.first != 1) return held;
    const WorkItem item = view.items[moves.first];
    const Task& task = view.tasks[item.task];
    const bool plain = task.to_layout.dims == 0 && task.from_layout.dims == 0;
    if (plain && task.to != nullptr && task.chain == kNone) {
      held.errand = {&task, task.to, task.from, task.bytes, item.begin, task.parts, task.pulls};
    }
    return held;
  }

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (*this)(group, prepare(group));
  }

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group, const BlockWork& held) const {
    const Block& block = held.block;
    Epoch* const own_epoch = view.epochs + view.first_block + static_cast<std::uint32_t>(group.block());
    const std::uint64_t epoch = group.load_relaxed(own_epoch) + 1;
    bool failed = group.load_relaxed(&view.state->failed) != 0;
    const bool first = group.block() == 0 && view.begins != 0;
    std::uint64_t running = 0;
    if (first) {
      if (group.rank() == group.size() - 1) running = group.exchange(&view.state->running, 1);
      if (!failed) announce(group, epoch);
    }
    failed |= !pack(group, block.packs, epoch, failed);
    if (held.errand.task != nullptr) {
      failed |= !run(group, held.errand, epoch, failed);
    } else {
      failed |= !move(group, block, epoch, failed);
    }
    // Looked at only here: the answer of the exchange takes most of a microsecond.
    if (running != 0) {
      report_overlap(group, view.state, view.number, view.wait, epoch);
      failed = true;
    }
    failed |= !unpack(group, block.unpacks, epoch, failed);
    failed |= !await(group, block, epoch, failed);
    group.sync();  // every thread has read the epoch
    if (group.rank() != 0) return;
    if (group.block() == 0 && view.ends != 0) group.store_relaxed(&view.state->running, 0);
    group.store_relaxed(own_epoch, epoch);
  }

 private:
  // Tells the peers that wait for it that this launch runs: its destinations may be written, its sources are ready.
  // Relaxed is enough for the former on a GPU, as the kernel that read a destination has finished.
  template <Group G>
  ONSTREAM_BODY void announce(const G& group, std::uint64_t epoch) const {
    for (std::uint32_t i = group.rank(); i < view.announce_count; i += group.size()) {
      if (kSerial<G> || view.announce_release != 0) {
        group.store_release(view.announce[i], epoch);  // pairs with the acquires of move() and has_started()
      } else {
        group.store_relaxed(view.announce[i], epoch);
      }
    }
    if (group.rank() == 0 && view.lone_signals != 0) send_signals(group, {0, view.lone_signals});
  }

  // Comes before a relaxed store that tells a peer of the whole grid's work. The host's stores that tell are releases.
  template <Group G>
  ONSTREAM_BODY static void fence_grid(const G& group) {
    if constexpr (!kSerial<G>) group.fence();
  }

  // Whether a slot may be written. The data does not depend on anything the peer did, so a GPU needs no acquire.
  template <Group G>
  ONSTREAM_BODY static bool has_started(const G& group, const std::uint64_t* word, std::uint64_t epoch) {
    return reached(kSerial<G> ? group.load_acquire(word) : group.load_relaxed(word), epoch);
  }

  template <Group G>
  ONSTREAM_BODY void send_signals(const G& group, ItemSpan signals) const {
    fence_grid(group);  // pairs with the acquire of a wait for the counter
    for (std::uint32_t i = signals.first; i < signals.last; ++i) {
      const SignalView& signal = view.signals[i];
      if (signal.width == 0) {
        group.add_system(signal.counter, signal.value);
      } else {
        change(group, signal);
      }
    }
  }

  template <Group G>
  ONSTREAM_CALL static void change(const G& group, const SignalView& atomic) {
    const auto word = reinterpret_cast<std::uint64_t>(atomic.counter);
    keep_old(group, atomic.old, atomic.width,
             apply(group, atomic.op, word, atomic.width, atomic.value, atomic.expected));
  }

  // --- path ll ---

  template <Group G>
  ONSTREAM_BODY bool pack(const G& group, ItemSpan items, std::uint64_t epoch, bool failed) const {
    const ThreadTeam team(group);
    bool good = true;
    for (std::uint32_t i = items.first + team.index; i < items.last && good && !failed; i += team.teams) {
      const WorkItem item = view.items[i];
      const Task& task = view.tasks[item.task];
      const std::uint64_t start_ns = timer(group, team, item);
      if (task.started != nullptr) {
        good = wait(group, task, epoch, [&] { return has_started(group, task.started, epoch - 1); });
      }
      if (good) pack_lines(group, team, item, task, epoch);
      if (start_ns != 0) group.add(&view.ops[task.op].move_ns, group.now_ns() - start_ns);
    }
    return good;
  }

  template <Group G>
  ONSTREAM_BODY bool unpack(const G& group, ItemSpan items, std::uint64_t epoch, bool failed) const {
    const ThreadTeam team(group);
    bool good = true;
    for (std::uint32_t i = items.first + team.index; i < items.last && good && !failed; i += team.teams) {
      const WorkItem item = view.items[i];
      const Task& task = view.tasks[item.task];
      std::uint64_t start_ns = timer(group, team, item);
      good = unpack_lines(group, team, item, task, epoch, start_ns);
      if (start_ns != 0) group.add(&view.ops[task.op].move_ns, group.now_ns() - start_ns);
    }
    return good;
  }

  template <class ThreadTeam, Group G>
  ONSTREAM_BODY void pack_lines(const G& group, const ThreadTeam& team, const WorkItem& item, const Task& task,
                                std::uint64_t epoch) const {
    Line* slot = task.slots + (epoch & 1) * task.slot_lines;
    const std::uint32_t flag = flag_of(epoch);
    if constexpr (kSerial<G>) {
      Cursor cursor(task.from_layout, item.begin * kLineData);
      for (std::uint64_t line = item.begin; line < item.end; ++line) {
        std::uint64_t data = 0;
        cursor.read(&data, task.from, line_bytes(task, line));
        group.store_line(slot + line, flag_line(data, flag));
      }
    } else {
      for (std::uint64_t line = item.begin + team.tag; line < item.end; line += kLinesInFlight * team.width) {
        std::uint64_t data[kLinesInFlight];
        for (int k = 0; k < kLinesInFlight; ++k) {
          if (line + k * team.width < item.end) data[k] = gather(task, line + k * team.width);
        }
        for (int k = 0; k < kLinesInFlight; ++k) {
          if (line + k * team.width < item.end)
            group.store_line(slot + line + k * team.width, flag_line(data[k], flag));
        }
      }
    }
  }

  template <class ThreadTeam, Group G>
  ONSTREAM_BODY bool unpack_lines(const G& group, const ThreadTeam& team, const WorkItem& item, const Task& task,
                                  std::uint64_t epoch, std::uint64_t& start_ns) const {
    const Line* slot = task.slots + (epoch & 1) * task.slot_lines;
    const std::uint32_t flag = flag_of(epoch);
    bool timing = start_ns != 0;
    for (std::uint64_t line = item.begin + team.tag; line < item.end; line += kLinesInFlight * team.width) {
      Line got[kLinesInFlight];
      const bool good = wait(group, task, epoch, [&] {
        bool all = true;
        for (int k = 0; k < kLinesInFlight; ++k) {
          if (line + k * team.width < item.end) got[k] = group.load_line(slot + line + k * team.width);
        }
        for (int k = 0; k < kLinesInFlight; ++k) {
          if (line + k * team.width < item.end) all = all && has_flag(got[k], flag);
        }
        return all;
      });
      if (!good) return false;
      if (timing) {
        timing = false;
        const std::uint64_t now_ns = group.now_ns();
        group.add(&view.ops[task.op].wait_ns, now_ns - start_ns);
        start_ns = now_ns;
      }
      for (int k = 0; k < kLinesInFlight; ++k) {
        if (line + k * team.width < item.end) scatter(group, task, line + k * team.width, line_data(got[k]));
      }
    }
    return true;
  }

  ONSTREAM_BODY static std::uint64_t line_bytes(const Task& task, std::uint64_t line) {
    const std::uint64_t left = task.bytes - line * kLineData;
    return left < kLineData ? left : kLineData;
  }

  ONSTREAM_BODY static std::uint64_t gather(const Task& task, std::uint64_t line) {
    const std::uint64_t position = line * kLineData;
    if (task.access_width >= kLineData) {
      return *reinterpret_cast<const std::uint64_t*>(task.from + offset_of(task.from_layout, position));
    }
    const std::uint64_t count = line_bytes(task, line);
    std::uint64_t data = 0;
    for (std::uint64_t b = 0; b < count; b += task.access_width) {
      data |= load_piece(task.from + offset_of(task.from_layout, position + b), task.access_width) << (8 * b);
    }
    return data;
  }

  template <Group G>
  ONSTREAM_BODY static void scatter(const G&, const Task& task, std::uint64_t line, std::uint64_t data) {
    const std::uint64_t position = line * kLineData;
    const std::uint64_t count = line_bytes(task, line);
    if constexpr (kSerial<G>) {
      Cursor(task.to_layout, position).write(&data, task.to, count);
      return;
    }
    if (task.access_width >= kLineData) {
      *reinterpret_cast<std::uint64_t*>(task.to + offset_of(task.to_layout, position)) = data;
      return;
    }
    for (std::uint64_t b = 0; b < count; b += task.access_width) {
      store_piece(task.to + offset_of(task.to_layout, position + b), task.access_width, data >> (8 * b));
    }
  }

  // --- straight from layout to layout ---

  template <Group G>
  ONSTREAM_BODY bool move(const G& group, const Block& block, std::uint64_t epoch, bool failed) const {
    const ItemSpan items = block.moves;
    if (items.first == items.last) return true;
    bool good = !failed;
    for (std::uint32_t i = items.first + group.rank(); i < items.last && good; i += group.size()) {
      const Task& task = view.tasks[view.items[i].task];
      const bool times = view.items[i].begin == 0 && task.to != nullptr;
      const std::uint64_t start_ns = times ? group.now_ns() : 0;
      if (task.started != nullptr) {
        // A push needs only to know; a pull loads stores of the peer's earlier kernels. Both cost the same once here.
        good = wait(group, task, epoch, [&] { return reached(group.load_acquire(task.started), epoch); });
      }
      if (times) note_ready(group, task, start_ns);
    }
    if (block.moves_wait != 0) good = !group.sync_or(!good);
    for (std::uint32_t i = items.first; i < items.last && good; ++i) {
      const WorkItem item = view.items[i];
      const Task& task = view.tasks[item.task];
      if (task.to != nullptr) {
        copy_part(group, {task.to, &task.to_layout}, {task.from, &task.from_layout}, task.bytes, task.access_width,
                  item.begin, task.parts);
      }
      if constexpr (kSerial<G>) complete(group, task, item.begin, epoch);
    }
    if constexpr (!kSerial<G>) {
      good = !group.sync_or(!good);
      for (std::uint32_t i = items.first + group.rank(); i < items.last && good; i += group.size()) {
        complete(group, view.tasks[view.items[i].task], view.items[i].begin, epoch);
      }
    }
    return good;
  }

  // The same for a block whose only move is a plain one: the source is on its way before anything else is known.
  template <Group G>
  ONSTREAM_BODY bool run(const G& group, const OnlyMove& errand, std::uint64_t epoch, bool failed) const {
    typename G::Flight flight{};
    if (errand.pulls == 0) flight = group.fetch(errand.from, errand.bytes, errand.part, errand.parts);
    const Task& task = *errand.task;
    bool good = !failed;
    if (group.rank() == 0 && good) {
      const std::uint64_t start_ns = errand.part == 0 ? group.now_ns() : 0;
      if (task.started != nullptr) {
        good = wait(group, task, epoch, [&] { return reached(group.load_acquire(task.started), epoch); });
      }
      if (errand.part == 0) note_ready(group, task, start_ns);
    }
    good = !group.sync_or(!good);
    if (good && errand.pulls == 0) {
      group.copy(flight, errand.to, errand.from, errand.bytes, errand.part, errand.parts);
    } else if (good) {
      group.copy(errand.to, errand.from, errand.bytes, errand.part, errand.parts);
    }
    group.sync();
    if (good && group.rank() == 0) complete(group, task, errand.part, epoch);
    return good;
  }

  // One part of a move is through, and all threads of the block have been at a barrier since.
  template <Group G>
  ONSTREAM_BODY void complete(const G& group, const Task& task, std::uint32_t part, std::uint64_t epoch) const {
    if (task.flag != nullptr) {
      group.store_release(task.flag + part, epoch * kPartsOfFlag + task.parts);  // pairs with await()
    }
    if (task.to != nullptr && part == 0) {
      OpState& op = view.ops[task.op];
      group.add(&op.move_ns, group.now_ns() - group.load_relaxed(&op.ready_ns));
    }
    if (task.chain == kNone) return;
    fence_grid(group);
    const PutChain& chain = view.chains[task.chain];
    if (group.add(chain.done, 1) + 1 != chain.parts) return;
    group.store_relaxed(chain.done, 0);
    send_signals(group, chain.signals);
  }

  template <Group G>
  ONSTREAM_CALL static bool compares(const G& group, const Task& task) {
    const auto word = reinterpret_cast<std::uint64_t>(task.flag);
    return is_met(group, word, task.width, range_of(task.compare, task.sign, task.value, task.width));
  }

  // Whether parts own, own + step, ... of an awaited move are there, or the awaited word compares as it has to.
  template <Group G>
  ONSTREAM_BODY static bool is_there(const G& group, const Task& task, std::uint64_t epoch, std::uint32_t own,
                                     std::uint32_t step) {
    if (task.kind == OpKind::wait) {
      if (own != 0) return true;
      if (task.width != 0) return compares(group, task);
      return reached(group.load_acquire(task.flag), task.base + task.value * epoch);
    }
    if (own >= kMostParts) return true;
    const auto is_now = [&](std::uint64_t flag) { return reached(flag / kPartsOfFlag, epoch); };
    const std::uint64_t first = group.load_acquire(task.flag);  // pairs with complete()
    std::uint64_t mine = group.load_acquire(task.flag + own);   // in one trip with the first
    if (!is_now(first)) return false;
    for (std::uint64_t part = own; part < first % kPartsOfFlag;) {
      if (!is_now(mine)) return false;
      part += step;
      if (part < first % kPartsOfFlag) mine = group.load_acquire(task.flag + part);
    }
    return true;
  }

  template <Group G>
  ONSTREAM_BODY bool await(const G& group, const Block& block, std::uint64_t epoch, bool failed) const {
    const ItemSpan items = block.awaits;
    if (items.first == items.last) return true;
    bool good = !failed;
    const ThreadTeam team(group);
    for (std::uint32_t i = items.first + team.index; i < items.last && good; i += team.teams) {
      const Task& task = view.tasks[view.items[i].task];
      const bool times = view.items[i].begin == 0 && team.tag == 0;
      const std::uint64_t start_ns = times ? group.now_ns() : 0;
      good = wait(group, task, epoch, [&] { return is_there(group, task, epoch, team.tag, team.width); });
      if (times) note_ready(group, task, start_ns);
    }
    if (block.awaits_copy == 0) return good;
    good = !group.sync_or(!good);
    for (std::uint32_t i = items.first; i < items.last && good; ++i) {
      const WorkItem item = view.items[i];
      const Task& task = view.tasks[item.task];
      if (task.to == nullptr) continue;
      copy_part(group, {task.to, &task.to_layout}, {task.from, &task.from_layout}, task.bytes, task.access_width,
                item.begin, task.parts);
      if (group.rank() == 0 && item.begin == 0) {
        group.add(&view.ops[task.op].move_ns, group.now_ns() - group.load_relaxed(&view.ops[task.op].ready_ns));
      }
    }
    return good;
  }

  // --- waiting, timing, ending ---

  // A warp, or the host's one thread.
  struct ThreadTeam {
    template <Group G>
    ONSTREAM_BODY explicit ThreadTeam(const G& group)
        : width(group.size() < 32 ? group.size() : 32),
          index(static_cast<std::uint32_t>(group.rank()) / width),
          tag(static_cast<std::uint32_t>(group.rank()) % width),
          teams(static_cast<std::uint32_t>(group.size()) / width) {}
    std::uint32_t width;
    std::uint32_t index;
    std::uint32_t tag;
    std::uint32_t teams;
  };

  // The time, for the one thread that measures an ll task; 0 for all others.
  template <Group G, class ThreadTeam>
  ONSTREAM_BODY static std::uint64_t timer(const G& group, const ThreadTeam& team, const WorkItem& item) {
    return item.begin == 0 && team.tag == 0 ? group.now_ns() : 0;
  }

  template <Group G>
  ONSTREAM_BODY void note_ready(const G& group, const Task& task, std::uint64_t start_ns) const {
    const std::uint64_t now_ns = group.now_ns();
    group.add(&view.ops[task.op].wait_ns, now_ns - start_ns);
    group.store_relaxed(&view.ops[task.op].ready_ns, now_ns);
  }

  template <Group G, class Ready>
  ONSTREAM_BODY bool wait(const G& group, const Task& task, std::uint64_t epoch, const Ready& ready) const {
    const Status status = wait_for_peer(group, view.wait, task.peer, ready);
    if (status == Status::ok) return true;
    report_wait(group, view.state, view.ops, task, view.number, view.wait, status, epoch);
    return false;
  }
};

}  // namespace onstream::plan
