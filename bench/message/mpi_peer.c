// clang-format off: a table
/* The peer of bench/message/message.cpp: the same cases over plain MPI, for comparison in the same run.
 *
 * Usage: mpirun -n N mpi_peer [--memory host|device] --samples N CASE...
 *   CASE is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW
 *   ping-pong      MPI_Send and MPI_Recv; a sample is the seconds of one way (half a round trip)
 *   pipelined      rank 0 sends WINDOW messages (MPI_Isend, MPI_Irecv, MPI_Waitall), rank 1 acknowledges the window with
 *                  8 bytes; a sample is the seconds of one message
 *   bidirectional  both ranks send and receive WINDOW messages at once; a sample is the seconds of one message each way
 *   ring           every rank sends to the next and receives from the last (MPI_Irecv, MPI_Isend, MPI_Waitall),
 *                  ITERATIONS times WINDOW steps; a sample is the seconds of one step. Any number of ranks
 *   SUBMISSION is always "host": MPI has no other.
 * --memory device takes GPU number (local rank) through the driver, which is opened at run time, and passes GPU addresses
 * to MPI; it ends with the reason when the MPI library says that it is not CUDA-aware.
 * Rank 0 prints one JSON line a case, the raw samples in it; the statistics are the driver's (python/onstream/bench).
 * As in the OSU benchmarks all messages of a window use one buffer. One untimed sample goes before the timed ones; the
 * data of the last message are compared with the pattern after the timing, and a difference ends the run with status 1.
 */
// clang-format on
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxWindow = 1024, kMaxSamples = 1000, kAckBytes = 8 };

struct bench_case {
  char mode[32];
  char submission[32];
  size_t bytes;
  long iterations;
  int window;
};

static int rank;
static int size;
static unsigned char* outgoing;
static unsigned char* incoming;
static unsigned char* acknowledgement;
static MPI_Request requests[2 * kMaxWindow];

/* The CUDA driver's few calls. */
static int on_gpu;
static int (*copy_to_gpu)(uintptr_t, const void*, size_t);
static int (*copy_from_gpu)(void*, uintptr_t, size_t);
static int (*allocate_on_gpu)(uintptr_t*, size_t);

static void die(const char* what, const char* value) {
  fprintf(stderr, "mpi_peer: %s: %s\n", what, value);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static unsigned char pattern(size_t i, int from, size_t bytes) {
  return (unsigned char)(i * 7 + i / 251 + 31 * (size_t)(from + 1) + bytes);
}

static void* driver_function(void* driver, const char* name) {
  void* found = dlsym(driver, name);
  if (found == NULL) die("libcuda.so.1 has no function", name);
  return found;
}

static int cuda_aware(void) {
  int (*open_mpi)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  if (open_mpi != NULL) return open_mpi();
  int (*mpich)(int, int*) = (int (*)(int, int*))dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
  int supported = 0; /* of kind 0, CUDA */
  return mpich != NULL && mpich(0, &supported) == MPI_SUCCESS && supported;
}

static void open_gpu(int local_rank) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) die("no NVIDIA driver", dlerror());
  int (*init)(unsigned) = (int (*)(unsigned))driver_function(driver, "cuInit");
  int (*count_gpus)(int*) = (int (*)(int*))driver_function(driver, "cuDeviceGetCount");
  int (*get)(int*, int) = (int (*)(int*, int))driver_function(driver, "cuDeviceGet");
  int (*retain)(void**, int) = (int (*)(void**, int))driver_function(driver, "cuDevicePrimaryCtxRetain");
  int (*make_current)(void*) = (int (*)(void*))driver_function(driver, "cuCtxSetCurrent");
  copy_to_gpu = (int (*)(uintptr_t, const void*, size_t))driver_function(driver, "cuMemcpyHtoD_v2");
  copy_from_gpu = (int (*)(void*, uintptr_t, size_t))driver_function(driver, "cuMemcpyDtoH_v2");
  allocate_on_gpu = (int (*)(uintptr_t*, size_t))driver_function(driver, "cuMemAlloc_v2");
  int gpus = 0;
  int device = 0;
  void* context = NULL;
  if (init(0) != 0 || count_gpus(&gpus) != 0 || gpus == 0) die("the driver has no GPU for", "--memory device");
  if (get(&device, local_rank % gpus) != 0 || retain(&context, device) != 0 || make_current(context) != 0) {
    die("the GPU cannot be opened", "--memory device");
  }
}

