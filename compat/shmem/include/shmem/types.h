/* Handles, constants and the lists of types that the other headers make their declarations from.
 *
 * Each list calls X(NAME, TYPE) for the types of one table of the standard. */
#ifndef ONSTREAM_SHMEM_TYPES_H
#define ONSTREAM_SHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* C's types, in C++ too, where they are an extension of the compilers. */
#ifdef __cplusplus
__extension__ typedef float _Complex onstream_shmem_complexf;
__extension__ typedef double _Complex onstream_shmem_complexd;
#else
#include <complex.h>
typedef float _Complex onstream_shmem_complexf;
typedef double _Complex onstream_shmem_complexd;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Handles point to these; what they name is the library's. */
struct onstream_shmem_context {
  int number;
};
struct onstream_shmem_team {
  int number;
};
typedef struct onstream_shmem_context* shmem_ctx_t;
typedef struct onstream_shmem_team* shmem_team_t;

typedef struct {
  int num_contexts;
} shmem_team_config_t;

extern struct onstream_shmem_context onstream_shmem_default_context;
extern struct onstream_shmem_team onstream_shmem_world_team;
extern struct onstream_shmem_team onstream_shmem_shared_team;

#define SHMEM_CTX_DEFAULT (&onstream_shmem_default_context)
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_TEAM_WORLD (&onstream_shmem_world_team)
#define SHMEM_TEAM_SHARED (&onstream_shmem_shared_team)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 256
#define SHMEM_VENDOR_STRING "onstream"

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

#define SHMEM_CTX_SERIALIZED (1L << 0)
#define SHMEM_CTX_PRIVATE (1L << 1)
#define SHMEM_CTX_NOSTORE (1L << 2)
#define SHMEM_TEAM_NUM_CONTEXTS (1L << 0)

#define SHMEM_MALLOC_ATOMICS_REMOTE (1L << 0)
#define SHMEM_MALLOC_SIGNAL_REMOTE (1L << 1)
/* Not of the standard: memory of the PE's device (docs/openshmem.md). */
#define SHMEMX_MALLOC_DEVICE (1L << 16)

#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

#define SHMEM_CMP_EQ 0
#define SHMEM_CMP_NE 1
#define SHMEM_CMP_GT 2
#define SHMEM_CMP_GE 3
#define SHMEM_CMP_LT 4
#define SHMEM_CMP_LE 5

/* Words of the pSync and elements of the pWrk of collectives on active sets. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 4
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* clang-format off */
#define ONSTREAM_SHMEM_C_TYPES(X)                                                                      \
  X(float, float) X(double, double) X(longdouble, long double) X(char, char) X(schar, signed char)     \
  X(short, short) X(int, int) X(long, long) X(longlong, long long) X(uchar, unsigned char)             \
  X(ushort, unsigned short) X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)

#define ONSTREAM_SHMEM_NAMED_TYPES(X)                                                                  \
  X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t) X(uint8, uint8_t)              \
  X(uint16, uint16_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t) X(ptrdiff, ptrdiff_t)

#define ONSTREAM_SHMEM_RMA_TYPES(X) ONSTREAM_SHMEM_C_TYPES(X) ONSTREAM_SHMEM_NAMED_TYPES(X)

#define ONSTREAM_SHMEM_C_ATOMIC_TYPES(X)                                                               \
  X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned int) X(ulong, unsigned long)       \
  X(ulonglong, unsigned long long)
#define ONSTREAM_SHMEM_NAMED_ATOMIC_TYPES(X)                                                           \
  X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t)          \
  X(ptrdiff, ptrdiff_t)
#define ONSTREAM_SHMEM_C_REAL_TYPES(X) X(float, float) X(double, double)
#define ONSTREAM_SHMEM_ATOMIC_TYPES(X) ONSTREAM_SHMEM_C_ATOMIC_TYPES(X) ONSTREAM_SHMEM_NAMED_ATOMIC_TYPES(X)
#define ONSTREAM_SHMEM_EXTENDED_TYPES(X) ONSTREAM_SHMEM_C_REAL_TYPES(X) ONSTREAM_SHMEM_ATOMIC_TYPES(X)

#define ONSTREAM_SHMEM_C_BITWISE_TYPES(X)                                                              \
  X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)
#define ONSTREAM_SHMEM_C_BITWISE_SIGNED_TYPES(X) X(int, int) X(long, long) X(longlong, long long)
#define ONSTREAM_SHMEM_BITWISE_TYPES(X)                                                                \
  ONSTREAM_SHMEM_C_BITWISE_TYPES(X) X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)

#define ONSTREAM_SHMEM_C_WAIT_TYPES(X) X(short, short) X(ushort, unsigned short) ONSTREAM_SHMEM_C_ATOMIC_TYPES(X)
#define ONSTREAM_SHMEM_WAIT_TYPES(X) ONSTREAM_SHMEM_C_WAIT_TYPES(X) ONSTREAM_SHMEM_NAMED_ATOMIC_TYPES(X)

#define ONSTREAM_SHMEM_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif
