/* C11's type-generic names: shmem_put(dest, source, nelems, pe), or with a context in front. */
#ifndef ONSTREAM_SHMEM_GENERIC_H
#define ONSTREAM_SHMEM_GENERIC_H

#include "collectives.h"
#include "deprecated.h"
#include "setup.h"
#include "transfers.h"
#include "words.h"

/* What a call without a matching type chooses: it is in no library. */
struct onstream_shmem_no_such_type {
  int unused;
};
#if defined(__GNUC__) && (!defined(__clang__) || __clang_major__ >= 14)
__attribute__((error("no OpenSHMEM call of this name takes an argument of this type")))
#endif
extern struct onstream_shmem_no_such_type onstream_shmem_no_call(const void* first, ...);

#define ONSTREAM_SHMEM_FIRST_OF(first, ...) first
#define ONSTREAM_SHMEM_FIRST(...) ONSTREAM_SHMEM_FIRST_OF(__VA_ARGS__, 0)
#define ONSTREAM_SHMEM_SECOND_OF(first, second, ...) second
#define ONSTREAM_SHMEM_SECOND(...) ONSTREAM_SHMEM_SECOND_OF(__VA_ARGS__, 0, 0)

/* The element that an argument points to; an int stands for what points to none. */
/* clang-format off */
#define ONSTREAM_SHMEM_AT(x)                                                                                \
  (*_Generic((x), default: (x), void *: (int *)0, const void *: (int *)0, char: (int *)0,                   \
             signed char: (int *)0, short: (int *)0, int: (int *)0, long: (int *)0, long long: (int *)0,    \
             unsigned char: (int *)0, unsigned short: (int *)0, unsigned int: (int *)0,                     \
             unsigned long: (int *)0, unsigned long long: (int *)0, float: (int *)0, double: (int *)0,      \
             long double: (int *)0, float _Complex: (int *)0, double _Complex: (int *)0))

#define ONSTREAM_SHMEM_INT_BITS(X) X(int32, int) X(int64, long)
#define ONSTREAM_SHMEM_SMALL_BITS(X)                                                                        \
  X(uchar, unsigned char) X(ushort, unsigned short) X(int8, signed char) X(int16, short)
#define ONSTREAM_SHMEM_GENERIC_BITWISE(X) ONSTREAM_SHMEM_C_BITWISE_TYPES(X) ONSTREAM_SHMEM_INT_BITS(X)
#define ONSTREAM_SHMEM_GENERIC_REDUCE_BITS(X) ONSTREAM_SHMEM_GENERIC_BITWISE(X) ONSTREAM_SHMEM_SMALL_BITS(X)
#define ONSTREAM_SHMEM_GENERIC_EXTENDED(X) ONSTREAM_SHMEM_C_ATOMIC_TYPES(X) ONSTREAM_SHMEM_C_REAL_TYPES(X)
#define ONSTREAM_SHMEM_GENERIC_SUMS(X) ONSTREAM_SHMEM_C_TYPES(X) ONSTREAM_SHMEM_COMPLEX_TYPES(X)
/* clang-format on */

