// Put and get, and put with signal, for each type and size, with a context and without.
#include "guarded.hpp"
#include "onstream/symmetric.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

enum class When { now, later };

struct Length {
  std::size_t count;
  std::size_t element;
  std::size_t bytes() const { return bytes_of(count, element); }
};

void put(const char* call, shmem_ctx_t handle, void* dest, const void* source, Length length, int pe, When when) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    const int rank = at.rank_of(pe);
    const std::size_t bytes = length.bytes();
    if (bytes == 0) return;
    if (when == When::now) return context.put(shmem.place(dest), shmem.place(source), bytes, rank);
    context.put_later(shmem.place(dest), shmem.place(source), bytes, rank);
  });
}

void get(const char* call, shmem_ctx_t handle, void* dest, const void* source, Length length, int pe, When when) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    const int rank = at.rank_of(pe);
    const std::size_t bytes = length.bytes();
    if (bytes == 0) return;
    if (when == When::now) return context.get(shmem.place(dest), shmem.place(source), bytes, rank);
    context.get_later(shmem.place(dest), shmem.place(source), bytes, rank);
  });
}

// From one element to the next, in elements.
struct Apart {
  std::ptrdiff_t dst;
  std::ptrdiff_t sst;

  // The stride of a single element is not looked at.
  Context::Strides bytes(Length length) const {
    if (length.count == 1) return {0, 0};
    return {in_bytes(dst, length), in_bytes(sst, length)};
  }

 private:
  static std::ptrdiff_t in_bytes(std::ptrdiff_t step, Length length) {
    std::ptrdiff_t bytes = 0;
    const bool fits = !__builtin_mul_overflow(step, static_cast<std::ptrdiff_t>(length.element), &bytes);
    require(fits, "elements of ", length.element, " B that are ", step, " apart are farther than any memory reaches");
    return bytes;
  }
};

void iput(const char* call, shmem_ctx_t handle, void* dest, const void* source, Apart apart, Length length, int pe) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    const int rank = at.rank_of(pe);
    if (length.bytes() == 0) return;
    context.put_strided(shmem.place(dest), shmem.place(source), apart.bytes(length), length.element, length.count,
                        rank);
  });
}

void iget(const char* call, shmem_ctx_t handle, void* dest, const void* source, Apart apart, Length length, int pe) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    const int rank = at.rank_of(pe);
    if (length.bytes() == 0) return;
    context.get_strided(shmem.place(dest), shmem.place(source), apart.bytes(length), length.element, length.count,
                        rank);
  });
}

struct Tell {
  std::uint64_t* word;
  std::uint64_t value;
  int op;
};

SignalOp signal_op(int op) {
  require(op == SHMEM_SIGNAL_SET || op == SHMEM_SIGNAL_ADD, "there is no signal operation ", op,
          "; there are SHMEM_SIGNAL_SET and SHMEM_SIGNAL_ADD");
  return op == SHMEM_SIGNAL_SET ? SignalOp::set : SignalOp::add;
}

void put_signal(const char* call, shmem_ctx_t handle, void* dest, const void* source, Length length, const Tell& tell,
                int pe, When when) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    const int rank = at.rank_of(pe);
    const std::size_t bytes = length.bytes();
    const SignalOp op = signal_op(tell.op);
    std::uint64_t* const word = shmem.place(tell.word);
    if (bytes == 0) return context.signal(word, tell.value, op, rank);
    if (when == When::now) {
      return context.put_signal(shmem.place(dest), shmem.place(source), bytes, word, tell.value, op, rank);
    }
    context.put_signal_later(shmem.place(dest), shmem.place(source), bytes, word, tell.value, op, rank);
  });
}

// One element: the same, without a length to look at.
template <class T>
void put_one(const char* call, shmem_ctx_t handle, T* dest, const T& value, int pe) {
  with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    context.put(shmem.place(dest), &value, sizeof value, at.rank_of(pe));
  });
}

template <class T>
T get_one(const char* call, shmem_ctx_t handle, const T* source, int pe) {
  return with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    T value{};
    context.get(&value, shmem.place(source), sizeof value, at.rank_of(pe));
    return value;
  });
}

}  // namespace

