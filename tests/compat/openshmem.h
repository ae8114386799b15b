/* For the test programs of OpenSHMEM: named cases over any number of PEs, and checks that say where.
 *
 * oshrun -n N PROGRAM CASE runs one case. A check that fails ends the job with status 1. */
#ifndef ONSTREAM_TESTS_OPENSHMEM_H
#define ONSTREAM_TESTS_OPENSHMEM_H

#include <complex.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, size;

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "PE %d: %s:%d: %s does not hold\n", me, __FILE__, __LINE__, #condition); \
      shmem_global_exit(1);                                                                    \
    }                                                                                          \
  } while (0)

struct test_case {
  const char* name;
  void (*run)(void);
};
#define CASE(name) {#name, name},

static inline int run_case(const struct test_case* cases, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(cases[i].name, name) != 0) continue;
    cases[i].run();
    if (me == 0) printf("passed %s\n", name);
    return 0;
  }
  fprintf(stderr, "there is no case %s\n", name);
  return 2;
}

#endif
