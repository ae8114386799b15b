// Sums and products of complex numbers from C++: the calls take C's and C++'s, also under their second names.
#include <pshmem.h>

#include <complex>

#include "openshmem.h"

__extension__ typedef float _Complex c_complexf;
__extension__ typedef double _Complex c_complexd;

namespace {

constexpr int kCount = 5;

// One name's overloads for every type of argument, and the function that it applies to two numbers, from START on.
#define CALLS(PREFIX, NAME, OP, START, SYMBOL)                                    \
  struct PREFIX##_##NAME##_##OP {                                                 \
    template <class T>                                                            \
    static int of_team(T* to, const T* from) {                                    \
      return PREFIX##_##NAME##_##OP##_reduce(SHMEM_TEAM_WORLD, to, from, kCount); \
    }                                                                             \
    template <class T>                                                            \
    static void of_set(T* to, const T* from, T* work, long* sync) {               \
      PREFIX##_##NAME##_##OP##_to_all(to, from, kCount, 0, 0, size, work, sync);  \
    }                                                                             \
    static constexpr int kStart = START;                                          \
    template <class T>                                                            \
    static T of_two(T a, T b) {                                                   \
      return a SYMBOL b;                                                          \
    }                                                                             \
  };
CALLS(shmem, complexf, sum, 0, +)
CALLS(shmem, complexf, prod, 1, *)
CALLS(shmem, complexd, sum, 0, +)
CALLS(shmem, complexd, prod, 1, *)
CALLS(pshmem, complexf, sum, 0, +)
CALLS(pshmem, complexf, prod, 1, *)
CALLS(pshmem, complexd, sum, 0, +)
CALLS(pshmem, complexd, prod, 1, *)

// Both kinds of complex numbers are two of `Real`, one after the other.
template <class Real, class T>
std::complex<Real>* pairs(T* numbers) {
  static_assert(sizeof(T) == 2 * sizeof(Real), "T is the complex type of Real");
  return reinterpret_cast<std::complex<Real>*>(numbers);
}
template <class Real, class T>
const std::complex<Real>* pairs(const T* numbers) {
  return reinterpret_cast<const std::complex<Real>*>(numbers);
}

// Small whole numbers, so that no order of the reduction rounds.
template <class Real>
std::complex<Real> element(int pe, int i) {
  return std::complex<Real>(static_cast<Real>(pe + 1), static_cast<Real>(i - 2));
}

template <class Call, class Real, class T>
void check_result(const T* to) {
  for (int i = 0; i < kCount; ++i) {
    std::complex<Real> expected = Real(Call::kStart);
    for (int pe = 0; pe < size; ++pe) expected = Call::of_two(expected, element<Real>(pe, i));
    CHECK(pairs<Real>(to)[i] == expected);
  }
}

template <class Call, class Real, class T>
void check_call() {
  static T from[kCount], of_team[kCount], of_set[kCount], work[kCount];
  static long sync[SHMEM_REDUCE_SYNC_SIZE];
  for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; ++i) sync[i] = SHMEM_SYNC_VALUE;
  for (int i = 0; i < kCount; ++i) pairs<Real>(from)[i] = element<Real>(me, i);
  shmem_barrier_all();
  CHECK(Call::of_team(of_team, from) == 0);
  check_result<Call, Real>(of_team);
  Call::of_set(of_set, from, work, sync);
  check_result<Call, Real>(of_set);
  shmem_barrier_all();
}

void c_numbers_are_reduced() {
  check_call<shmem_complexf_sum, float, c_complexf>();
  check_call<shmem_complexf_prod, float, c_complexf>();
  check_call<shmem_complexd_sum, double, c_complexd>();
  check_call<shmem_complexd_prod, double, c_complexd>();
}

void cpp_numbers_are_reduced() {
  check_call<shmem_complexf_sum, float, std::complex<float>>();
  check_call<shmem_complexf_prod, float, std::complex<float>>();
  check_call<shmem_complexd_sum, double, std::complex<double>>();
  check_call<shmem_complexd_prod, double, std::complex<double>>();
}

void second_names_take_both() {
  check_call<pshmem_complexf_sum, float, c_complexf>();
  check_call<pshmem_complexf_prod, float, std::complex<float>>();
  check_call<pshmem_complexd_sum, double, std::complex<double>>();
  check_call<pshmem_complexd_prod, double, c_complexd>();
}

}  // namespace

int main(int argc, char** argv) {
  // clang-format off
  static const test_case cases[] = {
    CASE(c_numbers_are_reduced)
    CASE(cpp_numbers_are_reduced)
    CASE(second_names_take_both)
  };
  // clang-format on
  shmem_init();
  me = shmem_my_pe();
  size = shmem_n_pes();
  const int status = run_cases(cases, sizeof cases / sizeof cases[0], argc > 1 ? argv[1] : nullptr);
  shmem_finalize();
  return status;
}
