/* upc_memput and upc_memget between the device memory of 2 threads, 1 B to 4 MiB: seconds of one.
 *
 *   onstream     thread 0 puts to, or gets from, thread 1's device memory; thread 1 takes no part
 *   naive        without shared device memory: copies into and out of temporary buffers in shared host memory, and two
 *                barriers: the temporary may be overwritten, and the data have come
 *
 * Data are checked behind every case. `onstream bench upc` compiles and starts this. */
#include "upc_bench.h"

static const char program[] = "upc_latency";
enum { LARGEST = 4 << 20 };

struct place {
  upc_ptr_t data;      /* of every thread, in device memory */
  upc_ptr_t temporary; /* of every thread, in host memory */
  char* mine;          /* this thread's own device memory, which it puts from or gets into */
};

typedef void (*round_function)(const struct place*, size_t);

static void put(const struct place* p, size_t n) {
  if (MYTHREAD == 0) upc_memput(at_thread(p->data, 1), p->mine, n);
}

static void get(const struct place* p, size_t n) {
  if (MYTHREAD == 0) upc_memget(p->mine, at_thread(p->data, 1), n);
}

static void naive_put(const struct place* p, size_t n) {
  void* const own = upc_cast(at_thread(p->temporary, MYTHREAD));
  if (MYTHREAD == 0) device_copy(program, own, p->mine, n);
  upc_barrier();
  if (MYTHREAD == 0) upc_memput(at_thread(p->temporary, 1), own, n);
  upc_barrier();
  if (MYTHREAD == 1) device_copy(program, upc_cast(at_thread(p->data, 1)), own, n);
}

static void naive_get(const struct place* p, size_t n) {
  void* const own = upc_cast(at_thread(p->temporary, MYTHREAD));
  if (MYTHREAD == 1) device_copy(program, own, upc_cast(at_thread(p->data, 1)), n);
  upc_barrier();
  if (MYTHREAD == 0) {
    upc_memget(own, at_thread(p->temporary, 1), n);
    device_copy(program, p->mine, own, n);
  }
  upc_barrier();
}

static char value_at(size_t i, size_t n) { return (char)(i * 13 + n + 1); }

static void fill(char* device, size_t n, char* bytes) {
  for (size_t i = 0; i < n; ++i) bytes[i] = value_at(i, n);
  device_copy(program, device, bytes, n);
}

static void check(const char* device, size_t n, char* bytes, const char* name) {
  memset(bytes, 0, n);
  device_copy(program, bytes, device, n);
  for (size_t i = 0; i < n; ++i) {
    if (bytes[i] != value_at(i, n)) die(program, "wrong data behind", name);
  }
}

struct test {
  const char* name;
  const char* way;
  round_function round;
  int gets;
};

static void measure(const struct options* options, const struct place* p, const struct test* test, size_t n) {
  static double samples[MAX_SAMPLES];
  static char bytes[LARGEST];
  const int rounds = rounds_of(options, n <= 4096 ? 2000 : n <= 65536 ? 500 : 40);
  char* const shared = upc_cast(at_thread(p->data, MYTHREAD));
  upc_memset(at_thread(p->data, MYTHREAD), 0, n);
  memset(bytes, 0, n);
  device_copy(program, p->mine, bytes, n);
  if (MYTHREAD == 0 && !test->gets) fill(p->mine, n, bytes);
  if (MYTHREAD == 1 && test->gets) fill(shared, n, bytes);
  for (int s = -1; s < options->samples; ++s) { /* the first is not counted */
    upc_barrier();
    const double start = now_s();
    for (int i = 0; i < rounds; ++i) test->round(p, n);
    if (s >= 0) samples[s] = (now_s() - start) / rounds;
  }
  upc_barrier();
  if (MYTHREAD == 0 && test->gets) check(p->mine, n, bytes, test->name);
  if (MYTHREAD == 1 && !test->gets) check(shared, n, bytes, test->name);
  report(test->name, test->way, n, samples, options->samples);
}

int main(int argc, char** argv) {
  static const struct test tests[] = {
      {"memput", "naive", naive_put, 0},
      {"memput", "onstream", put, 0},
      {"memget", "naive", naive_get, 1},
      {"memget", "onstream", get, 1},
  };
  const struct options options = options_of(program, argc, argv);
  if (THREADS != 2) die(program, "wants 2 threads,", "onstream run -n 2");
  if (options.cuda) open_gpu(program, 0);
  struct place place;
  place.temporary = some(program, upc_all_alloc(2, LARGEST));
  upc_on_device();
  place.data = some(program, upc_all_alloc(2, LARGEST));
  upc_ptr_t own = some(program, upc_alloc(LARGEST));
  upc_off_device();
  place.mine = upc_cast(own);
  for (size_t t = 0; t < sizeof tests / sizeof tests[0]; ++t) {
    for (size_t n = 1; n <= LARGEST; n *= 4) measure(&options, &place, &tests[t], n);
  }
  upc_free(own);
  upc_all_free(place.data);
  upc_all_free(place.temporary);
  return 0;
}
