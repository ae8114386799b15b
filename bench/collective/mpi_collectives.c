/* The peer of bench/collective/collective.cpp: the same cases over plain MPI, for comparison in the same run.
 *
 * Usage: mpirun -n N mpi_collectives --samples N CASE...
 *   CASE is KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW; SUBMISSION is always "host", OP is sum
 * Host memory. Rank 0 prints one JSON line a case, the raw samples in it; the statistics are the driver's
 * (python/onstream/bench). One untimed sample goes before the timed ones. Before the timing each result is compared
 * with the expected one, as in bench/collective/collective.cpp: of sums that of small whole numbers, of moves the
 * sender's pattern. The wrong elements of all ranks are counted; of a barrier nothing is looked at ("checked": false).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxSamples = 1000, kLl128st = 8 };

/* A part's elements repeat after a prime number of them, so that misplaced elements show. */
static const size_t kPeriod = 1000003;

struct bench_case {
  char kind[32];
  char type[32];
  char op[16];
  char submission[16];
  size_t bytes;
  long iterations;
  long window;
};

static int rank;
static int size;
static unsigned char* input;
static unsigned char* output;
static unsigned char* period; /* of one part */

static void die(const char* what, const char* value) {
  fprintf(stderr, "mpi_collectives: %s: %s\n", what, value);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static const char* const kDivided[] = {"all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"};

static int is_divided(const char* kind) {
  for (size_t i = 0; i < sizeof kDivided / sizeof *kDivided; ++i) {
    if (strcmp(kind, kDivided[i]) == 0) return 1;
  }
  return 0;
}

static MPI_Datatype type_of(const char* name) {
  if (strcmp(name, "float32") == 0) return MPI_FLOAT;
  if (strcmp(name, "float64") == 0) return MPI_DOUBLE;
  if (strcmp(name, "int32") == 0) return MPI_INT32_T;
  if (strcmp(name, "int64") == 0) return MPI_INT64_T;
  if (strcmp(name, "uint8") == 0) return MPI_UINT8_T;
  die("there is no MPI type here for", name);
  return MPI_BYTE;
}

static int count_of(const struct bench_case* c) {
  int element = 1;
  MPI_Type_size(type_of(c->type), &element);
  const size_t elements = c->bytes / (size_t)element;
  return (int)(is_divided(c->kind) ? elements / (size_t)size : elements);
}

static void run_one(const struct bench_case* c, int count, MPI_Datatype type) {
  const MPI_Comm all = MPI_COMM_WORLD;
  if (strcmp(c->kind, "all_reduce") == 0) {
    MPI_Allreduce(input, output, count, type, MPI_SUM, all);
  } else if (strcmp(c->kind, "reduce") == 0) {
    MPI_Reduce(input, output, count, type, MPI_SUM, 0, all);
  } else if (strcmp(c->kind, "broadcast") == 0) {
    MPI_Bcast(rank == 0 ? input : output, count, type, 0, all);
  } else if (strcmp(c->kind, "all_gather") == 0) {
    MPI_Allgather(input, count, type, output, count, type, all);
  } else if (strcmp(c->kind, "reduce_scatter") == 0) {
    MPI_Reduce_scatter_block(input, output, count, type, MPI_SUM, all);
  } else if (strcmp(c->kind, "gather") == 0) {
    MPI_Gather(input, count, type, output, count, type, 0, all);
  } else if (strcmp(c->kind, "scatter") == 0) {
    MPI_Scatter(input, count, type, output, count, type, 0, all);
  } else if (strcmp(c->kind, "all_to_all") == 0) {
    MPI_Alltoall(input, count, type, output, count, type, all);
  } else if (strcmp(c->kind, "scan") == 0) {
    MPI_Scan(input, output, count, type, MPI_SUM, all);
  } else if (strcmp(c->kind, "barrier") == 0) {
    MPI_Barrier(all);
  } else {
    die("there is no collective", c->kind);
  }
}

static void parse(const char* text, struct bench_case* c) {
  if (sscanf(text, "%31[^:]:%31[^:]:%15[^:]:%15[^:]:%zu:%ld:%ld", c->kind, c->type, c->op, c->submission, &c->bytes,
             &c->iterations, &c->window) != 7) {
    die("a case is KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW, not", text);
  }
  if (strcmp(c->submission, "host") != 0) die("MPI has only the submission host, not", text);
  if (strcmp(c->op, "sum") != 0) die("this program has only sums, not", text);
  if (c->iterations < 1 || c->window < 1 || c->bytes > 0x7fffffff) die("out of range", text);
}

static int is(const struct bench_case* c, const char* kind) { return strcmp(c->kind, kind) == 0; }

static int adds(const struct bench_case* c) {
  return is(c, "all_reduce") || is(c, "reduce") || is(c, "reduce_scatter") || is(c, "scan");
}

/* Whether parts of a rank's data go to different ranks. */
static int sends_parts(const struct bench_case* c) {
  return is(c, "reduce_scatter") || is(c, "all_to_all") || is(c, "scatter");
}

/* Element i of part `to` of rank `from`: 0 or 1. */
static int value(int from, int to, size_t i) { return (int)((i * 7 + i / 13 + (size_t)from * 3 + (size_t)to * 5) % 2); }

static void put(unsigned char* at, const char* type, int number) {
  if (strcmp(type, "float32") == 0) {
    const float one = (float)number;
    memcpy(at, &one, sizeof one);
  } else if (strcmp(type, "float64") == 0) {
    const double one = number;
    memcpy(at, &one, sizeof one);
  } else if (strcmp(type, "int64") == 0) {
    const int64_t one = number;
    memcpy(at, &one, sizeof one);
  } else if (strcmp(type, "int32") == 0) {
    const int32_t one = number;
    memcpy(at, &one, sizeof one);
  } else {
    *at = (unsigned char)number;
  }
}

/* Makes the period of part `to`: the sum of the elements of ranks `from` to `last`. */
static void make_period(const struct bench_case* c, size_t count, size_t element, int from, int last, int to) {
  for (size_t i = 0; i < count && i < kPeriod; ++i) {
    int sum = 0;
    for (int r = from; r <= last; ++r) sum += value(r, to, i);
    put(period + i * element, c->type, sum);
  }
}

static long differing(const unsigned char* at, size_t count, size_t element) {
  long wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    wrong += memcmp(at + i * element, period + i % kPeriod * element, element) != 0;
  }
  return wrong;
}
static void fill(unsigned char* at, size_t count, size_t element) {
  for (size_t i = 0; i < count; i += kPeriod) {
    const size_t some = count - i < kPeriod ? count - i : kPeriod;
    memcpy(at + i * element, period, some * element);
  }
}

