/* Every call of onstream_upc.h, its results compared with what they must be, for any number of threads. */
#include <unistd.h>

#include "forked.h"
#include "upc.h"

static int right(void) { return (MYTHREAD + 1) % THREADS; }
static int left(void) { return (MYTHREAD + THREADS - 1) % THREADS; }

/* The same place at another thread. */
static upc_ptr_t at_thread(upc_ptr_t ptr, int thread) {
  ptr.thread = (uint32_t)thread;
  return ptr;
}
static upc_ptr_t plus(upc_ptr_t ptr, size_t bytes) { return upc_ptr_add(ptr, 1, 0, (ptrdiff_t)bytes); }

static unsigned char byte_of(size_t i, int seed) { return (unsigned char)(i * 7 + i / 251 + (size_t)seed * 31 + 5); }
static void fill(unsigned char* bytes, size_t n, int seed) {
  for (size_t i = 0; i < n; ++i) bytes[i] = byte_of(i, seed);
}
static int is_filled(const unsigned char* bytes, size_t n, int seed) {
  for (size_t i = 0; i < n; ++i) {
    if (bytes[i] != byte_of(i, seed)) return 0;
  }
  return 1;
}

/* Until another thread has written it there. */
static void wait_for_word(const volatile int* word, int value) {
  const double end = now_s() + 15;
  while (*word != value) CHECK(now_s() < end);
}

static void a_thread_knows_itself_and_the_others(void) {
  CHECK(MYTHREAD >= 0 && MYTHREAD < THREADS);
  CHECK(upc_mythread() == MYTHREAD && upc_threads() == THREADS);
  upc_ptr_t all = upc_all_alloc((size_t)THREADS, sizeof(int));
  const int mine = MYTHREAD;
  upc_memput(upc_ptr_add(all, sizeof(int), 1, MYTHREAD), &mine, sizeof mine);
  upc_barrier();
  for (int thread = 0; thread < THREADS; ++thread) {
    int theirs = -1;
    upc_memget(&theirs, upc_ptr_add(all, sizeof(int), 1, thread), sizeof theirs);
    CHECK(theirs == thread);
  }
  upc_all_free(all);
}

/* --- allocation --- */

static void all_alloc_deals_blocks_to_the_threads(void) {
  enum { BLOCK = 3, ELEMENTS = 50 };
  const size_t blocks = (ELEMENTS + BLOCK - 1) / BLOCK;
  upc_ptr_t array = upc_all_alloc(blocks, BLOCK * sizeof(long));
  CHECK(upc_threadof(array) == 0 && upc_phaseof(array) == 0 && !upc_ptr_is_null(array));
  for (long i = 0; i < ELEMENTS; ++i) {
    upc_ptr_t at = upc_ptr_add(array, sizeof(long), BLOCK, i);
    CHECK(upc_threadof(at) == (size_t)(i / BLOCK % THREADS));
    if (upc_threadof(at) != (size_t)MYTHREAD) continue;
    *(long*)upc_cast(at) = 1000 + i;
  }
  upc_barrier();
  for (long i = 0; i < ELEMENTS; ++i) {
    long value = 0;
    upc_memget(&value, upc_ptr_add(array, sizeof(long), BLOCK, i), sizeof value);
    CHECK(value == 1000 + i);
  }
  upc_barrier();
  if (MYTHREAD == THREADS - 1) upc_free(array); /* one thread frees what all allocated */
  upc_barrier();
  CHECK(upc_ptr_is_null(upc_all_alloc(0, 8)) && upc_ptr_is_null(upc_all_alloc(8, 0)));
  upc_all_free(UPC_NULL);
  upc_free(UPC_NULL);
}

