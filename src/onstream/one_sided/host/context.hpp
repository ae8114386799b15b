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

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "onstream/device/kernel/atomics.hpp"
#include "onstream/layout/layout.hpp"
#include "onstream/one_sided/kernel/device.hpp"
#include "onstream/one_sided/stream/one_sided.hpp"

namespace onstream {

class Team;

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
  struct Steps {
    std::ptrdiff_t to;
    std::ptrdiff_t source;
  };
  void put_strided(void* to, const void* source, Steps steps, std::size_t element, std::size_t count, int rank);
  void get_strided(void* to, const void* source, Steps steps, std::size_t element, std::size_t count, int rank);
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
    if (!one_sided::has_one(count, left_out)) return Status::ok;
    return wait_for(
        [&] {
          *found = test_any(words, count, left_out, compare, value, first);
          return *found != count;
        },
        [&] { return one_of(words, count, compare, value); });
  }
  template <class T>
  Status wait_some(const T* words, std::size_t count, const int* left_out, Compare compare, T value,
                   std::size_t* indices, std::size_t* found) {
    *found = 0;
    if (!one_sided::has_one(count, left_out)) return Status::ok;
    return wait_for(
        [&] {
          *found = test_some(words, count, left_out, compare, value, indices);
          return *found != 0;
        },
        [&] { return one_of(words, count, compare, value); });
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
    const Status status = wait_for_peer(HostGroup(0, 1), host_waits(), one_sided::kAnyRank, ready);
    return status == Status::ok ? status : finish_wait(status, what());
  }

  // --- atomics: done, at the target, when they return the old value ---
  template <class T>
  T atomic(AtomicOp op, T* word, T value, T expected, int rank) {
    static_assert(std::is_integral_v<T>, "of floating-point numbers there are fetch, set and swap");
    return one_sided::value_of<T>(static_cast<one_sided::WordOf<T>>(
        atomic_word(op, word, sizeof(T), one_sided::bits_of(value), one_sided::bits_of(expected), rank)));
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
  T plain_atomic(AtomicOp op, T* word, T value, int rank) {
    return one_sided::value_of<T>(
        static_cast<one_sided::WordOf<T>>(atomic_word(op, word, sizeof(T), one_sided::bits_of(value), 0, rank)));
  }
  Status wait_word(const void* word, const Until& until);
  std::string place_of(const void* word) const;  // of a word of this rank's, as stories have it
  bool test_word(const void* word, const Until& until);
  std::uint64_t atomic_word(AtomicOp op, void* word, std::size_t width, std::uint64_t value, std::uint64_t expected,
                            int rank);
  enum class Direction { put, get };
  struct Carriage {
    const char* name;
    void* to;
    const Layout* to_layout;
    const void* source;
    const Layout* source_layout;
    int rank;
    Direction direction;
  };
  template <class T>
  static Until until_of(Compare compare, T value) {
    return {compare, static_cast<std::uint64_t>(one_sided::bits_of(value)), sizeof(T), sign_of<T>()};
  }
  template <class T>
  std::string one_of(const T* words, std::size_t count, Compare compare, T value) const {
    return concat("one of ", count, " words", place_of(words), ", each ", text_of(until_of(compare, value)));
  }
  void carry(const Carriage& what);
  void carry_pieces(const Carriage& what, const Remote& lowest);
  bool kernels_access(const void* local) const;
  const WaitView& host_waits() const;
  Status finish_wait(Status status, const std::string& what);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
