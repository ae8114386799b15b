// Waits and tests for words of this PE.
//
// They look at the program's own memory and take no context's lock, so any number of threads may wait. A wait that
// passes the deadline (timeout_s), or whose job fails, ends the job with the story.
#include <atomic>

#include "guarded.hpp"
#include "onstream/device/kernel/compare.hpp"
#include "onstream/device/kernel/group.hpp"
#include "onstream/kernel.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/transport/fabric.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

Compare compare_of(int cmp) {
  switch (cmp) {
    case SHMEM_CMP_EQ: return Compare::eq;
    case SHMEM_CMP_NE: return Compare::ne;
    case SHMEM_CMP_GT: return Compare::gt;
    case SHMEM_CMP_GE: return Compare::ge;
    case SHMEM_CMP_LT: return Compare::lt;
    case SHMEM_CMP_LE: return Compare::le;
    default: fail(ErrorCode::invalid_argument, "there is no comparison ", cmp, "; there are SHMEM_CMP_EQ to _LE");
  }
}

// Words of the program, the value that each is compared with, and which are left out.
template <class T>
struct Row {
  const T* words;
  std::size_t count;
  const int* left_out;
  Compare compare;
  const T* values;
  std::size_t step;  // from one value to the next: 0 where all words have the same

  bool takes_part(std::size_t i) const { return left_out == nullptr || left_out[i] == 0; }
  bool has_one() const { return one_sided::has_one(count, left_out); }
};

// Looks at words: by the CPU where it reaches them, else through a context.
template <class T>
class Looks {
 public:
  Looks(Runtime& shmem, const Row<T>& row) : shmem_(shmem), row_(row) {
    shmem.world().fabric()->check();
    const Heap* const heap = shmem.heap_of(row.words);
    by_cpu_ = heap == nullptr || shmem.world().one_sided().cpu_reaches(heap->kind());
    require(reinterpret_cast<std::uintptr_t>(row.words) % sizeof(T) == 0, "the words of ", sizeof(T), " B at ",
            row.words, " are not aligned to their size");
    if (by_cpu_) return;
    require(sizeof(T) >= sizeof(std::uint32_t), "the words of ", sizeof(T), " B at ", row.words,
            " are on the device, where those of 4 and 8 B can be waited for");
    own_ = std::make_unique<Context>(shmem.world().one_sided());
  }

  bool operator()(std::size_t i) const {
    const T value = row_.values[i * row_.step];
    if (by_cpu_) return holds(load(i), value);
    if constexpr (sizeof(T) >= sizeof(std::uint32_t)) {
      return own_->test(shmem_.place(row_.words + i), row_.compare, value);
    } else {
      return false;
    }
  }
  // As above, and gives the word's value then; for words of 4 B and more.
  bool sees(std::size_t i, T* word) const {
    if (!by_cpu_ && !(*this)(i)) return false;
    *word = by_cpu_ ? load(i) : own_->fetch(shmem_.place(row_.words + i), shmem_.rank());
    return holds(*word, row_.values[i * row_.step]);
  }
  // The first that compares, from `first` on and around; count: none.
  std::size_t any(std::size_t first) const {
    for (std::size_t k = 0; k < row_.count; ++k) {
      const std::size_t i = (first + k) % row_.count;
      if (row_.takes_part(i) && (*this)(i)) return i;
    }
    return row_.count;
  }
  std::size_t some(std::size_t* indices) const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < row_.count; ++i) {
      if (row_.takes_part(i) && (*this)(i)) indices[found++] = i;
    }
    return found;
  }
  bool all() const {
    for (std::size_t i = 0; i < row_.count; ++i) {
      if (row_.takes_part(i) && !(*this)(i)) return false;
    }
    return true;
  }
  // For one word, and for one of all.
  template <class Ready>
  void until(std::size_t i, const Ready& ready) const {
    const auto what = [&] {
      return concat("the word of ", sizeof(T), " B at ", row_.words + i, ", ", now(i), ", ", condition_of(until_of(i)),
                    ',');
    };
    demand_ok(shmem_, shmem_.default_context().context->wait_for(ready, what));
  }
  template <class Ready>
  void until_any(const Ready& ready) const {
    const auto what = [&] {
      return concat("one of the ", row_.count, " words of ", sizeof(T), " B at ", row_.words, ", the first of them ",
                    condition_of(until_of(0)), ',');
    };
    demand_ok(shmem_, shmem_.default_context().context->wait_for(ready, what));
  }

 private:
  bool holds(T word, T value) const {
    using Word = std::make_unsigned_t<T>;
    return compares(row_.compare, sign_of<T>(), static_cast<Word>(word), static_cast<Word>(value));
  }
  T load(std::size_t i) const {
    // Pairs with the release that told of the word.
    return std::atomic_ref<T>(const_cast<T&>(row_.words[i])).load(std::memory_order_acquire);
  }

  Until until_of(std::size_t i) const {
    const auto value = static_cast<std::uint64_t>(row_.values[i * row_.step]);
    return {row_.compare, value, sizeof(T), sign_of<T>()};
  }
  std::string now(std::size_t i) const { return by_cpu_ ? concat("now ", load(i)) : "on the device"; }

  Runtime& shmem_;
  const Row<T>& row_;
  bool by_cpu_;
  std::unique_ptr<Context> own_;
};

// So that of several words that compare each has its turn.
std::size_t next_start() {
  thread_local std::size_t last = 0;
  return last++;
}

template <class T>
void wait_one(const char* call, const T* word, int cmp, T value) {
  guarded(call, [&](Runtime& shmem) {
    const Row<T> row{word, 1, nullptr, compare_of(cmp), &value, 0};
    const Looks<T> looks(shmem, row);
    looks.until(0, [&] { return looks(0); });
  });
}

