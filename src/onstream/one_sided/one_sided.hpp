// One-sided ops: put, get, signals and waits, on windows of every rank's memory.
//
// Ordered on a stream, captured in a graph, or with the host waiting; the peer takes no part. A put is done on the
// stream when its bytes are in the window, so whatever the stream tells the peer afterwards is true. Ops of one stream
// are ordered; ops of different streams, or of the host, are not.
//
// A part that this rank's kernels cannot address (plain host memory of another process, say) is reached through its
// owner's helper thread: the same ops, with the same promises, at the speed of a copy by a CPU that wakes up.
// Errors on a stream are values: the fault fails the world, as a wait that passed its deadline does everywhere.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/one_sided/batch.hpp"

namespace onstream {

class OneSided {
 public:
  explicit OneSided(std::shared_ptr<Fabric> fabric);
  ~OneSided();

  // Collective. Every rank's part is memory that it names, of any size, 0 too; or the parts of a segment.
  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);

  // --- ordered on a stream ---
  void put(const Remote& to, const void* source, std::size_t bytes, Stream stream);
  void get(void* destination, const Remote& from, std::size_t bytes, Stream stream);
  void put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal, Stream stream);
  void signal(const Signal& signal, Stream stream);
  void wait(const void* word, const Until& until, Stream stream);
  void run(const Batch& batch, Stream stream);

  // --- the host waits ---
  // Done when the call returns. Throw aborted with the story when the world failed meanwhile.
  void put(const Remote& to, const void* source, std::size_t bytes);
  void get(void* destination, const Remote& from, std::size_t bytes);
  void put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal);
  void signal(const Signal& signal);
  void run(const Batch& batch);
  // ok, timeout or aborted.
  Status wait(const void* word, const Until& until);

 private:
  friend class Batch;
  std::unique_ptr<OneSidedImplementation> implementation_;
};

}  // namespace onstream
