/* Shared by the three UPC benches: options, samples as JSON lines, a product of matrices, and copies of device memory
 * that a program makes itself - of a GPU by the driver and cuBLAS, which are opened at run time; else by the CPU.
 *
 * Options of all: --device host|cuda, --samples N, --quick (a tenth of the rounds). Thread 0 prints. */
#ifndef ONSTREAM_BENCH_UPC_H
#define ONSTREAM_BENCH_UPC_H

#include <dlfcn.h>
#include <onstream_upc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SAMPLES = 1000 };

struct options {
  int cuda;
  int samples;
  int share; /* rounds are divided by it */
  int size;  /* of matrices */
};

static inline void die(const char* program, const char* what, const char* value) {
  fprintf(stderr, "%s: %s %s\n", program, what, value);
  upc_global_exit(2);
}

static inline int number_of(const char* program, const char* name, const char* text, int most) {
  char* end = NULL;
  const long value = text == NULL ? 0 : strtol(text, &end, 10);
  if (value < 1 || value > most || *end != 0) die(program, name, "wants a number, from 1 on");
  return (int)value;
}

static inline struct options options_of(const char* program, int argc, char** argv) {
  struct options options = {0, 10, 1, 512};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--quick") == 0) {
      options.share = 10;
    } else if (strcmp(argv[i], "--samples") == 0) {
      options.samples = number_of(program, "--samples", argv[++i], MAX_SAMPLES);
    } else if (strcmp(argv[i], "--size") == 0) {
      options.size = number_of(program, "--size", argv[++i], 1 << 15);
    } else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      options.cuda = strcmp(argv[++i], "cuda") == 0;
    } else {
      die(program, "unknown option", argv[i]);
    }
  }
  return options;
}

static inline int rounds_of(const struct options* options, int rounds) {
  return rounds / options->share > 1 ? rounds / options->share : 1;
}

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void report(const char* name, const char* way, size_t bytes, const double* samples, int count) {
  if (MYTHREAD != 0) return;
  printf("{\"case\":\"%s\",\"way\":\"%s\",\"bytes\":%zu,\"threads\":%d,\"samples_s\":[", name, way, bytes, THREADS);
  for (int s = 0; s < count; ++s) printf("%s%.9e", s == 0 ? "" : ",", samples[s]);
  printf("]}\n");
  fflush(stdout);
}

/* The same place at another thread. */
static inline upc_ptr_t at_thread(upc_ptr_t ptr, int thread) {
  ptr.thread = (uint32_t)thread;
  return ptr;
}

static inline upc_ptr_t some(const char* program, upc_ptr_t ptr) {
  if (upc_ptr_is_null(ptr)) die(program, "there is no room;", "raise ONSTREAM_UPC_HOST_BYTES and _DEVICE_BYTES");
  return ptr;
}

/* --- a GPU, without its headers --- */

struct gpu {
  int (*copy)(uint64_t to, uint64_t from, size_t bytes);
  int (*wait)(void);
  int (*multiply)(void* handle, int a_form, int b_form, int m, int n, int k, const double* alpha, const double* a,
                  int a_step, const double* b, int b_step, const double* beta, double* c, int c_step);
  void* handle;
};
static struct gpu gpu;

static inline void* symbol_of(const char* program, void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) die(program, "the CUDA libraries here have no", name);
  return found;
}

/* With `products`: cuBLAS too. */
static inline void open_gpu(const char* program, int products) {
  (void)upc_mythread(); /* the first call joins the others, and makes the device's context */
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) die(program, "cannot load", "libcuda.so.1");
  *(void**)&gpu.copy = symbol_of(program, driver, "cuMemcpy");
  *(void**)&gpu.wait = symbol_of(program, driver, "cuCtxSynchronize");
  if (!products) return;
  static const char* const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  void* blas = NULL;
  for (int i = 0; i < 3 && blas == NULL; ++i) blas = dlopen(names[i], RTLD_NOW);
  if (blas == NULL) die(program, "cannot load libcublas:", dlerror());
  int (*create)(void**) = NULL;
  *(void**)&create = symbol_of(program, blas, "cublasCreate_v2");
  *(void**)&gpu.multiply = symbol_of(program, blas, "cublasDgemm_v2");
  if (create(&gpu.handle) != 0) die(program, "cublasCreate", "failed");
}

/* Between any two of device memory of this thread and host memory; done when it returns. */
static inline void device_copy(const char* program, void* to, const void* from, size_t bytes) {
  if (gpu.copy == NULL) {
    memcpy(to, from, bytes);
  } else if (gpu.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes) != 0 || gpu.wait() != 0) {
    die(program, "cuMemcpy", "failed");
  }
}

/* --- products: C = A B, by columns, A of n x n and B and C of n x columns --- */

static inline void multiply_here(double* c, const double* a, const double* b, int n, int columns) {
  enum { BLOCK = 128 }; /* rows of A at a time: with 4 of its columns they stay in the first cache */
  memset(c, 0, sizeof *c * (size_t)n * (size_t)columns);
  for (int row = 0; row < n; row += BLOCK) {
    const int rows = n - row < BLOCK ? n - row : BLOCK;
    for (int j = 0; j < columns; ++j) {
      double* to = c + (size_t)j * (size_t)n + row;
      const double* factors = b + (size_t)j * (size_t)n;
      int k = 0;
      for (; k + 4 <= n; k += 4) {
        const double *a0 = a + (size_t)k * (size_t)n + row, *a1 = a0 + n, *a2 = a1 + n, *a3 = a2 + n;
        const double f0 = factors[k], f1 = factors[k + 1], f2 = factors[k + 2], f3 = factors[k + 3];
        for (int i = 0; i < rows; ++i) to[i] += a0[i] * f0 + a1[i] * f1 + a2[i] * f2 + a3[i] * f3;
      }
      for (; k < n; ++k) {
        for (int i = 0; i < rows; ++i) to[i] += a[(size_t)k * (size_t)n + (size_t)(row + i)] * factors[k];
      }
    }
  }
}

/* Where the matrices lie: on the device. Done when it returns. */
static inline void multiply(const char* program, double* c, const double* a, const double* b, int n, int columns) {
  if (gpu.multiply == NULL) {
    multiply_here(c, a, b, n, columns);
    return;
  }
  const double one = 1, zero = 0;
  const int failed = gpu.multiply(gpu.handle, 0, 0, n, columns, n, &one, a, n, b, n, &zero, c, n);
  if (failed != 0 || gpu.wait() != 0) die(program, "cublasDgemm", "failed");
}

#endif
