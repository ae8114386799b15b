// One-sided ops: put, get, signals and waits, on windows of every rank's memory; batches of them, and teams.
//
// Ordered on a stream, captured in a graph, or with the host waiting; the peer takes no part. A put is done on the
// stream when its bytes are in the window, so the stream may tell the peer of them afterwards. Ops of one stream are
// ordered; ops of different streams, or of the host, are not.
//
// A part that this rank's kernels cannot address (plain host memory of another process, say) is reached through its
// owner's proxy thread: the same ops, with the same promises, at the speed of a copy by a CPU that wakes up. Errors on
// a stream are values: the fault fails the world, as a wait that passed its deadline does everywhere. A batch does
// nothing behind a wait that failed, except the copy engine's copies (parameter copy_min_bytes, and plain host memory):
// such copies are made, and nothing tells a peer of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/layout.hpp"

namespace onstream {

class Fabric;
class OneSided;
class OneSidedImplementation;
struct SegmentView;  // kernel.hpp
struct TeamView;     // kernel.hpp

namespace one_sided {

class Lent;
struct ProxyRequest;
enum class ProxyWork : std::uint64_t;

// A Batch is a list of these, as a kernel runs it (one_sided/kernel/step.hpp).
enum class StepKind : std::uint8_t {
  copy,    // `bytes` from `source` to `target`
  store,   // `source` itself, into the word or the fewer bytes at `target`, after all earlier steps
  beside,  // `bytes` itself, into the 8-byte word at `target`, and with the same store the 8 bytes at `source` into the
           // other half of its aligned 16 bytes, after all earlier steps
  add,     // `source` itself, to the word at `target`, after all earlier steps
  wait,    // until the word at `target` compares with `source` as asked
  atomic,  // an AtomicOp by `source` on the word at `target`, after all earlier steps; the old value goes to `bytes`,
           // the address of a word of this rank or 0, which holds the expected value of a compare-and-swap before
  claim,   // until the 8-byte word at `target`, in this rank's device memory, was 0 and is now `source`
  engine   // as copy, between any kinds of memory, by the copy engine: a list of its own, and no kernel
};

struct Step {
  StepKind kind = StepKind::copy;
  std::uint8_t width = 8;  // of the word: 4 or 8; of a store also fewer
  Compare compare = Compare::eq;
  Sign sign = Sign::unsigned_word;
  std::int32_t peer = -1;  // whom a wait is for; -1: any rank
  std::uint64_t target = 0;
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
};

}  // namespace one_sided

// A piece of every rank's memory that all ranks may put to and get from.
//
// A rank's part is memory of its own choice (also none), or its part of a Segment. The window does not own the memory:
// it must live as long as any rank uses the window. A Segment is kept alive.
//
// A part that a peer's kernels cannot address is reached through its owner's proxy thread: as long as the owner has its
// Window too. Later use fails the world, with a story that names both ranks and the memory.
class Window {
 public:
  // Collective; every rank names its own part. Throws invalid_argument for a null pointer that is to hold bytes.
  Window(Fabric& fabric, one_sided::Lent& lent, void* address, std::size_t bytes);
  Window(const Fabric& fabric, std::shared_ptr<Segment> segment);
  // Not collective: memory of one rank, `bytes` at `there` in its own address space, as this rank alone has heard of
  // it. `here` is where this rank's kernels address it; 0: they do not, and the owner's proxy must run
  // (OneSided::start_proxy) and may touch it (OneSided::lend).
  struct KnownMemory {
    int rank;
    std::uint64_t there;
    std::uint64_t here;
    std::size_t bytes;
  };
  Window(const Fabric& fabric, const KnownMemory& known);

