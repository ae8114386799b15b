/* Measures the gain of posting together: 64 prepared sends, then puts, of 8 bytes, posted one by one and by one call.
 *
 * Usage: mpiexec -n 2 libmp_post     compiled as docs/libmp.md says
 * Rank 0 prints, for each way, the best and the median over the rounds of the time from the first post until the stream
 * has finished, for each op. Eager; the receives are posted before.
 */
#include <mp.h>
#include <stdio.h>

enum { kOps = 64, kBytes = 8, kStride = 64, kRounds = 401, kPeer = 1 };
enum way { kSendsEach, kSendsTogether, kPutsEach, kPutsTogether, kWays };
static const char* const kNames[] = {"sends one by one", "sends together", "puts one by one", "puts together"};

static int rank;
static unsigned char* buffer;
static mp_reg_t reg;
static mp_window_t window;
static mp_request_t requests[kOps];
static cudaStream_t stream;

static void must(int status, const char* what) {
  if (status == 0) return;
  fprintf(stderr, "libmp_post: %s failed with %d\n", what, status);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void prepare(enum way way) {
  const int puts = way == kPutsEach || way == kPutsTogether;
  for (int i = 0; i < kOps; ++i) {
    unsigned char* mine = buffer + i * kStride;
    const size_t place = (size_t)i * kStride;
    if (rank == kPeer && !puts) must(mp_irecv(mine, kBytes, 0, &reg, &requests[i]), "mp_irecv");
    if (rank == kPeer) continue;
    if (puts) must(mp_put_prepare(mine, kBytes, &reg, kPeer, place, &window, &requests[i], 0), "mp_put_prepare");
    if (!puts) must(mp_send_prepare(mine, kBytes, kPeer, &reg, &requests[i]), "mp_send_prepare");
  }
}

static void post(enum way way) {
  for (int i = 0; i < kOps && way == kSendsEach; ++i) must(mp_isend_post_on_stream(&requests[i], stream), "post");
  for (int i = 0; i < kOps && way == kPutsEach; ++i) must(mp_iput_post_on_stream(&requests[i], stream), "post");
  if (way == kSendsTogether) must(mp_isend_post_all_on_stream(kOps, requests, stream), "post all");
  if (way == kPutsTogether) must(mp_iput_post_all_on_stream(kOps, requests, stream), "post all");
}

static int by_value(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static void measure(enum way way) {
  static double seconds[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    prepare(way);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      const double start = MPI_Wtime();
      post(way);
      must((int)cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      seconds[round] = (MPI_Wtime() - start) / kOps;
    }
    if (rank == 0 || way == kSendsEach || way == kSendsTogether) must(mp_wait_all(kOps, requests), "mp_wait_all");
  }
  qsort(seconds, kRounds, sizeof seconds[0], by_value);
  if (rank == 0) {
    printf("%d %s: best %.0f, median %.0f ns an op\n", kOps, kNames[way], seconds[0] * 1e9, seconds[kRounds / 2] * 1e9);
  }
}

int main(int argc, char** argv) {
  int peer;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  {
    int devices = 0;
    must((int)cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    must((int)cudaSetDevice(rank % devices), "cudaSetDevice");
  }
  must(mp_init(MPI_COMM_WORLD, &peer, 1, MP_INIT_DEFAULT, 0), "mp_init");
  must((int)cudaMalloc((void**)&buffer, kOps * kStride), "cudaMalloc");
  must((int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  must(mp_register(buffer, kOps * kStride, &reg), "mp_register");
  must(mp_window_create(buffer, kOps * kStride, &window), "mp_window_create");
  for (int way = 0; way < kWays; ++way) measure((enum way)way);
  must(mp_window_destroy(&window), "mp_window_destroy");
  must(mp_deregister(&reg), "mp_deregister");
  mp_finalize();
  MPI_Finalize();
  return 0;
}
