// One-sided ops: put, get, signals and waits, on windows of every rank's memory.
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

#include <cstddef>
#include <memory>

#include "onstream/layout/layout.hpp"
#include "onstream/one_sided/stream/batch.hpp"

namespace onstream {

class Team;

class OneSided {
 public:
  explicit OneSided(std::shared_ptr<Fabric> fabric);
  ~OneSided();

  // Collective. Every rank's part is memory that it names, of any size, 0 too; or the parts of a segment.
  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);

  // Collective: from here on this rank's proxy serves windows that peers make alone, where this rank lends them the
  // memory.
  void start_helper();
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