/* The wrong elements of this rank's result. */
static long wrong_here(const struct bench_case* c, size_t count, size_t element) {
  if (rank != 0 && (is(c, "reduce") || is(c, "gather"))) return 0;
  if (rank == 0 && is(c, "broadcast")) return 0; /* its own */
  const int part = sends_parts(c) ? rank : 0;
  if (adds(c)) {
    make_period(c, count, element, 0, is(c, "scan") ? rank : size - 1, part);
    return differing(output, count, element);
  }
  const int senders = is(c, "broadcast") || is(c, "scatter") ? 1 : size;
  long wrong = 0;
  for (int from = 0; from < senders; ++from) {
    make_period(c, count, element, from, from, part);
    wrong += differing(output + (size_t)from * count * element, count, element);
  }
  return wrong;
}

/* Runs it once. For rank 0: the wrong elements of all ranks; -1: nothing is looked at. */
static long wrong_of(const struct bench_case* c, int count, MPI_Datatype type) {
  if (is(c, "barrier") || count == 0) return -1;
  int element = 1;
  MPI_Type_size(type, &element);
  const size_t part = (size_t)count * (size_t)element;
  for (int to = 0; to < (sends_parts(c) ? size : 1); ++to) {
    make_period(c, (size_t)count, (size_t)element, rank, rank, to);
    fill(input + (size_t)to * part, (size_t)count, (size_t)element);
  }
  memset(output, 0xff, c->bytes); /* no element's */
  run_one(c, count, type);
  const long mine = wrong_here(c, (size_t)count, (size_t)element);
  long all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  return all;
}

static void run(const struct bench_case* c, int samples) {
  double seconds[kMaxSamples];
  const int count = count_of(c);
  const MPI_Datatype type = type_of(c->type);
  const long wrong = wrong_of(c, count, type);
  memset(input, 0, c->bytes);          /* sums that never overflow */
  for (int s = -1; s < samples; ++s) { /* -1: the warm-up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long i = 0; i < c->iterations * c->window; ++i) run_one(c, count, type);
    if (s >= 0) seconds[s] = (MPI_Wtime() - start) / (double)(c->iterations * c->window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) return;
  const double factor = strcmp(c->kind, "all_reduce") == 0 ? 2.0 * (size - 1) / size
                        : is_divided(c->kind)              ? (double)(size - 1) / size
                                                           : 1.0;
  printf(
      "{\"case\":\"%s:%s:%s:host:%zu:%ld:%ld\",\"bus_factor\":%g,\"wrong\":%ld,\"checked\":%s,\"how\":\"\",\"samples_"
      "s\":[",
      c->kind, c->type, c->op, c->bytes, c->iterations, c->window, factor, wrong < 0 ? 0 : wrong,
      wrong < 0 ? "false" : "true");
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
  printf("\",\"ranks\":%d,\"memory\":\"host\"}\n", size);
}

int main(int argc, char** argv) {
  int samples = 0;
  int a = 1;
  for (; a + 1 < argc && strncmp(argv[a], "--", 2) == 0; a += 2) {
    if (strcmp(argv[a], "--samples") == 0) samples = atoi(argv[a + 1]);
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (samples < 1 || samples > kMaxSamples) die("--samples takes 1 to 1000", argv[0]);
  if (a >= argc) die("usage: mpi_collectives --samples N CASE...", argv[0]);
  size_t largest = 8;
  for (int i = a; i < argc; ++i) {
    struct bench_case c;
    parse(argv[i], &c);
    if (c.bytes > largest) largest = c.bytes;
  }
  void* memory[3];
  for (int i = 0; i < 3; ++i) {
    if (posix_memalign(&memory[i], 4096, i < 2 ? largest : kPeriod * kLl128st) != 0) die("no memory for", "a buffer");
  }
  input = memory[0];
  output = memory[1];
  period = memory[2];
  if (rank == 0) print_heading();
  for (; a < argc; ++a) {
    struct bench_case c;
    parse(argv[a], &c);
    run(&c, samples);
  }
  MPI_Finalize();
  return 0; /* the system takes the buffers */
}
