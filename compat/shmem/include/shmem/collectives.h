/* Collectives of teams; complex_reductions.h has those of complex numbers. */
#ifndef ONSTREAM_SHMEM_COLLECTIVES_H
#define ONSTREAM_SHMEM_COLLECTIVES_H

#include "types.h"

/* clang-format off */
/* X(NAME, TYPE) of each reduction. */
#define ONSTREAM_SHMEM_BITS_REDUCE_TYPES(X)                                                                   \
  X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int) X(ulong, unsigned long)             \
  X(ulonglong, unsigned long long) X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t)      \
  X(uint8, uint8_t) X(uint16, uint16_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t)
#define ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(X) ONSTREAM_SHMEM_RMA_TYPES(X)
#define ONSTREAM_SHMEM_COMPLEX_TYPES(X) X(complexf, onstream_shmem_complexf) X(complexd, onstream_shmem_complexd)
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                                                                      \
  int shmem_##NAME##_broadcast(shmem_team_t team, TYPE* dest, const TYPE* source, size_t nelems, int PE_root);  \
  int shmem_##NAME##_collect(shmem_team_t team, TYPE* dest, const TYPE* source, size_t nelems);                 \
  int shmem_##NAME##_fcollect(shmem_team_t team, TYPE* dest, const TYPE* source, size_t nelems);                \
  int shmem_##NAME##_alltoall(shmem_team_t team, TYPE* dest, const TYPE* source, size_t nelems);                \
  int shmem_##NAME##_alltoalls(shmem_team_t team, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, \
                               size_t nelems);
ONSTREAM_SHMEM_RMA_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

int shmem_broadcastmem(shmem_team_t team, void* dest, const void* source, size_t nelems, int PE_root);
int shmem_collectmem(shmem_team_t team, void* dest, const void* source, size_t nelems);
int shmem_fcollectmem(shmem_team_t team, void* dest, const void* source, size_t nelems);
int shmem_alltoallmem(shmem_team_t team, void* dest, const void* source, size_t nelems);
int shmem_alltoallsmem(shmem_team_t team, void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);

#define ONSTREAM_SHMEM_REDUCE(NAME, TYPE, OP) \
  int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE* dest, const TYPE* source, size_t nreduce);
#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE) \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, and)   \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, or)    \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, xor)
ONSTREAM_SHMEM_BITS_REDUCE_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE) \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, min)   \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, max)   \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, sum)   \
  ONSTREAM_SHMEM_REDUCE(NAME, TYPE, prod)
ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE
#undef ONSTREAM_SHMEM_REDUCE

#ifdef __cplusplus
}
#endif

#endif
