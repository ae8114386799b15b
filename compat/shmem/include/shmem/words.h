/* Words of memory: atomics, signals, waits and tests. */
#ifndef ONSTREAM_SHMEM_WORDS_H
#define ONSTREAM_SHMEM_WORDS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                                                            \
  TYPE shmem_##NAME##_atomic_fetch(const TYPE* source, int pe);                                       \
  void shmem_##NAME##_atomic_set(TYPE* dest, TYPE value, int pe);                                     \
  TYPE shmem_##NAME##_atomic_swap(TYPE* dest, TYPE value, int pe);                                    \
  void shmem_##NAME##_atomic_fetch_nbi(TYPE* fetch, const TYPE* source, int pe);                      \
  void shmem_##NAME##_atomic_swap_nbi(TYPE* fetch, TYPE* dest, TYPE value, int pe);                   \
  TYPE shmem_ctx_##NAME##_atomic_fetch(shmem_ctx_t ctx, const TYPE* source, int pe);                  \
  void shmem_ctx_##NAME##_atomic_set(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);                \
  TYPE shmem_ctx_##NAME##_atomic_swap(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);               \
  void shmem_ctx_##NAME##_atomic_fetch_nbi(shmem_ctx_t ctx, TYPE* fetch, const TYPE* source, int pe); \
  void shmem_ctx_##NAME##_atomic_swap_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, TYPE value, int pe);
ONSTREAM_SHMEM_EXTENDED_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                                                                         \
  TYPE shmem_##NAME##_atomic_compare_swap(TYPE* dest, TYPE cond, TYPE value, int pe);                              \
  TYPE shmem_##NAME##_atomic_fetch_add(TYPE* dest, TYPE value, int pe);                                            \
  TYPE shmem_##NAME##_atomic_fetch_inc(TYPE* dest, int pe);                                                        \
  void shmem_##NAME##_atomic_add(TYPE* dest, TYPE value, int pe);                                                  \
  void shmem_##NAME##_atomic_inc(TYPE* dest, int pe);                                                              \
  void shmem_##NAME##_atomic_compare_swap_nbi(TYPE* fetch, TYPE* dest, TYPE cond, TYPE value, int pe);             \
  void shmem_##NAME##_atomic_fetch_add_nbi(TYPE* fetch, TYPE* dest, TYPE value, int pe);                           \
  void shmem_##NAME##_atomic_fetch_inc_nbi(TYPE* fetch, TYPE* dest, int pe);                                       \
  TYPE shmem_ctx_##NAME##_atomic_compare_swap(shmem_ctx_t ctx, TYPE* dest, TYPE cond, TYPE value, int pe);         \
  TYPE shmem_ctx_##NAME##_atomic_fetch_add(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);                       \
  TYPE shmem_ctx_##NAME##_atomic_fetch_inc(shmem_ctx_t ctx, TYPE* dest, int pe);                                   \
  void shmem_ctx_##NAME##_atomic_add(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);                             \
  void shmem_ctx_##NAME##_atomic_inc(shmem_ctx_t ctx, TYPE* dest, int pe);                                         \
  void shmem_ctx_##NAME##_atomic_compare_swap_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, TYPE cond, TYPE value, \
                                                  int pe);                                                         \
  void shmem_ctx_##NAME##_atomic_fetch_add_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, TYPE value, int pe);      \
  void shmem_ctx_##NAME##_atomic_fetch_inc_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, int pe);
ONSTREAM_SHMEM_ATOMIC_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

#define ONSTREAM_SHMEM_DECLARE_BITWISE(NAME, TYPE, OP)                                        \
  TYPE shmem_##NAME##_atomic_fetch_##OP(TYPE* dest, TYPE value, int pe);                      \
  void shmem_##NAME##_atomic_##OP(TYPE* dest, TYPE value, int pe);                            \
  void shmem_##NAME##_atomic_fetch_##OP##_nbi(TYPE* fetch, TYPE* dest, TYPE value, int pe);   \
  TYPE shmem_ctx_##NAME##_atomic_fetch_##OP(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe); \
  void shmem_ctx_##NAME##_atomic_##OP(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);       \
  void shmem_ctx_##NAME##_atomic_fetch_##OP##_nbi(shmem_ctx_t ctx, TYPE* fetch, TYPE* dest, TYPE value, int pe);
#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)        \
  ONSTREAM_SHMEM_DECLARE_BITWISE(NAME, TYPE, and) \
  ONSTREAM_SHMEM_DECLARE_BITWISE(NAME, TYPE, or)  \
  ONSTREAM_SHMEM_DECLARE_BITWISE(NAME, TYPE, xor)
ONSTREAM_SHMEM_BITWISE_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
#undef ONSTREAM_SHMEM_DECLARE_BITWISE

uint64_t shmem_signal_fetch(const uint64_t* sig_addr);
uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value);
/* Of OpenSHMEM 1.6. */
void shmem_signal_set(uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe);

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                                                                             \
  void shmem_##NAME##_wait_until(TYPE* ivar, int cmp, TYPE cmp_value);                                                 \
  int shmem_##NAME##_test(TYPE* ivar, int cmp, TYPE cmp_value);                                                        \
  void shmem_##NAME##_wait_until_all(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE cmp_value);          \
  size_t shmem_##NAME##_wait_until_any(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE cmp_value);        \
  size_t shmem_##NAME##_wait_until_some(TYPE* ivars, size_t nelems, size_t* indices, const int* status, int cmp,       \
                                        TYPE cmp_value);                                                               \
  void shmem_##NAME##_wait_until_all_vector(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE* cmp_values); \
  size_t shmem_##NAME##_wait_until_any_vector(TYPE* ivars, size_t nelems, const int* status, int cmp,                  \
                                              TYPE* cmp_values);                                                       \
  size_t shmem_##NAME##_wait_until_some_vector(TYPE* ivars, size_t nelems, size_t* indices, const int* status,         \
                                               int cmp, TYPE* cmp_values);                                             \
  int shmem_##NAME##_test_all(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE cmp_value);                 \
  size_t shmem_##NAME##_test_any(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE cmp_value);              \
  size_t shmem_##NAME##_test_some(TYPE* ivars, size_t nelems, size_t* indices, const int* status, int cmp,             \
                                  TYPE cmp_value);                                                                     \
  int shmem_##NAME##_test_all_vector(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE* cmp_values);        \
  size_t shmem_##NAME##_test_any_vector(TYPE* ivars, size_t nelems, const int* status, int cmp, TYPE* cmp_values);     \
  size_t shmem_##NAME##_test_some_vector(TYPE* ivars, size_t nelems, size_t* indices, const int* status, int cmp,      \
                                         TYPE* cmp_values);
ONSTREAM_SHMEM_WAIT_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

#ifdef __cplusplus
}
#endif

#endif
