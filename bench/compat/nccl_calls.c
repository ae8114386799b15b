/* The host's time for a call of NCCL's interface, eager, on one rank: the calls alone (of no elements, for which
 * onstream has nothing to do), and with the enqueuing of a small op.
 *
 * Each line is of so many calls, timed together; the stream is empty before. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 401, CALLS = 16 };

#define OK(call)                                                         \
  do {                                                                   \
    if ((call) != 0) {                                                   \
      fprintf(stderr, "%s failed: %s\n", #call, ncclGetLastError(NULL)); \
      exit(1);                                                           \
    }                                                                    \
  } while (0)

static ncclComm_t comm;
static cudaStream_t stream;
static float* data;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void of_no_elements(void) { OK(ncclAllReduce(data, data, 0, ncclFloat, ncclSum, comm, stream)); }
static void of_one_element(void) { OK(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, stream)); }
static void grouped(void) {
  OK(ncclGroupStart());
  OK(ncclAllReduce(data, data, 0, ncclFloat, ncclSum, comm, stream));
  OK(ncclAllReduce(data, data, 0, ncclFloat, ncclSum, comm, stream));
  OK(ncclGroupEnd());
}

static int less(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static void time_calls(const char* what, void (*call)(void)) {
  static double each[ROUNDS];
  int round, i;
  for (round = 0; round < ROUNDS; ++round) {
    double begin;
    OK(cudaStreamSynchronize(stream));
    begin = now_ns();
    for (i = 0; i < CALLS; ++i) call();
    each[round] = (now_ns() - begin) / CALLS;
  }
  qsort(each, ROUNDS, sizeof each[0], less);
  printf("%s: best %.0f, median %.0f ns\n", what, each[0], each[ROUNDS / 2]);
}

int main(void) {
  void* memory = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMalloc(&memory, 4096));
  data = (float*)memory;
  time_calls("an all_reduce of no elements", of_no_elements);
  time_calls("a group of two of them", grouped);
  time_calls("an all_reduce of one float", of_one_element);
  OK(cudaStreamSynchronize(stream));
  OK(ncclCommDestroy(comm));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(memory));
  return 0;
}