static void a_thread_allocates_and_frees_while_the_others_compute(void) {
  upc_ptr_t words = upc_all_alloc((size_t)THREADS, sizeof(int));
  upc_ptr_t pieces = upc_all_alloc((size_t)THREADS, sizeof(upc_ptr_t));
  volatile int* mine = upc_cast(at_thread(words, MYTHREAD));
  *mine = 0;
  upc_ptr_t own = upc_alloc(100);
  memcpy(upc_cast(at_thread(pieces, MYTHREAD)), &own, sizeof own);
  upc_barrier();
  if (MYTHREAD == 0) {
    for (int round = 0; round < 50; ++round) {
      upc_ptr_t array = upc_global_alloc((size_t)THREADS, 64);
      CHECK(upc_threadof(array) == 0 && upc_phaseof(array) == 0);
      for (int thread = 0; thread < THREADS; ++thread) upc_memset(at_thread(array, thread), round, 64);
      unsigned char got[64];
      upc_memget(got, at_thread(array, THREADS - 1), sizeof got);
      for (int i = 0; i < 64; ++i) CHECK(got[i] == round);
      upc_free(array);
      upc_free(upc_alloc(1000));
    }
    for (int thread = 0; thread < THREADS; ++thread) { /* what the others allocated */
      upc_ptr_t theirs;
      upc_memget(&theirs, at_thread(pieces, thread), sizeof theirs);
      CHECK(upc_threadof(theirs) == (size_t)thread);
      upc_free(theirs);
    }
    const int done = 1;
    for (int thread = 0; thread < THREADS; ++thread) upc_memput(at_thread(words, thread), &done, sizeof done);
  }
  wait_for_word(mine, 1);
  upc_all_free(pieces);
  upc_all_free(words);
}

static void pieces_that_are_freed_become_room_again(void) {
  enum { COUNT = 600 };
  static upc_ptr_t pieces[COUNT];
  for (int i = 0; i < COUNT; ++i) {
    const size_t bytes = (size_t)(1 + i * 37 % 5000);
    pieces[i] = i % 3 == 0 ? upc_global_alloc((size_t)THREADS, bytes) : upc_alloc(bytes);
    CHECK(!upc_ptr_is_null(pieces[i]));
    upc_memset(at_thread(pieces[i], MYTHREAD), i, bytes);
  }
  for (int i = 0; i < COUNT; i += 2) upc_free(pieces[i]);
  for (int i = 1; i < COUNT; i += 2) {
    const size_t bytes = (size_t)(1 + i * 37 % 5000);
    const unsigned char* held = upc_cast(at_thread(pieces[i], MYTHREAD));
    CHECK(held[0] == (unsigned char)i && held[bytes - 1] == (unsigned char)i);
  }
  for (int i = 1; i < COUNT; i += 2) upc_free(pieces[COUNT - i]);
  upc_barrier();
  /* The tests give 8 MiB a thread, and half of it is for each sort of pieces: all of that is one block again. */
  upc_ptr_t whole = upc_alloc((size_t)4 << 20);
  CHECK(!upc_ptr_is_null(whole) && upc_ptr_is_null(upc_alloc(1)));
  upc_free(whole);
  upc_barrier();
  whole = upc_all_alloc((size_t)THREADS, (size_t)4 << 20);
  CHECK(!upc_ptr_is_null(whole));
  CHECK(upc_ptr_is_null(upc_all_alloc(1, 1)) && upc_ptr_is_null(upc_global_alloc(1, 1)));
  upc_all_free(whole);
}

static void room_that_all_freed_is_there_for_each(void) {
  for (int round = 0; round < 50; ++round) {
    upc_ptr_t whole = upc_all_alloc((size_t)THREADS, (size_t)4 << 20);
    CHECK(!upc_ptr_is_null(whole));
    upc_all_free(whole);
    if (MYTHREAD == THREADS - 1) {
      whole = upc_global_alloc((size_t)THREADS, (size_t)4 << 20);
      CHECK(!upc_ptr_is_null(whole));
      upc_free(whole);
    }
    upc_barrier();
  }
}

