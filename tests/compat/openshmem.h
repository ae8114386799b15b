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

/* The case of this name, or all of them, one after the other, if it is NULL. */
static inline int run_cases(const struct test_case* cases, size_t count, const char* name) {
  int found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (name != NULL && strcmp(cases[i].name, name) != 0) continue;
    ++found;
    cases[i].run();
    if (name == NULL) shmem_barrier_all();
    if (me == 0) printf("passed %s\n", cases[i].name);
  }
  if (found > 0) return 0;
  fprintf(stderr, "there is no case %s\n", name);
  return 2;
}

#endif
