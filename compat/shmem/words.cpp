// Atomics and signals.
#include "guarded.hpp"
#include "onstream/symmetric.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

template <class T>
T atomic(const char* call, shmem_ctx_t handle, AtomicOp op, T* word, T value, int pe, T expected = T{}) {
  return with_context(call, handle, [&](Runtime& shmem, ContextHandle& at, Context& context) -> T {
    const int rank = at.rank_of(pe);
    T* const place = shmem.place(word);
    if constexpr (std::is_floating_point_v<T>) {
      if (op == AtomicOp::fetch) return context.fetch(place, rank);
      if (op == AtomicOp::swap) return context.swap(place, value, rank);
      context.set(place, value, rank);
      return value;
    } else {
      return context.atomic(op, place, value, expected, rank);
    }
  });
}

}  // namespace

// clang-format off
// Ops with an answer, now and later (_nbi); then ops without. ARGUMENTS are the names of PARAMETERS.
#define ATOMIC(NAME, TYPE, FORM, OP, VALUE, PARAMETERS, ARGUMENTS)                                                       \
  TYPE shmem_ctx_##NAME##_atomic_##FORM(shmem_ctx_t ctx, PARAMETERS int pe) {                                            \
    return atomic<TYPE>("shmem_" #NAME "_atomic_" #FORM, ctx, AtomicOp::OP, dest, VALUE, pe);                            \
  }                                                                                                                      \
  void shmem_ctx_##NAME##_atomic_##FORM##_nbi(shmem_ctx_t ctx, TYPE* fetch, PARAMETERS int pe) {                         \
    *fetch = atomic<TYPE>("shmem_" #NAME "_atomic_" #FORM "_nbi", ctx, AtomicOp::OP, dest, VALUE, pe);                   \
  }                                                                                                                      \
  TYPE shmem_##NAME##_atomic_##FORM(PARAMETERS int pe) {                                                                 \
    return shmem_ctx_##NAME##_atomic_##FORM(SHMEM_CTX_DEFAULT, ARGUMENTS pe);                                            \
  }                                                                                                                      \
  void shmem_##NAME##_atomic_##FORM##_nbi(TYPE* fetch, PARAMETERS int pe) {                                              \
    shmem_ctx_##NAME##_atomic_##FORM##_nbi(SHMEM_CTX_DEFAULT, fetch, ARGUMENTS pe);                                      \
  }
#define SILENT(NAME, TYPE, FORM, OP, VALUE, PARAMETERS, ARGUMENTS)                                                       \
  void shmem_ctx_##NAME##_atomic_##FORM(shmem_ctx_t ctx, PARAMETERS int pe) {                                            \
    (void)atomic<TYPE>("shmem_" #NAME "_atomic_" #FORM, ctx, AtomicOp::OP, dest, VALUE, pe);                             \
  }                                                                                                                      \
  void shmem_##NAME##_atomic_##FORM(PARAMETERS int pe) {                                                                 \
    shmem_ctx_##NAME##_atomic_##FORM(SHMEM_CTX_DEFAULT, ARGUMENTS pe);                                                   \
  }
#define COMMA ,
#define WORD(TYPE) TYPE* dest COMMA
#define WORD_AND_VALUE(TYPE) TYPE* dest COMMA TYPE value COMMA

#define EXTENDED(NAME, TYPE)                                                                                             \
  TYPE shmem_ctx_##NAME##_atomic_fetch(shmem_ctx_t ctx, const TYPE* source, int pe) {                                    \
    return atomic("shmem_" #NAME "_atomic_fetch", ctx, AtomicOp::fetch, const_cast<TYPE*>(source), static_cast<TYPE>(0), pe);          \
  }                                                                                                                      \
  void shmem_ctx_##NAME##_atomic_fetch_nbi(shmem_ctx_t ctx, TYPE* fetch, const TYPE* source, int pe) {                   \
    *fetch = shmem_ctx_##NAME##_atomic_fetch(ctx, source, pe);                                                           \
  }                                                                                                                      \
  TYPE shmem_##NAME##_atomic_fetch(const TYPE* source, int pe) {                                                         \
    return shmem_ctx_##NAME##_atomic_fetch(SHMEM_CTX_DEFAULT, source, pe);                                               \
  }                                                                                                                      \
  void shmem_##NAME##_atomic_fetch_nbi(TYPE* fetch, const TYPE* source, int pe) {                                        \
    *fetch = shmem_ctx_##NAME##_atomic_fetch(SHMEM_CTX_DEFAULT, source, pe);                                             \
  }                                                                                                                      \
  SILENT(NAME, TYPE, set, set, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                                      \
  ATOMIC(NAME, TYPE, swap, swap, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)
ONSTREAM_SHMEM_EXTENDED_TYPES(EXTENDED)

#define STANDARD(NAME, TYPE)                                                                                             \
  ATOMIC(NAME, TYPE, fetch_add, add, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                                \
  ATOMIC(NAME, TYPE, fetch_inc, add, static_cast<TYPE>(1), WORD(TYPE), dest COMMA)                                                    \
  SILENT(NAME, TYPE, add, add, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                                      \
  SILENT(NAME, TYPE, inc, add, static_cast<TYPE>(1), WORD(TYPE), dest COMMA)                                                          \
  TYPE shmem_ctx_##NAME##_atomic_compare_swap(shmem_ctx_t ctx, TYPE* dest, TYPE cond, TYPE value, int pe) {              \
    return atomic("shmem_" #NAME "_atomic_compare_swap", ctx, AtomicOp::compare_swap, dest, value, pe, cond);            \
  }                                                                                                                      \
  void shmem_ctx_##NAME##_atomic_compare_swap_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, TYPE cond, TYPE value,       \
                                                  int pe) {                                                              \
    *fetch = shmem_ctx_##NAME##_atomic_compare_swap(ctx, dest, cond, value, pe);                                         \
  }                                                                                                                      \
  TYPE shmem_##NAME##_atomic_compare_swap(TYPE* dest, TYPE cond, TYPE value, int pe) {                                   \
    return shmem_ctx_##NAME##_atomic_compare_swap(SHMEM_CTX_DEFAULT, dest, cond, value, pe);                             \
  }                                                                                                                      \
  void shmem_##NAME##_atomic_compare_swap_nbi(TYPE* fetch, TYPE* dest, TYPE cond, TYPE value, int pe) {                  \
    *fetch = shmem_ctx_##NAME##_atomic_compare_swap(SHMEM_CTX_DEFAULT, dest, cond, value, pe);                           \
  }
