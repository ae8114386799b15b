// Runtime: the library's state from a thread's first call to its end - the world, the shared space, and the book of
// words and tables by which the threads meet and allocate.
//
// The shared space is two segments, of host and of device memory. Each thread's part has two halves: pieces that lie at
// the same place of every part (upc_all_alloc, upc_global_alloc), whose tables thread 0 has, and the thread's own
// (upc_alloc, locks). The book is memory that every thread loads and stores on every path, so a thread allocates and
// frees alone. One thread of the process uses this. It is never destroyed by the process's end: the program's threads
// may still run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "arena.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/world.hpp"
#include "onstream_upc.h"
#include "phases.hpp"

namespace onstream::upc {

enum class Half { symmetric, own };

class Runtime {
 public:
  Runtime();     // collective
  void close();  // collective

  World& world() const { return *world_; }
  Context& context() const { return *context_; }
  Phases& phases() const { return *phases_; }
  int thread() const { return thread_; }
  int threads() const { return threads_; }

  // Where this thread's next allocations live.
  MemoryKind kind() const { return kind_; }
  void set_kind(MemoryKind kind) { kind_ = kind; }

  // At that place of every part, or of this thread's. Null where there is no room, and a line that says how much there
  // is.
  upc_ptr_t allocate(const char* call, Half half, MemoryKind kind, std::size_t bytes);
  // Throws invalid_argument for a pointer that no allocation gave, or that was freed.
  void free(upc_ptr_t ptr);

  // A place of the shared space as Context takes it.
  struct Place {
    std::byte* local;  // the same place in this thread's part
    int thread;
    std::byte* here;  // by which this thread loads and stores it; null where it does not
    bool cpu;         // the CPU touches it
  };
  // Throws invalid_argument unless [ptr, ptr + bytes) is within a part and was allocated; `name` is the argument's.
  Place place(const char* name, upc_ptr_t ptr, std::size_t bytes) const;
  std::string text_of(upc_ptr_t ptr) const;
  static bool on_device(upc_ptr_t ptr);

  // The word by which a thread is told to end, kTold | status: of every thread.
  static constexpr std::uint64_t kTold = std::uint64_t{1} << 32;
  void tell_exit(int status) const;
  int exit_told() const;  // -1: nobody told it

 private:
  struct Space {
    MemoryKind kind;
    std::size_t grain = 64;  // bytes
    std::size_t grains = 0;  // of one half
    std::shared_ptr<Segment> segment;
    std::size_t half_bytes() const { return grain * grains; }
  };
  struct Spot {
    const Space* space;
    std::size_t offset;
  };
  static Space plan_space(MemoryKind kind, std::int64_t bytes);
  void make_book();
  std::byte* tables(int thread, const Space& space, Half half) const;
  Arena arena(int thread, const Space& space, Half half) const;
  Spot spot(const char* name, upc_ptr_t ptr) const;
  bool allocated(const Spot& at, int thread, std::size_t bytes) const;
  const Space& space_of(MemoryKind kind) const { return spaces_[kind == MemoryKind::device ? 1 : 0]; }

  std::shared_ptr<World> world_;
  int thread_ = 0;
  int threads_ = 1;
  MemoryKind kind_ = MemoryKind::pinned;
  std::array<Space, 2> spaces_;  // host, device
  std::shared_ptr<Segment> book_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Phases> phases_;
};

// Null before the first call and after the end.
Runtime*& running();

}  // namespace onstream::upc
