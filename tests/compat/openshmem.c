/* Every function of OpenSHMEM 1.5, its results compared with what they must be. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "forked.h"
#include "openshmem.h"

static int right(void) { return (me + 1) % size; }
static int left(void) { return (me + size - 1) % size; }

/* --- start, queries, memory --- */

static long global_word = 5;
static int static_row[300];
long zeroed_row[2000];

static void a_pe_knows_itself_and_the_others(void) {
  int major = 0, minor = 0, level = -1;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  shmem_info_get_name(name);
  shmem_query_thread(&level);
  CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION && strcmp(name, SHMEM_VENDOR_STRING) == 0);
  CHECK(level == SHMEM_THREAD_MULTIPLE);
  CHECK(me >= 0 && me < size && _my_pe() == me && _num_pes() == size);
  CHECK(shmem_pe_accessible(0) == 1 && shmem_pe_accessible(size) == 0 && shmem_pe_accessible(-1) == 0);
  start_pes(0); /* has started already */
  int mine = 0;
  int* word = shmem_malloc(sizeof *word);
  CHECK(shmem_addr_accessible(word, right()) == 1 && shmem_addr_accessible(&mine, right()) == 0);
  CHECK(shmem_addr_accessible(&global_word, right()) == 1 && shmem_addr_accessible(word, size) == 0);
  CHECK(shmem_ptr(word, me) == word && shmem_ptr(&global_word, me) == &global_word && shmem_ptr(&mine, me) == NULL);
  /* Between hosts no PE loads and stores another's memory. */
  const char* of_a_host = getenv("ONSTREAM_HOST_RANKS");
  const int near = of_a_host == NULL || me / atoi(of_a_host) == right() / atoi(of_a_host);
  int* theirs = shmem_ptr(word, right());
  CHECK((theirs != NULL) == near && shmem_team_ptr(SHMEM_TEAM_WORLD, word, right()) == theirs);
  near ? (void)(*theirs = me) : shmem_int_p(word, me, right());
  shmem_barrier_all();
  CHECK(*word == left());
  long* theirs_too = shmem_ptr(&global_word, right());
  CHECK((theirs_too != NULL) == near);
  near ? (void)(*theirs_too = 50 + me) : shmem_long_p(&global_word, 50 + me, right());
  shmem_barrier_all();
  CHECK(global_word == 50 + left());
  shmem_set_cache_inv();
  shmem_clear_cache_inv();
  shmem_set_cache_line_inv(word);
  shmem_clear_cache_line_inv(word);
  shmem_udcflush();
  shmem_udcflush_line(word);
  shmem_pcontrol(1);
  shmem_free(word);
}