  int ranks() const { return static_cast<int>(parts_.size()); }
  std::size_t bytes(int rank) const { return part(rank).bytes; }
  // Whether this rank loads and stores that part itself, and if not, why not.
  bool direct(int rank) const { return part(rank).here != 0 || part(rank).bytes == 0; }
  const std::string& why_not(int rank) const { return part(rank).why_not; }
  // Some rank cannot address some other's part. The same answer on every rank.
  bool needs_proxy() const { return needs_proxy_; }

  // Whose parts these are; 0: no segment's.
  std::uint64_t segment_number() const { return segment_ == nullptr ? 0 : segment_->number(); }
  // The id by which the owner's proxy knows the part.
  std::uint64_t lent_id(int rank) const { return part(rank).lent_id; }

  // Address of [offset, offset + bytes) of rank's part: as this rank sees it if direct(), else as its owner does.
  // Throws invalid_argument, with the values, if that is not within the part; closed once its segment was freed.
  std::uint64_t at(int rank, std::size_t offset, std::size_t bytes) const;

 private:
  struct WindowPart {
    std::uint64_t bytes = 0;
    std::uint64_t here = 0;   // in this rank's address space; 0: cannot be addressed
    std::uint64_t there = 0;  // in its owner's
    std::string why_not;
    std::uint64_t lent_id = 0;
  };
  const WindowPart& part(int rank) const;
  // Throws invalid_argument with whose parts these are and the joined words, unless `good`.
  void check(bool good, const auto&... why) const;

  std::vector<WindowPart> parts_;
  bool needs_proxy_ = false;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<const void> loan_;  // of this rank's part, where some peer needs it
};

// Where in a window: `offset` bytes into the part of `rank`.
struct Remote {
  const Window& window;
  int rank = 0;
  std::size_t offset = 0;
};

// A word of a window that tells its owner something.
struct Signal {
  Remote word;
  SignalOp op = SignalOp::add;
  std::uint64_t value = 1;
  std::size_t width = 8;  // bytes of the word: 4 or 8; its address is a multiple of it
};

// Words of this rank's own memory, side by side, without those that `left_out` leaves out: an int for each word, not 0
// for those. Null: none.
struct WordRow {
  const void* first = nullptr;
  std::size_t count = 0;
  const int* left_out = nullptr;
};

// One-sided ops to be enqueued together, in this order, in as few launches as they allow.
//
// Filling it checks the arguments and throws; running it (OneSided::run) moves the bytes. It may be run any number of
// times. Windows and buffers must live until that work is done.
class Batch {
 public:
  explicit Batch(OneSided& one_sided);
  explicit Batch(OneSidedImplementation& one_sided) : one_sided_(&one_sided) {}

  // Copies from local memory into a window, and back.
  void put(const Remote& to, const void* source, std::size_t bytes);
  void get(void* destination, const Remote& from, std::size_t bytes);
  // Between layouts of equal bytes(), laid from these places: a step for each piece that is contiguous on both sides.
  void put(const Remote& to, const Layout& to_layout, const void* source, const Layout& source_layout);
  void get(void* destination, const Layout& to_layout, const Remote& from, const Layout& from_layout);
  // As put, but takes the bytes now: `source` may be reused as soon as the call returns. Host memory.
  void put_now(const Remote& to, const void* source, std::size_t bytes);
  // After everything before it in the batch has arrived. Setting a word of 8 bytes right after a put of 8 bytes beside
  // it, both in one aligned 16, is one store, and takes no trip for an answer.
  void signal(const Signal& signal);
  // After everything before it in the batch has arrived. The old value goes to `old`, a word of the same width in
  // memory of this rank that kernels access, or nowhere if that is null; compare_swap needs it, for the expected value.
  void atomic(AtomicOp op, const Remote& word, std::size_t width, std::uint64_t value, void* old = nullptr,
              std::uint64_t expected = 0);
  // Waits for a word of this rank's memory. Data put before the word was set is seen behind the wait.
  void wait(const void* word, const Until& until);
  // Stores a word of this rank's memory, as a signal to itself or to its host.
  void store(void* word, std::uint64_t value, std::size_t width);
  // Between two buffers of this rank.
  void copy(void* destination, const void* source, std::size_t bytes);

