/* The time of OpenSHMEM's small calls between 2 PEs: nanoseconds a call, PE 0 timing, PE 1 taking no part; and half of
 * a round trip of put_signal and wait, in which it does.
 *
 *   oshcc -O2 bench/compat/openshmem_latency.c -o openshmem_latency && oshrun -n 2 openshmem_latency
 *
 * Each line is the best and the median of 101 rounds. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 101, CALLS = 2000 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void print(const char* name, double* samples) {
  qsort(samples, ROUNDS, sizeof *samples, compare);
  printf("%s: best %.0f, median %.0f ns\n", name, samples[0], samples[ROUNDS / 2]);
}

#define TIME(name, call)                           \
  do {                                             \
    double samples[ROUNDS];                        \
    for (int round = 0; round < ROUNDS; ++round) { \
      const double start = now_ns();               \
      for (int i = 0; i < CALLS; ++i) {            \
        call;                                      \
      }                                            \
      samples[round] = (now_ns() - start) / CALLS; \
    }                                              \
    print(name, samples);                          \
  } while (0)

static long word;
static uint64_t flag;

static void ping_pong(int me, long* there) {
  double samples[ROUNDS];
  uint64_t turn = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    shmem_barrier_all();
    const double start = now_ns();
    for (int i = 0; i < CALLS; ++i) {
      ++turn;
      const long value = (long)turn;
      if (me == 1) shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, turn);
      shmem_long_put_signal(there, &value, 1, &flag, turn, SHMEM_SIGNAL_SET, 1 - me);
      if (me == 0) shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, turn);
    }
    samples[round] = (now_ns() - start) / CALLS / 2;
  }
  if (me == 0) print("put_signal of 8 B and wait, one way", samples);
}

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  if (shmem_n_pes() != 2) {
    if (me == 0) fprintf(stderr, "openshmem_latency: start 2 PEs\n");
    shmem_global_exit(2);
  }
  long* there = shmem_calloc(8, sizeof *there);
  long here[8] = {1};
  if (me == 0) {
    TIME("put of 8 B and quiet, the heap", (shmem_long_put(there, here, 1, 1), shmem_quiet()));
    TIME("put of 8 B and quiet, a global variable", (shmem_long_put(&word, here, 1, 1), shmem_quiet()));
    TIME("get of 8 B", shmem_long_get(here, there, 1, 1));
    TIME("atomic fetch_add", here[0] = shmem_long_atomic_fetch_add(there, 1, 1));
    TIME("atomic compare_swap", here[0] = shmem_long_atomic_compare_swap(there, 0, 1, 1));
  }
  shmem_barrier_all();
  ping_pong(me, there);
  double samples[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) {
    const double start = now_ns();
    for (int i = 0; i < CALLS / 4; ++i) shmem_barrier_all();
    samples[round] = (now_ns() - start) / (CALLS / 4);
  }
  if (me == 0) print("barrier_all", samples);
  for (int round = 0; round < ROUNDS; ++round) {
    const double start = now_ns();
    for (int i = 0; i < CALLS / 10; ++i) shmem_long_sum_reduce(SHMEM_TEAM_WORLD, there, there + 1, 1);
    samples[round] = (now_ns() - start) / (CALLS / 10);
  }
  if (me == 0) print("sum_reduce of 8 B", samples);
  shmem_free(there);
  shmem_finalize();
  return 0;
}
