/* One-sided calls on a heap that lies on the PE's device (ONSTREAM_SHMEM_HEAP=device): what the CPU must not touch, all
 * calls do. Memory is filled and looked at by puts and gets to the PE itself.
 *
 * On the host device the CPU reaches the heap as well; the same must hold there. */
#include "openshmem.h"

enum { MOST = 40000 };

static long given[2 * MOST], got[2 * MOST];
static uint64_t host_word;

static int right(void) { return (me + 1) % size; }
static int left(void) { return (me + size - 1) % size; }
static long value(int pe, size_t i) { return 1000003L * (pe + 1) + (long)i; }

static int is_on_a_gpu(void) {
  const char* const device = getenv("ONSTREAM_DEVICE");
  return device != NULL && strcmp(device, "cuda") == 0;
}

static void fill(long* at, const long* values, size_t count) { shmem_long_put(at, values, count, me); }

static void look(long* values, const long* at, size_t count) {
  shmem_quiet();
  memset(values, 0, count * sizeof *values);
  shmem_long_get(values, at, count, me);
}

static void give(size_t count) {
  for (size_t i = 0; i < count; ++i) given[i] = value(me, i);
}

/* What lies at `at` now is what `pe` gave. */
static void holds(const long* at, size_t count, int pe) {
  look(got, at, count);
  for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(pe, i));
}

static void clear(long* at, size_t count) {
  static const long zeroes[MOST];
  shmem_barrier_all();
  fill(at, zeroes, count);
  shmem_barrier_all();
}

/* --- memory --- */

static void the_heap_is_where_it_was_asked_for(void) {
  long* piece = shmem_malloc(100 * sizeof *piece);
  long* hinted = shmem_malloc_with_hints(64, SHMEMX_MALLOC_DEVICE);
  CHECK(piece != NULL && hinted != NULL);
  CHECK(shmem_addr_accessible(piece, right()) == 1 && shmem_addr_accessible(hinted, right()) == 1);
  /* The CPU has an address for what it reaches, and none on a GPU. */
  CHECK((shmem_ptr(piece, me) == NULL) == is_on_a_gpu() && (shmem_ptr(hinted, me) == NULL) == is_on_a_gpu());
  if (is_on_a_gpu()) CHECK(shmem_ptr(piece, right()) == NULL);
  if (is_on_a_gpu()) CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, piece, right()) == NULL);
  CHECK(shmem_ptr(&host_word, me) == &host_word);
  long* zeroes = shmem_calloc(1000, sizeof *zeroes);
  look(got, zeroes, 1000);
  for (int i = 0; i < 1000; ++i) CHECK(got[i] == 0);
  long* aligned = shmem_align(4096, sizeof *aligned);
  CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
  give(100);
  fill(piece, given, 100);
  piece = shmem_realloc(piece, MOST * sizeof *piece);
  holds(piece, 100, me);
  piece = shmem_realloc(piece, 10 * sizeof *piece);
  holds(piece, 10, me);
  shmem_free(aligned);
  shmem_free(zeroes);
  shmem_free(hinted);
  shmem_free(piece);
}

/* --- transfers --- */

static void blocks_are_put_and_got(void) {
  const size_t counts[] = {1, 7, 1000, MOST};
  long *to = shmem_malloc(MOST * sizeof *to), *from = shmem_malloc(MOST * sizeof *from);
  for (int c = 0; c < 4; ++c) {
    const size_t count = counts[c];
    give(count);
    fill(from, given, count);
    clear(to, count);
    shmem_long_put(to, given, count, right()); /* from the program's own memory */
    shmem_barrier_all();
    holds(to, count, left());
    clear(to, count);
    shmem_long_put(to, from, count, right()); /* from the device's */
    shmem_barrier_all();
    holds(to, count, left());
    memset(got, 0, count * sizeof *got);
    shmem_long_get(got, from, count, right());
    for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(right(), i));
    clear(to, count);
    shmem_long_get(to, from, count, right());
    holds(to, count, right());
    clear(to, count);
  }
  char text[100], back[100] = "";
  memset(text, 'a' + me, sizeof text);
  shmem_putmem((char*)to + 3, text, 61, right()); /* bytes that fill no words */
  shmem_barrier_all();
  shmem_getmem(back, to, sizeof back, me);
  for (int i = 0; i < 100; ++i) CHECK(back[i] == (i >= 3 && i < 64 ? 'a' + left() : 0));
  shmem_barrier_all();
  shmem_free(from);
  shmem_free(to);
}