  std::span<const one_sided::Step> steps() const {
    return many_.empty() ? std::span(few_.data(), few_count_) : std::span(many_);
  }
  // Numbers of the segments that it reaches through proxies: no step has an address there.
  std::span<const std::uint64_t> staged() const { return staged_; }
  bool empty() const { return few_count_ == 0; }
  // All of another batch of the same world.
  void append(const Batch& other);
  void clear();

 private:
  void add(const one_sided::Step& step);
  one_sided::Step* last();  // of the steps; null: none
  void add_copy(std::uint64_t target, std::uint64_t source, std::size_t bytes, int peer, std::uint64_t local);
  void write(const Remote& to, std::uint64_t target, std::uint64_t value, std::size_t width, SignalOp op);
  void atomic_by_proxy(AtomicOp op, const Remote& word, std::uint64_t target, std::size_t width, std::uint64_t value,
                       void* old);
  bool asks_proxy(const Remote& place);
  static std::uint64_t asked_of(const Remote& place, one_sided::ProxyWork work);
  void claim_proxy(int peer);
  // Leave the request in one of the peer's slots, and wait until the request there is done.
  void ask_proxy(int peer, std::size_t slot, const one_sided::ProxyRequest& request);
  void await_proxy(int peer, std::size_t slot);
  void release_proxy(int peer);

  OneSidedImplementation* one_sided_;
  std::array<one_sided::Step, 4> few_;  // the steps of one op, without an allocation
  std::size_t few_count_ = 0;
  std::vector<one_sided::Step> many_;  // all steps, when they are more
  std::vector<std::uint64_t> staged_;
};

// A set of ranks that meet: barriers on streams, on hosts and in kernels, and small exchanges between hosts.
//
// Every member's flag for every other lies in symmetric memory, so a barrier is one store to each member and one wait
// for each, all at once. The number of a barrier lies in device memory and the kernel counts it, so a captured barrier
// means the same at every replay. Stream barriers, host barriers and barriers of a kernel's own view are counted apart
// and may be used side by side; of each kind one at a time on a rank.
//
// Calls that say so are collective over the team: all members make them in the same order. A team must outlive its
// enqueued barriers; a graph keeps the teams that it has barriers of. A team is of no use after its world.
class Team : public std::enable_shared_from_this<Team> {
 public:
  static constexpr int kNone = -1;  // a colour: in no new team

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }  // in the team
  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int member) const;
  std::optional<int> member_of(int world_rank) const;  // nothing: not in the team
  std::span<const int> members() const { return members_; }

  // --- new teams; collective over this one, and threads may split several teams at once. Null for members of no new
  // team. Throw, on every member, when some new team's members have no words for another one (parameter teams) ---
  // Those of one colour, by key, then by rank.
  std::shared_ptr<Team> split(int colour, int key);
  // Members first, first + step, ..., count of them.
  std::shared_ptr<Team> split_strided(int first, int step, int count);
  // Members as rows of `width`: my row and my column. The last row may be shorter.
  std::pair<std::shared_ptr<Team>, std::shared_ptr<Team>> split_2d(int width);

  // --- barriers ---
  // On a stream, one small kernel; may be captured. Work enqueued before it has happened on every member's stream, and
  // is seen behind it.
  void barrier(Stream stream);
  // The hosts meet; enqueued work does not matter. Throws the story when the world failed meanwhile: timeout where this
  // rank's own deadline passed, else aborted.
  void sync();
  // For a program's own kernels.
  TeamView view() const;

  // --- between hosts ---
  static constexpr std::size_t kExchangeWords = 4;
  using Words = std::array<std::uint64_t, kExchangeWords>;
  // Collective: the words of every member, in their order.
  std::vector<Words> exchange(const Words& mine);

 private:
  class Implementation;  // derived from this
  friend class OneSidedImplementation;
  explicit Team(std::vector<int> members) : members_(std::move(members)) {}
  ~Team() = default;
  Implementation& self();
  const Implementation& self() const;

  std::vector<int> members_;
  int rank_ = -1;
};

