/* upc_memget of 8 KiB of a thread's device memory while that thread multiplies matrices: seconds of one.
 *
 *   idle-memget onstream   the target waits in a barrier
 *   busy-memget onstream   the target multiplies, and makes no call until it is told to stop
 *   busy-memget naive      the target must take part: after each product it copies the data into shared host memory and
 *                          comes to a barrier
 *
 * Where the target's memory is not reached directly (ONSTREAM_PATH=stage), its helper thread serves the first two.
 * `onstream bench upc` compiles and starts this, for both paths. */
#include "upc_bench.h"

static const char program[] = "upc_busy";
enum { BYTES = 8192, AT_MOST_S = 60 };

static upc_ptr_t words, temporary, data; /* of every thread: told to stop; in host memory; in device memory */
static double *a, *b, *c;                /* in device memory */
static struct options options;
static double samples[MAX_SAMPLES];
static char got[BYTES];

static double* matrix(void) {
  const size_t bytes = sizeof(double) * (size_t)options.size * (size_t)options.size;
  upc_ptr_t made = some(program, upc_alloc(bytes));
  upc_memset(made, 0, bytes);
  return upc_cast(made);
}

static void product(void) { multiply(program, c, a, b, options.size, options.size); }

static char value_at(size_t i) { return (char)((i * 29 + 3) & 0x7f); }

static void check(const char* name) {
  for (size_t i = 0; MYTHREAD == 0 && i < BYTES; ++i) {
    if (got[i] != value_at(i)) die(program, "wrong data behind", name);
  }
  memset(got, 0, BYTES);
}

static void multiply_until_told(void) {
  volatile int* const stop = upc_cast(at_thread(words, MYTHREAD));
  const double end = now_s() + AT_MOST_S;
  while (*stop == 0) {
    product();
    if (now_s() > end) die(program, "the target was not told to stop", "in time");
  }
}

static void get_alone(int busy) {
  upc_barrier();
  if (MYTHREAD == 0) {
    const int rounds = rounds_of(&options, 500), one = 1;
    for (int s = -1; s < options.samples; ++s) { /* the first is not counted */
      const double start = now_s();
      for (int i = 0; i < rounds; ++i) upc_memget(got, at_thread(data, 1), BYTES);
      if (s >= 0) samples[s] = (now_s() - start) / rounds;
    }
    if (busy) upc_memput(at_thread(words, 1), &one, sizeof one);
  } else if (busy) {
    multiply_until_told();
  }
  const char* const name = busy ? "busy-memget" : "idle-memget";
  check(name);
  report(name, "onstream", BYTES, samples, options.samples);
}

static void get_together(void) {
  const int rounds = rounds_of(&options, 10);
  void* const own = upc_cast(at_thread(temporary, MYTHREAD));
  for (int s = -1; s < options.samples; ++s) {
    upc_barrier();
    const double start = now_s();
    for (int i = 0; i < rounds; ++i) {
      if (MYTHREAD == 1) {
        product();
        device_copy(program, own, upc_cast(at_thread(data, 1)), BYTES);
      }
      upc_barrier();
      if (MYTHREAD == 0) upc_memget(got, at_thread(temporary, 1), BYTES);
      upc_barrier();
    }
    if (s >= 0) samples[s] = (now_s() - start) / rounds;
  }
  check("busy-memget, naive");
  report("busy-memget", "naive", BYTES, samples, options.samples);
}

int main(int argc, char** argv) {
  options = options_of(program, argc, argv);
  if (THREADS != 2) die(program, "wants 2 threads,", "onstream run -n 2");
  if (options.cuda) open_gpu(program, 1);
  words = some(program, upc_all_alloc(2, sizeof(int)));
  temporary = some(program, upc_all_alloc(2, BYTES));
  upc_on_device();
  data = some(program, upc_all_alloc(2, BYTES));
  a = matrix(), b = matrix(), c = matrix();
  upc_off_device();
  upc_memset(at_thread(words, MYTHREAD), 0, sizeof(int));
  if (MYTHREAD == 1) {
    for (size_t i = 0; i < BYTES; ++i) got[i] = value_at(i);
    upc_memput(at_thread(data, 1), got, BYTES);
    product(); /* a library's first call takes its time */
  }
  memset(got, 0, BYTES);
  get_alone(0);
  get_alone(1);
  get_together();
  return 0;
}