ONSTREAM_SHMEM_ATOMIC_TYPES(STANDARD)

#define BITWISE(NAME, TYPE)                                                                                              \
  ATOMIC(NAME, TYPE, fetch_and, bit_and, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                            \
  ATOMIC(NAME, TYPE, fetch_or, bit_or, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                              \
  ATOMIC(NAME, TYPE, fetch_xor, bit_xor, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                            \
  SILENT(NAME, TYPE, and, bit_and, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                                  \
  SILENT(NAME, TYPE, or, bit_or, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)                                    \
  SILENT(NAME, TYPE, xor, bit_xor, value, WORD_AND_VALUE(TYPE), dest COMMA value COMMA)
ONSTREAM_SHMEM_BITWISE_TYPES(BITWISE)

// Older names.
#define OLD_STANDARD(NAME, TYPE)                                                                                         \
  TYPE shmem_##NAME##_cswap(TYPE* dest, TYPE cond, TYPE value, int pe) {                                                 \
    return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                                                    \
  }                                                                                                                      \
  TYPE shmem_##NAME##_fadd(TYPE* dest, TYPE value, int pe) { return shmem_##NAME##_atomic_fetch_add(dest, value, pe); }  \
  TYPE shmem_##NAME##_finc(TYPE* dest, int pe) { return shmem_##NAME##_atomic_fetch_inc(dest, pe); }                     \
  void shmem_##NAME##_add(TYPE* dest, TYPE value, int pe) { shmem_##NAME##_atomic_add(dest, value, pe); }                \
  void shmem_##NAME##_inc(TYPE* dest, int pe) { shmem_##NAME##_atomic_inc(dest, pe); }
ONSTREAM_SHMEM_OLD_ATOMICS(OLD_STANDARD)

#define OLD_EXTENDED(NAME, TYPE)                                                                                         \
  TYPE shmem_##NAME##_fetch(const TYPE* source, int pe) { return shmem_##NAME##_atomic_fetch(source, pe); }              \
  void shmem_##NAME##_set(TYPE* dest, TYPE value, int pe) { shmem_##NAME##_atomic_set(dest, value, pe); }                \
  TYPE shmem_##NAME##_swap(TYPE* dest, TYPE value, int pe) { return shmem_##NAME##_atomic_swap(dest, value, pe); }
ONSTREAM_SHMEM_OLD_ATOMICS(OLD_EXTENDED)
ONSTREAM_SHMEM_C_REAL_TYPES(OLD_EXTENDED)
// clang-format on

void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe) {
  with_context("shmem_signal_set", ctx, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    context.signal(shmem.place(sig_addr), signal, SignalOp::set, at.rank_of(pe));
  });
}
void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe) {
  with_context("shmem_signal_add", ctx, [&](Runtime& shmem, ContextHandle& at, Context& context) {
    context.signal(shmem.place(sig_addr), signal, SignalOp::add, at.rank_of(pe));
  });
}
void shmem_signal_set(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_set(SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}
void shmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}

uint64_t shmem_signal_fetch(const uint64_t* sig_addr) {
  return with_context("shmem_signal_fetch", SHMEM_CTX_DEFAULT, [&](Runtime& shmem, ContextHandle&, Context& context) {
    return context.fetch(shmem.place(sig_addr), shmem.rank());
  });
}
