// Steps: one-sided ops as a kernel runs them, and the body that runs a list of them in one launch.
//
// The list travels in the kernel's arguments, so it needs no memory of its own and a captured launch keeps it. Steps
// run in order, in one block. A list of copies, none of which touches bytes that another writes, may have many blocks,
// each doing its share of every copy; the block that finishes last does the signals that follow the copies (`ticket`,
// see launch_tickets.hpp). A wait that fails ends the list: the rest is not done, by this launch and by the list's
// later ones
// (`ended`), and the fault says why. Copies of the copy engine are made all the same: it looks at nothing.
#pragma once

#include <cstdint>

#include "onstream/device/kernel/atomics.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/one_sided.hpp"

namespace onstream::one_sided {

ONSTREAM_BOTH AtomicOp op_of(const Step& atomic) { return static_cast<AtomicOp>(atomic.compare); }

// Of a wait: the words that it waits for, and whether it has seen one.
ONSTREAM_BOTH WordRange range_of(const Step& step) {
  return onstream::range_of(step.compare, step.sign, step.source, step.width);
}
template <Group G>
ONSTREAM_BODY bool is_met(const G& group, const Step& step, const WordRange& range) {
  return onstream::is_met(group, step.target, step.width, range);
}

template <Group G>
ONSTREAM_BODY bool is_claimed(const G& group, const Step& step) {
  if (group.compare_swap(reinterpret_cast<std::uint64_t*>(step.target), 0, step.source) != 0) return false;
  group.fence();  // pairs with the release of the store that gave the word back
  return true;
}

// Waits in the calling thread until ready(); leaves a fault if that ends otherwise.
template <Group G, class Ready>
ONSTREAM_BODY Status await_by(const G& group, const WaitView& view, const Step& step, const Ready& ready) {
  const Status status = wait_for_peer(group, view, step.peer, ready);
  if (status != Status::ok) [[unlikely]] {
    const std::uint64_t comparison = comparison_code(step.compare, step.sign);
    report(group, view, status, word_fault(step.peer, step.width, step.source, comparison, step.target));
  }
  return status;
}

template <Group G>
ONSTREAM_BODY Status await(const G& group, const WaitView& view, const Step& step) {
  const WordRange range = range_of(step);
  return await_by(group, view, step,
                  [&] { return step.kind == StepKind::claim ? is_claimed(group, step) : is_met(group, step, range); });
}

ONSTREAM_BOTH bool waits(const Step& step) { return step.kind == StepKind::wait || step.kind == StepKind::claim; }

// Whether `source` is an address.
ONSTREAM_BOTH bool moves(const Step& step) {
  return step.kind == StepKind::copy || step.kind == StepKind::engine || step.kind == StepKind::beside;
}

// Whether a step tells somebody something and waits for nothing.
ONSTREAM_BOTH bool tells(const Step& step) {
  return step.kind == StepKind::store || step.kind == StepKind::add || step.kind == StepKind::beside;
}

// The calling thread does a step that tells().
template <Group G>
ONSTREAM_BODY void write(const G& group, const Step& step) {
  if (step.kind == StepKind::beside) {
    const std::uint64_t data = group.load_relaxed(reinterpret_cast<const std::uint64_t*>(step.source));
    group.store_beside(reinterpret_cast<std::uint64_t*>(step.target), step.bytes, data);
  } else if (step.width == 8) {
    auto* word = reinterpret_cast<std::uint64_t*>(step.target);
    if (step.kind == StepKind::add) {
      group.add_system(word, step.source);
    } else {
      group.store_release(word, step.source);
    }
  } else if (step.width == 4) {
    auto* word = reinterpret_cast<std::uint32_t*>(step.target);
    if (step.kind == StepKind::add) {
      group.add_system(word, static_cast<std::uint32_t>(step.source));
    } else {
      group.store_release(word, static_cast<std::uint32_t>(step.source));
    }
  } else {
    auto* to = reinterpret_cast<unsigned char*>(step.target);
    for (unsigned i = 0; i < step.width; ++i) to[i] = static_cast<unsigned char>(step.source >> (8 * i));
  }
}

template <int kMost>
struct Steps {
  static constexpr int kCapacity = kMost;
  WaitView wait;
  std::int32_t count = 0;
  std::int32_t copies = 0;          // so many steps at the beginning are shared by all blocks, if there is a ticket
  std::uint64_t* ticket = nullptr;  // where there are many blocks and something behind the copies
  std::uint64_t* ended = nullptr;   // where the Status of a wait that fails goes; null: nowhere
  bool follows = false;             // a launch before this one waits too, and may have ended the list
  Step steps[kMost];

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (follows && group.sync_or(group.rank() == 0 && group.load_relaxed(ended) != 0)) return;
    bool fenced = true;
    int i = 0;
    if (ticket != nullptr) {
      for (; i < copies; ++i) move(group, steps[i]);
      if (!is_last(group)) return;
      fenced = false;  // the other blocks' bytes too come before the signals: pairs with their fences
    }
    for (; i < count; ++i) {
      const Step& step = steps[i];
      if (step.kind == StepKind::copy) {
        move(group, step);
        fenced = false;
        continue;
      }
      group.sync();  // all threads are through with the earlier steps
      const bool is_wait = waits(step);
      bool failed = false;
      if (group.rank() == 0 && is_wait) {
        const Status status = await(group, wait, step);
        failed = status != Status::ok;
        if (failed && ended != nullptr) group.store_relaxed(ended, static_cast<std::uint64_t>(status));
      } else if (group.rank() == 0 && fenced && resets(i)) {
        reset(group, step);
      } else if (group.rank() == 0) {
        // Pairs with the acquire of a wait for the word. A store of a word brings its own.
        if (!fenced && !releases(step)) group.fence();
        step.kind == StepKind::atomic ? change(group, step) : write(group, step);
      }
      if (group.sync_or(failed)) return;
      fenced = step.kind != StepKind::beside && (fenced || !is_wait);
    }
    // A later op of the stream may tell a peer of these copies without a fence of its own.
    if (!fenced) group.fence();
  }