template <class T>
int test_one(const char* call, const T* word, int cmp, T value) {
  return guarded(call, [&](Runtime& shmem) {
    const Row<T> row{word, 1, nullptr, compare_of(cmp), &value, 0};
    return Looks<T>(shmem, row)(0) ? 1 : 0;
  });
}

template <class T>
void wait_all(const char* call, const Row<T>& row) {
  guarded(call, [&](Runtime& shmem) {
    const Looks<T> looks(shmem, row);
    for (std::size_t i = 0; i < row.count; ++i) {
      if (row.takes_part(i)) looks.until(i, [&] { return looks(i); });
    }
  });
}

template <class T>
std::size_t wait_any(const char* call, const Row<T>& row) {
  return guarded(call, [&](Runtime& shmem) {
    if (!row.has_one()) return SIZE_MAX;
    const Looks<T> looks(shmem, row);
    const std::size_t first = next_start();
    std::size_t found = row.count;
    looks.until_any([&] { return (found = looks.any(first)) != row.count; });
    return found;
  });
}

template <class T>
std::size_t wait_some(const char* call, const Row<T>& row, std::size_t* indices) {
  return guarded(call, [&](Runtime& shmem) {
    if (!row.has_one()) return std::size_t{0};
    const Looks<T> looks(shmem, row);
    std::size_t found = 0;
    looks.until_any([&] { return (found = looks.some(indices)) != 0; });
    return found;
  });
}

template <class T>
int test_all(const char* call, const Row<T>& row) {
  return guarded(call, [&](Runtime& shmem) { return Looks<T>(shmem, row).all() ? 1 : 0; });
}

template <class T>
std::size_t test_any(const char* call, const Row<T>& row) {
  return guarded(call, [&](Runtime& shmem) {
    const std::size_t found = row.has_one() ? Looks<T>(shmem, row).any(next_start()) : row.count;
    return found == row.count ? SIZE_MAX : found;
  });
}

template <class T>
std::size_t test_some(const char* call, const Row<T>& row, std::size_t* indices) {
  return guarded(call, [&](Runtime& shmem) { return Looks<T>(shmem, row).some(indices); });
}

// A row, or the job's end where there is no such comparison.
template <class T>
Row<T> row_of(const char* call, const T* words, std::size_t count, const int* status, int cmp, const T* values,
              std::size_t step) {
  return guarded(call, [&](Runtime&) { return Row<T>{words, count, status, compare_of(cmp), values, step}; });
}

}  // namespace

// clang-format off
// Both forms of a call on a row: one value for all words, and a value for each.
#define ROWS(NAME, TYPE, RESULT, FORM, FUNCTION, EXTRA, ARGUMENT)                                                        \
  RESULT shmem_##NAME##_##FORM(TYPE* ivars, size_t n, EXTRA const int* status, int cmp, TYPE value) {                    \
    return FUNCTION("shmem_" #NAME "_" #FORM,                                                                            \
                    row_of<TYPE>("shmem_" #NAME "_" #FORM, ivars, n, status, cmp, &value, 0) ARGUMENT);                  \
  }                                                                                                                      \
  RESULT shmem_##NAME##_##FORM##_vector(TYPE* ivars, size_t n, EXTRA const int* status, int cmp, TYPE* values) {         \
    return FUNCTION("shmem_" #NAME "_" #FORM "_vector",                                                                  \
                    row_of<TYPE>("shmem_" #NAME "_" #FORM "_vector", ivars, n, status, cmp, values, 1) ARGUMENT);        \
  }
#define COMMA ,
#define WAITS(NAME, TYPE)                                                                                                \
  void shmem_##NAME##_wait_until(TYPE* ivar, int cmp, TYPE value) {                                                      \
    wait_one("shmem_" #NAME "_wait_until", ivar, cmp, value);                                                            \
  }                                                                                                                      \
  int shmem_##NAME##_test(TYPE* ivar, int cmp, TYPE value) {                                                             \
    return test_one("shmem_" #NAME "_test", ivar, cmp, value);                                                           \
  }                                                                                                                      \
  ROWS(NAME, TYPE, void, wait_until_all, wait_all, , )                                                                   \
  ROWS(NAME, TYPE, size_t, wait_until_any, wait_any, , )                                                                 \
  ROWS(NAME, TYPE, size_t, wait_until_some, wait_some, size_t* indices COMMA, COMMA indices)                             \
  ROWS(NAME, TYPE, int, test_all, test_all, , )                                                                          \
  ROWS(NAME, TYPE, size_t, test_any, test_any, , )                                                                       \
  ROWS(NAME, TYPE, size_t, test_some, test_some, size_t* indices COMMA, COMMA indices)
ONSTREAM_SHMEM_WAIT_TYPES(WAITS)

#define OLD_WAIT(NAME, TYPE)                                                                                             \
  void shmem_##NAME##_wait(TYPE* ivar, TYPE value) { wait_one("shmem_" #NAME "_wait", ivar, SHMEM_CMP_NE, value); }
ONSTREAM_SHMEM_OLD_INTEGERS(OLD_WAIT)
// clang-format on

void shmem_wait(long* ivar, long value) { wait_one("shmem_wait", ivar, SHMEM_CMP_NE, value); }
void shmem_wait_until(long* ivar, int cmp, long value) { wait_one("shmem_wait_until", ivar, cmp, value); }

uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t value) {
  return guarded("shmem_signal_wait_until", [&](Runtime& shmem) {
    const Row<uint64_t> row{sig_addr, 1, nullptr, compare_of(cmp), &value, 0};
    const Looks<uint64_t> looks(shmem, row);
    uint64_t word = 0;
    looks.until(0, [&] { return looks.sees(0, &word); });
    return word;
  });
}