// clang-format off
// For one type or size: the names behind shmem_ and shmem_ctx_, the elements and their bytes.
#define BLOCKS(PUT, GET, TYPE, BYTES, PUT_SIGNAL)                                                                        \
  void shmem_ctx_##PUT(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, int pe) {                              \
    put("shmem_" #PUT, ctx, dest, source, {n, BYTES}, pe, When::now);                                            \
  }                                                                                                                      \
  void shmem_ctx_##PUT##_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, int pe) {                        \
    put("shmem_" #PUT "_nbi", ctx, dest, source, {n, BYTES}, pe, When::later);                                   \
  }                                                                                                                      \
  void shmem_ctx_##GET(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, int pe) {                              \
    get("shmem_" #GET, ctx, dest, source, {n, BYTES}, pe, When::now);                                            \
  }                                                                                                                      \
  void shmem_ctx_##GET##_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, int pe) {                        \
    get("shmem_" #GET "_nbi", ctx, dest, source, {n, BYTES}, pe, When::later);                                   \
  }                                                                                                                      \
  void shmem_ctx_##PUT_SIGNAL(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, uint64_t* word,                 \
                              uint64_t value, int op, int pe) {                                                          \
    put_signal("shmem_" #PUT_SIGNAL, ctx, dest, source, {n, BYTES}, {word, value, op}, pe, When::now);           \
  }                                                                                                                      \
  void shmem_ctx_##PUT_SIGNAL##_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t n, uint64_t* word,           \
                                    uint64_t value, int op, int pe) {                                                    \
    put_signal("shmem_" #PUT_SIGNAL "_nbi", ctx, dest, source, {n, BYTES}, {word, value, op}, pe, When::later);  \
  }                                                                                                                      \
  void shmem_##PUT(TYPE* dest, const TYPE* source, size_t n, int pe) {                                                   \
    shmem_ctx_##PUT(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                                             \
  }                                                                                                                      \
  void shmem_##PUT##_nbi(TYPE* dest, const TYPE* source, size_t n, int pe) {                                             \
    shmem_ctx_##PUT##_nbi(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                                       \
  }                                                                                                                      \
  void shmem_##GET(TYPE* dest, const TYPE* source, size_t n, int pe) {                                                   \
    shmem_ctx_##GET(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                                             \
  }                                                                                                                      \
  void shmem_##GET##_nbi(TYPE* dest, const TYPE* source, size_t n, int pe) {                                             \
    shmem_ctx_##GET##_nbi(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                                       \
  }                                                                                                                      \
  void shmem_##PUT_SIGNAL(TYPE* dest, const TYPE* source, size_t n, uint64_t* word, uint64_t value, int op, int pe) {    \
    shmem_ctx_##PUT_SIGNAL(SHMEM_CTX_DEFAULT, dest, source, n, word, value, op, pe);                                     \
  }                                                                                                                      \
  void shmem_##PUT_SIGNAL##_nbi(TYPE* dest, const TYPE* source, size_t n, uint64_t* word, uint64_t value, int op,        \
                                int pe) {                                                                                \
    shmem_ctx_##PUT_SIGNAL##_nbi(SHMEM_CTX_DEFAULT, dest, source, n, word, value, op, pe);                               \
  }

#define STRIDED(IPUT, IGET, TYPE, BYTES)                                                                                 \
  void shmem_ctx_##IPUT(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t n,         \
                        int pe) {                                                                                        \
    iput("shmem_" #IPUT, ctx, dest, source, {dst, sst}, {n, BYTES}, pe);                                                  \
  }                                                                                                                      \
  void shmem_ctx_##IGET(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t n,         \
                        int pe) {                                                                                        \
    iget("shmem_" #IGET, ctx, dest, source, {dst, sst}, {n, BYTES}, pe);                                                  \
  }                                                                                                                      \
  void shmem_##IPUT(TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe) {                    \
    shmem_ctx_##IPUT(SHMEM_CTX_DEFAULT, dest, source, dst, sst, n, pe);                                                  \
  }                                                                                                                      \
  void shmem_##IGET(TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe) {                    \
    shmem_ctx_##IGET(SHMEM_CTX_DEFAULT, dest, source, dst, sst, n, pe);                                                  \
  }

#define TYPED(NAME, TYPE)                                                                                                \
  BLOCKS(NAME##_put, NAME##_get, TYPE, sizeof(TYPE), NAME##_put_signal)                                                  \
  STRIDED(NAME##_iput, NAME##_iget, TYPE, sizeof(TYPE))                                                                  \
  void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe) {                                           \
    put_one("shmem_" #NAME "_p", ctx, dest, value, pe);                                                                  \
  }                                                                                                                      \
  TYPE shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE* source, int pe) {                                               \
    return get_one("shmem_" #NAME "_g", ctx, source, pe);                                                                \
  }                                                                                                                      \
  void shmem_##NAME##_p(TYPE* dest, TYPE value, int pe) { shmem_ctx_##NAME##_p(SHMEM_CTX_DEFAULT, dest, value, pe); }    \
  TYPE shmem_##NAME##_g(const TYPE* source, int pe) { return shmem_ctx_##NAME##_g(SHMEM_CTX_DEFAULT, source, pe); }
ONSTREAM_SHMEM_RMA_TYPES(TYPED)

#define SIZED(SIZE, BYTES)                                                                                               \
  BLOCKS(put##SIZE, get##SIZE, void, BYTES, put##SIZE##_signal)                                                          \
  STRIDED(iput##SIZE, iget##SIZE, void, BYTES)
ONSTREAM_SHMEM_SIZES(SIZED)
BLOCKS(putmem, getmem, void, 1, putmem_signal)
// clang-format on