static void the_heap_allocates_resizes_and_frees(void) {
  CHECK(shmem_malloc(0) == NULL);
  char* small = shmem_malloc(100);
  long* zeroes = shmem_calloc(1000, sizeof *zeroes);
  for (int i = 0; i < 1000; ++i) CHECK(zeroes[i] == 0);
  CHECK(shmem_calloc(SIZE_MAX / 2, 3) == NULL);
  double* aligned = shmem_align(4096, 64);
  CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
  for (size_t alignment = 8; alignment <= (size_t)1 << 26; alignment *= 2) {
    void* const far = shmem_align(alignment, 64);
    CHECK(far != NULL && (uintptr_t)far % alignment == 0);
    shmem_free(far);
  }
  int* hinted = shmem_malloc_with_hints(64, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
  int* on_device = shmem_malloc_with_hints(64, SHMEMX_MALLOC_DEVICE);
  CHECK(small != NULL && hinted != NULL && on_device != NULL);
  memset(small, me + 1, 100);
  small = shmem_realloc(small, 200000);
  for (int i = 0; i < 100; ++i) CHECK(small[i] == me + 1);
  char* at = small;
  small = shmem_realloc(small, 50);
  CHECK(small == at && small[49] == me + 1);
  CHECK(shmem_realloc(small, 0) == NULL);
  CHECK(shmem_align((size_t)1 << 40, 64) == NULL); /* more than there is: said */
  CHECK(shmem_malloc((size_t)1 << 50) == NULL);    /* no room: said, and nothing happens */
  shmem_free(NULL);
  shmem_free(zeroes);
  shmem_free(aligned);
  shmem_free(hinted);
  shmem_free(on_device);
  void* again = shmem_malloc(100);
  CHECK(again != NULL);
  shmem_free(again);
  void* old = shmalloc(10);
  old = shrealloc(old, 20);
  shfree(old);
  shfree(shmemalign(128, 10));
}

static void globals_and_statics_are_symmetric(void) {
  CHECK(global_word == 5 && static_row[7] == 0 && zeroed_row[1999] == 0);
  shmem_barrier_all();
  shmem_long_p(&global_word, 100 + me, right());
  int values[300];
  for (int i = 0; i < 300; ++i) values[i] = 1000 * me + i;
  shmem_int_put(static_row, values, 300, right());
  shmem_long_atomic_add(&zeroed_row[1999], me + 1, 0);
  shmem_barrier_all();
  CHECK(global_word == 100 + left());
  for (int i = 0; i < 300; ++i) CHECK(static_row[i] == 1000 * left() + i);
  if (me == 0) CHECK(zeroed_row[1999] == size * (size + 1) / 2);
  CHECK(shmem_long_g(&global_word, right()) == 100 + me);
}

/* --- transfers --- */

#define TRANSFER(NAME, TYPE)                                                                                     \
  static void transfer_##NAME(void) {                                                                            \
    enum { COUNT = 40 };                                                                                         \
    TYPE* there = shmem_malloc(COUNT * sizeof(TYPE));                                                            \
    uint64_t* word = shmem_calloc(1, sizeof *word);                                                              \
    TYPE here[COUNT];                                                                                            \
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;                                                                         \
    CHECK(shmem_ctx_create(0, &ctx) == 0);                                                                       \
    for (int form = 0; form < 6; ++form) {                                                                       \
      for (int i = 0; i < COUNT; ++i) here[i] = (TYPE)(i + me + form);                                           \
      memset(there, 0, COUNT * sizeof(TYPE));                                                                    \
      shmem_barrier_all();                                                                                       \
      switch (form) {                                                                                            \
        case 0: shmem_##NAME##_put(there, here, COUNT, right()); break;                                          \
        case 1: shmem_##NAME##_put_nbi(there, here, COUNT, right()); break;                                      \
        case 2: shmem_ctx_##NAME##_put(ctx, there, here, COUNT, right()); break;                                 \
        case 3: shmem_ctx_##NAME##_put_nbi(ctx, there, here, COUNT, right()); break;                             \
        case 4: shmem_##NAME##_put_signal(there, here, COUNT, word, 1, SHMEM_SIGNAL_ADD, right()); break;        \
        default: shmem_ctx_##NAME##_put_signal_nbi(ctx, there, here, COUNT, word, 7, SHMEM_SIGNAL_SET, right()); \
      }                                                                                                          \
      shmem_ctx_quiet(ctx);                                                                                      \
      if (form == 4) CHECK(shmem_signal_wait_until(word, SHMEM_CMP_EQ, 1) == 1);                                 \
      if (form == 5) CHECK(shmem_signal_wait_until(word, SHMEM_CMP_EQ, 7) == 7);                                 \
      shmem_barrier_all();                                                                                       \
      for (int i = 0; i < COUNT; ++i) CHECK(there[i] == (TYPE)(i + left() + form));                              \
      memset(here, 0, sizeof here);                                                                              \
      switch (form) {                                                                                            \
        case 0: shmem_##NAME##_get(here, there, COUNT, right()); break;                                          \
        case 1: shmem_##NAME##_get_nbi(here, there, COUNT, right()); break;                                      \
        case 2: shmem_ctx_##NAME##_get(ctx, here, there, COUNT, right()); break;                                 \
        default: shmem_ctx_##NAME##_get_nbi(ctx, here, there, COUNT, right());                                   \
      }                                                                                                          \
      shmem_quiet();                                                                                             \
      shmem_ctx_quiet(ctx);                                                                                      \
      for (int i = 0; i < COUNT; ++i) CHECK(here[i] == (TYPE)(i + me + form));                                   \
      shmem_barrier_all();                                                                                       \
    }                                                                                                            \
    shmem_##NAME##_p(&there[1], (TYPE)(20 + me), right());                                                       \
    shmem_ctx_##NAME##_p(ctx, &there[2], (TYPE)(40 + me), right());                                              \
    shmem_ctx_quiet(ctx);                                                                                        \
    shmem_barrier_all();                                                                                         \
    CHECK(there[1] == (TYPE)(20 + left()) && there[2] == (TYPE)(40 + left()));                                   \
    CHECK(shmem_##NAME##_g(&there[1], right()) == (TYPE)(20 + me));                                              \
    CHECK(shmem_ctx_##NAME##_g(ctx, &there[2], right()) == (TYPE)(40 + me));                                     \
    shmem_barrier_all();                                                                                         \
    memset(there, 0, COUNT * sizeof(TYPE));                                                                      \
    for (int i = 0; i < COUNT; ++i) here[i] = (TYPE)(i + me);                                                    \
    shmem_barrier_all();                                                                                         \
    shmem_##NAME##_iput(there, here, 3, 2, 10, right());                                                         \
    shmem_ctx_##NAME##_iput(ctx, there + 1, here, 3, 2, 10, right());                                            \
    shmem_ctx_quiet(ctx);                                                                                        \
    shmem_barrier_all();                                                                                         \
    for (int i = 0; i < 10; ++i) {                                                                               \
      CHECK(there[3 * i] == (TYPE)(2 * i + left()) && there[3 * i + 1] == there[3 * i]);                         \
      CHECK(there[3 * i + 2] == (TYPE)0);                                                                        \
    }                                                                                                            \
    memset(here, 0, sizeof here);                                                                                \
    shmem_##NAME##_iget(here, there, 2, 3, 10, right());                                                         \
    shmem_ctx_##NAME##_iget(ctx, here + 1, there, 2, 3, 10, right());                                            \
    for (int i = 0; i < 10; ++i) CHECK(here[2 * i] == (TYPE)(2 * i + me) && here[2 * i + 1] == here[2 * i]);     \
    shmem_ctx_destroy(ctx);                                                                                      \
    shmem_free(word);                                                                                            \
    shmem_free(there);                                                                                           \
  }
ONSTREAM_SHMEM_RMA_TYPES(TRANSFER)

static void every_type_is_put_and_got(void) {
#define CALL(NAME, TYPE) transfer_##NAME();
  ONSTREAM_SHMEM_RMA_TYPES(CALL)
#undef CALL
}

#define SIZED(SIZE, BYTES)                                                                                  \
  static void sized_##SIZE(void) {                                                                          \
    enum { COUNT = 30, ALL = COUNT * (BYTES) };                                                             \
    unsigned char* there = shmem_calloc(ALL, 1);                                                            \
    uint64_t* word = shmem_calloc(1, sizeof *word);                                                         \
    unsigned char here[ALL], back[ALL];                                                                     \
    for (int i = 0; i < ALL; ++i) here[i] = (unsigned char)(i + me);                                        \
    for (int form = 0; form < 6; ++form) {                                                                  \
      memset(there, 0, ALL);                                                                                \
      shmem_barrier_all();                                                                                  \
      switch (form) {                                                                                       \
        case 0: shmem_put##SIZE(there, here, COUNT, right()); break;                                        \
        case 1: shmem_put##SIZE##_nbi(there, here, COUNT, right()); break;                                  \
        case 2: shmem_ctx_put##SIZE(SHMEM_CTX_DEFAULT, there, here, COUNT, right()); break;                 \
        case 3: shmem_ctx_put##SIZE##_nbi(SHMEM_CTX_DEFAULT, there, here, COUNT, right()); break;           \
        case 4: shmem_put##SIZE##_signal(there, here, COUNT, word, 3, SHMEM_SIGNAL_SET, right()); break;    \
        default: shmem_put##SIZE##_signal_nbi(there, here, COUNT, word, 3, SHMEM_SIGNAL_ADD, right());      \
      }                                                                                                     \
      shmem_barrier_all();                                                                                  \
      for (int i = 0; i < ALL; ++i) CHECK(there[i] == (unsigned char)(i + left()));                         \
      memset(back, 0, ALL);                                                                                 \
      switch (form) {                                                                                       \
        case 0: shmem_get##SIZE(back, there, COUNT, right()); break;                                        \
        case 1: shmem_get##SIZE##_nbi(back, there, COUNT, right()); break;                                  \
        case 2: shmem_ctx_get##SIZE(SHMEM_CTX_DEFAULT, back, there, COUNT, right()); break;                 \
        default: shmem_ctx_get##SIZE##_nbi(SHMEM_CTX_DEFAULT, back, there, COUNT, right());                 \
      }                                                                                                     \
      shmem_quiet();                                                                                        \
      CHECK(memcmp(back, here, ALL) == 0);                                                                  \
      shmem_barrier_all();                                                                                  \
    }                                                                                                       \
    CHECK(*word == 6);                                                                                      \
    memset(there, 0, ALL);                                                                                  \
    shmem_barrier_all();                                                                                    \
    shmem_iput##SIZE(there, here, 2, 3, 10, right());                                                       \
    shmem_barrier_all();                                                                                    \
    for (int i = 0; i < 10 * (BYTES); ++i) {                                                                \
      const int element = i / (BYTES), byte = i % (BYTES);                                                  \
      CHECK(there[2 * element * (BYTES) + byte] == (unsigned char)(3 * element * (BYTES) + byte + left())); \
    }                                                                                                       \
    memset(back, 0, ALL);                                                                                   \
    shmem_iget##SIZE(back, there, 3, 2, 10, right());                                                       \
    for (int i = 0; i < 10; ++i) CHECK(memcmp(back + 3 * i * (BYTES), here + 3 * i * (BYTES), BYTES) == 0); \
    shmem_free(word);                                                                                       \
    shmem_free(there);                                                                                      \
  }
ONSTREAM_SHMEM_SIZES(SIZED)

static void every_size_is_put_and_got(void) {
#define CALL(SIZE, BYTES) sized_##SIZE();
  ONSTREAM_SHMEM_SIZES(CALL)
#undef CALL
  enum { BYTES = 100000 };
  char* there = shmem_malloc(BYTES);
  char* here = malloc(BYTES);
  uint64_t* word = shmem_calloc(2, sizeof *word);
  memset(here, 'a' + me, BYTES);
  shmem_putmem(there, here, BYTES, right());
  shmem_barrier_all();
  CHECK(there[0] == 'a' + left() && there[BYTES - 1] == 'a' + left());
  shmem_barrier_all();
  memset(here, 'A' + me, BYTES);
  shmem_putmem_signal(there, here, BYTES, word, 1, SHMEM_SIGNAL_SET, right());
  CHECK(shmem_signal_wait_until(word, SHMEM_CMP_NE, 0) == 1 && there[BYTES - 1] == 'A' + left());
  shmem_getmem(here, there, BYTES, right());
  CHECK(here[0] == 'A' + me && here[BYTES - 1] == 'A' + me);
  shmem_barrier_all();
  shmem_putmem_nbi(there, here, BYTES, right());
  shmem_putmem_signal_nbi(there, here, BYTES, word + 1, 4, SHMEM_SIGNAL_ADD, right());
  shmem_getmem_nbi(here, there, 1, me);
  shmem_quiet();
  CHECK(shmem_signal_wait_until(word + 1, SHMEM_CMP_GE, 4) == 4 && shmem_signal_fetch(word + 1) == 4);
  shmem_barrier_all();
  shmem_signal_set(word, 40, right());
  shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, word, 2, right());
  CHECK(shmem_signal_wait_until(word, SHMEM_CMP_EQ, 42) == 42);
  shmem_barrier_all();
  shmem_free(word);
  shmem_free(there);
  free(here);
}