static unsigned char* allocate(size_t bytes) {
  void* memory = NULL;
  uintptr_t address = 0;
  const int failed = on_gpu ? allocate_on_gpu(&address, bytes) : posix_memalign(&memory, 4096, bytes);
  if (failed) die("no memory for", "the largest case");
  return on_gpu ? (unsigned char*)address : (unsigned char*)memory;
}

static void put(unsigned char* destination, const unsigned char* values, size_t bytes) {
  if (!on_gpu) {
    memcpy(destination, values, bytes);
  } else if (copy_to_gpu((uintptr_t)destination, values, bytes) != 0) {
    die("copying to the GPU failed", "cuMemcpyHtoD");
  }
}

static void get(unsigned char* values, const unsigned char* source, size_t bytes) {
  if (!on_gpu) {
    memcpy(values, source, bytes);
  } else if (copy_from_gpu(values, (uintptr_t)source, bytes) != 0) {
    die("copying from the GPU failed", "cuMemcpyDtoH");
  }
}

static void ping_pong(const struct bench_case* c) {
  const int n = (int)c->bytes;
  for (long i = 0; i < c->iterations; ++i) {
    if (rank == 0) {
      MPI_Send(outgoing, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(incoming, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(incoming, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(outgoing, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
  }
}

static void ring(const struct bench_case* c) {
  const int n = (int)c->bytes;
  const int next = (rank + 1) % size;
  const int last = (rank + size - 1) % size;
  for (long i = 0; i < c->iterations * c->window; ++i) {
    MPI_Irecv(incoming, n, MPI_BYTE, last, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(outgoing, n, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

static void pipelined(const struct bench_case* c) {
  const int n = (int)c->bytes;
  for (long i = 0; i < c->iterations; ++i) {
    for (int w = 0; w < c->window; ++w) {
      if (rank == 0) {
        MPI_Isend(outgoing, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[w]);
      } else {
        MPI_Irecv(incoming, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[w]);
      }
    }
    MPI_Waitall(c->window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
      MPI_Recv(acknowledgement, kAckBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(acknowledgement, kAckBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
  }
}

static void bidirectional(const struct bench_case* c) {
  const int n = (int)c->bytes;
  const int peer = 1 - rank;
  for (long i = 0; i < c->iterations; ++i) {
    for (int w = 0; w < c->window; ++w) MPI_Irecv(incoming, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[w]);
    for (int w = 0; w < c->window; ++w) {
      MPI_Isend(outgoing, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[c->window + w]);
    }
    MPI_Waitall(2 * c->window, requests, MPI_STATUSES_IGNORE);
  }
}

static void parse(const char* text, struct bench_case* c) {
  if (sscanf(text, "%31[^:]:%31[^:]:%zu:%ld:%d", c->mode, c->submission, &c->bytes, &c->iterations, &c->window) != 5) {
    die("a case is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW, not", text);
  }
  if (strcmp(c->submission, "host") != 0) die("MPI has only the submission host, not", text);
  if (c->iterations < 1 || c->window < 1 || c->window > kMaxWindow || c->bytes > 0x7fffffff) die("out of range", text);
}

static void run(const struct bench_case* c, int samples) {
  double seconds[kMaxSamples];
  void (*body)(const struct bench_case*) = NULL;
  double messages = (double)c->iterations * c->window;
  if (strcmp(c->mode, "ping-pong") == 0) {
    body = ping_pong;
    messages = 2.0 * (double)c->iterations;
  }
  if (strcmp(c->mode, "pipelined") == 0) body = pipelined;
  if (strcmp(c->mode, "bidirectional") == 0) body = bidirectional;
  if (strcmp(c->mode, "ring") == 0) body = ring;
  if (body == NULL) die("unknown mode", c->mode);
  if (body != ring && size != 2) die("needs 2 ranks: mode", c->mode);

  unsigned char* values = malloc(c->bytes + 1);
  if (values == NULL) die("no memory for", "the largest case");
  for (size_t i = 0; i < c->bytes; ++i) values[i] = pattern(i, rank, c->bytes);
  put(outgoing, values, c->bytes);
  memset(values, 0, c->bytes);
  put(incoming, values, c->bytes);
  for (int s = -1; s < samples; ++s) { /* -1: the warm-up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    body(c);
    if (s >= 0) seconds[s] = (MPI_Wtime() - start) / messages;
  }

  const int receives = rank == 1 || strcmp(c->mode, "pipelined") != 0;
  const int from = body == ring ? (rank + size - 1) % size : 1 - rank;
  get(values, incoming, c->bytes);
  for (size_t i = 0; receives && i < c->bytes; ++i) {
    if (values[i] != pattern(i, from, c->bytes)) die("wrong data received in mode", c->mode);
  }
  free(values);
  if (rank != 0) return;
  printf("{\"mode\":\"%s\",\"submission\":\"host\",\"bytes\":%zu,\"iterations\":%ld,\"window\":%d,\"samples_s\":[",
         c->mode, c->bytes, c->iterations, c->window);
  for (int s = 0; s < samples; ++s) printf("%s%.9e", s ? "," : "", seconds[s]);
  printf("]}\n");
  fflush(stdout);
}

static void print_heading(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n")] = '\0';
  printf("{\"library\":\"");
  for (const char* v = version; *v; ++v) {
    if (*v != '"' && *v != '\\') putchar(*v == '\t' ? ' ' : *v);
  }
  printf("\",\"ranks\":%d,\"memory\":\"%s\"}\n", size, on_gpu ? "device" : "host");
}

int main(int argc, char** argv) {
  const char* memory = "host";
  int samples = 0;
  int a = 1;
  for (; a + 1 < argc && strncmp(argv[a], "--", 2) == 0; a += 2) {
    if (strcmp(argv[a], "--memory") == 0) memory = argv[a + 1];
    if (strcmp(argv[a], "--samples") == 0) samples = atoi(argv[a + 1]);
  }
  on_gpu = strcmp(memory, "device") == 0;
  if (on_gpu) { /* before MPI_Init, which looks for a context */
    const char* names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK"};
    int number = 0;
    for (int i = 2; i >= 0; --i) {
      if (getenv(names[i]) != NULL) number = atoi(getenv(names[i]));
    }
    open_gpu(number);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) die("needs 2 ranks", argv[0]);
  if (samples < 1 || samples > kMaxSamples) die("--samples takes 1 to 1000", argv[0]);
  if (a >= argc) die("usage: mpi_peer [--memory host|device] --samples N CASE...", argv[0]);
  if (on_gpu && !cuda_aware()) die("this MPI library says that it is not CUDA-aware", "--memory device");

  size_t largest = kAckBytes;
  for (int i = a; i < argc; ++i) {
    struct bench_case c;
    parse(argv[i], &c);
    if (c.bytes > largest) largest = c.bytes;
  }
  outgoing = allocate(largest);
  incoming = allocate(largest);
  acknowledgement = allocate(kAckBytes);
  if (rank == 0) print_heading();
  for (; a < argc; ++a) {
    struct bench_case c;
    parse(argv[a], &c);
    run(&c, samples);
  }
  MPI_Finalize();
  return 0; /* the system takes the buffers */
}