static void no_room_is_null(void) {
  CHECK(upc_ptr_is_null(upc_alloc((size_t)1 << 40)) && upc_ptr_is_null(upc_alloc(SIZE_MAX)));
  CHECK(upc_ptr_is_null(upc_global_alloc((size_t)THREADS, (size_t)1 << 40)));
  CHECK(upc_ptr_is_null(upc_global_alloc(SIZE_MAX, SIZE_MAX)));
  CHECK(upc_ptr_is_null(upc_all_alloc((size_t)THREADS, (size_t)1 << 40)));
  CHECK(upc_ptr_is_null(upc_alloc(0)) && upc_ptr_is_null(upc_global_alloc(0, 4)));
  upc_ptr_t piece = upc_alloc(64);
  CHECK(!upc_ptr_is_null(piece));
  upc_free(piece);
}

static void host_and_device_memory_are_in_one_space(void) {
  enum { BYTES = 5000 };
  unsigned char bytes[BYTES], got[BYTES];
  upc_ptr_t host = upc_all_alloc((size_t)THREADS, BYTES);
  upc_on_device();
  upc_ptr_t device = upc_all_alloc((size_t)THREADS, BYTES);
  upc_ptr_t own = upc_alloc(BYTES);
  upc_off_device();
  upc_ptr_t again = upc_alloc(BYTES);
  CHECK(!upc_is_on_device(host) && upc_is_on_device(device) && upc_is_on_device(own) && !upc_is_on_device(again));
  CHECK(upc_cast(own) != NULL && upc_cast(again) != NULL && upc_cast(UPC_NULL) == NULL);
  fill(bytes, BYTES, MYTHREAD);
  upc_memput(at_thread(device, right()), bytes, BYTES);
  upc_barrier();
  upc_memcpy(at_thread(host, right()), at_thread(device, MYTHREAD), BYTES); /* device to host, between threads */
  upc_barrier();
  upc_memget(got, at_thread(host, MYTHREAD), BYTES);
  CHECK(is_filled(got, BYTES, (left() + THREADS - 1) % THREADS));
  upc_memcpy(own, at_thread(host, MYTHREAD), BYTES);
  memset(got, 0, BYTES);
  upc_memget(got, own, BYTES);
  CHECK(is_filled(got, BYTES, (left() + THREADS - 1) % THREADS));
  upc_barrier();
  if (MYTHREAD == 0) upc_on_device(); /* of this thread alone */
  upc_ptr_t mine = upc_alloc(8);
  CHECK(upc_is_on_device(mine) == (MYTHREAD == 0));
  upc_off_device();
  upc_free(mine);
  upc_free(own);
  upc_free(again);
  upc_all_free(device);
  upc_all_free(host);
}

/* --- pointers --- */

static upc_ptr_t element(upc_ptr_t first, size_t elem, long block, long i) {
  upc_ptr_t at = first;
  at.thread = (uint32_t)(i / block % THREADS);
  at.phase = (uint32_t)(i % block);
  at.addr += (uint64_t)(i / (block * THREADS) * block + i % block) * elem;
  return at;
}

static void pointers_go_through_an_array_as_it_is_dealt(void) {
  enum { COUNT = 60 };
  static const long blocks[] = {1, 3, 4, 7};
  upc_ptr_t first = upc_all_alloc((size_t)THREADS, 4096);
  for (int b = 0; b < 4; ++b) {
    const long block = blocks[b];
    for (long i = 0; i < COUNT; ++i) {
      for (long j = 0; j < COUNT; ++j) {
        upc_ptr_t from = element(first, 12, block, i), to = element(first, 12, block, j);
        upc_ptr_t sum = upc_ptr_add(from, 12, (size_t)block, j - i);
        CHECK(upc_threadof(sum) == to.thread && upc_phaseof(sum) == to.phase && upc_addrfield(sum) == to.addr);
        CHECK(upc_ptr_equal(sum, to) && upc_ptr_equal(sum, from) == (i == j));
        CHECK(upc_ptr_diff(to, from, 12, (size_t)block) == j - i);
      }
    }
  }
  upc_ptr_t there = at_thread(first, THREADS - 1);
  upc_ptr_t far = upc_ptr_add(there, 8, 0, 5); /* shared [] T: stays with its thread */
  CHECK(upc_threadof(far) == (size_t)(THREADS - 1) && upc_addrfield(far) == upc_addrfield(there) + 40);
  CHECK(upc_phaseof(far) == 0 && upc_ptr_diff(far, there, 8, 0) == 5 && upc_ptr_diff(there, far, 8, 0) == -5);
  upc_ptr_t inside = upc_ptr_add(first, 4, 8, 5);
  CHECK(upc_phaseof(inside) == 5 && upc_phaseof(upc_resetphase(inside)) == 0);
  CHECK(upc_ptr_equal(upc_resetphase(inside), inside) && upc_ptr_equal(UPC_NULL, UPC_NULL));
  upc_all_free(first);
}

