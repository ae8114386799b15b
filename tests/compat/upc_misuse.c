/* Calls that cannot work, and ends of programs: each case ends the job, on every thread, and says why.
 *
 * The first thread does what is wrong; the others wait for it, or compute, and must not be left behind. */
#include <signal.h>
#include <unistd.h>

#include "upc.h"

static void compute_for_ever(void) {
  for (volatile long i = 0;; ++i) {
  }
}

static upc_ptr_t piece(void) { return upc_all_alloc((size_t)THREADS, 100); }
static char bytes[200];

static void a_thread_out_of_range_is_refused(void) {
  upc_ptr_t ptr = piece();
  ptr.thread = 3;
  if (MYTHREAD == 0) upc_memput(ptr, bytes, 1);
  upc_barrier();
}

static void a_null_pointer_to_shared_is_refused(void) {
  if (MYTHREAD == 0) upc_memput(UPC_NULL, bytes, 1);
  upc_barrier();
}

static void a_null_source_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_memput(ptr, NULL, 8);
  upc_barrier();
}

static void an_end_past_the_piece_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_memget(bytes, ptr, 200);
  upc_barrier();
}

static void an_address_outside_the_space_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_memget(bytes, upc_ptr_add(ptr, 1, 0, 1 << 30), 8);
  upc_barrier();
}

static void more_than_a_part_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_memset(ptr, 0, SIZE_MAX);
  upc_barrier();
}

static void freed_memory_is_refused(void) {
  upc_ptr_t ptr = upc_alloc(64);
  upc_free(ptr);
  if (MYTHREAD == 0) upc_memput(ptr, bytes, 8);
  upc_barrier();
}

static void freeing_twice_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_free(ptr);
  upc_barrier();
  if (MYTHREAD == 1) upc_free(ptr);
  upc_barrier();
}

static void freeing_the_middle_of_a_piece_is_refused(void) {
  upc_ptr_t ptr = upc_alloc(1000);
  if (MYTHREAD == 0) upc_free(upc_ptr_add(ptr, 1, 0, 64));
  upc_barrier();
}

static void freeing_what_nobody_allocated_is_refused(void) {
  upc_ptr_t ptr = {4096 + 65, 1, 0};
  if (MYTHREAD == 0) upc_free(ptr);
  upc_barrier();
}

static void sizes_that_differ_are_refused(void) { upc_all_alloc(4, MYTHREAD == 0 ? 64 : 128); }

static void memory_that_differs_is_refused(void) {
  if (MYTHREAD == 1) upc_on_device();
  upc_all_alloc(4, 64);
}

static void calls_that_differ_are_refused(void) {
  if (MYTHREAD == 0) {
    upc_all_free(UPC_NULL);
  } else {
    upc_barrier();
  }
}

static void barriers_of_two_values_are_refused(void) { upc_barrier(MYTHREAD == 2 ? 5 : 4); }

static void a_wait_for_another_barrier_is_refused(void) {
  upc_notify(1);
  upc_wait(MYTHREAD == 0 ? 2 : 1);
  upc_barrier();
}

static void a_wait_without_notify_is_refused(void) {
  if (MYTHREAD == 0) upc_wait();
  upc_barrier();
}

static void notifying_twice_is_refused(void) {
  upc_notify();
  if (MYTHREAD == 0) upc_notify();
  upc_wait();
  upc_barrier();
}

static void a_collective_call_after_notify_is_refused(void) {
  upc_notify();
  if (MYTHREAD == 0) piece();
  upc_wait();
  upc_barrier();
}

static void an_end_between_notify_and_wait_is_refused(void) {
  upc_notify();
  exit(0);
}

static void an_end_while_others_are_in_a_barrier_is_refused(void) {
  if (MYTHREAD == 0) exit(0);
  upc_barrier();
}

static void bytes_that_overlap_are_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_memcpy(upc_ptr_add(ptr, 1, 0, 10), ptr, 20);
  upc_barrier();
}

static void a_block_that_is_too_large_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_ptr_add(ptr, 4, (size_t)1 << 33, 1);
  upc_barrier();
}

static void a_phase_that_no_block_has_is_refused(void) {
  upc_ptr_t ptr = piece();
  ptr.phase = 9;
  if (MYTHREAD == 0) upc_ptr_add(ptr, 4, 4, 1);
  upc_barrier();
}

static void a_difference_of_two_arrays_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_ptr_diff(upc_ptr_add(ptr, 1, 0, 3), ptr, 4, 4);
  upc_barrier();
}

static void a_difference_of_null_is_refused(void) {
  upc_ptr_t ptr = piece();
  if (MYTHREAD == 0) upc_ptr_diff(ptr, UPC_NULL, 4, 4);
  upc_barrier();
}

static void a_difference_of_host_and_device_memory_is_refused(void) {
  upc_ptr_t host = piece();
  upc_on_device();
  upc_ptr_t device = piece();
  if (MYTHREAD == 0) upc_ptr_diff(device, host, 4, 4);
  upc_barrier();
}

static void unlocking_what_nobody_has_is_refused(void) {
  upc_lock_t* lock = upc_all_lock_alloc();
  if (MYTHREAD == 0) upc_unlock(lock);
  upc_barrier();
}

static void unlocking_what_another_has_is_refused(void) {
  upc_lock_t* lock = upc_all_lock_alloc();
  if (MYTHREAD == 1) upc_lock(lock);
  upc_barrier();
  if (MYTHREAD == 0) upc_unlock(lock);
  upc_barrier();
}

static void locking_twice_is_refused(void) {
  upc_lock_t* lock = upc_global_lock_alloc();
  upc_lock(lock);
  if (MYTHREAD == 0) upc_lock(lock);
  upc_barrier();
}

