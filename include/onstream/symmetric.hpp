// Symmetric memory as the host uses it: a Heap gives pieces of segments, and a Context issues one-sided ops on them.
//
// Heap: symmetric memory in pieces - malloc, calloc, realloc, aligned and free - on segments.
//
// Every call that says so is collective: all ranks make it with the same values, in the same order, and get the same
// place in every rank's part. Only a check is communicated for that, which names the ranks that differ (parameter
// heap_check; with `off` a wrong program corrupts memory, and a call is local unless the heap grows). With the check
// on, all ranks have the memory when the call returns, and calls that differ change nothing on any rank; with it off a
// barrier is the caller's. Not thread-safe; not to outlive its world.
//
// Context: one-sided ops on symmetric memory that the host issues, as in a context of OpenSHMEM.
//
// Memory of another rank is named by the address that this rank has for the same place in its own part of a segment
// (world.segment(), Heap). Where the CPU reaches both sides it does the op itself, with plain loads and stores; else
// the context's own stream does it, or the owner's proxy thread. The results are the same.
//
// Blocking ops are done when they return: a put is in the target's memory. `_later` ops are done after quiet(); until
// then their source must stay as it is. All check their arguments and throw invalid_argument with the values: an
// address in no segment, an end past its part, a rank that does not exist, a word that is not aligned. They throw
// closed for a segment that was freed, and aborted, with the story, once the world has failed. Waits return a Status.
// One thread at a time uses a context; several contexts may be used at once. None may outlive its world.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/layout.hpp"

namespace onstream {

class FirstFit;
class OneSided;
class Team;
struct Remote;

struct HeapOptions {
  std::size_t bytes = std::size_t{64} << 20;  // of its first segment
  // A further segment, of this size or that of the piece asked for if it is larger, when no segment has room. 0: never.
  std::size_t grow_bytes = 0;
  MemoryKind kind = MemoryKind::device;
  // How the program gets a larger heap, told when this one is full.
  std::string advice = "give the heap more bytes, or let it grow (grow_bytes)";
};

// Where in a heap an address lies.
struct HeapPlace {
  std::shared_ptr<Segment> segment;
  std::size_t offset = 0;  // in the segment's part of every rank
  std::size_t left = 0;    // bytes from there to the part's end
};

class Heap {
 public:
  static constexpr std::size_t kAlignment = 64;    // of every piece, unless more is asked for
  static constexpr std::size_t kPageBytes = 4096;  // segments have whole ones, and begin at one on every device

  Heap(OneSided& one_sided, const HeapOptions& options);  // collective
  ~Heap();  // lets its segments go; free() them first if peers may use them
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Collective. Throws system when the heap is full for it and may not grow (full_for() tells that before), or some
  // rank's parts begin at no multiple of `alignment`: they do for all powers of two within the bytes of a segment, up
  // to kMostAlignment, where there are addresses for that (device.hpp). The contents of the piece are undefined; those
  // of allocate_zeroed() are zero on every rank, for which ranks meet a second time.
  void* allocate(std::size_t bytes, std::size_t alignment = kAlignment);
  void* allocate_zeroed(std::size_t bytes, std::size_t alignment = kAlignment);
  // As realloc: keeps the bytes that fit, in place if it can. `address` null: allocate. Nothing happens if it throws.
  void* reallocate(void* address, std::size_t bytes);
  // Null is free already. Throws invalid_argument for an address that is no piece of this heap.
  void free(void* address);
  // Frees all segments on every rank at once; the heap is of no use after it.
  void close();

  // Not collective. The room that a piece needs is not there and cannot be made.
  bool full_for(std::size_t bytes, std::size_t alignment = kAlignment) const;
  // Where this rank's `address` lies; nothing if not in this heap.
  std::optional<HeapPlace> place(const void* address) const;
  // The same place in rank's part, as this rank addresses it. Throws as Segment::peer(), and for a foreign address.
  std::byte* peer(const void* address, int rank) const;
  // Bytes of the piece that begins there, as asked for.
  std::optional<std::size_t> bytes_at(const void* address) const;

  std::size_t bytes() const;
  std::size_t used() const;
  std::size_t pieces() const;
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  MemoryKind kind() const { return options_.kind; }