static void affinity_sizes_are_what_the_threads_have(void) {
  static const size_t totals[] = {0, 1, 7, 64, 100, 1000}, blocks[] = {0, 1, 3, 10, 64, 2000};
  for (int t = 0; t < 6; ++t) {
    for (int b = 0; b < 6; ++b) {
      for (int thread = 0; thread < THREADS; ++thread) {
        size_t counted = 0;
        for (size_t i = 0; i < totals[t]; ++i) {
          counted += (blocks[b] == 0 ? 0 : i / blocks[b] % (size_t)THREADS) == (size_t)thread;
        }
        CHECK(upc_affinitysize(totals[t], blocks[b], (size_t)thread) == counted);
      }
    }
  }
}

/* --- bytes --- */

/* Around the edges of words, and of the chunks of a part that is not reached directly (the tests set 4 KiB). */
static const size_t sizes[] = {0,    1,     3,     4,     8,     100,   4095,   4096,   4097,   8191,  8192,
                               8193, 12287, 12288, 12289, 20000, 65536, 131071, 131072, 131073, 300001};
enum { SIZES = sizeof sizes / sizeof sizes[0], LARGEST = 300001 + 64 };

static void move_all_sizes(upc_ptr_t part, upc_ptr_t other) {
  unsigned char* bytes = malloc(LARGEST);
  unsigned char* got = malloc(LARGEST);
  for (int s = 0; s < SIZES; ++s) {
    const size_t n = sizes[s], offset = 8 + n % 7;
    upc_ptr_t there = plus(at_thread(part, right()), offset);
    upc_memset(at_thread(part, right()), 0xee, LARGEST);
    upc_barrier();
    fill(bytes, n, MYTHREAD + s);
    upc_memput(there, bytes, n);
    upc_barrier();
    upc_memget(got, at_thread(part, MYTHREAD), offset + n + 8);
    CHECK(got[offset - 1] == 0xee && is_filled(got + offset, n, left() + s) && got[offset + n] == 0xee);
    memset(got, 0, n + 1);
    upc_memget(got, there, n);
    CHECK(is_filled(got, n, MYTHREAD + s) && got[n] == 0);
    upc_memcpy(plus(at_thread(other, left()), 3), there, n); /* between two threads, of which this may be neither */
    upc_barrier();
    memset(got, 0, n + 1);
    upc_memget(got, plus(at_thread(other, MYTHREAD), 3), n);
    CHECK(is_filled(got, n, right() + s) && got[n] == 0);
    upc_memset(there, s, n);
    upc_barrier();
    upc_memget(got, at_thread(part, MYTHREAD), offset + n + 8);
    for (size_t i = 0; i < n; ++i) CHECK(got[offset + i] == (unsigned char)s);
    CHECK(got[offset - 1] == 0xee && got[offset + n] == 0xee);
    upc_barrier();
  }
  free(got);
  free(bytes);
}

