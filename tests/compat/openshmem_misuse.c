/* Calls that cannot work, and ends of programs: each case ends the job, on every PE, and says why.
 *
 * The first PE does what is wrong; the others wait for it, or compute, and must not be left behind. */
#include <unistd.h>

#include "openshmem.h"

static long word;
static long never;

static void wait_for_ever(void) { shmem_long_wait_until(&never, SHMEM_CMP_EQ, 1); }

static void compute_for_ever(void) {
  for (volatile long i = 0;; ++i) {
  }
}

static void a_pe_out_of_range_is_refused(void) {
  if (me == 0) shmem_long_p(&word, 1, size);
  wait_for_ever();
}

static void a_length_that_no_memory_has_is_refused(void) {
  if (me == 0) shmem_long_put(&word, &word, SIZE_MAX, 0);
  wait_for_ever();
}

static void a_stride_that_no_memory_has_is_refused(void) {
  if (me == 0) shmem_long_iput(&word, &word, PTRDIFF_MAX / 4, 1, 2, 0);
  wait_for_ever();
}

static void a_negative_pe_is_refused(void) {
  if (me == 0) (void)shmem_long_atomic_fetch_add(&word, 1, -1);
  wait_for_ever();
}

static void an_address_that_is_not_symmetric_is_refused(void) {
  long local = 0;
  if (me == 0) shmem_long_put(&local, &word, 1, 0);
  wait_for_ever();
}

static void an_end_past_the_heap_is_refused(void) {
  char* piece = shmem_malloc(64);
  static char source[64];
  if (me == 0) shmem_putmem(piece + ((size_t)1 << 30), source, 64, 0);
  wait_for_ever();
}

static void a_misaligned_word_is_refused(void) {
  char* piece = shmem_malloc(64);
  if (me == 0) shmem_long_atomic_inc((long*)(void*)(piece + 4), 0);
  wait_for_ever();
}

static void an_alignment_that_is_no_power_of_two_is_refused(void) {
  shmem_align(3, 64);
  wait_for_ever();
}

static void freeing_twice_is_refused(void) {
  char* piece = shmem_malloc(64);
  shmem_free(piece);
  shmem_free(piece);
}

static void freeing_what_is_not_in_the_heap_is_refused(void) { shmem_free(&word); }

static void sizes_that_differ_are_refused(void) { shmem_malloc(me == 0 ? 64 : 128); }

static void zeroed_sizes_that_differ_are_refused(void) { shmem_calloc(1, me == 0 ? 100 : (size_t)1 << 40); }

static void a_destroyed_context_is_refused(void) {
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_ctx_destroy(ctx);
  if (me == 0) shmem_ctx_long_p(ctx, &word, 1, 0);
  wait_for_ever();
}

static void an_invalid_context_is_refused(void) {
  if (me == 0) shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, 0);
  wait_for_ever();
}

static void a_comparison_that_does_not_exist_is_refused(void) {
  if (me == 0) shmem_long_wait_until(&word, 17, 1);
  wait_for_ever();
}

static void an_active_set_without_this_pe_is_refused(void) {
  static long sync_words[SHMEM_SYNC_SIZE];
  if (me == 0) shmem_barrier(1, 0, 1, sync_words);
  wait_for_ever();
}

static void clearing_a_lock_that_nobody_holds_is_refused(void) {
  if (me == 0) shmem_clear_lock(&word);
  wait_for_ever();
}

static void clearing_a_lock_that_another_pe_holds_is_refused(void) {
  if (me == 1) shmem_set_lock(&word);
  shmem_barrier_all();
  if (me == 0) shmem_clear_lock(&word);
  wait_for_ever();
}

/* One that shmem_test_lock got. */
static void clearing_a_tested_lock_that_another_pe_holds_is_refused(void) {
  if (me == 2) CHECK(shmem_test_lock(&word) == 0);
  shmem_barrier_all();
  if (me == 0) shmem_clear_lock(&word);
  wait_for_ever();
}

static void a_wait_in_vain_ends_at_the_deadline(void) { wait_for_ever(); }

/* PE 2 is the second to hold it, PE 1 the first: who held it before is not named. */
static void a_lock_in_vain_names_its_holder_at_the_deadline(void) {
  if (me == 1) shmem_set_lock(&word);
  shmem_barrier_all();
  if (me == 1) shmem_clear_lock(&word);
  if (me == 2) shmem_set_lock(&word);
  shmem_barrier_all();
  if (me == 2) compute_for_ever();
  shmem_set_lock(&word);
}

/* One that shmem_test_lock got. */
static void a_tested_lock_in_vain_names_its_holder_at_the_deadline(void) {
  if (me == 1) CHECK(shmem_test_lock(&word) == 0);
  shmem_barrier_all();
  if (me == 1) compute_for_ever();
  shmem_set_lock(&word);
}