#define ONE(NAME, TYPE)                                                                                   \
  static void one_##NAME(void) {                                                                          \
    TYPE* words = shmem_calloc(3, sizeof *words);                                                         \
    shmem_##NAME##_p(&words[1], (TYPE)(me + 20), right());                                                \
    shmem_barrier_all();                                                                                  \
    CHECK(shmem_##NAME##_g(&words[1], me) == (TYPE)(left() + 20));                                        \
    CHECK(shmem_##NAME##_g(&words[1], right()) == (TYPE)(me + 20));                                       \
    CHECK(shmem_##NAME##_g(&words[0], right()) == (TYPE)0 && shmem_##NAME##_g(&words[2], me) == (TYPE)0); \
    shmem_free(words);                                                                                    \
  }
ONSTREAM_SHMEM_RMA_TYPES(ONE)

static void elements_of_every_type_are_put_and_got(void) {
#define CALL(NAME, TYPE) one_##NAME();
  ONSTREAM_SHMEM_RMA_TYPES(CALL)
#undef CALL
}

static void strided_elements_are_put_and_got(void) {
  enum { COUNT = 500, ROOM = 3 * COUNT };
  long *to = shmem_malloc(ROOM * sizeof *to), *from = shmem_malloc(ROOM * sizeof *from);
  give(ROOM);
  fill(from, given, ROOM);
  const long* const sources[] = {given, from};
  for (int s = 0; s < 2; ++s) {
    clear(to, ROOM);
    shmem_long_iput(to, sources[s], 3, 2, COUNT, right());
    shmem_barrier_all();
    look(got, to, ROOM);
    for (size_t i = 0; i < ROOM; ++i) CHECK(got[i] == (i % 3 == 0 ? value(left(), i / 3 * 2) : 0));
  }
  memset(got, 0, ROOM * sizeof *got);
  shmem_long_iget(got, from, 2, 3, COUNT, right());
  for (size_t i = 0; i < 2 * COUNT; ++i) CHECK(got[i] == (i % 2 == 0 ? value(right(), i / 2 * 3) : 0));
  clear(to, ROOM);
  shmem_long_iget(to, from, 2, 3, COUNT, right());
  look(got, to, ROOM);
  for (size_t i = 0; i < 2 * COUNT; ++i) CHECK(got[i] == (i % 2 == 0 ? value(right(), i / 2 * 3) : 0));
  shmem_barrier_all();
  shmem_free(from);
  shmem_free(to);
}

static void what_is_not_waited_for_is_there_after_quiet(void) {
  enum { PARTS = 20, COUNT = 1000 };
  long *to = shmem_malloc(PARTS * COUNT * sizeof *to), *flag = shmem_calloc(1, sizeof *flag);
  give(PARTS * COUNT);
  for (size_t part = 0; part < PARTS; ++part) {
    shmem_long_put_nbi(to + part * COUNT, given + part * COUNT, COUNT, right());
  }
  shmem_quiet();
  shmem_barrier_all();
  holds(to, PARTS * COUNT, left());
  memset(got, 0, sizeof got);
  for (size_t part = 0; part < PARTS; ++part) {
    shmem_long_get_nbi(got + part * COUNT, to + part * COUNT, COUNT, right());
  }
  shmem_quiet();
  for (size_t i = 0; i < PARTS * COUNT; ++i) CHECK(got[i] == value(me, i));
  clear(to, PARTS * COUNT);
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_ctx_long_put_nbi(ctx, to, given, PARTS * COUNT, right());
  shmem_ctx_fence(ctx);
  shmem_ctx_long_p(ctx, flag, 1, right());
  shmem_long_wait_until(flag, SHMEM_CMP_EQ, 1);
  holds(to, PARTS * COUNT, left());
  shmem_ctx_destroy(ctx);
  shmem_barrier_all();
  shmem_free(flag);
  shmem_free(to);
}

/* --- words --- */

#define WORDS(NAME, TYPE)                                                                                        \
  static void words_##NAME(void) {                                                                               \
    enum { ROUNDS = 30 };                                                                                        \
    TYPE* words = shmem_calloc(3, sizeof *words);                                                                \
    TYPE *mine = &words[1], *all = &words[2], old = 0; /* of 4 B: no multiple of 8 */                            \
    shmem_##NAME##_atomic_set(mine, (TYPE)(me + 10), right());                                                   \
    shmem_barrier_all();                                                                                         \
    CHECK(shmem_##NAME##_atomic_fetch(mine, me) == (TYPE)(left() + 10));                                         \
    shmem_barrier_all();                                                                                         \
    CHECK(shmem_##NAME##_atomic_swap(mine, (TYPE)3, right()) == (TYPE)(me + 10));                                \
    shmem_##NAME##_atomic_swap_nbi(&old, mine, (TYPE)4, right());                                                \
    shmem_quiet();                                                                                               \
    CHECK(old == (TYPE)3);                                                                                       \
    CHECK(shmem_##NAME##_atomic_compare_swap(mine, (TYPE)5, (TYPE)6, right()) == (TYPE)4);                       \
    CHECK(shmem_##NAME##_atomic_compare_swap(mine, (TYPE)4, (TYPE)6, right()) == (TYPE)4);                       \
    CHECK(shmem_##NAME##_atomic_fetch(mine, right()) == (TYPE)6);                                                \
    for (int i = 0; i < ROUNDS; ++i) { /* all PEs on one word, so that a lost update shows */                    \
      shmem_##NAME##_atomic_add(all, (TYPE)2, 0);                                                                \
      shmem_##NAME##_atomic_inc(all, 0);                                                                         \
      (void)shmem_##NAME##_atomic_fetch_add(all, (TYPE)3, 0);                                                    \
      (void)shmem_##NAME##_atomic_fetch_inc(all, 0);                                                             \
    }                                                                                                            \
    shmem_barrier_all();                                                                                         \
    CHECK(shmem_##NAME##_atomic_fetch(all, 0) == (TYPE)(7 * ROUNDS * size));                                     \
    CHECK(shmem_##NAME##_g(words, me) == 0); /* its neighbour is as it was */                                    \
    shmem_barrier_all();                                                                                         \
    for (int i = 0; i < ROUNDS; ++i) { /* a counter by compare and swap */                                       \
      TYPE seen = shmem_##NAME##_atomic_fetch(all, 0), found = seen;                                             \
      while ((found = shmem_##NAME##_atomic_compare_swap(all, seen, (TYPE)(seen + 1), 0)) != seen) seen = found; \
    }                                                                                                            \
    shmem_barrier_all();                                                                                         \
    CHECK(shmem_##NAME##_g(all, 0) == (TYPE)(8 * ROUNDS * size));                                                \
    shmem_free(words);                                                                                           \
  }
ONSTREAM_SHMEM_ATOMIC_TYPES(WORDS)

static void atomics_are_atomic(void) {
#define CALL(NAME, TYPE) words_##NAME();
  ONSTREAM_SHMEM_ATOMIC_TYPES(CALL)
#undef CALL
  unsigned long* bits = shmem_calloc(3, sizeof *bits);
  const unsigned long bit = 1ul << me, all = (1ul << size) - 1;
  shmem_ulong_atomic_or(&bits[0], bit, 0);
  shmem_ulong_atomic_xor(&bits[1], bit, 0);
  CHECK((shmem_ulong_atomic_fetch_or(&bits[2], bit, 0) & bit) == 0);
  shmem_barrier_all();
  for (int i = 0; i < 3; ++i) CHECK(shmem_ulong_g(&bits[i], 0) == all);
  shmem_barrier_all();
  shmem_ulong_atomic_and(&bits[0], ~bit, 0);
  CHECK((shmem_ulong_atomic_fetch_and(&bits[1], ~bit, 0) & bit) == bit);
  CHECK((shmem_ulong_atomic_fetch_xor(&bits[2], bit, 0) & bit) == bit);
  shmem_barrier_all();
  for (int i = 0; i < 3; ++i) CHECK(shmem_ulong_g(&bits[i], 0) == 0);
  shmem_free(bits);
  double* reals = shmem_calloc(1, sizeof *reals);
  shmem_double_atomic_set(reals, 2.5 + me, right());
  shmem_barrier_all();
  CHECK(shmem_double_atomic_fetch(reals, me) == 2.5 + left());
  shmem_barrier_all();
  CHECK(shmem_double_atomic_swap(reals, -1.5, right()) == 2.5 + me);
  CHECK(shmem_double_atomic_fetch(reals, right()) == -1.5);
  shmem_barrier_all();
  shmem_free(reals);
}

/* Data and word on the device, and one of the two in host memory. */
static void a_signal_comes_behind_its_data(void) {
  enum { ROUNDS = 20, COUNT = 3000 };
  static long host_data[COUNT];
  long* data = shmem_malloc(COUNT * sizeof *data);
  uint64_t* word = shmem_calloc(1, sizeof *word);
  long* const places[] = {data, data, host_data};
  uint64_t* const words[] = {word, &host_word, word};
  for (int pair = 0; pair < 3; ++pair) {
    long* const to = places[pair];
    uint64_t* const told = words[pair];
    shmem_uint64_atomic_set(told, 0, me);
    shmem_barrier_all();
    for (uint64_t round = 1; round <= ROUNDS; ++round) {
      const size_t count = round % 2 == 0 ? COUNT : 1;
      for (size_t i = 0; i < count; ++i) given[i] = value(me, i) + (long)round;
      if (round % 3 == 0) {
        shmem_long_put_signal(to, given, count, told, 1, SHMEM_SIGNAL_ADD, right());
      } else if (round % 3 == 1) {
        shmem_long_put_signal(to, given, count, told, round, SHMEM_SIGNAL_SET, right());
      } else {
        shmem_long_put_signal_nbi(to, given, count, told, round, SHMEM_SIGNAL_SET, right());
      }
      CHECK(shmem_signal_wait_until(told, SHMEM_CMP_GE, round) == round && shmem_signal_fetch(told) == round);
      look(got, to, count);
      for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(left(), i) + (long)round);
      shmem_barrier_all();
    }
  }
  shmem_signal_set(word, 40, right());
  shmem_signal_add(word, 2, right());
  CHECK(shmem_signal_wait_until(word, SHMEM_CMP_EQ, 42) == 42);
  shmem_barrier_all();
  shmem_free(word);
  shmem_free(data);
}

#define WAIT(NAME, TYPE)                                                                                   \
  static void wait_##NAME(void) {                                                                          \
    enum { COUNT = 5 };                                                                                    \
    TYPE* words = shmem_calloc(COUNT, sizeof *words);                                                      \
    TYPE values[COUNT];                                                                                    \
    size_t indices[COUNT];                                                                                 \
    const int status[COUNT] = {0, 0, 1, 0, 0};                                                             \
    CHECK(!shmem_##NAME##_test(words, SHMEM_CMP_NE, 0) && shmem_##NAME##_test(words, SHMEM_CMP_GE, 0));    \
    CHECK(shmem_##NAME##_test_any(words, COUNT, NULL, SHMEM_CMP_GT, 0) == SIZE_MAX);                       \
    shmem_barrier_all();                                                                                   \
    shmem_##NAME##_p(words, 7, right());                                                                   \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_EQ, 7);                                                     \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_GT, 6);                                                     \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_LE, 7);                                                     \
    shmem_barrier_all();                                                                                   \
    values[0] = 7;                                                                                         \
    for (int i = 1; i < COUNT; ++i) {                                                                      \
      values[i] = (TYPE)(i + 1);                                                                           \
      if (i != 2) shmem_##NAME##_p(&words[i], values[i], right());                                         \
    }                                                                                                      \
    shmem_##NAME##_wait_until_all(words, COUNT, status, SHMEM_CMP_GE, 2);                                  \
    shmem_##NAME##_wait_until_all_vector(words, COUNT, status, SHMEM_CMP_EQ, values);                      \
    CHECK(shmem_##NAME##_test_all_vector(words, COUNT, status, SHMEM_CMP_EQ, values));                     \
    CHECK(shmem_##NAME##_wait_until_any(words, COUNT, status, SHMEM_CMP_EQ, 5) == 4);                      \
    CHECK(shmem_##NAME##_test_any(words, COUNT, status, SHMEM_CMP_EQ, 4) == 3);                            \
    CHECK(shmem_##NAME##_wait_until_some(words, COUNT, indices, status, SHMEM_CMP_GT, 4) == 2);            \
    CHECK(indices[0] == 0 && indices[1] == 4);                                                             \
    CHECK(shmem_##NAME##_test_some(words, COUNT, indices, NULL, SHMEM_CMP_EQ, 0) == 1 && indices[0] == 2); \
    shmem_barrier_all();                                                                                   \
    shmem_free(words);                                                                                     \
  }
WAIT(int, int)
WAIT(long, long)
WAIT(uint32, uint32_t)
WAIT(uint64, uint64_t)

static void waits_and_tests_see_their_words(void) {
  wait_int();
  wait_long();
  wait_uint32();
  wait_uint64();
}

static void a_lock_excludes_the_others(void) {
  enum { ROUNDS = 30 };
  long* words = shmem_calloc(4, sizeof *words);
  long *lock = &words[0], *other = &words[1], *count = &words[2];
  for (int i = 0; i < ROUNDS; ++i) {
    shmem_set_lock(lock);
    shmem_long_p(count, shmem_long_g(count, size - 1) + 1, size - 1); /* not atomic: the lock makes it right */
    shmem_clear_lock(lock);
  }
  for (int i = 0; i < ROUNDS; ++i) {
    while (shmem_test_lock(other) != 0) {
    }
    shmem_long_p(&count[1], shmem_long_g(&count[1], 0) + 1, 0);
    shmem_clear_lock(other);
  }
  shmem_barrier_all();
  CHECK(shmem_long_g(count, size - 1) == ROUNDS * size && shmem_long_g(&count[1], 0) == ROUNDS * size);
  if (me == 0) {
    CHECK(shmem_test_lock(lock) == 0);
    CHECK(shmem_test_lock(lock) == 1);
    shmem_clear_lock(lock);
  }
  shmem_barrier_all();
  shmem_free(words);
}

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(the_heap_is_where_it_was_asked_for)
    CASE(blocks_are_put_and_got)
    CASE(elements_of_every_type_are_put_and_got)
    CASE(strided_elements_are_put_and_got)
    CASE(what_is_not_waited_for_is_there_after_quiet)
    CASE(atomics_are_atomic)
    CASE(a_signal_comes_behind_its_data)
    CASE(waits_and_tests_see_their_words)
    CASE(a_lock_excludes_the_others)
  };
  /* clang-format on */
  shmem_init();
  me = shmem_my_pe(), size = shmem_n_pes();
  const int status = run_cases(cases, sizeof cases / sizeof *cases, argc > 1 ? argv[1] : NULL);
  shmem_finalize();
  return status;
}