class OneSided {
 public:
  explicit OneSided(std::shared_ptr<Fabric> fabric);
  ~OneSided();

  // Collective. Every rank's part is memory that it names, of any size, 0 too; or the parts of a segment.
  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);

  // Collective: from here on this rank's proxy serves windows that peers make alone, where this rank lends them the
  // memory.
  void start_proxy();
  // While the handle lives, peers that know the address may have this rank's proxy touch the memory, which is the
  // caller's. Not collective. The handle's end may wait for the proxy's work on the memory.
  std::shared_ptr<const void> lend(const void* address, std::size_t bytes);

  // --- symmetric memory ---
  // Collective. Parts that a rank cannot map (private memory, parameter path `stage`) are reached through their owners.
  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind);
  // Collective: frees every rank's part at once. Waits for the one-sided ops of this rank; all other work on the
  // segment must have finished, on every rank.
  void free(const std::shared_ptr<Segment>& segment);
  // The place in rank's part that `address` is in this rank's part of a segment. Throws invalid_argument when it is in
  // none. The window inside lives as long as the segment.
  Remote symmetric(const void* address, int rank) const;
  // For kernels. Throws unsupported where this rank cannot load and store every part.
  SegmentView view(const Segment& segment) const;
  std::shared_ptr<Team> team() const;  // of all ranks
  void barrier();                      // World::barrier() within a host; apart from team()->sync()

  // --- ordered on a stream ---
  void atomic(AtomicOp op, const Remote& word, std::size_t width, std::uint64_t value, void* old,
              std::uint64_t expected, Stream stream);
  // Between layouts of equal bytes(), laid from these places. Where the part is reached directly the local memory is
  // such as kernels access; else the owner's proxy moves the pieces one by one.
  void put(const Remote& to, const Layout& to_layout, const void* source, const Layout& source_layout, Stream stream);
  void get(void* destination, const Layout& to_layout, const Remote& from, const Layout& from_layout, Stream stream);
  void put(const Remote& to, const void* source, std::size_t bytes, Stream stream);
  void get(void* destination, const Remote& from, std::size_t bytes, Stream stream);
  void put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal, Stream stream);
  void signal(const Signal& signal, Stream stream);
  void wait(const void* word, const Until& until, Stream stream);
  // For many words at once; `until` has their width. All that are not left out; or one, whose index goes to *found
  // (words.count if all are left out); or all that compare once one does: their indices, ascending, and how many. Where
  // the answer goes kernels must have access.
  void wait_all(const WordRow& words, const Until& until, Stream stream);
  void wait_any(const WordRow& words, const Until& until, std::uint64_t* found, Stream stream);
  void wait_some(const WordRow& words, const Until& until, std::uint64_t* indices, std::uint64_t* found, Stream stream);
  void run(const Batch& batch, Stream stream);

  // --- the host waits ---
  // Done when the call returns. Throw the story when the world failed meanwhile, as Fabric::check_waited().
  void put(const Remote& to, const void* source, std::size_t bytes);
  void get(void* destination, const Remote& from, std::size_t bytes);
  void put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal);
  void signal(const Signal& signal);
  void run(const Batch& batch);
  // ok, timeout or aborted.
  Status wait(const void* word, const Until& until);
  // Between two buffers of this rank, of any kind.
  void copy(void* destination, const void* source, std::size_t bytes);

  Fabric& fabric() const;
  // Whether the CPU may touch memory of this kind.
  bool cpu_reaches(MemoryKind kind) const;

 private:
  friend class Batch;
  friend class Context;
  std::unique_ptr<OneSidedImplementation> implementation_;
};

}  // namespace onstream
