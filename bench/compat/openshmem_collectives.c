/* The time of OpenSHMEM's collectives on SHMEM_TEAM_WORLD, of 8 B and of 1 MiB: microseconds a call.
 *
 *   oshcc -O2 bench/compat/openshmem_collectives.c -o openshmem_collectives && oshrun -n 4 openshmem_collectives
 *
 * The bytes are those of a PE's vector (broadcast, reductions), or else of all that a PE has in the end, but no less
 * than 8 B of each. Each line is the best and the median of 21 rounds, as PE 0 sees them. ONSTREAM_SHMEM_HEAP=device
 * measures the GPU's memory. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 21, LARGE = 1 << 20 };

static long *to, *from;
static size_t whole, part; /* elements of a vector, and of one PE's share */

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void broadcast(void) { shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, whole, 0); }
static void collect(void) { shmem_long_collect(SHMEM_TEAM_WORLD, to, from, part); }
static void fcollect(void) { shmem_long_fcollect(SHMEM_TEAM_WORLD, to, from, part); }
static void alltoall(void) { shmem_long_alltoall(SHMEM_TEAM_WORLD, to, from, part); }
static void alltoalls(void) { shmem_long_alltoalls(SHMEM_TEAM_WORLD, to, from, 1, 2, part); }
static void sum_reduce(void) { shmem_long_sum_reduce(SHMEM_TEAM_WORLD, to, from, whole); }
static void sum_reduce_double(void) { shmem_double_sum_reduce(SHMEM_TEAM_WORLD, (double*)to, (double*)from, whole); }
static void sync_all(void) { shmem_team_sync(SHMEM_TEAM_WORLD); }

static void time_it(const char* name, void (*call)(void)) {
  double samples[ROUNDS];
  const int calls = whole > 1 ? 20 : 500;
  call();
  for (int round = 0; round < ROUNDS; ++round) {
    shmem_barrier_all();
    const double start = now_us();
    for (int i = 0; i < calls; ++i) call();
    samples[round] = (now_us() - start) / calls;
  }
  qsort(samples, ROUNDS, sizeof *samples, compare);
  if (shmem_my_pe() == 0) {
    printf("%s of %zu B: best %.2f, median %.2f us\n", name, whole * sizeof(long), samples[0], samples[ROUNDS / 2]);
  }
}

int main(void) {
  shmem_init();
  const size_t pes = (size_t)shmem_n_pes();
  to = shmem_calloc(LARGE + pes * sizeof(long), 2);
  from = shmem_calloc(LARGE + pes * sizeof(long), 2);
  for (int size = 0; size < 2; ++size) {
    whole = size == 0 ? 1 : LARGE / sizeof(long);
    part = whole / pes > 0 ? whole / pes : 1;
    time_it("broadcast", broadcast);
    time_it("collect", collect);
    time_it("fcollect", fcollect);
    time_it("alltoall", alltoall);
    time_it("alltoalls", alltoalls);
    time_it("sum_reduce of long", sum_reduce);
    time_it("sum_reduce of double", sum_reduce_double);
    if (size == 0) time_it("team_sync", sync_all);
  }
  shmem_free(from);
  shmem_free(to);
  shmem_finalize();
  return 0;
}
