/* For the test programs of NCCL's interface: named cases over ranks, small exact numbers of every type, checks that say
 * where.
 *
 *   PROGRAM threads N CASE...     N ranks as threads of this process
 *   PROGRAM alone N CASE...       each case in one thread, which makes N ranks itself
 *   PROGRAM processes ID CASE...  one rank of `onstream run`, which finds each case's unique id in a file ID.CASE
 *
 * One case after the other. A check that fails ends the program with status 1.
 */
#ifndef ONSTREAM_TESTS_NCCL_CASE_H
#define ONSTREAM_TESTS_NCCL_CASE_H

#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                         \
  do {                                                                                                           \
    if (!(condition)) {                                                                                          \
      fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #condition, ncclGetLastError(NULL)); \
      _exit(1);                                                                                                  \
    }                                                                                                            \
  } while (0)
#define OK(call) CHECK((call) == ncclSuccess)
#define CUDA_OK(call) CHECK((call) == cudaSuccess)

/* The call must be refused with this result, and say this. */
#define REFUSED(call, result, words)                                                                              \
  do {                                                                                                            \
    const ncclResult_t got_ = (call);                                                                             \
    if (got_ != (result) || strstr(ncclGetLastError(NULL), (words)) == NULL) {                                    \
      fprintf(stderr, "%s:%d: %s gave %d and said '%s', not %d and '%s'\n", __FILE__, __LINE__, #call, (int)got_, \
              ncclGetLastError(NULL), (int)(result), (words));                                                    \
      _exit(1);                                                                                                   \
    }                                                                                                             \
  } while (0)

/* One rank, as a case gets it. */
struct ranked {
  int rank;
  int size;
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t stream;
  int failed; /* the case has let the communicator fail, which its end tells; below 0: it may have */
};

/* --- types --- */

static const size_t type_bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* A small number that the format has exactly, by its exponent's and its mantissa's bits. */
static inline unsigned narrow(double value, int exponent_bits, int mantissa_bits) {
  int exponent;
  double fraction;
  if (value == 0) return 0;
  fraction = frexp(value, &exponent); /* 0.5 to 1 */
  exponent += (1 << (exponent_bits - 1)) - 2;
  return (unsigned)(exponent << mantissa_bits) + (unsigned)((fraction * 2 - 1) * (double)(1 << mantissa_bits));
}

static inline void put_number(ncclDataType_t type, double value, void* out) {
  const long long whole = (long long)value;
  const float f = (float)value;
  unsigned bits = 0;
  switch (type) {
    case ncclFloat16: bits = narrow(value, 5, 10); break;
    case ncclBfloat16: bits = narrow(value, 8, 7); break;
    case ncclFloat8e4m3: bits = narrow(value, 4, 3); break;
    case ncclFloat8e5m2: bits = narrow(value, 5, 2); break;
    case ncclFloat32: memcpy(out, &f, sizeof f); return;
    case ncclFloat64: memcpy(out, &value, sizeof value); return;
    default: memcpy(out, &whole, type_bytes[type]); return;
  }
  memcpy(out, &bits, type_bytes[type]);
}

/* --- memory --- */

/* A copy from plain memory may return before the bytes are there, and the ranks' streams do not wait for the default
 * one. */
static inline void load(void* device, const void* values, size_t bytes) {
  CUDA_OK(cudaMemcpy(device, values, bytes, cudaMemcpyHostToDevice));
  CUDA_OK(cudaStreamSynchronize(NULL));
}

/* Filled with what no case expects. (Not by cudaMemset: it need not wait, and streams need not wait for it.) */
static inline unsigned char* take(size_t bytes) {
  void* memory = NULL;
  unsigned char* filled = (unsigned char*)malloc(bytes + 16);
  memset(filled, 0xee, bytes + 16);
  CUDA_OK(cudaMalloc(&memory, bytes + 16));
  load(memory, filled, bytes + 16);
  free(filled);
  return (unsigned char*)memory;
}

static inline void drop(void* memory) { CUDA_OK(cudaFree(memory)); }

static inline int holds(const void* device, const void* values, size_t bytes) {
  unsigned char* copy = (unsigned char*)malloc(bytes + 1);
  int same;
  CUDA_OK(cudaMemcpy(copy, device, bytes, cudaMemcpyDeviceToHost));
  same = memcmp(copy, values, bytes) == 0;
  free(copy);
  return same;
}

/* Bytes that differ by seed and place. */
static inline void pattern(unsigned char* out, size_t bytes, unsigned seed) {
  unsigned state = seed * 2654435761u + 12345u;
  size_t i;
  for (i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    out[i] = (unsigned char)(state >> 24);
  }
}

static inline void load_pattern(void* device, size_t bytes, unsigned seed) {
  unsigned char* values = (unsigned char*)malloc(bytes + 1);
  pattern(values, bytes, seed);
  load(device, values, bytes);
  free(values);
}

static inline int holds_pattern(const void* device, size_t bytes, unsigned seed) {
  unsigned char* values = (unsigned char*)malloc(bytes + 1);
  int same;
  pattern(values, bytes, seed);
  same = holds(device, values, bytes);
  free(values);
  return same;
}

static inline void finish(const struct ranked* me) { CUDA_OK(cudaStreamSynchronize(me->stream)); }

/* A communicator beside a rank's own, on which all ranks have met: none of them is within a call on its own any more.
 * What becomes of that one does not touch this one. */