 private:
  // Whether this block has come here last of all: its stores behind a fence of its own, which on a GPU is part of a
  // release store of system scope, then tell of the others' stores too.
  template <Group G>
  ONSTREAM_CALL bool is_last(const G& group) const {
    group.sync();
    bool last = false;
    if (group.rank() == 0) {
      group.fence();
      last = group.add(ticket, 1) + 1 == static_cast<std::uint64_t>(group.blocks());
      if (last) group.store_relaxed(ticket, 0);
    }
    return group.sync_or(last);
  }

  template <class Word>
  ONSTREAM_BODY static bool is_word(const Step& step) {
    return step.bytes == sizeof(Word) && (step.target | step.source) % sizeof(Word) == 0;
  }

  ONSTREAM_BODY static bool releases(const Step& step) {
    return step.kind == StepKind::store && step.width >= sizeof(std::uint32_t);
  }

  // Whether a step gives back the word that the step before it waited for: all that there was to be told was told to
  // this rank, so nothing has to be waited for first.
  ONSTREAM_BODY bool resets(int i) const {
    return i > 0 && releases(steps[i]) && steps[i - 1].kind == StepKind::wait && steps[i - 1].target == steps[i].target;
  }
  template <Group G>
  ONSTREAM_BODY static void reset(const G& group, const Step& step) {
    if (step.width == 8) {
      group.store_relaxed(reinterpret_cast<std::uint64_t*>(step.target), step.source);
    } else {
      group.store_relaxed(reinterpret_cast<std::uint32_t*>(step.target), static_cast<std::uint32_t>(step.source));
    }
  }

  // Words of 4 and 8 bytes go whole: a reader sees the old value or the new one.
  template <Group G>
  ONSTREAM_BODY static void move(const G& group, const Step& step) {
    if (is_word<std::uint64_t>(step) || is_word<std::uint32_t>(step)) {
      if (group.block() != 0 || group.rank() != 0) return;
      if (step.bytes == sizeof(std::uint64_t)) {
        group.store_relaxed(reinterpret_cast<std::uint64_t*>(step.target),
                            group.load_relaxed(reinterpret_cast<const std::uint64_t*>(step.source)));
      } else {
        group.store_relaxed(reinterpret_cast<std::uint32_t*>(step.target),
                            group.load_relaxed(reinterpret_cast<const std::uint32_t*>(step.source)));
      }
      return;
    }
    group.copy(reinterpret_cast<void*>(step.target), reinterpret_cast<const void*>(step.source), step.bytes);
  }

  // One thread each.
  template <Group G>
  ONSTREAM_CALL static void change(const G& group, const Step& step) {
    std::uint64_t expected = 0;
    if (op_of(step) == AtomicOp::compare_swap) {
      expected = step.width == 8 ? *reinterpret_cast<const std::uint64_t*>(step.bytes)
                                 : *reinterpret_cast<const std::uint32_t*>(step.bytes);
    }
    keep_old(group, step.bytes, step.width, apply(group, op_of(step), step.target, step.width, step.source, expected));
  }
};

// One wait, and one word that is written, perhaps with the word beside it: most of a program's small ops. A kernel's
// first trip through its code is slow, as the code comes from far away: these are short, and straight on.
struct OneWait {
  WaitView wait;
  Step step;

  template <Group G>
  ONSTREAM_BODY WordRange prepare(const G&) const {
    return range_of(step);
  }
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    (*this)(group, prepare(group));
  }
  template <Group G>
  ONSTREAM_BODY void operator()(const G& group, const WordRange& range) const {
    if (group.rank() == 0) (void)await_by(group, wait, step, [&] { return is_met(group, step, range); });
  }
};
struct OneWrite {
  Step step;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.rank() != 0) return;
    write(group, step);
    if (step.kind == StepKind::beside) group.fence();  // as in a list: a later op may tell of the word beside it
  }
};

// The steps that one op needs, and those that a launch can carry: CUDA's arguments end at 4096 B.
using FewSteps = Steps<4>;
using ManySteps = Steps<120>;
static_assert(sizeof(ManySteps) <= 4096, "a kernel's arguments end there");

}  // namespace onstream::one_sided