static void a_freed_lock_is_refused(void) {
  upc_lock_t* lock = upc_global_lock_alloc();
  upc_lock_free(lock);
  if (MYTHREAD == 0) upc_lock(lock);
  upc_barrier();
}

static void a_null_lock_is_refused(void) {
  if (MYTHREAD == 0) upc_lock(NULL);
  upc_barrier();
}

static void a_lock_that_nobody_made_is_refused(void) {
  if (MYTHREAD == 0) upc_lock_attempt((upc_lock_t*)(uintptr_t)0x1234);
  upc_barrier();
}

static void a_lock_in_vain_names_who_has_it(void) {
  upc_lock_t* lock = upc_all_lock_alloc();
  if (MYTHREAD == 2) upc_lock(lock);
  upc_barrier();
  if (MYTHREAD == 0) upc_lock(lock);
  compute_for_ever();
}

static void a_thread_that_does_not_come_is_named(void) {
  upc_barrier();
  if (MYTHREAD == 1) compute_for_ever();
  upc_barrier();
}

static void a_dead_thread_is_named(void) {
  upc_barrier();
  if (MYTHREAD == 1) raise(SIGKILL);
  upc_barrier();
}

static void a_thread_that_computes_ends_with_the_others(void) {
  upc_barrier();
  if (MYTHREAD == 0) upc_memput(UPC_NULL, bytes, 1);
  compute_for_ever();
}

static void global_exit_ends_all(void) {
  upc_barrier();
  if (MYTHREAD == 0) upc_global_exit(7);
  if (MYTHREAD == 1) compute_for_ever();
  upc_barrier();
}

static void global_exit_with_0_ends_all(void) {
  upc_barrier();
  if (MYTHREAD == 2) upc_global_exit(0);
  compute_for_ever();
}

/* What is written and not flushed is in a file of each thread all the same: FOLDER/NUMBER. */
static FILE* results;
static const char* folder;
static void write_end(void) { fputs(" and of its end", results); }
static void global_exit_keeps_what_was_written(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, MYTHREAD);
  results = fopen(path, "w");
  CHECK(results != NULL);
  fprintf(results, "the results of %d", MYTHREAD);
  upc_barrier();
  if (MYTHREAD == 0) atexit(write_end);
  if (MYTHREAD == 0) upc_global_exit(7);
  if (MYTHREAD == 1) compute_for_ever();
  upc_barrier();
}

/* Standard output is held for ever: nobody reads the pipe. */
static void global_exit_ends_all_whatever_holds_a_stream(void) {
  int ends[2];
  upc_barrier();
  if (MYTHREAD == 0) upc_global_exit(0);
  CHECK(pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
  for (;;) puts("more");
}

static void a_thread_that_ends_badly_ends_all(void) {
  upc_barrier();
  if (MYTHREAD == 0) exit(9);
  upc_barrier();
}

static void ask_who(void) { printf("%d\n", MYTHREAD); }
static void calls_after_the_end_are_refused(void) { upc_barrier(); }

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(a_thread_out_of_range_is_refused)
    CASE(a_null_pointer_to_shared_is_refused)
    CASE(a_null_source_is_refused)
    CASE(an_end_past_the_piece_is_refused)
    CASE(an_address_outside_the_space_is_refused)
    CASE(more_than_a_part_is_refused)
    CASE(freed_memory_is_refused)
    CASE(freeing_twice_is_refused)
    CASE(freeing_the_middle_of_a_piece_is_refused)
    CASE(freeing_what_nobody_allocated_is_refused)
    CASE(sizes_that_differ_are_refused)
    CASE(memory_that_differs_is_refused)
    CASE(calls_that_differ_are_refused)
    CASE(barriers_of_two_values_are_refused)
    CASE(a_wait_for_another_barrier_is_refused)
    CASE(a_wait_without_notify_is_refused)
    CASE(notifying_twice_is_refused)
    CASE(a_collective_call_after_notify_is_refused)
    CASE(an_end_between_notify_and_wait_is_refused)
    CASE(an_end_while_others_are_in_a_barrier_is_refused)
    CASE(bytes_that_overlap_are_refused)
    CASE(a_block_that_is_too_large_is_refused)
    CASE(a_phase_that_no_block_has_is_refused)
    CASE(a_difference_of_two_arrays_is_refused)
    CASE(a_difference_of_null_is_refused)
    CASE(a_difference_of_host_and_device_memory_is_refused)
    CASE(unlocking_what_nobody_has_is_refused)
    CASE(unlocking_what_another_has_is_refused)
    CASE(locking_twice_is_refused)
    CASE(a_freed_lock_is_refused)
    CASE(a_null_lock_is_refused)
    CASE(a_lock_that_nobody_made_is_refused)
    CASE(a_lock_in_vain_names_who_has_it)
    CASE(a_thread_that_does_not_come_is_named)
    CASE(a_dead_thread_is_named)
    CASE(a_thread_that_computes_ends_with_the_others)
    CASE(global_exit_ends_all)
    CASE(global_exit_with_0_ends_all)
    CASE(global_exit_keeps_what_was_written)
    CASE(global_exit_ends_all_whatever_holds_a_stream)
    CASE(a_thread_that_ends_badly_ends_all)
    CASE(calls_after_the_end_are_refused)
  };
  /* clang-format on */
  const char* name = argc > 1 ? argv[1] : "";
  folder = argc > 2 ? argv[2] : ".";
  if (strcmp(name, "calls_after_the_end_are_refused") == 0)
    atexit(ask_who); /* before the first call: runs after the end */
  return run_cases(cases, sizeof cases / sizeof cases[0], name);
}
