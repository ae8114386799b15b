/* Sums and products of complex numbers, of teams and of active sets.
 *
 * In C++ they take std::complex<T> too, which lies in memory as T _Complex does ([complex.numbers]). */
#ifndef ONSTREAM_SHMEM_COMPLEX_REDUCTIONS_H
#define ONSTREAM_SHMEM_COMPLEX_REDUCTIONS_H

#include "types.h"

#ifdef __cplusplus
#include <complex>
#endif

/* clang-format off */
#define ONSTREAM_SHMEM_EACH_COMPLEX(X, PREFIX)                       \
  X(PREFIX, complexf, float, sum) X(PREFIX, complexf, float, prod)   \
  X(PREFIX, complexd, double, sum) X(PREFIX, complexd, double, prod)
/* clang-format on */

#define ONSTREAM_SHMEM_OF_C(PREFIX, NAME, REAL, OP)                                                                   \
  int PREFIX##_##NAME##_##OP##_reduce(shmem_team_t team, onstream_shmem_##NAME* dest,                                 \
                                      const onstream_shmem_##NAME* source, size_t nreduce);                           \
  void PREFIX##_##NAME##_##OP##_to_all(onstream_shmem_##NAME* dest, const onstream_shmem_##NAME* source, int nreduce, \
                                       int PE_start, int logPE_stride, int PE_size, onstream_shmem_##NAME* pWrk,      \
                                       long* pSync);

#define ONSTREAM_SHMEM_OF_STD(PREFIX, NAME, REAL, OP)                                                                  \
  inline int PREFIX##_##NAME##_##OP##_reduce(shmem_team_t team, std::complex<REAL>* dest,                              \
                                             const std::complex<REAL>* source, size_t nreduce) {                       \
    return PREFIX##_##NAME##_##OP##_reduce(team, reinterpret_cast<onstream_shmem_##NAME*>(dest),                       \
                                           reinterpret_cast<const onstream_shmem_##NAME*>(source), nreduce);           \
  }                                                                                                                    \
  inline void PREFIX##_##NAME##_##OP##_to_all(std::complex<REAL>* dest, const std::complex<REAL>* source, int nreduce, \
                                              int PE_start, int logPE_stride, int PE_size, std::complex<REAL>* pWrk,   \
                                              long* pSync) {                                                           \
    PREFIX##_##NAME##_##OP##_to_all(reinterpret_cast<onstream_shmem_##NAME*>(dest),                                    \
                                    reinterpret_cast<const onstream_shmem_##NAME*>(source), nreduce, PE_start,         \
                                    logPE_stride, PE_size, reinterpret_cast<onstream_shmem_##NAME*>(pWrk), pSync);     \
  }

/* PREFIX is shmem; in pshmem.h also pshmem. */
#ifdef __cplusplus
#define ONSTREAM_SHMEM_COMPLEX_REDUCTIONS(PREFIX)          \
  extern "C" {                                             \
  ONSTREAM_SHMEM_EACH_COMPLEX(ONSTREAM_SHMEM_OF_C, PREFIX) \
  }                                                        \
  ONSTREAM_SHMEM_EACH_COMPLEX(ONSTREAM_SHMEM_OF_STD, PREFIX)
#else
#define ONSTREAM_SHMEM_COMPLEX_REDUCTIONS(PREFIX) ONSTREAM_SHMEM_EACH_COMPLEX(ONSTREAM_SHMEM_OF_C, PREFIX)
#endif
ONSTREAM_SHMEM_COMPLEX_REDUCTIONS(shmem)

#endif
