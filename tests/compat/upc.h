/* For the test programs of UPC's calls: named cases over any number of threads, and checks that say where.
 *
 * onstream run -n N PROGRAM CASE runs one case, without CASE all of them. A check that fails ends the job with
 * status 1. */
#ifndef ONSTREAM_TESTS_UPC_H
#define ONSTREAM_TESTS_UPC_H

#include <onstream_upc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                                 \
  do {                                                                                                   \
    if (!(condition)) {                                                                                  \
      fprintf(stderr, "thread %d: %s:%d: %s does not hold\n", MYTHREAD, __FILE__, __LINE__, #condition); \
      upc_global_exit(1);                                                                                \
    }                                                                                                    \
  } while (0)

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct test_case {
  const char* name;
  void (*run)(void);
};
#define CASE(name) {#name, name},

static inline int run_cases(const struct test_case* cases, size_t count, const char* name) {
  int found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (name != NULL && strcmp(cases[i].name, name) != 0) continue;
    ++found;
    cases[i].run();
    upc_barrier();
    if (MYTHREAD == 0) printf("passed %s\n", cases[i].name);
  }
  if (found > 0) return 0;
  fprintf(stderr, "there is no case %s\n", name);
  return 2;
}

#endif