static void bytes_move_to_and_from_every_thread(void) {
  upc_ptr_t host = upc_all_alloc((size_t)THREADS, LARGEST);
  upc_ptr_t other = upc_all_alloc((size_t)THREADS, LARGEST);
  move_all_sizes(host, other);
  upc_on_device();
  upc_ptr_t device = upc_all_alloc((size_t)THREADS, LARGEST);
  upc_off_device();
  move_all_sizes(device, host);
  upc_all_free(device);
  upc_all_free(other);
  upc_all_free(host);
}

static void a_busy_thread_is_read_and_written(void) {
  enum { BYTES = 8192, ROUNDS = 20 };
  upc_ptr_t data = upc_all_alloc((size_t)THREADS, BYTES);
  upc_ptr_t words = upc_all_alloc((size_t)THREADS, sizeof(int));
  upc_ptr_t counter = upc_all_alloc((size_t)THREADS, sizeof(long));
  upc_lock_t* lock = upc_all_lock_alloc();
  unsigned char bytes[BYTES], got[BYTES];
  fill(bytes, BYTES, MYTHREAD);
  upc_memput(at_thread(data, MYTHREAD), bytes, BYTES);
  upc_memset(at_thread(counter, MYTHREAD), 0, sizeof(long));
  volatile int* stop = upc_cast(at_thread(words, MYTHREAD));
  *stop = 0;
  upc_barrier();
  if (MYTHREAD != 0 || THREADS == 1) {
    if (THREADS > 1) wait_for_word(stop, 1); /* a loop of the CPU; no call of the library */
  } else {
    for (int round = 0; round < ROUNDS; ++round) {
      for (int thread = 1; thread < THREADS; ++thread) {
        memset(got, 0, BYTES);
        upc_memget(got, at_thread(data, thread), BYTES);
        CHECK(is_filled(got, BYTES, thread));
        long count = 0;
        upc_lock(lock);
        upc_memget(&count, at_thread(counter, thread), sizeof count);
        ++count;
        upc_memput(at_thread(counter, thread), &count, sizeof count);
        upc_unlock(lock);
      }
    }
    const int one = 1;
    for (int thread = 1; thread < THREADS; ++thread) upc_memput(at_thread(words, thread), &one, sizeof one);
  }
  upc_barrier();
  long count = -1;
  upc_memget(&count, at_thread(counter, MYTHREAD), sizeof count);
  CHECK(count == (MYTHREAD == 0 ? 0 : ROUNDS));
  upc_all_lock_free(lock);
  upc_all_free(counter);
  upc_all_free(words);
  upc_all_free(data);
}

/* --- order --- */

static void barriers_order_what_was_written(void) {
  upc_ptr_t words = upc_all_alloc((size_t)THREADS, sizeof(int));
  for (int round = 1; round <= 200; ++round) {
    const int value = 1000 * MYTHREAD + round;
    upc_memput(at_thread(words, right()), &value, sizeof value);
    switch (round % 5) {
      case 0: upc_barrier(); break;
      case 1: upc_barrier(round); break;
      case 2:
        upc_notify();
        upc_wait();
        break;
      case 3:
        upc_notify(-round);
        upc_wait(-round);
        break;
      default: /* one that has no value goes with any */
        if (MYTHREAD % 2 == 0) {
          upc_barrier(7);
        } else {
          upc_notify();
          upc_wait(8);
        }
    }
    CHECK(*(volatile int*)upc_cast(at_thread(words, MYTHREAD)) == 1000 * left() + round);
    upc_fence();
    upc_barrier();
  }
  upc_all_free(words);
}

static void a_thread_computes_between_notify_and_wait(void) {
  upc_ptr_t words = upc_all_alloc((size_t)THREADS, sizeof(int));
  upc_ptr_t told = upc_all_alloc((size_t)THREADS, sizeof(int));
  volatile int* mine = upc_cast(at_thread(words, MYTHREAD));
  volatile int* stop = upc_cast(at_thread(told, MYTHREAD));
  *mine = *stop = 0;
  upc_barrier();
  upc_notify();
  const int one = 1;
  upc_memput(at_thread(told, right()), &one, sizeof one); /* after the notify: no wait holds this up */
  wait_for_word(stop, 1);
  upc_wait();
  upc_all_free(told);
  upc_all_free(words);
}

