/* C = A B over all threads: seconds of an iteration.
 *
 * A is everywhere; B is dealt from thread 0 by blocks of columns, and the blocks of C are gathered there, in every
 * iteration. All matrices lie in device memory.
 *
 *   onstream    each thread gets its block of B from thread 0's, and puts its block of C into thread 0's
 *   naive       the same by copies into and out of temporary buffers in shared host memory, with two barriers each way
 *   local       the products alone
 *
 * Numbers are small integers, so nothing is rounded. Up to 512 x 512 every element is compared with the host's product;
 * above, C x with A (B x) for three vectors: Freivalds' check, with vectors that are the same in every run. `onstream
 * bench upc` compiles and starts this. */
#include "upc_bench.h"

static const char program[] = "upc_matmul";
enum { WHOLE_CHECK = 512 };

static int n, first, columns;      /* of the matrices, and this thread's columns */
static double *a, *b, *c;          /* in device memory: A, and this thread's blocks of B and C */
static upc_ptr_t whole_b, whole_c; /* thread 0's, in device memory */
static upc_ptr_t host_b, host_c;   /* thread 0's temporary buffers */
static double* host_block;         /* this thread's */

static size_t bytes_of(int count) { return sizeof(double) * (size_t)n * (size_t)count; }
static int first_of(int thread) { return (int)((long)n * thread / THREADS); }
static upc_ptr_t column(upc_ptr_t matrix, int j) { return upc_ptr_add(matrix, bytes_of(1), 0, j); }

/* A barrier ends every iteration. */
static void local_product(void) { multiply(program, c, a, b, n, columns); }

static void product(void) {
  upc_memget(b, column(whole_b, first), bytes_of(columns));
  multiply(program, c, a, b, n, columns);
  upc_memput(column(whole_c, first), c, bytes_of(columns));
}

static void naive_product(void) {
  if (MYTHREAD == 0) device_copy(program, upc_cast(host_b), upc_cast(whole_b), bytes_of(n));
  upc_barrier();
  upc_memget(host_block, column(host_b, first), bytes_of(columns));
  upc_barrier();
  device_copy(program, b, host_block, bytes_of(columns));
  multiply(program, c, a, b, n, columns);
  device_copy(program, host_block, c, bytes_of(columns));
  upc_barrier();
  upc_memput(column(host_c, first), host_block, bytes_of(columns));
  upc_barrier();
  if (MYTHREAD == 0) device_copy(program, upc_cast(whole_c), upc_cast(host_c), bytes_of(n));
}

static double a_at(size_t i) { return (double)(i * 7 % 13) - 6; }
static double b_at(size_t i) { return (double)(i * 5 % 11) - 5; }

static double* filled(double (*value)(size_t)) {
  double* const made = malloc(bytes_of(n));
  for (size_t i = 0; i < (size_t)n * (size_t)n; ++i) made[i] = value(i);
  return made;
}

/* y = M x */
static void apply(double* y, const double* m, const double* x) {
  memset(y, 0, bytes_of(1));
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) y[i] += m[(size_t)j * (size_t)n + (size_t)i] * x[j];
  }
}

static void check(const char* way) {
  if (MYTHREAD == 0) {
    double *const host_a = filled(a_at), *const host_of_b = filled(b_at), *const got = malloc(bytes_of(n));
    device_copy(program, got, upc_cast(whole_c), bytes_of(n));
    for (int j = 0; n <= WHOLE_CHECK && j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        double sum = 0;
        for (int k = 0; k < n; ++k) {
          sum += host_a[(size_t)k * (size_t)n + (size_t)i] * host_of_b[(size_t)j * (size_t)n + (size_t)k];
        }
        if (got[(size_t)j * (size_t)n + (size_t)i] != sum) die(program, "a wrong product,", way);
      }
    }
    double *const x = calloc((size_t)n, sizeof *x), *const y = malloc(bytes_of(1)), *const z = malloc(bytes_of(1));
    double* const abx = malloc(bytes_of(1));
    for (int vector = 0; vector < 3; ++vector) {
      /* No place is 0 in two of them, so one wrong element of a row shows. */
      for (int i = 0; i < n; ++i) x[i] = (double)((i * 31 + vector * 17 + i / 7) % 9) - 4;
      apply(y, host_of_b, x);
      apply(abx, host_a, y);
      apply(z, got, x);
      for (int i = 0; i < n; ++i) {
        if (z[i] != abx[i]) die(program, "a wrong product,", way);
      }
    }
    free(abx), free(z), free(y), free(x), free(got), free(host_of_b), free(host_a);
  }
  upc_barrier();
}

/* Of thread 0, told to all. */
static upc_ptr_t of_thread_0(upc_ptr_t book, size_t bytes) {
  upc_ptr_t made = UPC_NULL;
  if (MYTHREAD == 0) {
    made = some(program, upc_alloc(bytes));
    upc_memput(book, &made, sizeof made);
  }
  upc_barrier();
  upc_memget(&made, book, sizeof made);
  upc_barrier();
  return made;
}

static double* own(size_t bytes) { return upc_cast(some(program, upc_alloc(bytes))); }

static void measure(const struct options* options, const char* way, void (*iteration)(void)) {
  static double samples[MAX_SAMPLES];
  if (iteration != local_product) upc_memset(MYTHREAD == 0 ? whole_c : column(whole_c, first), 0xff, bytes_of(columns));
  upc_barrier();
  for (int s = -1; s < options->samples; ++s) { /* the first is not counted */
    upc_barrier();
    const double start = now_s();
    iteration();
    upc_barrier();
    if (s >= 0) samples[s] = now_s() - start;
  }
  if (iteration != local_product) check(way);
  report("matmul", way, bytes_of(n), samples, options->samples);
}

int main(int argc, char** argv) {
  const struct options options = options_of(program, argc, argv);
  n = options.size;
  if (n < THREADS) die(program, "wants at least one column for", "each thread");
  if (options.cuda) open_gpu(program, 1);
  first = first_of(MYTHREAD);
  columns = first_of(MYTHREAD + 1) - first;
  upc_ptr_t book = some(program, upc_all_alloc(1, sizeof(upc_ptr_t)));
  host_b = of_thread_0(book, bytes_of(n));
  host_c = of_thread_0(book, bytes_of(n));
  host_block = own(bytes_of(columns));
  upc_on_device();
  whole_b = of_thread_0(book, bytes_of(n));
  whole_c = of_thread_0(book, bytes_of(n));
  a = own(bytes_of(n));
  b = own(bytes_of(columns));
  c = own(bytes_of(columns));
  upc_off_device();
  double* values = filled(a_at);
  device_copy(program, a, values, bytes_of(n));
  free(values);
  values = filled(b_at);
  if (MYTHREAD == 0) device_copy(program, upc_cast(whole_b), values, bytes_of(n));
  device_copy(program, b, values + (size_t)first * (size_t)n, bytes_of(columns));
  free(values);
  measure(&options, "local", local_product);
  measure(&options, "naive", naive_product);
  measure(&options, "onstream", product);
  return 0;
}