/* By the argument that has the type: the first; the second; or the one behind the context, if there is one. */
#define ONSTREAM_SHMEM_BY_FIRST(TYPES, OP, ...)                  \
  _Generic(ONSTREAM_SHMEM_AT(ONSTREAM_SHMEM_FIRST(__VA_ARGS__)), \
      default: onstream_shmem_no_call TYPES(ONSTREAM_SHMEM_CASE_##OP))(__VA_ARGS__)
#define ONSTREAM_SHMEM_BY_SECOND(TYPES, OP, ...)                  \
  _Generic(ONSTREAM_SHMEM_AT(ONSTREAM_SHMEM_SECOND(__VA_ARGS__)), \
      default: onstream_shmem_no_call TYPES(ONSTREAM_SHMEM_CASE_##OP))(__VA_ARGS__)
#define ONSTREAM_SHMEM_BY_EITHER(TYPES, OP, ...)                                                     \
  _Generic(ONSTREAM_SHMEM_AT(ONSTREAM_SHMEM_FIRST(__VA_ARGS__)),                                     \
      struct onstream_shmem_context: _Generic(ONSTREAM_SHMEM_AT(ONSTREAM_SHMEM_SECOND(__VA_ARGS__)), \
          default: onstream_shmem_no_call TYPES(ONSTREAM_SHMEM_CTX_CASE_##OP)),                      \
      default: onstream_shmem_no_call TYPES(ONSTREAM_SHMEM_CASE_##OP))(__VA_ARGS__)

/* clang-format off */
#define ONSTREAM_SHMEM_CASE_put(NAME, TYPE) , TYPE: shmem_##NAME##_put
#define ONSTREAM_SHMEM_CTX_CASE_put(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_put
#define shmem_put(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, put, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_get(NAME, TYPE) , TYPE: shmem_##NAME##_get
#define ONSTREAM_SHMEM_CTX_CASE_get(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_get
#define shmem_get(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, get, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_put_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_put_nbi
#define ONSTREAM_SHMEM_CTX_CASE_put_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_put_nbi
#define shmem_put_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, put_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_get_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_get_nbi
#define ONSTREAM_SHMEM_CTX_CASE_get_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_get_nbi
#define shmem_get_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, get_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_p(NAME, TYPE) , TYPE: shmem_##NAME##_p
#define ONSTREAM_SHMEM_CTX_CASE_p(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_p
#define shmem_p(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, p, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_g(NAME, TYPE) , TYPE: shmem_##NAME##_g
#define ONSTREAM_SHMEM_CTX_CASE_g(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_g
#define shmem_g(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, g, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_iput(NAME, TYPE) , TYPE: shmem_##NAME##_iput
#define ONSTREAM_SHMEM_CTX_CASE_iput(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_iput
#define shmem_iput(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, iput, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_iget(NAME, TYPE) , TYPE: shmem_##NAME##_iget
#define ONSTREAM_SHMEM_CTX_CASE_iget(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_iget
#define shmem_iget(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, iget, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_put_signal(NAME, TYPE) , TYPE: shmem_##NAME##_put_signal
#define ONSTREAM_SHMEM_CTX_CASE_put_signal(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_put_signal
#define shmem_put_signal(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, put_signal, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_put_signal_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_put_signal_nbi
#define ONSTREAM_SHMEM_CTX_CASE_put_signal_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_put_signal_nbi
#define shmem_put_signal_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_TYPES, put_signal_nbi, __VA_ARGS__)

#define ONSTREAM_SHMEM_CASE_atomic_fetch(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch
#define shmem_atomic_fetch(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_EXTENDED, atomic_fetch, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_set(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_set
#define ONSTREAM_SHMEM_CTX_CASE_atomic_set(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_set
#define shmem_atomic_set(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_EXTENDED, atomic_set, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_swap(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_swap
#define ONSTREAM_SHMEM_CTX_CASE_atomic_swap(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_swap
#define shmem_atomic_swap(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_EXTENDED, atomic_swap, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_nbi
#define shmem_atomic_fetch_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_EXTENDED, atomic_fetch_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_swap_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_swap_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_swap_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_swap_nbi
#define shmem_atomic_swap_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_EXTENDED, atomic_swap_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_compare_swap(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_compare_swap
#define ONSTREAM_SHMEM_CTX_CASE_atomic_compare_swap(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_compare_swap
#define shmem_atomic_compare_swap(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_compare_swap, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_add(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_add
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_add(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_add
#define shmem_atomic_fetch_add(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_fetch_add, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_inc(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_inc
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_inc(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_inc
#define shmem_atomic_fetch_inc(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_fetch_inc, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_add(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_add
#define ONSTREAM_SHMEM_CTX_CASE_atomic_add(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_add
#define shmem_atomic_add(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_add, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_inc(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_inc
#define ONSTREAM_SHMEM_CTX_CASE_atomic_inc(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_inc
#define shmem_atomic_inc(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_inc, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_compare_swap_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_compare_swap_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_compare_swap_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_compare_swap_nbi
#define shmem_atomic_compare_swap_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_compare_swap_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_add_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_add_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_add_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_add_nbi
#define shmem_atomic_fetch_add_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_fetch_add_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_inc_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_inc_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_inc_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_inc_nbi
#define shmem_atomic_fetch_inc_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_C_ATOMIC_TYPES, atomic_fetch_inc_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_and(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_and
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_and(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_and
#define shmem_atomic_fetch_and(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_and, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_and(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_and
#define ONSTREAM_SHMEM_CTX_CASE_atomic_and(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_and
#define shmem_atomic_and(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_and, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_and_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_and_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_and_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_and_nbi
#define shmem_atomic_fetch_and_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_and_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_or(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_or
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_or(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_or
#define shmem_atomic_fetch_or(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_or, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_or(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_or
#define ONSTREAM_SHMEM_CTX_CASE_atomic_or(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_or
#define shmem_atomic_or(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_or, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_or_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_or_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_or_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_or_nbi
#define shmem_atomic_fetch_or_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_or_nbi, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_xor(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_xor
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_xor(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_xor
#define shmem_atomic_fetch_xor(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_xor, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_xor(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_xor
#define ONSTREAM_SHMEM_CTX_CASE_atomic_xor(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_xor
#define shmem_atomic_xor(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_xor, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_atomic_fetch_xor_nbi(NAME, TYPE) , TYPE: shmem_##NAME##_atomic_fetch_xor_nbi
#define ONSTREAM_SHMEM_CTX_CASE_atomic_fetch_xor_nbi(NAME, TYPE) , TYPE: shmem_ctx_##NAME##_atomic_fetch_xor_nbi
#define shmem_atomic_fetch_xor_nbi(...) ONSTREAM_SHMEM_BY_EITHER(ONSTREAM_SHMEM_GENERIC_BITWISE, atomic_fetch_xor_nbi, __VA_ARGS__)

#define ONSTREAM_SHMEM_CASE_wait_until(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until
#define shmem_wait_until(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test(NAME, TYPE) , TYPE: shmem_##NAME##_test
#define shmem_test(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_all(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_all
#define shmem_wait_until_all(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_all, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_any(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_any
#define shmem_wait_until_any(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_any, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_some(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_some
#define shmem_wait_until_some(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_some, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_all_vector(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_all_vector
#define shmem_wait_until_all_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_all_vector, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_any_vector(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_any_vector
#define shmem_wait_until_any_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_any_vector, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait_until_some_vector(NAME, TYPE) , TYPE: shmem_##NAME##_wait_until_some_vector
#define shmem_wait_until_some_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, wait_until_some_vector, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_all(NAME, TYPE) , TYPE: shmem_##NAME##_test_all
#define shmem_test_all(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_all, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_any(NAME, TYPE) , TYPE: shmem_##NAME##_test_any
#define shmem_test_any(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_any, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_some(NAME, TYPE) , TYPE: shmem_##NAME##_test_some
#define shmem_test_some(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_some, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_all_vector(NAME, TYPE) , TYPE: shmem_##NAME##_test_all_vector
#define shmem_test_all_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_all_vector, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_any_vector(NAME, TYPE) , TYPE: shmem_##NAME##_test_any_vector
#define shmem_test_any_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_any_vector, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_test_some_vector(NAME, TYPE) , TYPE: shmem_##NAME##_test_some_vector
#define shmem_test_some_vector(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_C_WAIT_TYPES, test_some_vector, __VA_ARGS__)

#define ONSTREAM_SHMEM_CASE_broadcast(NAME, TYPE) , TYPE: shmem_##NAME##_broadcast
#define shmem_broadcast(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, broadcast, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_collect(NAME, TYPE) , TYPE: shmem_##NAME##_collect
#define shmem_collect(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, collect, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_fcollect(NAME, TYPE) , TYPE: shmem_##NAME##_fcollect
#define shmem_fcollect(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, fcollect, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_alltoall(NAME, TYPE) , TYPE: shmem_##NAME##_alltoall
#define shmem_alltoall(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, alltoall, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_alltoalls(NAME, TYPE) , TYPE: shmem_##NAME##_alltoalls
#define shmem_alltoalls(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, alltoalls, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_and_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_and_reduce
#define shmem_and_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_GENERIC_REDUCE_BITS, and_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_or_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_or_reduce
#define shmem_or_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_GENERIC_REDUCE_BITS, or_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_xor_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_xor_reduce
#define shmem_xor_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_GENERIC_REDUCE_BITS, xor_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_min_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_min_reduce
#define shmem_min_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, min_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_max_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_max_reduce
#define shmem_max_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_C_TYPES, max_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_sum_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_sum_reduce
#define shmem_sum_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_GENERIC_SUMS, sum_reduce, __VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_prod_reduce(NAME, TYPE) , TYPE: shmem_##NAME##_prod_reduce
#define shmem_prod_reduce(...) ONSTREAM_SHMEM_BY_SECOND(ONSTREAM_SHMEM_GENERIC_SUMS, prod_reduce, __VA_ARGS__)
#define shmem_sync(...)                                                                                    \
  _Generic(ONSTREAM_SHMEM_AT(ONSTREAM_SHMEM_FIRST(__VA_ARGS__)), struct onstream_shmem_team: shmem_team_sync, \
           default: shmem_sync)(__VA_ARGS__)

#define shmem_cswap(...) shmem_atomic_compare_swap(__VA_ARGS__)
#define shmem_fadd(...) shmem_atomic_fetch_add(__VA_ARGS__)
#define shmem_finc(...) shmem_atomic_fetch_inc(__VA_ARGS__)
#define shmem_add(...) shmem_atomic_add(__VA_ARGS__)
#define shmem_inc(...) shmem_atomic_inc(__VA_ARGS__)
#define shmem_fetch(...) shmem_atomic_fetch(__VA_ARGS__)
#define shmem_set(...) shmem_atomic_set(__VA_ARGS__)
#define shmem_swap(...) shmem_atomic_swap(__VA_ARGS__)
#define ONSTREAM_SHMEM_CASE_wait(NAME, TYPE) , TYPE: shmem_##NAME##_wait
#define shmem_wait(...) ONSTREAM_SHMEM_BY_FIRST(ONSTREAM_SHMEM_OLD_INTEGERS, wait, __VA_ARGS__)
/* clang-format on */

#endif