 private:
  struct HeapBlock {
    std::size_t segment;
    std::size_t offset;
  };
  std::optional<HeapBlock> find(std::size_t bytes, std::size_t alignment);
  std::optional<HeapBlock> piece_of(const void* address) const;
  HeapBlock claim(std::size_t bytes, std::size_t alignment);
  void add_segment(std::size_t bytes);
  std::size_t common_alignment(const Segment& segment) const;
  void drop_last_segment();
  std::size_t largest_alignment() const;
  // By a further segment for such a piece, of so many bytes; nothing: it may not, or no memory has as many.
  std::optional<std::size_t> growth_for(std::size_t bytes, std::size_t alignment) const;
  std::byte* address_of(const HeapBlock& piece) const;
  void zero(std::byte* begin, std::size_t bytes);
  // Throws, naming the ranks, unless all make this very call; where the check is on, a barrier.
  void agree(const std::string& call) const;
  std::string where(const void* address) const;

  OneSided& one_sided_;
  HeapOptions options_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<FirstFit> rooms_;          // of each segment
  std::vector<std::size_t> alignments_;  // where each segment begins on every rank
  std::shared_ptr<Memory> zeroes_;
};

class Context {
 public:
  explicit Context(OneSided& one_sided);
  ~Context();  // after quiet()
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // --- data: destination before source; `to` of a put and `source` of a get are symmetric addresses ---
  void put(void* to, const void* source, std::size_t bytes, int rank);
  void get(void* to, const void* source, std::size_t bytes, int rank);
  void put_later(void* to, const void* source, std::size_t bytes, int rank);
  void get_later(void* to, const void* source, std::size_t bytes, int rank);
  // `count` elements of `element` bytes, that many bytes apart on each side.
  struct Strides {
    std::ptrdiff_t to;
    std::ptrdiff_t source;
  };
  void put_strided(void* to, const void* source, Strides steps, std::size_t element, std::size_t count, int rank);
  void get_strided(void* to, const void* source, Strides steps, std::size_t element, std::size_t count, int rank);
  // Layouts of equal bytes().
  void put_layout(void* to, const Layout& to_layout, const void* source, const Layout& source_layout, int rank);
  void get_layout(void* to, const Layout& to_layout, const void* source, const Layout& source_layout, int rank);
  // One element of 4 or 8 bytes is seen whole.
  template <class T>
  void put_value(T* to, T value, int rank) {
    put(to, &value, sizeof(T), rank);
  }
  template <class T>
  T get_value(const T* source, int rank) {
    T value;
    get(&value, source, sizeof(T), rank);
    return value;
  }

  // --- signals: the word is seen set after the data is seen. A signal that adds to memory that the CPU reaches is done
  // by the CPU, atomic with those of other CPUs, and waits for the ops before it ---
  void put_signal(void* to, const void* source, std::size_t bytes, std::uint64_t* word, std::uint64_t value,
                  SignalOp op, int rank);
  void put_signal_later(void* to, const void* source, std::size_t bytes, std::uint64_t* word, std::uint64_t value,
                        SignalOp op, int rank);
  // After this context's earlier puts to that rank, `_later` ones too.
  void signal(std::uint64_t* word, std::uint64_t value, SignalOp op, int rank);

