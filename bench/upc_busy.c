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

struct matrices {
  double *a, *b, *c;
  int n;
};

static double* matrix(int n) {
  const size_t bytes = sizeof(double) * (size_t)n * (size_t)n;
  upc_ptr_t made = some(program, upc_alloc(bytes));
  upc_memset(made, 0, bytes);
  return upc_cast(made);
}

static void product(const struct matrices* m) { multiply(program, m->c, m->a, m->b, m->n, m->n); }

static int value_at(size_t i) { return (int)((i * 29 + 3) & 0x7f); }

int main(int argc, char** argv) {
  static double samples[MAX_SAMPLES];
  static char got[BYTES];
  struct options options = options_of(program, argc, argv);
  if (THREADS != 2) die(program, "wants 2 threads,", "onstream run -n 2");
  if (options.cuda) open_gpu(program, 1);
  upc_ptr_t words = some(program, upc_all_alloc(2, sizeof(int)));
  upc_ptr_t temporary = some(program, upc_all_alloc(2, BYTES));
  upc_on_device();
  upc_ptr_t data = some(program, upc_all_alloc(2, BYTES));
  const struct matrices m = {matrix(options.size), matrix(options.size), matrix(options.size), options.size};
  upc_off_device();
  volatile int* stop = upc_cast(at_thread(words, MYTHREAD));
  *stop = 0;
  if (MYTHREAD == 1) {
    for (size_t i = 0; i < BYTES; ++i) got[i] = (char)value_at(i);
    upc_memput(at_thread(data, 1), got, BYTES);
    product(&m); /* a library's first call takes its time */
  }
  memset(got, 0, BYTES);
  for (int busy = 0; busy < 2; ++busy) {
    upc_barrier();
    if (MYTHREAD == 0) {
      const int rounds = rounds_of(&options, 500), one = 1;
      for (int s = -1; s < options.samples; ++s) {
        const double start = now_s();
        for (int i = 0; i < rounds; ++i) upc_memget(got, at_thread(data, 1), BYTES);
        if (s >= 0) samples[s] = (now_s() - start) / rounds;
      }
      if (busy) upc_memput(at_thread(words, 1), &one, sizeof one);
    } else if (busy) {
      const double end = now_s() + AT_MOST_S;
      while (*stop == 0) {
        product(&m);
        if (now_s() > end) die(program, "the target was not told to stop", "in time");
      }
    }
    report(busy ? "busy-memget" : "idle-memget", "onstream", BYTES, samples, options.samples);
  }
  for (size_t i = 0; MYTHREAD == 0 && i < BYTES; ++i) {
    if (got[i] != (char)value_at(i)) die(program, "wrong data behind", "busy-memget");
  }
  memset(got, 0, BYTES);
  void* const own = upc_cast(at_thread(temporary, MYTHREAD));
  const int rounds = rounds_of(&options, 10);
  for (int s = -1; s < options.samples; ++s) {
    upc_barrier();
    const double start = now_s();
    for (int i = 0; i < rounds; ++i) {
      if (MYTHREAD == 1) {
        product(&m);
        device_copy(program, own, upc_cast(at_thread(data, 1)), BYTES);
      }
      upc_barrier();
      if (MYTHREAD == 0) upc_memget(got, at_thread(temporary, 1), BYTES);
      upc_barrier();
    }
    if (s >= 0) samples[s] = (now_s() - start) / rounds;
  }
  for (size_t i = 0; MYTHREAD == 0 && i < BYTES; ++i) {
    if (got[i] != (char)value_at(i)) die(program, "wrong data behind", "busy-memget, naive");
  }
  report("busy-memget", "naive", BYTES, samples, options.samples);
  return 0;
}