/* --- atomics --- */

#define EXTENDED(NAME, TYPE)                                                                     \
  static void extended_##NAME(void) {                                                            \
    TYPE* word = shmem_malloc(sizeof *word);                                                     \
    TYPE old = 0;                                                                                \
    *word = (TYPE)me;                                                                            \
    shmem_barrier_all();                                                                         \
    CHECK(shmem_##NAME##_atomic_fetch(word, right()) == (TYPE)right());                          \
    shmem_##NAME##_atomic_fetch_nbi(&old, word, left());                                         \
    shmem_quiet();                                                                               \
    CHECK(old == (TYPE)left());                                                                  \
    shmem_barrier_all();                                                                         \
    shmem_##NAME##_atomic_set(word, (TYPE)(me + 10), right());                                   \
    shmem_barrier_all();                                                                         \
    CHECK(*word == (TYPE)(left() + 10));                                                         \
    shmem_barrier_all();                                                                         \
    CHECK(shmem_##NAME##_atomic_swap(word, (TYPE)3, right()) == (TYPE)(me + 10));                \
    shmem_##NAME##_atomic_swap_nbi(&old, word, (TYPE)4, right());                                \
    shmem_quiet();                                                                               \
    CHECK(old == (TYPE)3);                                                                       \
    CHECK(shmem_ctx_##NAME##_atomic_fetch(SHMEM_CTX_DEFAULT, word, right()) == (TYPE)4);         \
    shmem_ctx_##NAME##_atomic_set(SHMEM_CTX_DEFAULT, word, (TYPE)5, right());                    \
    CHECK(shmem_ctx_##NAME##_atomic_swap(SHMEM_CTX_DEFAULT, word, (TYPE)6, right()) == (TYPE)5); \
    shmem_free(word);                                                                            \
  }
ONSTREAM_SHMEM_EXTENDED_TYPES(EXTENDED)

/* All PEs at once on one word of PE 0, so that a lost update shows. */
#define STANDARD(NAME, TYPE)                                                                    \
  static void standard_##NAME(void) {                                                           \
    enum { ROUNDS = 200 };                                                                      \
    TYPE* word = shmem_calloc(1, sizeof *word);                                                 \
    TYPE old = 0;                                                                               \
    for (int i = 0; i < ROUNDS; ++i) {                                                          \
      shmem_##NAME##_atomic_add(word, (TYPE)2, 0);                                              \
      shmem_##NAME##_atomic_inc(word, 0);                                                       \
      (void)shmem_##NAME##_atomic_fetch_add(word, (TYPE)3, 0);                                  \
      (void)shmem_##NAME##_atomic_fetch_inc(word, 0);                                           \
      shmem_##NAME##_atomic_fetch_add_nbi(&old, word, (TYPE)1, 0);                              \
      shmem_##NAME##_atomic_fetch_inc_nbi(&old, word, 0);                                       \
      shmem_ctx_##NAME##_atomic_add(SHMEM_CTX_DEFAULT, word, (TYPE)1, 0);                       \
    }                                                                                           \
    shmem_barrier_all();                                                                        \
    CHECK(shmem_##NAME##_atomic_fetch(word, 0) == (TYPE)(10 * ROUNDS * size));                  \
    shmem_barrier_all();                                                                        \
    for (int i = 0; i < ROUNDS; ++i) { /* a counter by compare and swap */                      \
      TYPE seen = shmem_##NAME##_atomic_fetch(word, 0);                                         \
      for (;;) {                                                                                \
        const TYPE found = shmem_##NAME##_atomic_compare_swap(word, seen, (TYPE)(seen + 1), 0); \
        if (found == seen) break;                                                               \
        seen = found;                                                                           \
      }                                                                                         \
    }                                                                                           \
    shmem_barrier_all();                                                                        \
    CHECK(shmem_##NAME##_g(word, 0) == (TYPE)(11 * ROUNDS * size));                             \
    shmem_##NAME##_atomic_compare_swap_nbi(&old, word, (TYPE)0, (TYPE)0, 0);                    \
    shmem_quiet();                                                                              \
    CHECK(old == (TYPE)(11 * ROUNDS * size));                                                   \
    shmem_free(word);                                                                           \
  }
ONSTREAM_SHMEM_ATOMIC_TYPES(STANDARD)

#define BITWISE(NAME, TYPE)                                                                  \
  static void bitwise_##NAME(void) {                                                         \
    TYPE* words = shmem_calloc(3, sizeof *words);                                            \
    TYPE old = 0;                                                                            \
    const TYPE bit = (TYPE)((TYPE)1 << me);                                                  \
    const TYPE all = (TYPE)(((TYPE)1 << size) - 1);                                          \
    words[1] = all;                                                                          \
    shmem_barrier_all();                                                                     \
    shmem_##NAME##_atomic_or(&words[0], bit, 0);                                             \
    shmem_##NAME##_atomic_and(&words[1], (TYPE)~bit, 0);                                     \
    shmem_##NAME##_atomic_xor(&words[2], bit, 0);                                            \
    shmem_barrier_all();                                                                     \
    CHECK(shmem_##NAME##_g(&words[0], 0) == all && shmem_##NAME##_g(&words[1], 0) == 0);     \
    CHECK(shmem_##NAME##_g(&words[2], 0) == all);                                            \
    shmem_barrier_all();                                                                     \
    CHECK((shmem_##NAME##_atomic_fetch_and(&words[0], (TYPE)~bit, 0) & bit) == bit);         \
    CHECK((shmem_##NAME##_atomic_fetch_or(&words[1], bit, 0) & bit) == 0);                   \
    CHECK((shmem_##NAME##_atomic_fetch_xor(&words[2], bit, 0) & bit) == bit);                \
    shmem_barrier_all();                                                                     \
    CHECK(shmem_##NAME##_g(&words[0], 0) == 0 && shmem_##NAME##_g(&words[1], 0) == all);     \
    shmem_##NAME##_atomic_fetch_or_nbi(&old, &words[1], 0, 0);                               \
    CHECK(shmem_ctx_##NAME##_atomic_fetch_and(SHMEM_CTX_DEFAULT, &words[1], all, 0) == all); \
    shmem_##NAME##_atomic_fetch_and_nbi(&old, &words[1], all, 0);                            \
    shmem_##NAME##_atomic_fetch_xor_nbi(&old, &words[1], 0, 0);                              \
    shmem_quiet();                                                                           \
    CHECK(old == all);                                                                       \
    shmem_free(words);                                                                       \
  }
ONSTREAM_SHMEM_BITWISE_TYPES(BITWISE)

static void every_atomic_is_atomic(void) {
#define CALL(NAME, TYPE) extended_##NAME();
  ONSTREAM_SHMEM_EXTENDED_TYPES(CALL)
#undef CALL
#define CALL(NAME, TYPE) standard_##NAME();
  ONSTREAM_SHMEM_ATOMIC_TYPES(CALL)
#undef CALL
#define CALL(NAME, TYPE) bitwise_##NAME();
  ONSTREAM_SHMEM_BITWISE_TYPES(CALL)
#undef CALL
  long* word = shmem_calloc(1, sizeof *word);
  shmem_long_add(word, 2, 0);
  shmem_long_inc(word, 0);
  shmem_long_fadd(word, 2, 0);
  shmem_long_finc(word, 0);
  shmem_barrier_all();
  CHECK(shmem_long_fetch(word, 0) == 6 * size && shmem_long_cswap(word, -1, 0, 0) == 6 * size);
  shmem_barrier_all();
  shmem_long_set(word, me, right());
  shmem_barrier_all();
  CHECK(shmem_long_swap(word, -1, right()) == me);
  shmem_free(word);
}

/* --- waits --- */

#define WAIT(NAME, TYPE)                                                                                    \
  static void wait_##NAME(void) {                                                                           \
    enum { COUNT = 6 };                                                                                     \
    TYPE* words = shmem_calloc(COUNT, sizeof *words);                                                       \
    TYPE values[COUNT];                                                                                     \
    size_t indices[COUNT];                                                                                  \
    const int status[COUNT] = {0, 0, 1, 0, 0, 0};                                                           \
    const int none[COUNT] = {1, 1, 1, 1, 1, 1};                                                             \
    const TYPE seven = 7;                                                                                   \
    CHECK(!shmem_##NAME##_test(words, SHMEM_CMP_NE, 0) && shmem_##NAME##_test(words, SHMEM_CMP_GE, 0));     \
    CHECK(!shmem_##NAME##_test_all(words, COUNT, NULL, SHMEM_CMP_GT, 0));                                   \
    CHECK(shmem_##NAME##_test_any(words, COUNT, NULL, SHMEM_CMP_GT, 0) == SIZE_MAX);                        \
    CHECK(shmem_##NAME##_test_some(words, COUNT, indices, NULL, SHMEM_CMP_GT, 0) == 0);                     \
    shmem_barrier_all();                                                                                    \
    shmem_putmem(words, &seven, sizeof seven, right());                                                     \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_EQ, 7);                                                      \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_GT, 6);                                                      \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_LT, 8);                                                      \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_LE, 7);                                                      \
    shmem_barrier_all();                                                                                    \
    for (int i = 1; i < COUNT; ++i) {                                                                       \
      values[i] = (TYPE)(i + 1);                                                                            \
      if (i != 2) shmem_putmem(&words[i], &values[i], sizeof(TYPE), right());                               \
    }                                                                                                       \
    values[0] = 7;                                                                                          \
    shmem_##NAME##_wait_until_all(words, COUNT, status, SHMEM_CMP_GE, 2);                                   \
    shmem_##NAME##_wait_until_all_vector(words, COUNT, status, SHMEM_CMP_EQ, values);                       \
    CHECK(shmem_##NAME##_test_all(words, COUNT, status, SHMEM_CMP_NE, 0));                                  \
    CHECK(shmem_##NAME##_test_all_vector(words, COUNT, status, SHMEM_CMP_EQ, values));                      \
    CHECK(shmem_##NAME##_wait_until_any(words, COUNT, status, SHMEM_CMP_EQ, 6) == 5);                       \
    CHECK(shmem_##NAME##_test_any(words, COUNT, status, SHMEM_CMP_EQ, 5) == 4);                             \
    values[3] = 100;                                                                                        \
    CHECK(shmem_##NAME##_wait_until_any_vector(words + 3, 2, NULL, SHMEM_CMP_EQ, values + 3) == 1);         \
    CHECK(shmem_##NAME##_test_any_vector(words + 3, 1, NULL, SHMEM_CMP_EQ, values + 3) == SIZE_MAX);        \
    CHECK(shmem_##NAME##_wait_until_some(words, COUNT, indices, status, SHMEM_CMP_GT, 4) == 3);             \
    CHECK(indices[0] == 0 && indices[1] == 4 && indices[2] == 5);                                           \
    CHECK(shmem_##NAME##_wait_until_some_vector(words, COUNT, indices, status, SHMEM_CMP_EQ, values) == 4); \
    CHECK(indices[0] == 0 && indices[1] == 1 && indices[2] == 4 && indices[3] == 5);                        \
    CHECK(shmem_##NAME##_test_some(words, COUNT, indices, NULL, SHMEM_CMP_EQ, 0) == 1 && indices[0] == 2);  \
    CHECK(shmem_##NAME##_test_some_vector(words, COUNT, indices, status, SHMEM_CMP_EQ, values) == 4);       \
    shmem_##NAME##_wait_until_all(words, COUNT, none, SHMEM_CMP_EQ, 99);                                    \
    CHECK(shmem_##NAME##_wait_until_any(words, COUNT, none, SHMEM_CMP_EQ, 99) == SIZE_MAX);                 \
    CHECK(shmem_##NAME##_wait_until_some(words, COUNT, indices, none, SHMEM_CMP_EQ, 99) == 0);              \
    CHECK(shmem_##NAME##_test_all(words, COUNT, none, SHMEM_CMP_EQ, 99));                                   \
    shmem_free(words);                                                                                      \
  }
ONSTREAM_SHMEM_WAIT_TYPES(WAIT)

static void every_wait_and_test_sees_its_words(void) {
#define CALL(NAME, TYPE) wait_##NAME();
  ONSTREAM_SHMEM_WAIT_TYPES(CALL)
#undef CALL
  static long word;
  static short narrow;
  const short one = 1;
  shmem_long_p(&word, -3, right());
  shmem_putmem(&narrow, &one, sizeof one, right());
  shmem_long_wait_until(&word, SHMEM_CMP_LT, 0);
  shmem_wait_until(&word, SHMEM_CMP_EQ, -3);
  shmem_long_wait(&word, 0);
  shmem_wait(&word, 0);
  shmem_short_wait(&narrow, 0);
}

/* The word has changed again when the wait has seen it. */
static void a_wait_for_a_signal_gives_what_it_waited_for(void) {
  static uint64_t word, over;
  enum { WAITS = 20000 };
  over = word = 0;
  shmem_barrier_all();
  if (me == 0) {
    while (size > 1 && shmem_uint64_atomic_fetch(&over, 0) == 0) {
      shmem_signal_set(&word, 2, 1);
      shmem_signal_set(&word, 1, 1);
    }
  } else if (me == 1) {
    int others = 0;
    for (int i = 0; i < WAITS; ++i) others += shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 1) != 1;
    shmem_uint64_atomic_set(&over, 1, 0);
    CHECK(others == 0);
  }
  shmem_barrier_all();
}

/* --- order, contexts, teams --- */

static void contexts_order_their_own_puts(void) {
  enum { CONTEXTS = 8 };
  shmem_ctx_t contexts[CONTEXTS];
  const long options[CONTEXTS] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE};
  long* words = shmem_calloc(2 * CONTEXTS, sizeof *words);
  for (int i = 0; i < CONTEXTS; ++i) {
    CHECK(shmem_ctx_create(options[i] & ~SHMEM_CTX_NOSTORE, &contexts[i]) == 0 && contexts[i] != SHMEM_CTX_INVALID);
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK(shmem_ctx_get_team(contexts[i], &team) == 0 && team == SHMEM_TEAM_WORLD);
  }
  for (int i = 0; i < CONTEXTS; ++i) {
    shmem_ctx_long_p(contexts[i], &words[2 * i], me + 1, right());
    shmem_ctx_fence(contexts[i]);
    shmem_ctx_long_p(contexts[i], &words[2 * i + 1], 1, right());
  }
  for (int i = 0; i < CONTEXTS; ++i) {
    shmem_long_wait_until(&words[2 * i + 1], SHMEM_CMP_EQ, 1);
    CHECK(words[2 * i] == left() + 1);
    shmem_ctx_quiet(contexts[i]);
    shmem_ctx_destroy(contexts[i]);
  }
  shmem_ctx_destroy(SHMEM_CTX_INVALID);
  shmem_team_t team = SHMEM_TEAM_WORLD;
  CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
  CHECK(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team) == 0 && team == SHMEM_TEAM_WORLD);
  shmem_ctx_fence(SHMEM_CTX_INVALID);
  shmem_ctx_quiet(SHMEM_CTX_INVALID);
  shmem_fence();
  shmem_sync_all();
  shmem_free(words);
}

static void teams_are_split_translated_and_destroyed(void) {
  CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == size);
  const char* of_a_host = getenv("ONSTREAM_HOST_RANKS");
  const int sharing = of_a_host == NULL ? size : atoi(of_a_host);
  CHECK(shmem_team_n_pes(SHMEM_TEAM_SHARED) == sharing && shmem_team_my_pe(SHMEM_TEAM_SHARED) == me % sharing);
  CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
  shmem_team_config_t config = {3}, found = {0};
  shmem_team_t even, one, backwards;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (size + 1) / 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
  if (me % 2 == 0) {
    CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == (size + 1) / 2);
    CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &found) == 0 && found.num_contexts == 3);
    CHECK(shmem_team_translate_pe(even, me / 2, SHMEM_TEAM_WORLD) == me);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1, even) == -1);
    CHECK(shmem_team_sync(even) == 0);
    shmem_ctx_t ctx;
    long* word = NULL;
    CHECK(shmem_team_create_ctx(even, 0, &ctx) == 0);
    shmem_team_t its = SHMEM_TEAM_INVALID;
    CHECK(shmem_ctx_get_team(ctx, &its) == 0 && its == even && word == NULL);
    static long put_here;
    const int next = (me / 2 + 1) % ((size + 1) / 2);
    shmem_ctx_long_p(ctx, &put_here, me + 1, next); /* the team's own numbers */
    shmem_ctx_quiet(ctx);
    shmem_team_sync(even);
    CHECK(put_here == 2 * ((me / 2 + (size + 1) / 2 - 1) % ((size + 1) / 2)) + 1);
    shmem_ctx_destroy(ctx);
    CHECK(shmem_team_split_strided(even, 0, 1, 1, NULL, 0, &one) == 0);
    CHECK((one == SHMEM_TEAM_INVALID) == (me != 0));
    shmem_team_destroy(one);
  } else {
    CHECK(even == SHMEM_TEAM_INVALID && shmem_team_get_config(even, 0, &found) != 0);
  }
  shmem_team_destroy(even);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, size - 1, -1, size, NULL, 0, &backwards) == 0);
  CHECK(shmem_team_my_pe(backwards) == size - 1 - me);
  shmem_team_destroy(backwards);
  shmem_team_t row, column;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
  CHECK(shmem_team_my_pe(row) == me % 2 && shmem_team_my_pe(column) == me / 2);
  shmem_team_destroy(row);
  shmem_team_destroy(column);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size + 1, NULL, 0, &row) != 0 && row == SHMEM_TEAM_INVALID);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &row) != 0 && row == SHMEM_TEAM_INVALID);
  shmem_team_destroy(SHMEM_TEAM_INVALID);
  enum { MANY = 64 };
  shmem_team_t teams[MANY];
  int count = 0; /* all there can be at once: then every PE is refused, also those in no new team */
  while (count < MANY && shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 0, &teams[count]) == 0) ++count;
  static int mine, most;
  mine = count;
  shmem_int_max_reduce(SHMEM_TEAM_WORLD, &most, &mine, 1);
  CHECK(count > 8 && count < MANY && most == count);
  for (int i = 0; i < count; ++i) shmem_team_destroy(teams[i]);
  for (int i = 0; i < 100; ++i) { /* more than there can be at once */
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size, NULL, 0, &row) == 0);
    shmem_team_destroy(row);
  }
}

/* --- collectives --- */

#define MOVES(NAME, TYPE)                                                                               \
  static void moves_##NAME(shmem_team_t team) {                                                         \
    enum { COUNT = 9, MOST = 8 };                                                                       \
    const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);                              \
    TYPE* from = shmem_malloc(MOST * 2 * COUNT * sizeof(TYPE));                                         \
    TYPE* to = shmem_malloc(MOST * MOST * 2 * COUNT * sizeof(TYPE));                                    \
    if (team != SHMEM_TEAM_INVALID) {                                                                   \
      for (int i = 0; i < MOST * 2 * COUNT; ++i) from[i] = (TYPE)((i + 7 * mine) % 100);                \
      for (int root = 0; root < all; ++root) {                                                          \
        memset(to, 0, COUNT * sizeof(TYPE));                                                            \
        CHECK(shmem_##NAME##_broadcast(team, to, from, COUNT, root) == 0);                              \
        for (int i = 0; i < COUNT; ++i) CHECK(to[i] == (TYPE)((i + 7 * root) % 100));                   \
      }                                                                                                 \
      CHECK(shmem_##NAME##_fcollect(team, to, from, COUNT) == 0);                                       \
      for (int pe = 0, k = 0; pe < all; ++pe)                                                           \
        for (int i = 0; i < COUNT; ++i, ++k) CHECK(to[k] == (TYPE)((i + 7 * pe) % 100));                \
      CHECK(shmem_##NAME##_collect(team, to, from, (size_t)mine) == 0);                                 \
      for (int pe = 0, k = 0; pe < all; ++pe)                                                           \
        for (int i = 0; i < pe; ++i, ++k) CHECK(to[k] == (TYPE)((i + 7 * pe) % 100));                   \
      CHECK(shmem_##NAME##_alltoall(team, to, from, COUNT) == 0);                                       \
      for (int pe = 0, k = 0; pe < all; ++pe)                                                           \
        for (int i = 0; i < COUNT; ++i, ++k) CHECK(to[k] == (TYPE)((COUNT * mine + i + 7 * pe) % 100)); \
      memset(to, 0, (size_t)all * 3 * COUNT * sizeof(TYPE));                                            \
      CHECK(shmem_##NAME##_alltoalls(team, to, from, 3, 2, COUNT) == 0);                                \
      for (int pe = 0; pe < all; ++pe)                                                                  \
        for (int i = 0; i < COUNT; ++i) {                                                               \
          CHECK(to[3 * (pe * COUNT + i)] == (TYPE)((2 * (COUNT * mine + i) + 7 * pe) % 100));           \
          CHECK(to[3 * (pe * COUNT + i) + 1] == (TYPE)0);                                               \
        }                                                                                               \
    }                                                                                                   \
    shmem_free(to);                                                                                     \
    shmem_free(from);                                                                                   \
  }
ONSTREAM_SHMEM_RMA_TYPES(MOVES)

static void with_each_team(void (*run)(shmem_team_t)) {
  shmem_team_t odd, nested = SHMEM_TEAM_INVALID;
  run(SHMEM_TEAM_WORLD);
  run(SHMEM_TEAM_SHARED);
  shmem_team_split_strided(SHMEM_TEAM_WORLD, size > 1 ? 1 : 0, size > 1 ? 2 : 1, size > 1 ? size / 2 : 1, NULL, 0,
                           &odd);
  run(odd);
  if (odd != SHMEM_TEAM_INVALID) {
    shmem_team_split_strided(odd, shmem_team_n_pes(odd) - 1, -1, shmem_team_n_pes(odd), NULL, 0, &nested);
  }
  run(nested);
  shmem_team_destroy(nested);
  shmem_team_destroy(odd);
}

static void teams_move_every_type(void) {
#define CALL(NAME, TYPE) with_each_team(moves_##NAME);
  ONSTREAM_SHMEM_RMA_TYPES(CALL)
#undef CALL
  char* words = shmem_calloc((size_t)(size + 1) * 8, 1);
  char* all = shmem_calloc((size_t)(size + 1) * 8, 1);
  memset(words, 'a' + me, (size_t)size);
  CHECK(shmem_fcollectmem(SHMEM_TEAM_WORLD, all, words, 1) == 0 && all[size - 1] == 'a' + size - 1);
  CHECK(shmem_broadcastmem(SHMEM_TEAM_WORLD, all, words, 1, size - 1) == 0 && all[0] == 'a' + size - 1);
  CHECK(shmem_collectmem(SHMEM_TEAM_WORLD, all, words, me == 0 ? 0 : 1) == 0);
  CHECK(size == 1 || all[0] == 'b');
  CHECK(shmem_alltoallmem(SHMEM_TEAM_WORLD, all, words, 1) == 0 && all[size - 1] == 'a' + size - 1);
  CHECK(shmem_alltoallsmem(SHMEM_TEAM_WORLD, all, words, 2, 1, 1) == 0 && all[2 * (size - 1)] == 'a' + size - 1);
  shmem_free(all);
  shmem_free(words);
}

/* Element i of PE p is i + p + 1, small enough for every type; sizes on both sides of what is done at once. */
#define EXPECT(TYPE, START, STEP)              \
  TYPE expected = (TYPE)(START);               \
  for (int pe = 0; pe < all; ++pe) {           \
    const TYPE one = (TYPE)((i % 3) + pe + 1); \
    STEP;                                      \
  }                                            \
  CHECK(to[i] == expected)
#define REDUCE(NAME, TYPE, OP, START, STEP)                                             \
  static void OP##_##NAME(shmem_team_t team) {                                          \
    const size_t counts[] = {1, 30, 3001};                                              \
    TYPE* from = shmem_malloc(3001 * sizeof(TYPE));                                     \
    TYPE* to = shmem_malloc(3001 * sizeof(TYPE));                                       \
    const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);              \
    for (size_t c = 0; c < 3 && team != SHMEM_TEAM_INVALID; ++c) {                      \
      for (size_t i = 0; i < counts[c]; ++i) from[i] = (TYPE)((int)(i % 3) + mine + 1); \
      CHECK(shmem_##NAME##_##OP##_reduce(team, to, from, counts[c]) == 0);              \
      for (size_t i = 0; i < counts[c]; ++i) {                                          \
        EXPECT(TYPE, START, STEP);                                                      \
      }                                                                                 \
      CHECK(shmem_##NAME##_##OP##_reduce(team, from, from, counts[c]) == 0);            \
      for (size_t i = 0; i < counts[c]; ++i) CHECK(from[i] == to[i]);                   \
    }                                                                                   \
    shmem_free(to);                                                                     \
    shmem_free(from);                                                                   \
  }
#define SUMS(NAME, TYPE)                                        \
  REDUCE(NAME, TYPE, sum, 0, expected = (TYPE)(expected + one)) \
  REDUCE(NAME, TYPE, prod, 1, expected = (TYPE)(expected * one))
#define ORDER(NAME, TYPE)                                                  \
  SUMS(NAME, TYPE)                                                         \
  REDUCE(NAME, TYPE, min, 100, expected = one < expected ? one : expected) \
  REDUCE(NAME, TYPE, max, 0, expected = one > expected ? one : expected)
#define BITS(NAME, TYPE)                                         \
  REDUCE(NAME, TYPE, and, -1, expected = (TYPE)(expected & one)) \
  REDUCE(NAME, TYPE, or, 0, expected = (TYPE)(expected | one))   \
  REDUCE(NAME, TYPE, xor, 0, expected = (TYPE)(expected ^ one))
ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(ORDER)
ONSTREAM_SHMEM_BITS_REDUCE_TYPES(BITS)
ONSTREAM_SHMEM_COMPLEX_TYPES(SUMS)

static void teams_reduce_every_type(void) {
#define CALL(NAME, TYPE)                                                                     \
  sum_##NAME(SHMEM_TEAM_WORLD), prod_##NAME(SHMEM_TEAM_WORLD), min_##NAME(SHMEM_TEAM_WORLD), \
      max_##NAME(SHMEM_TEAM_WORLD);
  ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(CALL)
#undef CALL
#define CALL(NAME, TYPE) and_##NAME(SHMEM_TEAM_WORLD), or_##NAME(SHMEM_TEAM_WORLD), xor_##NAME(SHMEM_TEAM_WORLD);
  ONSTREAM_SHMEM_BITS_REDUCE_TYPES(CALL)
#undef CALL
#define CALL(NAME, TYPE) sum_##NAME(SHMEM_TEAM_WORLD), prod_##NAME(SHMEM_TEAM_WORLD);
  ONSTREAM_SHMEM_COMPLEX_TYPES(CALL)
#undef CALL
  with_each_team(sum_long);
  with_each_team(max_double);
  with_each_team(xor_uint16);
  with_each_team(sum_complexd);
}

/* --- active sets --- */

static long sync_words[2][SHMEM_SYNC_SIZE];
static double work[64];

static void active_sets_move_and_reduce(void) {
  enum { COUNT = 5 };
  static int from[64], to[256];
  static long long_from[64], long_to[256];
  /* all PEs, and the even ones */
  for (int set = 0; set < 2; ++set) {
    const int stride = set, all = set == 0 ? size : (size + 1) / 2;
    shmem_barrier_all();
    if (set == 1 && me % 2 != 0) continue;
    const int mine = set == 0 ? me : me / 2;
    long* words = sync_words[set];
    for (int round = 0; round < 20; ++round) { /* the same words again and again */
      shmem_barrier(0, stride, all, words);
      shmem_sync(0, stride, all, words);
    }
    for (int i = 0; i < 64; ++i) from[i] = i + 100 * mine, long_from[i] = i + 1000 * mine;
    memset(to, 0, sizeof to);
    shmem_broadcast32(to, from, COUNT, all - 1, 0, stride, all, words);
    CHECK(to[1] == (mine == all - 1 ? 0 : 1 + 100 * (all - 1))); /* the root's own stays */
    shmem_broadcast64(long_to, long_from, COUNT, 0, 0, stride, all, words);
    CHECK(mine == 0 || long_to[2] == 2);
    shmem_fcollect32(to, from, COUNT, 0, stride, all, words);
    shmem_fcollect64(long_to, long_from, COUNT, 0, stride, all, words);
    for (int pe = 0; pe < all; ++pe) {
      CHECK(to[pe * COUNT + 4] == 4 + 100 * pe && long_to[pe * COUNT + 3] == 3 + 1000 * pe);
    }
    shmem_collect32(to, from, (size_t)mine + 1, 0, stride, all, words);
    shmem_collect64(long_to, long_from, (size_t)mine + 1, 0, stride, all, words);
    for (int pe = 0, k = 0; pe < all; ++pe) {
      for (int i = 0; i <= pe; ++i, ++k) CHECK(to[k] == i + 100 * pe && long_to[k] == i + 1000 * pe);
    }
    shmem_alltoall32(to, from, 2, 0, stride, all, words);
    shmem_alltoall64(long_to, long_from, 2, 0, stride, all, words);
    for (int pe = 0; pe < all; ++pe) {
      CHECK(to[2 * pe + 1] == 2 * mine + 1 + 100 * pe && long_to[2 * pe] == 2 * mine + 1000 * pe);
    }
    shmem_alltoalls32(to, from, 2, 1, 2, 0, stride, all, words);
    shmem_alltoalls64(long_to, long_from, 1, 2, 2, 0, stride, all, words);
    for (int pe = 0; pe < all; ++pe) {
      CHECK(to[2 * (2 * pe + 1)] == 2 * mine + 1 + 100 * pe && long_to[2 * pe + 1] == 2 * (2 * mine + 1) + 1000 * pe);
    }
#define TO_ALL(NAME, TYPE, OP, START, STEP)                                            \
  {                                                                                    \
    static TYPE a[64], b[64];                                                          \
    for (int i = 0; i < 33; ++i) a[i] = (TYPE)(i % 3 + mine + 1);                      \
    shmem_##NAME##_##OP##_to_all(b, a, 33, 0, stride, all, (TYPE*)(void*)work, words); \
    for (int i = 0; i < 33; ++i) {                                                     \
      TYPE expected = (TYPE)(START);                                                   \
      for (int pe = 0; pe < all; ++pe) {                                               \
        const TYPE one = (TYPE)(i % 3 + pe + 1);                                       \
        STEP;                                                                          \
      }                                                                                \
      CHECK(b[i] == expected);                                                         \
    }                                                                                  \
  }
#define BITS_TO_ALL(NAME, TYPE)                                  \
  TO_ALL(NAME, TYPE, and, -1, expected = (TYPE)(expected & one)) \
  TO_ALL(NAME, TYPE, or, 0, expected = (TYPE)(expected | one))   \
  TO_ALL(NAME, TYPE, xor, 0, expected = (TYPE)(expected ^ one))
#define ORDER_TO_ALL(NAME, TYPE)                                           \
  TO_ALL(NAME, TYPE, min, 100, expected = one < expected ? one : expected) \
  TO_ALL(NAME, TYPE, max, 0, expected = one > expected ? one : expected)
#define SUMS_TO_ALL(NAME, TYPE)                                 \
  TO_ALL(NAME, TYPE, sum, 0, expected = (TYPE)(expected + one)) \
  TO_ALL(NAME, TYPE, prod, 1, expected = (TYPE)(expected * one))
    ONSTREAM_SHMEM_OLD_INTEGERS(BITS_TO_ALL)
    ONSTREAM_SHMEM_OLD_INTEGERS(ORDER_TO_ALL)
    ONSTREAM_SHMEM_OLD_REALS(ORDER_TO_ALL)
    ONSTREAM_SHMEM_OLD_INTEGERS(SUMS_TO_ALL)
    ONSTREAM_SHMEM_OLD_REALS(SUMS_TO_ALL)
    ONSTREAM_SHMEM_COMPLEX_TYPES(SUMS_TO_ALL)
    for (int i = 0; i < SHMEM_SYNC_SIZE; ++i) CHECK(words[i] == SHMEM_SYNC_VALUE);
  }
  shmem_barrier_all();
}

/* --- locks --- */

static long lock_word, other_lock;
static long guarded_count;

static void a_lock_excludes_the_others(void) {
  enum { ROUNDS = 100 };
  for (int i = 0; i < ROUNDS; ++i) {
    shmem_set_lock(&lock_word);
    const long seen = shmem_long_g(&guarded_count, 0); /* not atomic: the lock makes it right */
    shmem_long_p(&guarded_count, seen + 1, 0);
    shmem_clear_lock(&lock_word);
  }
  for (int i = 0; i < ROUNDS; ++i) {
    while (shmem_test_lock(&other_lock) != 0) {
    }
    const long seen = shmem_long_g(&guarded_count, size - 1);
    if (size > 1) shmem_long_p(&guarded_count, seen + 1, size - 1);
    shmem_clear_lock(&other_lock);
  }
  shmem_barrier_all();
  CHECK(shmem_long_g(&guarded_count, 0) == ROUNDS * size);
  CHECK(size == 1 || shmem_long_g(&guarded_count, size - 1) == ROUNDS * size);
  shmem_barrier_all();
  if (me == 0) {
    CHECK(shmem_test_lock(&lock_word) == 0);
    CHECK(shmem_test_lock(&lock_word) == 1);
    shmem_clear_lock(&lock_word);
  }
}

/* A free lock whose two counts, of 22 bits above the holder's 20, are at their last value. */
static void a_lock_outlives_the_end_of_its_counts(void) {
  static long late_lock = (long)(((UINT64_C(1) << 44) - 1) << 20);
  static long count;
  enum { ROUNDS = 3 };
  for (int i = 0; i < ROUNDS; ++i) {
    shmem_set_lock(&late_lock);
    const long seen = shmem_long_g(&count, 0);
    CHECK(shmem_test_lock(&late_lock) == 1);
    shmem_long_p(&count, seen + 1, 0);
    shmem_clear_lock(&late_lock);
  }
  shmem_barrier_all();
  CHECK(shmem_long_g(&count, 0) == (long)ROUNDS * size);
}

static long contended_lock;

static void* take_and_give_back(void* unused) {
  shmem_set_lock(&contended_lock);
  shmem_clear_lock(&contended_lock);
  return unused;
}

static void a_thread_that_waits_for_a_lock_leaves_the_others_free(void) {
  if (me != 0) return;
  const volatile uint64_t* word = (const volatile uint64_t*)&contended_lock; /* its upper 22 bits count the tickets */
  pthread_t other;
  shmem_set_lock(&contended_lock);
  CHECK(pthread_create(&other, NULL, take_and_give_back, NULL) == 0);
  while (*word >> 42 != 2) sched_yield();
  shmem_long_p(&global_word, 6, right());
  CHECK(shmem_long_g(&global_word, right()) == 6);
  shmem_clear_lock(&contended_lock);
  CHECK(pthread_join(other, NULL) == 0);
}

/* --- generic names --- */

static void generic_names_find_their_types(void) {
  static double reals[4], more[4];
  static unsigned long bits, flags[2];
  static short narrow[2];
  shmem_p(&reals[1], 2.5 + me, right());
  shmem_put(SHMEM_CTX_DEFAULT, more, reals, 1, me);
  shmem_p(SHMEM_CTX_DEFAULT, narrow, (short)(me + 3), right());
  shmem_barrier_all();
  CHECK(reals[1] == 2.5 + left() && shmem_g(narrow, me) == left() + 3 &&
        shmem_g(SHMEM_CTX_DEFAULT, &reals[1], right()) == 2.5 + me);
  shmem_atomic_or(&bits, 1ul << me, 0);
  shmem_atomic_add(SHMEM_CTX_DEFAULT, &flags[0], 1ul, right());
  shmem_wait_until(&flags[0], SHMEM_CMP_EQ, 1ul);
  CHECK(shmem_test(&flags[0], SHMEM_CMP_GT, 0ul));
  shmem_barrier_all();
  CHECK(shmem_atomic_fetch(&bits, 0) == (1ul << size) - 1);
  CHECK(shmem_sum_reduce(SHMEM_TEAM_WORLD, more, &reals[1], 1) == 0 && more[0] == 2.5 * size + size * (size - 1) / 2.0);
  CHECK(shmem_broadcast(SHMEM_TEAM_WORLD, more, &reals[1], 1, 0) == 0 && more[0] == 2.5 + size - 1);
  shmem_sync(SHMEM_TEAM_WORLD);
}

static void exit_all(void) { shmem_global_exit(0); }

/* Its end is not the PE's, which goes on; and its calls say that it is none, and end it alone. */
static void a_forked_child_is_no_pe(void) {
  CHECK(status_of_child(do_nothing) == 0);
  CHECK(status_of_child(exit_all) > 0);
  static long word;
  shmem_long_p(&word, me + 1, right());
  shmem_barrier_all();
  CHECK(word == left() + 1);
}

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(globals_and_statics_are_symmetric)  /* as the program begins with them */
    CASE(a_pe_knows_itself_and_the_others)
    CASE(the_heap_allocates_resizes_and_frees)
    CASE(every_type_is_put_and_got)
    CASE(every_size_is_put_and_got)
    CASE(every_atomic_is_atomic)
    CASE(every_wait_and_test_sees_its_words)
    CASE(a_wait_for_a_signal_gives_what_it_waited_for)
    CASE(contexts_order_their_own_puts)
    CASE(teams_are_split_translated_and_destroyed)
    CASE(teams_move_every_type)
    CASE(teams_reduce_every_type)
    CASE(active_sets_move_and_reduce)
    CASE(a_lock_excludes_the_others)
    CASE(a_lock_outlives_the_end_of_its_counts)
    CASE(a_thread_that_waits_for_a_lock_leaves_the_others_free)
    CASE(generic_names_find_their_types)
    CASE(a_forked_child_is_no_pe)
  };
  /* clang-format on */
  int level = -1;
  if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) != 0 || level != SHMEM_THREAD_MULTIPLE) return 2;
  me = shmem_my_pe();
  size = shmem_n_pes();
  const int status = run_cases(cases, sizeof cases / sizeof cases[0], argc > 1 ? argv[1] : NULL);
  shmem_finalize();
  return status;
}