/* --- locks --- */

static void count_under(upc_lock_t* lock, upc_ptr_t counter, int rounds, int attempts) {
  for (int i = 0; i < rounds; ++i) {
    if (attempts) {
      const double end = now_s() + 15;
      while (!upc_lock_attempt(lock)) CHECK(now_s() < end);
    } else {
      upc_lock(lock);
    }
    long count = 0; /* not atomic: the lock makes it right */
    upc_memget(&count, counter, sizeof count);
    ++count;
    upc_memput(counter, &count, sizeof count);
    upc_unlock(lock);
  }
}

static void a_lock_excludes_the_others(void) {
  enum { ROUNDS = 60 };
  upc_ptr_t counter = upc_all_alloc((size_t)THREADS, sizeof(long));
  upc_ptr_t handle = upc_all_alloc(1, sizeof(upc_lock_t*));
  upc_memset(at_thread(counter, MYTHREAD), 0, sizeof(long));
  upc_lock_t* first = upc_all_lock_alloc();
  upc_lock_t* second = NULL;
  if (MYTHREAD == THREADS - 1) { /* made by one thread, and told to the others through shared memory */
    second = upc_global_lock_alloc();
    upc_memput(handle, &second, sizeof second);
  }
  upc_barrier();
  upc_memget(&second, handle, sizeof second);
  count_under(first, at_thread(counter, 0), ROUNDS, 0);
  count_under(second, at_thread(counter, THREADS - 1), ROUNDS, 1);
  upc_barrier();
  long count = 0;
  upc_memget(&count, at_thread(counter, 0), sizeof count);
  CHECK(count == ROUNDS * THREADS * (THREADS == 1 ? 2 : 1));
  upc_memget(&count, at_thread(counter, THREADS - 1), sizeof count);
  CHECK(count == ROUNDS * THREADS * (THREADS == 1 ? 2 : 1));
  upc_barrier();
  if (MYTHREAD == 0) CHECK(upc_lock_attempt(first) == 1);
  upc_barrier();
  if (MYTHREAD != 0) CHECK(upc_lock_attempt(first) == 0);
  upc_barrier();
  if (MYTHREAD == 0) {
    upc_unlock(first);
    upc_lock_free(second);
    upc_lock_free(NULL);
  }
  upc_all_lock_free(first);
  upc_all_free(handle);
  upc_all_free(counter);
}

static void meet(void) { upc_barrier(); }

/* Its end is not the thread's, which goes on; and its calls say that it is none, and end it alone. */
static void a_forked_child_is_no_thread(void) {
  CHECK(status_of_child(do_nothing) == 0);
  CHECK(status_of_child(meet) > 0);
  upc_barrier();
}

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(a_thread_knows_itself_and_the_others)
    CASE(all_alloc_deals_blocks_to_the_threads)
    CASE(a_thread_allocates_and_frees_while_the_others_compute)
    CASE(pieces_that_are_freed_become_room_again)
    CASE(room_that_all_freed_is_there_for_each)
    CASE(no_room_is_null)
    CASE(host_and_device_memory_are_in_one_space)
    CASE(pointers_go_through_an_array_as_it_is_dealt)
    CASE(affinity_sizes_are_what_the_threads_have)
    CASE(bytes_move_to_and_from_every_thread)
    CASE(a_busy_thread_is_read_and_written)
    CASE(barriers_order_what_was_written)
    CASE(a_thread_computes_between_notify_and_wait)
    CASE(a_lock_excludes_the_others)
    CASE(a_forked_child_is_no_thread)
  };
  /* clang-format on */
  return run_cases(cases, sizeof cases / sizeof cases[0], argc > 1 ? argv[1] : NULL);
}
