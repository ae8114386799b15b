// clang-format off: a table
/* The peer of one_sided.cpp beside it: the same host cases over MPI's one-sided calls, for comparison in the same run.
 *
 * Usage: mpirun -n 2 mpi_one_sided --samples N --rounds N BYTES...
 *   host-put-quiet   rank 0: MPI_Put and MPI_Win_flush; rank 1 does nothing. A sample is the seconds of one put
 *   host-put-signal  ping-pong: MPI_Put, MPI_Win_flush, then the flag by MPI_Accumulate (MPI_REPLACE) and MPI_Win_flush;
 *                    the target polls the flag in its window (MPI_Win_sync, MPI_Fetch_and_op on itself). A sample is the
 *                    seconds of one way
 * Memory is of MPI_Win_allocate, all ranks of one host, locked for all. Rank 0 prints one JSON line a case.
 */
// clang-format on
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHead = 256, kMaxSamples = 1000 };

static int rank;
static MPI_Win window;
static unsigned char* memory;

static void die(const char* what, const char* value) {
  fprintf(stderr, "mpi_one_sided: %s: %s\n", what, value);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static void put_quiet(const unsigned char* source, int bytes) {
  MPI_Put(source, bytes, MPI_BYTE, 1 - rank, kHead, bytes, MPI_BYTE, window);
  MPI_Win_flush(1 - rank, window);
}

static void put_signal(const unsigned char* source, int bytes, int64_t number) {
  put_quiet(source, bytes);
  MPI_Accumulate(&number, 1, MPI_INT64_T, 1 - rank, 0, 1, MPI_INT64_T, MPI_REPLACE, window);
  MPI_Win_flush(1 - rank, window);
}

static void wait_for(int64_t number) {
  int64_t none = 0;
  int64_t seen = 0;
  do {
    MPI_Fetch_and_op(&none, &seen, MPI_INT64_T, rank, 0, MPI_NO_OP, window);
    MPI_Win_flush(rank, window);
  } while (seen != number);
  MPI_Win_sync(window);
}

static void report(const char* name, int bytes, long ops, const double* samples, int count) {
  if (rank != 0) return;
  printf("{\"case\":\"%s\",\"submission\":\"host\",\"bytes\":%d,\"ops\":%ld,\"samples_s\":[", name, bytes, ops);
  for (int s = 0; s < count; ++s) printf("%s%.9e", s == 0 ? "" : ",", samples[s]);
  printf("]}\n");
  fflush(stdout);
}

static void run_put_quiet(const unsigned char* source, int bytes, long rounds, int count) {
  double samples[kMaxSamples];
  for (int s = -1; s < count; ++s) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long i = 0; rank == 0 && i < rounds; ++i) put_quiet(source, bytes);
    if (s >= 0) samples[s] = (MPI_Wtime() - start) / (double)rounds;
  }
  report("host-put-quiet", bytes, rounds, samples, count);
}

static void run_put_signal(const unsigned char* source, int bytes, long rounds, int count, int64_t* number) {
  double samples[kMaxSamples];
  for (int s = -1; s < count; ++s) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long i = 0; i < rounds; ++i) {
      ++*number;
      if (rank == 0) put_signal(source, bytes, *number);
      wait_for(*number);
      if (rank == 1) put_signal(source, bytes, *number);
    }
    if (s >= 0) samples[s] = (MPI_Wtime() - start) / (double)(2 * rounds);
  }
  report("host-put-signal", bytes, 2 * rounds, samples, count);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) die("wants 2 ranks, not", argc > 0 ? argv[0] : "");
  if (argc < 6 || strcmp(argv[1], "--samples") != 0 || strcmp(argv[3], "--rounds") != 0) {
    die("usage", "--samples N --rounds N BYTES...");
  }
  const int count = atoi(argv[2]);
  const long rounds = atol(argv[4]);
  if (count < 1 || count > kMaxSamples) die("--samples", argv[2]);
  if (rounds < 1) die("--rounds", argv[4]);
  int largest = 8;
  for (int i = 5; i < argc; ++i) largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
  unsigned char* source = malloc((size_t)largest);
  memset(source, 42, (size_t)largest);
  MPI_Win_allocate((MPI_Aint)largest + kHead, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (size_t)largest + kHead);
  MPI_Win_lock_all(0, window);
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {0};
    int length = 0;
    MPI_Get_library_version(version, &length);
    for (char* letter = version; *letter != 0; ++letter) {
      if (*letter == '"' || *letter == '\\' || *letter < ' ') *letter = ' ';
    }
    printf("{\"library\":\"%s\"}\n", version);
  }
  int64_t number = 0;
  for (int i = 5; i < argc; ++i) {
    const int bytes = atoi(argv[i]);
    run_put_quiet(source, bytes, rounds, count);
    run_put_signal(source, bytes, rounds, count, &number);
    if (memory[kHead] != 42 || memory[kHead + bytes - 1] != 42) die("wrong data behind", "the last put");
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