  // --- waits for words of this rank; the integers of 4 and 8 bytes ---
  // ok, timeout or aborted; the last two have failed the world.
  template <class T>
  Status wait(const T* word, Compare compare, T value) {
    static_assert(std::is_integral_v<T>, "waits compare integers");
    return wait_word(word, until_of(compare, value));
  }
  template <class T>
  bool test(const T* word, Compare compare, T value) {
    static_assert(std::is_integral_v<T>, "tests compare integers");
    return test_word(word, until_of(compare, value));
  }
  // Of words[0..count), those that `left_out` (may be null; not 0: left out) does not leave out. All of them; the index
  // of one, looked for from `first` on; the indices of all that compare once one does. With none to wait for: ok, and
  // *found is count, or 0.
  template <class T>
  Status wait_all(const T* words, std::size_t count, const int* left_out, Compare compare, T value) {
    Status status = Status::ok;
    for (std::size_t i = 0; i < count && status == Status::ok; ++i) {
      if (left_out == nullptr || left_out[i] == 0) status = wait(words + i, compare, value);
    }
    return status;
  }
  template <class T>
  Status wait_any(const T* words, std::size_t count, const int* left_out, Compare compare, T value, std::size_t* found,
                  std::size_t first = 0) {
    *found = count;
    if (!has_one(count, left_out)) return Status::ok;
    return wait_for(
        [&] {
          *found = test_any(words, count, left_out, compare, value, first);
          return *found != count;
        },
        [&] { return one_of(words, count, until_of(compare, value)); });
  }
  template <class T>
  Status wait_some(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                   std::size_t* indices, std::size_t* found) {
    *found = 0;
    if (!has_one(count, left_out)) return Status::ok;
    return wait_for(
        [&] {
          *found = test_some(words, count, left_out, compare, value, indices);
          return *found != 0;
        },
        [&] { return one_of(words, count, until_of(compare, value)); });
  }
  template <class T>
  std::size_t test_any(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                       std::size_t first = 0) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = (first + k) % count;
      if ((left_out == nullptr || left_out[i] == 0) && test(words + i, compare, value)) return i;
    }
    return count;
  }
  template <class T>
  std::size_t test_some(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                        std::size_t* indices) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if ((left_out == nullptr || left_out[i] == 0) && test(words + i, compare, value)) indices[found++] = i;
    }
    return found;
  }
  // Waits until ready() holds, in rounds that burn, then yield, then sleep. `what()`: the condition in words, for the
  // error if it never held: "a word of 8 B to be 3".
  template <class Ready, class What>
  Status wait_for(const Ready& ready, const What& what) {
    const Status status =
        poll([](const void* condition) -> bool { return (*static_cast<const Ready*>(condition))(); }, &ready);
    return status == Status::ok ? status : finish_wait(status, what());
  }

  // --- atomics: done, at the target, when they return the old value ---
  template <class T>
  T atomic(AtomicOp op, T* word, T value, T expected, int rank) {
    static_assert(std::is_integral_v<T>, "of floating-point numbers there are fetch, set and swap");
    return value_of<T>(atomic_word(op, word, sizeof(T), bits_of(value), bits_of(expected), rank));
  }
  template <class T>
  T fetch(const T* word, int rank) {
    return plain_atomic(AtomicOp::fetch, const_cast<T*>(word), T{}, rank);
  }
  template <class T>
  void set(T* word, T value, int rank) {
    (void)plain_atomic(AtomicOp::set, word, value, rank);
  }
  template <class T>
  T swap(T* word, T value, int rank) {
    return plain_atomic(AtomicOp::swap, word, value, rank);
  }
  template <class T>
  T compare_swap(T* word, T expected, T value, int rank) {
    return atomic(AtomicOp::compare_swap, word, value, expected, rank);
  }
  template <class T>
  T fetch_add(T* word, T value, int rank) {
    return atomic(AtomicOp::add, word, value, T{}, rank);
  }
  template <class T>
  T fetch_inc(T* word, int rank) {
    return fetch_add(word, T{1}, rank);
  }
  template <class T>
  T fetch_and(T* word, T value, int rank) {
    return atomic(AtomicOp::bit_and, word, value, T{}, rank);
  }
  template <class T>
  T fetch_or(T* word, T value, int rank) {
    return atomic(AtomicOp::bit_or, word, value, T{}, rank);
  }
  template <class T>
  T fetch_xor(T* word, T value, int rank) {
    return atomic(AtomicOp::bit_xor, word, value, T{}, rank);
  }

  // --- order ---
  // Each rank sees this context's earlier puts before its later ones.
  void fence();
  // All its ops are done: data got is there, data put is in the targets' memory.
  void quiet();
  // quiet(), and every member's host has come.
  void barrier(Team& team);

 private:
  class Implementation;
  template <class T>
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  template <class T>
  static std::uint64_t bits_of(T value) {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>, "words have 4 or 8 bytes");
    return std::bit_cast<Word<T>>(value);
  }
  template <class T>
  static T value_of(std::uint64_t word) {
    return std::bit_cast<T>(static_cast<Word<T>>(word));
  }
  template <class T>
  T plain_atomic(AtomicOp op, T* word, T value, int rank) {
    return value_of<T>(atomic_word(op, word, sizeof(T), bits_of(value), 0, rank));
  }
  Status wait_word(const void* word, const Until& until);
  std::string place_of(const void* word) const;  // of a word of this rank's, as stories have it
  bool test_word(const void* word, const Until& until);
  std::uint64_t atomic_word(AtomicOp op, void* word, std::size_t width, std::uint64_t value, std::uint64_t expected,
                            int rank);
  enum class PutOrGet { put, get };
  struct Carriage {
    const char* name;
    void* to;
    const Layout* to_layout;
    const void* source;
    const Layout* source_layout;
    int rank;
    PutOrGet direction;
  };
  template <class T>
  static Until until_of(Compare compare, T value) {
    return {compare, bits_of(value), sizeof(T), std::is_signed_v<T> ? Sign::signed_word : Sign::unsigned_word};
  }
  void carry(const Carriage& what);
  void carry_pieces(const Carriage& what, const Remote& lowest);
  bool kernels_access(const void* local) const;
  // "one of 3 words at ..., each to be 1": of a wait for one of several.
  std::string one_of(const void* words, std::size_t count, const Until& until) const;
  static bool has_one(std::size_t count, const int* left_out);
  // Waits until ready(condition) holds.
  Status poll(bool (*ready)(const void* condition), const void* condition);
  Status finish_wait(Status status, const std::string& what);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
