/* The peer of bench/message.cpp: the same cases over plain MPI, for comparison in the same run.
 *
 * Usage: mpirun -n 2 mpi_peer --samples N CASE...    CASE is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW
 *   ping-pong      MPI_Send and MPI_Recv; a sample is the seconds of one way (half a round trip)
 *   pipelined      rank 0 sends WINDOW messages (MPI_Isend, MPI_Irecv, MPI_Waitall), rank 1 acknowledges the window with
 *                  8 bytes; a sample is the seconds of one message
 *   bidirectional  both ranks send and receive WINDOW messages at once; a sample is the seconds of one message each way
 *   SUBMISSION is always "host": MPI has no other.
 * Rank 0 prints one JSON line a case, the raw samples in it; the statistics are the driver's (python/onstream/bench).
 * As in the OSU benchmarks all messages of a window use one buffer. One untimed sample goes before the timed ones; the
 * data of the last message are compared with the pattern after the timing, and a difference ends the run with status 1.
 */
#include <mpi.h>
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
static unsigned char* outgoing;
static unsigned char* incoming;
static MPI_Request requests[2 * kMaxWindow];

static void die(const char* what, const char* value) {
  fprintf(stderr, "mpi_peer: %s: %s\n", what, value);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static unsigned char pattern(size_t i, int from, size_t bytes) {
  return (unsigned char)(i * 7 + i / 251 + 31 * (size_t)(from + 1) + bytes);
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

static void pipelined(const struct bench_case* c) {
  unsigned char ack[kAckBytes] = {0};
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
      MPI_Recv(ack, kAckBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(ack, kAckBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
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
  if (body == NULL) die("unknown mode", c->mode);

  for (size_t i = 0; i < c->bytes; ++i) outgoing[i] = pattern(i, rank, c->bytes);
  memset(incoming, 0, c->bytes);
  for (int s = -1; s < samples; ++s) { /* -1: the warm-up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    body(c);
    if (s >= 0) seconds[s] = (MPI_Wtime() - start) / messages;
  }

  const int receives = rank == 1 || strcmp(c->mode, "pipelined") != 0;
  for (size_t i = 0; receives && i < c->bytes; ++i) {
    if (incoming[i] != pattern(i, 1 - rank, c->bytes)) die("wrong data received in mode", c->mode);
  }
  if (rank != 0) return;
  printf("{\"mode\":\"%s\",\"submission\":\"host\",\"bytes\":%zu,\"iterations\":%ld,\"window\":%d,\"samples_s\":[", c->mode,
         c->bytes, c->iterations, c->window);
  for (int s = 0; s < samples; ++s) printf("%s%.9e", s ? "," : "", seconds[s]);
  printf("]}\n");
  fflush(stdout);
}

int main(int argc, char** argv) {
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) die("needs 2 ranks", argv[0]);
  if (argc < 4 || strcmp(argv[1], "--samples") != 0) die("usage: mpi_peer --samples N CASE...", argv[0]);
  const int samples = atoi(argv[2]);
  if (samples < 1 || samples > kMaxSamples) die("--samples takes 1 to 1000, not", argv[2]);

  size_t largest = 1;
  for (int a = 3; a < argc; ++a) {
    struct bench_case c;
    parse(argv[a], &c);
    if (c.bytes > largest) largest = c.bytes;
  }
  if (posix_memalign((void**)&outgoing, 4096, largest) != 0 || posix_memalign((void**)&incoming, 4096, largest) != 0) {
    die("no memory for the largest case", argv[0]);
  }
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = '\0';
    printf("{\"library\":\"");
    for (const char* v = version; *v; ++v) {
      if (*v != '"' && *v != '\\') putchar(*v == '\t' ? ' ' : *v);
    }
    printf("\"}\n");
  }
  for (int a = 3; a < argc; ++a) {
    struct bench_case c;
    parse(argv[a], &c);
    run(&c, samples);
  }
  free(outgoing);
  free(incoming);
  MPI_Finalize();
  return 0;
}