/* These return a status, but no PE goes on where another never came. */
static void a_reduction_in_vain_ends_the_job_at_the_deadline(void) {
  if (me == 1) compute_for_ever();
  (void)shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &never, &word, 1);
  shmem_global_exit(3);
}

static void a_team_sync_in_vain_ends_the_job_at_the_deadline(void) {
  if (me == 1) compute_for_ever();
  (void)shmem_team_sync(SHMEM_TEAM_WORLD);
  shmem_global_exit(3);
}

static void a_pe_that_computes_ends_with_the_others(void) {
  if (me == 0) shmem_long_p(&word, 1, size);
  compute_for_ever();
}

static void global_exit_ends_all(void) {
  if (me == 0) shmem_global_exit(7);
  if (me == 1) compute_for_ever();
  wait_for_ever();
}

/* What is written and not flushed is in a file of each PE all the same: FOLDER/NUMBER. */
static FILE* results;
static const char* folder;
static void write_end(void) { fputs(" and of its end", results); }
static void global_exit_keeps_what_was_written(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, me);
  results = fopen(path, "w");
  CHECK(results != NULL);
  fprintf(results, "the results of %d", me);
  shmem_barrier_all();
  if (me == 0) atexit(write_end);
  if (me == 0) shmem_global_exit(7);
  if (me == 1) compute_for_ever();
  shmem_barrier_all();
}

/* Standard output is held for ever: nobody reads the pipe. */
static void global_exit_ends_all_whatever_holds_a_stream(void) {
  int ends[2];
  shmem_barrier_all();
  if (me == 0) shmem_global_exit(0);
  CHECK(pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
  for (;;) puts("more");
}

static void a_pe_that_ends_badly_ends_all(void) {
  if (me == 0) exit(9);
  wait_for_ever();
}

static void calls_after_the_end_are_refused(void) {
  shmem_finalize();
  shmem_barrier_all();
}

static void a_wait_for_2_bytes_on_a_gpu_is_refused(void) {
  short* const narrow = shmem_malloc_with_hints(sizeof *narrow, SHMEMX_MALLOC_DEVICE);
  if (me == 0) shmem_short_wait_until(narrow, SHMEM_CMP_EQ, 1);
  wait_for_ever();
}

static void an_end_without_finalize_is_one(void) {
  shmem_long_p(&word, me + 1, (me + 1) % size);
  exit(0); /* waits for the others as shmem_finalize does */
}

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(a_pe_out_of_range_is_refused)
    CASE(a_length_that_no_memory_has_is_refused)
    CASE(a_stride_that_no_memory_has_is_refused)
    CASE(a_negative_pe_is_refused)
    CASE(an_address_that_is_not_symmetric_is_refused)
    CASE(an_end_past_the_heap_is_refused)
    CASE(a_misaligned_word_is_refused)
    CASE(an_alignment_that_is_no_power_of_two_is_refused)
    CASE(freeing_twice_is_refused)
    CASE(freeing_what_is_not_in_the_heap_is_refused)
    CASE(sizes_that_differ_are_refused)
    CASE(zeroed_sizes_that_differ_are_refused)
    CASE(a_destroyed_context_is_refused)
    CASE(an_invalid_context_is_refused)
    CASE(a_comparison_that_does_not_exist_is_refused)
    CASE(an_active_set_without_this_pe_is_refused)
    CASE(clearing_a_lock_that_nobody_holds_is_refused)
    CASE(clearing_a_lock_that_another_pe_holds_is_refused)
    CASE(clearing_a_tested_lock_that_another_pe_holds_is_refused)
    CASE(a_wait_in_vain_ends_at_the_deadline)
    CASE(a_lock_in_vain_names_its_holder_at_the_deadline)
    CASE(a_tested_lock_in_vain_names_its_holder_at_the_deadline)
    CASE(a_reduction_in_vain_ends_the_job_at_the_deadline)
    CASE(a_team_sync_in_vain_ends_the_job_at_the_deadline)
    CASE(a_pe_that_computes_ends_with_the_others)
    CASE(global_exit_ends_all)
    CASE(global_exit_keeps_what_was_written)
    CASE(global_exit_ends_all_whatever_holds_a_stream)
    CASE(a_pe_that_ends_badly_ends_all)
    CASE(calls_after_the_end_are_refused)
    CASE(a_wait_for_2_bytes_on_a_gpu_is_refused)
    CASE(an_end_without_finalize_is_one)
  };
  /* clang-format on */
  const char* name = argc > 1 ? argv[1] : "";
  folder = argc > 2 ? argv[2] : ".";
  if (strcmp(name, "calls_before_the_start_are_refused") == 0) return shmem_my_pe();
  shmem_init();
  me = shmem_my_pe();
  size = shmem_n_pes();
  return run_cases(cases, sizeof cases / sizeof cases[0], name);
}
