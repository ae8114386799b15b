/* For the test programs of libmp's interface: named cases over MPI ranks, memory of every kind, checks that say where.
 *
 * mpiexec -n N PROGRAM CASE runs one case on N ranks. A check that fails ends the job with status 1.
 */
#ifndef ONSTREAM_TESTS_LIBMP_H
#define ONSTREAM_TESTS_LIBMP_H

#include <errno.h>
#include <mp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank, size;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "rank %d: %s:%d: %s does not hold\n", rank, __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == MP_SUCCESS)
#define FAILS(call) CHECK((call) == MP_FAILURE)
#define INVALID(call) CHECK((call) == EINVAL)
#define CUDA_OK(call) CHECK((call) == cudaSuccess)

enum { DEVICE, PINNED, PLAIN, KINDS };
enum { PAGE = 4096 }; /* plain memory that windows lie in has pages of its own: docs/libmp.md */

/* Registered memory of a kind, filled with `value`. */
struct buffer {
  int kind;
  size_t bytes;
  unsigned char* data;
  mp_reg_t reg;
};

static inline void fill_first(const struct buffer* b, int value, size_t bytes) {
  if (b->kind == DEVICE) {
    CUDA_OK(cudaMemset(b->data, value, bytes));
    CUDA_OK(cudaDeviceSynchronize());
  } else {
    memset(b->data, value, bytes);
  }
}
static inline void fill(const struct buffer* b, int value) { fill_first(b, value, b->bytes); }

struct filling {
  unsigned char* data;
  int value;
  size_t bytes;
};
static inline void fill_in_turn(void* argument) {
  struct filling* f = (struct filling*)argument;
  memset(f->data, f->value, f->bytes);
  free(f);
}

/* In the stream's order; plain memory by the CPU. */
static inline void fill_on_stream(const struct buffer* b, int value, size_t bytes, cudaStream_t stream) {
  if (b->kind == PLAIN) {
    struct filling* f = (struct filling*)malloc(sizeof *f);
    f->data = b->data;
    f->value = value;
    f->bytes = bytes;
    CUDA_OK(cudaLaunchHostFunc(stream, fill_in_turn, f));
  } else {
    CUDA_OK(cudaMemsetAsync(b->data, value, bytes, stream));
  }
}

static inline struct buffer take(int kind, size_t bytes, int value) {
  struct buffer b;
  b.kind = kind;
  b.bytes = bytes;
  b.data = NULL;
  if (kind == DEVICE) CUDA_OK(cudaMalloc((void**)&b.data, bytes));
  if (kind == PINNED) CUDA_OK(cudaMallocHost((void**)&b.data, bytes));
  if (kind == PLAIN) b.data = (unsigned char*)aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
  CHECK(b.data != NULL);
  fill(&b, value);
  OK(mp_register(b.data, bytes, &b.reg));
  return b;
}

static inline void drop(struct buffer* b) {
  OK(mp_deregister(&b->reg));
  CHECK(b->reg == NULL);
  if (b->kind == DEVICE) CUDA_OK(cudaFree(b->data));
  if (b->kind == PINNED) CUDA_OK(cudaFreeHost(b->data));
  if (b->kind == PLAIN) free(b->data);
}

/* Plain memory of whole pages, that of its own, goes; and comes back at its place, filled with `value`. */
static inline void unmap(const struct buffer* b) { CHECK(b->kind == PLAIN && munmap(b->data, b->bytes) == 0); }
static inline void map_again(const struct buffer* b, int value) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  CHECK(mmap(b->data, b->bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == (void*)b->data);
  fill(b, value);
}

static inline void write_bytes(const struct buffer* b, size_t offset, const void* values, size_t bytes) {
  CUDA_OK(cudaMemcpy(b->data + offset, values, bytes, cudaMemcpyDefault));
  CUDA_OK(cudaStreamSynchronize(NULL)); /* the bytes are there */
}

/* The byte at an offset. */
static inline int at(const struct buffer* b, size_t offset) {
  unsigned char value = 0;
  CUDA_OK(cudaMemcpy(&value, b->data + offset, 1, cudaMemcpyDefault));
  return value;
}

static inline int all_are(const struct buffer* b, size_t offset, size_t bytes, int value) {
  size_t i;
  int same = 1;
  unsigned char* copy = (unsigned char*)malloc(bytes + 1);
  CUDA_OK(cudaMemcpy(copy, b->data + offset, bytes, cudaMemcpyDefault));
  for (i = 0; i < bytes; ++i) same = same && copy[i] == (unsigned char)value;
  free(copy);
  return same;
}

static inline cudaStream_t new_stream(void) {
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static inline void barrier(void) { CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS); }

/* mp_init with every rank, itself too, as a peer. */
static inline void start(void) {
  int i;
  int* peers = (int*)malloc(sizeof(int) * (size_t)size);
  for (i = 0; i < size; ++i) peers[i] = i;
  OK(mp_init(MPI_COMM_WORLD, peers, size, MP_INIT_DEFAULT, 0));
  free(peers);
}

/* A byte goes from rank 0 to rank 1. */
static inline void send_one(const struct buffer* b) {
  mp_request_t request;
  mp_reg_t reg = b->reg;
  if (rank == 0) OK(mp_isend(b->data, 1, 1, &reg, &request));
  if (rank == 1) OK(mp_irecv(b->data, 1, 0, &reg, &request));
  if (rank < 2) OK(mp_wait(&request));
}

struct test_case {
  const char* name;
  void (*body)(void);
};

static inline int run_case(int argc, char** argv, const struct test_case* cases, int count) {
  int i;
  CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (i = 0; i < count; ++i) {
    int devices = 0;
    if (argc < 2 || strcmp(cases[i].name, argv[1]) != 0) continue;
    CUDA_OK(cudaGetDeviceCount(&devices));
    CUDA_OK(cudaSetDevice(rank % devices));
    start();
    cases[i].body();
    barrier();
    mp_finalize();
    MPI_Finalize();
    if (rank == 0) printf("passed %s\n", argv[1]);
    return 0;
  }
  fprintf(stderr, "there is no case %s\n", argc < 2 ? "" : argv[1]);
  return 2;
}

#endif