static inline ncclComm_t meet_aside(const struct ranked* me) {
  ncclComm_t aside = NULL;
  int* data = (int*)(void*)take(sizeof(int));
  OK(ncclCommSplit(me->comm, 0, me->rank, &aside, NULL));
  OK(ncclAllReduce(data, data, 1, ncclInt, ncclMax, aside, me->stream));
  finish(me);
  drop(data);
  return aside;
}

/* A GPU for each rank, as far as there are some. */
static inline void use_device(int rank) {
  int devices = 0;
  CUDA_OK(cudaGetDeviceCount(&devices));
  CUDA_OK(cudaSetDevice(rank % devices));
}

/* What the communicator says once that is no longer `passing`, which it has at most half a minute for. */
static inline ncclResult_t said_after(ncclComm_t comm, ncclResult_t passing) {
  const struct timespec pause = {0, 1000000};
  ncclResult_t result = passing;
  int rounds;
  for (rounds = 0; rounds < 30000; ++rounds) {
    OK(ncclCommGetAsyncError(comm, &result));
    if (result != passing) return result;
    nanosleep(&pause, NULL);
  }
  return result;
}

/* How it ended what was in progress; and what it tells of at last. */
static inline ncclResult_t settled(ncclComm_t comm) { return said_after(comm, ncclInProgress); }
static inline ncclResult_t what_comes(ncclComm_t comm) { return said_after(comm, ncclSuccess); }

/* Of all ranks of the communicator, each of which gives `mine`. */
static inline void check_sum(const struct ranked* me, ncclComm_t comm, int mine, int expected) {
  unsigned char* data = take(sizeof mine);
  load(data, &mine, sizeof mine);
  OK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, me->stream));
  finish(me);
  CHECK(holds(data, &expected, sizeof expected));
  drop(data);
}

/* --- cases --- */

struct test_case {
  const char* name;
  void (*body)(struct ranked* me);
};
#define CASE(name) {#name, name}

static inline const struct test_case* find_case(const struct test_case* cases, int count, const char* name) {
  int i;
  for (i = 0; i < count; ++i) {
    if (strcmp(cases[i].name, name) == 0) return &cases[i];
  }
  fprintf(stderr, "there is no case %s\n", name);
  exit(2);
}

struct seat {
  const struct test_case* test;
  struct ranked me;
};

static inline void* run_rank(void* argument) {
  struct seat* seat = (struct seat*)argument;
  struct ranked* me = &seat->me;
  use_device(me->rank);
  CUDA_OK(cudaStreamCreateWithFlags(&me->stream, cudaStreamNonBlocking));
  OK(ncclCommInitRank(&me->comm, me->size, me->id, me->rank));
  seat->test->body(me);
  if (me->comm != NULL) {
    const int ended_well = ncclCommDestroy(me->comm) == ncclSuccess;
    CHECK(me->failed < 0 || ended_well == !me->failed);
  }
  CUDA_OK(cudaStreamDestroy(me->stream));
  return NULL;
}

static inline void run_threads(const struct test_case* test, int size) {
  pthread_t threads[16];
  struct seat seats[16];
  ncclUniqueId id;
  int rank;
  OK(ncclGetUniqueId(&id));
  memset(seats, 0, sizeof seats);
  for (rank = 0; rank < size; ++rank) {
    seats[rank].test = test;
    seats[rank].me.rank = rank;
    seats[rank].me.size = size;
    seats[rank].me.id = id;
    CHECK(pthread_create(&threads[rank], NULL, run_rank, &seats[rank]) == 0);
  }
  for (rank = 0; rank < size; ++rank) CHECK(pthread_join(threads[rank], NULL) == 0);
}

/* Rank 0 writes the id, the others read it once it is whole. */
static inline ncclUniqueId id_by_file(const char* path, int rank) {
  const struct timespec pause = {0, 1000000};
  char draft[4200];
  ncclUniqueId id;
  FILE* file = NULL;
  int rounds;
  if (rank == 0) {
    OK(ncclGetUniqueId(&id));
    snprintf(draft, sizeof draft, "%s.draft", path);
    file = fopen(draft, "wb");
    CHECK(file != NULL && fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
    CHECK(rename(draft, path) == 0);
    return id;
  }
  for (rounds = 0; rounds < 30000 && file == NULL; ++rounds) {
    file = fopen(path, "rb");
    if (file == NULL) nanosleep(&pause, NULL);
  }
  CHECK(file != NULL && fread(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
  return id;
}

static inline int number_in(const char* variable) {
  const char* text = getenv(variable);
  CHECK(text != NULL);
  return atoi(text);
}

static inline void run_process(const struct test_case* test, const char* folder) {
  char path[4096];
  struct seat seat;
  memset(&seat, 0, sizeof seat);
  snprintf(path, sizeof path, "%s.%s", folder, test->name);
  seat.test = test;
  seat.me.rank = number_in("ONSTREAM_RANK");
  seat.me.size = number_in("ONSTREAM_SIZE");
  seat.me.id = id_by_file(path, seat.me.rank);
  run_rank(&seat);
}

static inline int run_cases(int argc, char** argv, const struct test_case* cases, int count) {
  int i;
  CHECK(argc > 3);
  for (i = 3; i < argc; ++i) {
    const struct test_case* test = find_case(cases, count, argv[i]);
    if (strcmp(argv[1], "threads") == 0) {
      run_threads(test, atoi(argv[2]));
    } else if (strcmp(argv[1], "processes") == 0) {
      run_process(test, argv[2]);
    } else {
      struct ranked all;
      memset(&all, 0, sizeof all);
      all.size = atoi(argv[2]);
      test->body(&all);
    }
    printf("passed %s\n", test->name);
    fflush(stdout);
  }
  return 0;
}

#endif
