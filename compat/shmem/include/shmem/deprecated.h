/* What OpenSHMEM 1.5 still has but advises against: collectives on active sets, and older names. */
#ifndef ONSTREAM_SHMEM_DEPRECATED_H
#define ONSTREAM_SHMEM_DEPRECATED_H

#include "types.h"

#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE SHMEM_ALLTOALL_SYNC_SIZE
#define _SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_ALLTOALLS_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

/* clang-format off */
#define ONSTREAM_SHMEM_OLD_INTEGERS(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
#define ONSTREAM_SHMEM_OLD_REALS(X) X(float, float) X(double, double) X(longdouble, long double)
#define ONSTREAM_SHMEM_OLD_ATOMICS(X) X(int, int) X(long, long) X(longlong, long long)
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);
void* shmalloc(size_t size);
void shfree(void* ptr);
void* shrealloc(void* ptr, size_t size);
void* shmemalign(size_t alignment, size_t size);

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long* pSync);
void shmem_sync(int PE_start, int logPE_stride, int PE_size, long* pSync);

#define ONSTREAM_SHMEM_DECLARE(SIZE)                                                                                   \
  void shmem_broadcast##SIZE(void* dest, const void* source, size_t nelems, int PE_root, int PE_start,                 \
                             int logPE_stride, int PE_size, long* pSync);                                              \
  void shmem_collect##SIZE(void* dest, const void* source, size_t nelems, int PE_start, int logPE_stride, int PE_size, \
                           long* pSync);                                                                               \
  void shmem_fcollect##SIZE(void* dest, const void* source, size_t nelems, int PE_start, int logPE_stride,             \
                            int PE_size, long* pSync);                                                                 \
  void shmem_alltoall##SIZE(void* dest, const void* source, size_t nelems, int PE_start, int logPE_stride,             \
                            int PE_size, long* pSync);                                                                 \
  void shmem_alltoalls##SIZE(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,              \
                             int PE_start, int logPE_stride, int PE_size, long* pSync);
ONSTREAM_SHMEM_DECLARE(32)
ONSTREAM_SHMEM_DECLARE(64)
#undef ONSTREAM_SHMEM_DECLARE

#define ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, OP)                                                                    \
  void shmem_##NAME##_##OP##_to_all(TYPE* dest, const TYPE* source, int nreduce, int PE_start, int logPE_stride, \
                                    int PE_size, TYPE* pWrk, long* pSync);
#define ONSTREAM_SHMEM_BITS(NAME, TYPE)  \
  ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, and) \
  ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, or)  \
  ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, xor)
#define ONSTREAM_SHMEM_ORDER(NAME, TYPE) ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, min) ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, max)
#define ONSTREAM_SHMEM_SUMS(NAME, TYPE) ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, sum) ONSTREAM_SHMEM_TO_ALL(NAME, TYPE, prod)
ONSTREAM_SHMEM_OLD_INTEGERS(ONSTREAM_SHMEM_BITS)
ONSTREAM_SHMEM_OLD_INTEGERS(ONSTREAM_SHMEM_ORDER)
ONSTREAM_SHMEM_OLD_REALS(ONSTREAM_SHMEM_ORDER)
ONSTREAM_SHMEM_OLD_INTEGERS(ONSTREAM_SHMEM_SUMS)
ONSTREAM_SHMEM_OLD_REALS(ONSTREAM_SHMEM_SUMS)
#undef ONSTREAM_SHMEM_BITS
#undef ONSTREAM_SHMEM_ORDER
#undef ONSTREAM_SHMEM_SUMS
#undef ONSTREAM_SHMEM_TO_ALL

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                              \
  TYPE shmem_##NAME##_cswap(TYPE* dest, TYPE cond, TYPE value, int pe); \
  TYPE shmem_##NAME##_fadd(TYPE* dest, TYPE value, int pe);             \
  TYPE shmem_##NAME##_finc(TYPE* dest, int pe);                         \
  void shmem_##NAME##_add(TYPE* dest, TYPE value, int pe);              \
  void shmem_##NAME##_inc(TYPE* dest, int pe);
ONSTREAM_SHMEM_OLD_ATOMICS(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                 \
  TYPE shmem_##NAME##_fetch(const TYPE* source, int pe);   \
  void shmem_##NAME##_set(TYPE* dest, TYPE value, int pe); \
  TYPE shmem_##NAME##_swap(TYPE* dest, TYPE value, int pe);
ONSTREAM_SHMEM_OLD_ATOMICS(ONSTREAM_SHMEM_DECLARE)
ONSTREAM_SHMEM_C_REAL_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE) void shmem_##NAME##_wait(TYPE* ivar, TYPE cmp_value);
ONSTREAM_SHMEM_OLD_INTEGERS(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
void shmem_wait(long* ivar, long cmp_value);
void shmem_wait_until(long* ivar, int cmp, long cmp_value);

void shmem_set_cache_inv(void);
void shmem_clear_cache_inv(void);
void shmem_set_cache_line_inv(void* dest);
void shmem_clear_cache_line_inv(void* dest);
void shmem_udcflush(void);
void shmem_udcflush_line(void* dest);

#ifdef __cplusplus
}
#endif

#endif
