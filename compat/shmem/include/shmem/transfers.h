/* Put and get: of blocks, single elements, strided, non-blocking; put with signal. */
#ifndef ONSTREAM_SHMEM_TRANSFERS_H
#define ONSTREAM_SHMEM_TRANSFERS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ONSTREAM_SHMEM_DECLARE(NAME, TYPE)                                                                           \
  void shmem_##NAME##_put(TYPE* dest, const TYPE* source, size_t nelems, int pe);                                    \
  void shmem_##NAME##_get(TYPE* dest, const TYPE* source, size_t nelems, int pe);                                    \
  void shmem_##NAME##_put_nbi(TYPE* dest, const TYPE* source, size_t nelems, int pe);                                \
  void shmem_##NAME##_get_nbi(TYPE* dest, const TYPE* source, size_t nelems, int pe);                                \
  void shmem_##NAME##_p(TYPE* dest, TYPE value, int pe);                                                             \
  TYPE shmem_##NAME##_g(const TYPE* source, int pe);                                                                 \
  void shmem_##NAME##_iput(TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);     \
  void shmem_##NAME##_iget(TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);     \
  void shmem_##NAME##_put_signal(TYPE* dest, const TYPE* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, \
                                 int sig_op, int pe);                                                                \
  void shmem_##NAME##_put_signal_nbi(TYPE* dest, const TYPE* source, size_t nelems, uint64_t* sig_addr,              \
                                     uint64_t signal, int sig_op, int pe);                                           \
  void shmem_ctx_##NAME##_put(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems, int pe);               \
  void shmem_ctx_##NAME##_get(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems, int pe);               \
  void shmem_ctx_##NAME##_put_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems, int pe);           \
  void shmem_ctx_##NAME##_get_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems, int pe);           \
  void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE* dest, TYPE value, int pe);                                        \
  TYPE shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE* source, int pe);                                            \
  void shmem_ctx_##NAME##_iput(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst,        \
                               size_t nelems, int pe);                                                               \
  void shmem_ctx_##NAME##_iget(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst,        \
                               size_t nelems, int pe);                                                               \
  void shmem_ctx_##NAME##_put_signal(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems,                 \
                                     uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);                       \
  void shmem_ctx_##NAME##_put_signal_nbi(shmem_ctx_t ctx, TYPE* dest, const TYPE* source, size_t nelems,             \
                                         uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);
ONSTREAM_SHMEM_RMA_TYPES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

#define ONSTREAM_SHMEM_DECLARE(SIZE, BYTES)                                                                         \
  void shmem_put##SIZE(void* dest, const void* source, size_t nelems, int pe);                                      \
  void shmem_get##SIZE(void* dest, const void* source, size_t nelems, int pe);                                      \
  void shmem_put##SIZE##_nbi(void* dest, const void* source, size_t nelems, int pe);                                \
  void shmem_get##SIZE##_nbi(void* dest, const void* source, size_t nelems, int pe);                                \
  void shmem_iput##SIZE(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);       \
  void shmem_iget##SIZE(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);       \
  void shmem_put##SIZE##_signal(void* dest, const void* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, \
                                int sig_op, int pe);                                                                \
  void shmem_put##SIZE##_signal_nbi(void* dest, const void* source, size_t nelems, uint64_t* sig_addr,              \
                                    uint64_t signal, int sig_op, int pe);                                           \
  void shmem_ctx_put##SIZE(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);                 \
  void shmem_ctx_get##SIZE(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);                 \
  void shmem_ctx_put##SIZE##_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);           \
  void shmem_ctx_get##SIZE##_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);           \
  void shmem_ctx_iput##SIZE(shmem_ctx_t ctx, void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,          \
                            size_t nelems, int pe);                                                                 \
  void shmem_ctx_iget##SIZE(shmem_ctx_t ctx, void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,          \
                            size_t nelems, int pe);                                                                 \
  void shmem_ctx_put##SIZE##_signal(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems,                 \
                                    uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);                       \
  void shmem_ctx_put##SIZE##_signal_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems,             \
                                        uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);
ONSTREAM_SHMEM_SIZES(ONSTREAM_SHMEM_DECLARE)
#undef ONSTREAM_SHMEM_DECLARE

void shmem_putmem(void* dest, const void* source, size_t nelems, int pe);
void shmem_getmem(void* dest, const void* source, size_t nelems, int pe);
void shmem_putmem_nbi(void* dest, const void* source, size_t nelems, int pe);
void shmem_getmem_nbi(void* dest, const void* source, size_t nelems, int pe);
void shmem_putmem_signal(void* dest, const void* source, size_t nelems, uint64_t* sig_addr, uint64_t signal, int sig_op,
                         int pe);
void shmem_putmem_signal_nbi(void* dest, const void* source, size_t nelems, uint64_t* sig_addr, uint64_t signal,
                             int sig_op, int pe);
void shmem_ctx_putmem(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);
void shmem_ctx_getmem(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);
void shmem_ctx_putmem_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);
void shmem_ctx_getmem_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, int pe);
void shmem_ctx_putmem_signal(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, uint64_t* sig_addr,
                             uint64_t signal, int sig_op, int pe);
void shmem_ctx_putmem_signal_nbi(shmem_ctx_t ctx, void* dest, const void* source, size_t nelems, uint64_t* sig_addr,
                                 uint64_t signal, int sig_op, int pe);

#ifdef __cplusplus
}
#endif

#endif
