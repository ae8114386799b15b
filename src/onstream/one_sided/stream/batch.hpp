// Batch: one-sided ops to be enqueued together, in this order, in as few launches as they allow.
//
// Filling it checks the arguments and throws; running it (OneSided::run) moves the bytes. It may be run any number of
// times. Windows and buffers must live until that work is done.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "onstream/layout/layout.hpp"
#include "onstream/one_sided/kernel/device.hpp"
#include "onstream/one_sided/kernel/step.hpp"
#include "onstream/one_sided/stream/window.hpp"

namespace onstream {

class OneSided;
class OneSidedImplementation;
namespace one_sided {
struct ProxyRequest;
enum class Work : std::uint64_t;
}  // namespace one_sided

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
  // Numbers of the segments that it reaches through helpers: no step has an address there.
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
  void atomic_by_helper(AtomicOp op, const Remote& word, std::uint64_t target, std::size_t width, std::uint64_t value,
                        void* old);
  bool asks_helper(const Remote& place);
  static std::uint64_t asked_of(const Remote& place, one_sided::Work work);
  void claim_helper(int peer);
  // Leave the request in one of the peer's slots, and wait until the request there is done.
  void ask_helper(int peer, std::size_t slot, const one_sided::ProxyRequest& request);
  void await_helper(int peer, std::size_t slot);
  void release_helper(int peer);

  OneSidedImplementation* one_sided_;
  std::array<one_sided::Step, 4> few_;  // the steps of one op, without an allocation
  std::size_t few_count_ = 0;
  std::vector<one_sided::Step> many_;  // all steps, when they are more
  std::vector<std::uint64_t> staged_;
};

}  // namespace onstream
