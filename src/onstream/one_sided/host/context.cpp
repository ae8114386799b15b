#include "onstream/symmetric.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/layout/cursor.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/stream/implementation.hpp"

namespace onstream {

using one_sided::SegmentRow;

namespace {

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Words of 4 and 8 bytes go whole: a reader sees the old value or the new one.
void move(void* to, const void* from, std::size_t bytes) {
  const std::uintptr_t both = number_of(to) | number_of(from);
  if (bytes == 8 && both % 8 == 0) {
    HostGroup::store_relaxed(static_cast<std::uint64_t*>(to),
                             HostGroup::load_relaxed(static_cast<const std::uint64_t*>(from)));
  } else if (bytes == 4 && both % 4 == 0) {
    HostGroup::store_relaxed(static_cast<std::uint32_t*>(to),
                             HostGroup::load_relaxed(static_cast<const std::uint32_t*>(from)));
  } else if (bytes > 0) {  // nothing may come from a null pointer
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

class Context::Implementation {
 public:
  explicit Implementation(OneSidedImplementation& one_sided)
      : one_sided_(one_sided),
        device_(one_sided.device()),
        waits_(one_sided.host_waits()),
        stream_(one_sided.fabric().device()) {}

  // A symmetric address, looked up.
  struct Spot {
    const SegmentRow* row;
    std::size_t offset;
    int rank;
    Remote remote() const { return {*row->window, rank, offset}; }
    // Where the CPU touches it itself; null where it does not.
    std::byte* here() const {
      const std::uintptr_t part = row->parts[static_cast<std::size_t>(rank)];
      return row->cpu && part != 0 ? reinterpret_cast<std::byte*>(part + offset) : nullptr;
    }
  };
  Spot find(const char* what, const void* address, std::size_t bytes, int rank) const {
    one_sided_.fabric().check([&] { return concat(what, " of ", bytes, " B with rank ", rank); });
    const SegmentRow* row = one_sided_.segments().find(address);
    require(row != nullptr, what, ": ", address,
            " is in no segment of this world: it must be this rank's own address "
            "of symmetric memory that was not freed");
    require(rank >= 0 && rank < static_cast<int>(row->parts.size()), what, ": rank ", rank,
            " does not exist; this world has ranks 0 to ", row->parts.size() - 1);
    const std::size_t offset = number_of(address) - row->begin;
    require(bytes <= row->bytes - offset, what, ": ", bytes, " B at offset ", offset, " are not within the ",
            row->bytes, " B of the segment");
    return {row, offset, rank};
  }
  Spot find_word(const char* what, const void* word, std::size_t width, int rank) const {
    require(number_of(word) % width == 0, what, ": the word of ", width, " B at ", word, " is not aligned to its size");
    return find(what, word, width, rank);
  }

  void check_wait(const Until& until) const {
    one_sided_.fabric().check([&] { return concat("wait for a word of ", until.width, " B"); });
  }

  // Plain memory of this rank that the CPU touches.
  bool cpu_touches(const void* local) const {
    return one_sided_.on_host() || device_.inspect(local).kind != MemoryKind::device;
  }
  Stream stream() { return stream_.get(); }
  // On the stream, after all that this context has enqueued; on the host device at once.
  void enqueue(const Batch& batch) {
    if (one_sided_.on_host()) {
      one_sided_.run(batch.steps());
      return;
    }
    pending_ = true;  // also if a later part fails: the parts before it are on the stream
    one_sided_.run(batch.steps(), stream());
  }
  void finish() {
    if (!pending_) return;
    device_.synchronize(stream());
    pending_ = false;
    one_sided_.fabric().check_waited();
  }
  void signal(const Spot& word, std::uint64_t value, SignalOp op) {
    std::byte* const here = word.here();
    if (adds_by_cpu(here, op)) finish();
    if (here != nullptr && !pending_) return signal_here(here, value, op);
    Batch batch(one_sided_);
    batch.signal({word.remote(), op, value, 8});
    enqueue(batch);
  }
  // A GPU's add and a CPU's to one word of host memory are not atomic with each other: where the CPU reaches the word,
  // it adds, once the ops before it are done.
  static bool adds_by_cpu(const std::byte* here, SignalOp op) { return here != nullptr && op == SignalOp::add; }
  static void signal_here(std::byte* here, std::uint64_t value, SignalOp op) {
    auto* const word = reinterpret_cast<std::uint64_t*>(here);
    if (op == SignalOp::set) {
      HostGroup::store_release(word, value);  // pairs with the acquire of a wait for it
    } else {
      HostGroup::add_system(word, value);
    }
  }
  void* result() {
    if (result_ == nullptr) result_ = device_.allocate(sizeof(std::uint64_t), MemoryKind::pinned);
    return result_->data();
  }

  OneSidedImplementation& one_sided_;
  Device& device_;
  WaitView waits_;
  bool pending_ = false;

 private:
  LateStream stream_;
  std::shared_ptr<Memory> result_;  // of an atomic that the device does
};

Context::Context(OneSided& one_sided) : implementation_(std::make_unique<Implementation>(*one_sided.implementation_)) {}

Context::~Context() {
  try {
    quiet();
  } catch (const Error&) {
    // The world has failed, and its own calls report that.
  }
}

void Context::put_later(void* to, const void* source, std::size_t bytes, int rank) {
  const auto spot = implementation_->find("put", to, bytes, rank);
  require(source != nullptr || bytes == 0, "put: the source of ", bytes, " B is a null pointer");
  std::byte* const here = spot.here();
  if (here != nullptr && implementation_->cpu_touches(source)) return move(here, source, bytes);
  Batch batch(implementation_->one_sided_);
  batch.put(spot.remote(), source, bytes);
  implementation_->enqueue(batch);
}

void Context::get_later(void* to, const void* source, std::size_t bytes, int rank) {
  const auto spot = implementation_->find("get", source, bytes, rank);
  require(to != nullptr || bytes == 0, "get: the destination of ", bytes, " B is a null pointer");
  const std::byte* const here = spot.here();
  if (here != nullptr && implementation_->cpu_touches(to)) return move(to, here, bytes);
  Batch batch(implementation_->one_sided_);
  batch.get(to, spot.remote(), bytes);
  implementation_->enqueue(batch);
}

void Context::put(void* to, const void* source, std::size_t bytes, int rank) {
  put_later(to, source, bytes, rank);
  implementation_->finish();
}

void Context::get(void* to, const void* source, std::size_t bytes, int rank) {
  get_later(to, source, bytes, rank);
  implementation_->finish();
}

namespace {

Layout strided(std::size_t element, std::size_t count, std::ptrdiff_t step) {
  return Layout::strided(element, {static_cast<std::int64_t>(count)}, {step});
}

// By the CPU, element after element: both layouts have equal bytes.
void walk_here(std::byte* to, const Layout& to_layout, const std::byte* from, const Layout& from_layout) {
  Cursor writer(to_layout.view(), 0);
  Cursor reader(from_layout.view(), 0);
  for (std::size_t left = to_layout.bytes(); left > 0;) {
    const std::size_t now = std::min<std::size_t>({left, writer.run_left(), reader.run_left()});
    move(to + writer.offset(), from + reader.offset(), now);
    writer.advance(now);
    reader.advance(now);
    left -= now;
  }
}

}  // namespace

void Context::put_strided(void* to, const void* source, Strides steps, std::size_t element, std::size_t count,
                          int rank) {
  put_layout(to, strided(element, count, steps.to), source, strided(element, count, steps.source), rank);
}

void Context::get_strided(void* to, const void* source, Strides steps, std::size_t element, std::size_t count,
                          int rank) {
  get_layout(to, strided(element, count, steps.to), source, strided(element, count, steps.source), rank);
}

// Layouts may reach in front of their address: the lowest byte is looked up.
void Context::put_layout(void* to, const Layout& to_layout, const void* source, const Layout& source_layout, int rank) {
  carry({"put", to, &to_layout, source, &source_layout, rank, PutOrGet::put});
}

void Context::get_layout(void* to, const Layout& to_layout, const void* source, const Layout& source_layout, int rank) {
  carry({"get", to, &to_layout, source, &source_layout, rank, PutOrGet::get});
}

void Context::carry(const Carriage& what) {
  const bool puts = what.direction == PutOrGet::put;
  require(what.to_layout->bytes() == what.source_layout->bytes(), what.name,
          ": layouts of equal bytes, but the destination is ", what.to_layout->describe(), " and the source ",
          what.source_layout->describe());
  require(!what.to_layout->overlaps_itself(), what.name, ": the destination's layout, ", what.to_layout->describe(),
          ", overlaps itself");
  if (what.to_layout->bytes() == 0) return;
  const Layout& far = puts ? *what.to_layout : *what.source_layout;
  const auto* const lowest = static_cast<const std::byte*>(puts ? what.to : what.source) + far.lowest();
  const auto spot =
      implementation_->find(what.name, lowest, static_cast<std::size_t>(far.highest() - far.lowest()), what.rank);
  const void* const local = puts ? what.source : what.to;
  if (std::byte* const here = spot.here(); here != nullptr && implementation_->cpu_touches(local)) {
    std::byte* const base = here - far.lowest();
    return puts ? walk_here(base, far, static_cast<const std::byte*>(what.source), *what.source_layout)
                : walk_here(static_cast<std::byte*>(what.to), *what.to_layout, base, far);
  }
  if (spot.row->parts[static_cast<std::size_t>(what.rank)] != 0 && kernels_access(local)) {
    auto* const base =
        reinterpret_cast<std::byte*>(spot.row->parts[static_cast<std::size_t>(what.rank)]) + spot.offset - far.lowest();
    implementation_->pending_ = true;
    implementation_->one_sided_.walk(puts ? base : what.to, *what.to_layout, puts ? what.source : base,
                                     *what.source_layout, implementation_->stream());
    return implementation_->finish();
  }
  carry_pieces(what, spot.remote());
}

bool Context::kernels_access(const void* local) const { return implementation_->device_.inspect(local).kernel_access; }

// Does a transfer that neither the CPU nor one kernel can do. `lowest` is where the far layout's first byte in memory
// lies.
void Context::carry_pieces(const Carriage& what, const Remote& lowest) {
  const bool puts = what.direction == PutOrGet::put;
  const Layout& far = puts ? *what.to_layout : *what.source_layout;
  const Remote place{lowest.window, lowest.rank, lowest.offset - static_cast<std::size_t>(far.lowest())};
  Batch batch(implementation_->one_sided_);
  if (puts) {
    batch.put(place, *what.to_layout, what.source, *what.source_layout);
  } else {
    batch.get(what.to, *what.to_layout, place, *what.source_layout);
  }
  implementation_->enqueue(batch);
  implementation_->finish();
}

void Context::put_signal_later(void* to, const void* source, std::size_t bytes, std::uint64_t* word,
                               std::uint64_t value, SignalOp op, int rank) {
  const auto at = implementation_->find_word("put_signal", word, sizeof *word, rank);
  const Remote flag = at.remote();  // a look-up ends the result of the one before it
  std::byte* const flag_here = at.here();
  const auto spot = implementation_->find("put_signal", to, bytes, rank);
  require(source != nullptr || bytes == 0, "put_signal: the source of ", bytes, " B is a null pointer");
  std::byte* const here = spot.here();
  if (here != nullptr && flag_here != nullptr && !implementation_->pending_ && implementation_->cpu_touches(source)) {
    move(here, source, bytes);
    return Implementation::signal_here(flag_here, value, op);
  }
  const bool by_cpu = Implementation::adds_by_cpu(flag_here, op);
  Batch batch(implementation_->one_sided_);
  batch.put(spot.remote(), source, bytes);
  if (!by_cpu) batch.signal({flag, op, value, sizeof *word});
  implementation_->enqueue(batch);
  if (!by_cpu) return;
  implementation_->finish();
  Implementation::signal_here(flag_here, value, op);
}

void Context::put_signal(void* to, const void* source, std::size_t bytes, std::uint64_t* word, std::uint64_t value,
                         SignalOp op, int rank) {
  put_signal_later(to, source, bytes, word, value, op, rank);
  implementation_->finish();
}

void Context::signal(std::uint64_t* word, std::uint64_t value, SignalOp op, int rank) {
  implementation_->signal(implementation_->find_word("signal", word, sizeof *word, rank), value, op);
  implementation_->finish();
}

Status Context::wait_word(const void* word, const Until& until) {
  const one_sided::Step step = one_sided::wait_step(word, until);
  implementation_->check_wait(until);
  if (implementation_->cpu_touches(word)) {
    const WordRange range = range_of(step);
    const HostGroup group(0, 1);
    const Status status =
        wait_for_peer(group, implementation_->waits_, one_sided::kAnyRank, [&] { return is_met(group, step, range); });
    return status == Status::ok ? status : finish_wait(status, text_of(until) + place_of(word));
  }
  return implementation_->one_sided_.wait(step);
}

std::string Context::place_of(const void* word) const {
  return text_of(implementation_->one_sided_.fabric().place_of(word));
}

bool Context::test_word(const void* word, const Until& until) {
  const one_sided::Step step = one_sided::wait_step(word, until);
  implementation_->check_wait(until);
  if (implementation_->cpu_touches(word)) return is_met(HostGroup(0, 1), step, range_of(step));
  one_sided::Step copy = step;
  std::uint64_t held = 0;
  implementation_->device_.copy(&held, word, until.width, implementation_->stream());
  implementation_->device_.synchronize(implementation_->stream());
  copy.target = reinterpret_cast<std::uint64_t>(&held);
  return is_met(HostGroup(0, 1), copy, range_of(copy));
}

std::uint64_t Context::atomic_word(AtomicOp op, void* word, std::size_t width, std::uint64_t value,
                                   std::uint64_t expected, int rank) {
  const auto spot = implementation_->find_word("atomic", word, width, rank);
  if (const std::byte* const here = spot.here()) {
    return apply(HostGroup(0, 1), op, reinterpret_cast<std::uint64_t>(here), static_cast<unsigned>(width), value,
                 expected);
  }
  void* const old = implementation_->result();
  Batch batch(implementation_->one_sided_);
  batch.atomic(op, spot.remote(), width, value, old, expected);
  implementation_->enqueue(batch);
  implementation_->finish();
  return width == 8 ? *static_cast<const std::uint64_t*>(old) : *static_cast<const std::uint32_t*>(old);
}

std::string Context::one_of(const void* words, std::size_t count, const Until& until) const {
  return concat("one of ", count, " words", place_of(words), ", each ", text_of(until));
}

bool Context::has_one(std::size_t count, const int* left_out) { return one_sided::has_one(count, left_out); }

Status Context::poll(bool (*ready)(const void* condition), const void* condition) {
  return wait_for_peer(HostGroup(0, 1), implementation_->waits_, one_sided::kAnyRank, [&] { return ready(condition); });
}

Status Context::finish_wait(Status status, const std::string& what) {
  return implementation_->one_sided_.finish_wait(status, "a wait of the host for " + what);
}

void Context::fence() {
  implementation_->finish();  // the CPU's next stores must not pass the stream's earlier ones
  HostGroup::fence();
}

void Context::quiet() {
  implementation_->finish();
  HostGroup::fence();
}

void Context::barrier(Team& team) {
  quiet();
  team.sync();
}

}  // namespace onstream
