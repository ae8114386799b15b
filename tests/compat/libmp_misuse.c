/* libmp's calls in an order, or with memory, in which they should not be made: what fails, with which code, and how it
 * goes on. What one call refuses by itself is in libmp_refusals.c. See libmp.h.
 */
#include "forked.h"
#include "libmp.h"

/* 0 on one rank, 1 on the other; and each other's rank. */
#define OTHER (1 - rank)

static void prepared_sends_may_not_overtake_each_other(void) {
  mp_request_t requests[2];
  cudaStream_t stream = new_stream();
  struct buffer b = take(PINNED, 2, 1 + rank);
  int i;
  for (i = 0; i < 2; ++i) {
    if (rank == 0) OK(mp_send_prepare(b.data + i, 1, 1, &b.reg, &requests[i]));
    if (rank == 1) OK(mp_irecv(b.data + i, 1, 0, &b.reg, &requests[i]));
  }
  if (rank == 0) {
    CHECK(mp_isend_post_on_stream(&requests[1], stream) == MP_FAILURE);
    OK(mp_isend_post_all_on_stream(2, requests, stream));
  }
  OK(mp_wait_all(2, requests));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

/* Rank 0 sends twice what rank 1 receives; the send ends with `sent`, and the next message is intact. */
static void send_too_much(int bytes, int sent) {
  cudaStream_t stream = new_stream();
  int on_stream;
  for (on_stream = 0; on_stream < 2; ++on_stream) {
    struct buffer b = take(PINNED, (size_t)bytes, 1 + rank);
    mp_request_t request;
    if (rank == 0) OK(mp_isend(b.data, bytes, 1, &b.reg, &request));
    if (rank == 1) OK(mp_irecv(b.data, bytes / 2, 0, &b.reg, &request));
    if (on_stream) OK(mp_wait_on_stream(&request, stream));
    CHECK(mp_wait(&request) == (rank == 0 ? sent : MP_FAILURE));
    INVALID(mp_wait(&request)); /* it has ended */
    CHECK(all_are(&b, (size_t)bytes / 2, (size_t)(bytes - bytes / 2), 1 + rank));
    if (rank == 0) OK(mp_isend(b.data, bytes, 1, &b.reg, &request));
    if (rank == 1) OK(mp_irecv(b.data, bytes, 0, &b.reg, &request));
    OK(mp_wait(&request));
    CHECK(all_are(&b, 0, (size_t)bytes, 1));
    drop(&b);
  }
  CUDA_OK(cudaStreamDestroy(stream));
}

static void a_message_larger_than_its_receive_fails_on_both_sides(void) { send_too_much(100000, MP_FAILURE); }

static void of_a_small_message_larger_than_its_receive_only_the_receive_fails(void) {
  send_too_much(100, MP_SUCCESS);
  send_too_much(4096, MP_SUCCESS);
}

static void calls_after_finalize_fail_and_a_new_start_works(void) {
  struct buffer b = take(PINNED, 8, 5);
  mp_request_t request, old;
  mp_reg_t old_reg = b.reg;
  mp_window_t window = NULL;
  mp_desc_queue_t queue = NULL;
  uint32_t word = 0;
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &old)); /* never completed */
  mp_finalize();
  mp_finalize();
  CHECK(mp_isend(b.data, 1, OTHER, &b.reg, &request) == MP_FAILURE);
  CHECK(mp_wait(&old) != MP_SUCCESS && mp_progress_all(1, &old) == 0);
  CHECK(mp_register(b.data, 8, &b.reg) == MP_FAILURE && mp_window_create(b.data, 8, &window) == MP_FAILURE);
  CHECK(mp_desc_queue_alloc(&queue) == MP_FAILURE && mp_wait32(&word, 0, MP_WAIT_EQ) == MP_FAILURE);
  start();
  CHECK(mp_wait(&old) == EINVAL && mp_deregister(&old_reg) == MP_FAILURE);
  OK(mp_register(b.data, 8, &b.reg));
  send_one(&b);
  drop(&b);
}

static struct buffer of_parent;

static void call_in_a_child(void) {
  mp_request_t request = NULL;
  uint32_t word = 0;
  const int sent = mp_isend(of_parent.data, 1, OTHER, &of_parent.reg, &request);
  _exit(sent == MP_FAILURE && mp_wait32(&word, 1, MP_WAIT_EQ) == MP_FAILURE ? 7 : 8);
}

static void calls_of_a_forked_child_fail(void) {
  of_parent = take(PINNED, 8, 5);
  CHECK(status_of_child(call_in_a_child) == 7);
  send_one(&of_parent);
  drop(&of_parent);
}

static void after_a_deadline_all_fails_and_a_new_start_works(void) {
  struct buffer b = take(PINNED, 8, 5);
  mp_request_t request;
  mp_finalize();
  CHECK(setenv("ONSTREAM_TIMEOUT_S", "3", 1) == 0);
  start();
  OK(mp_register(b.data, 8, &b.reg));
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &request)); /* by both */
  CHECK(mp_wait(&request) == MP_FAILURE);
  CHECK(mp_isend(b.data, 1, OTHER, &b.reg, &request) == MP_FAILURE);
  mp_finalize();
  CHECK(setenv("ONSTREAM_TIMEOUT_S", "30", 1) == 0);
  start();
  OK(mp_register(b.data, 8, &b.reg));
  send_one(&b);
  drop(&b);
}

static void a_post_with_a_bad_request_posts_nothing(void) {
  struct buffer b = take(PINNED, 2, 20 + rank);
  cudaStream_t stream = new_stream();
  mp_request_t requests[3];
  int i;
  for (i = 0; i < 2; ++i) {
    if (rank == 0) OK(mp_send_prepare(b.data + i, 1, 1, &b.reg, &requests[i]));
    if (rank == 1) OK(mp_irecv(b.data + i, 1, 0, &b.reg, &requests[i]));
  }
  if (rank == 0) {
    requests[2] = (mp_request_t)0x12345670; /* none */
    CHECK(mp_isend_post_all_on_stream(3, requests, stream) == EINVAL);
    requests[2] = requests[0];
    CHECK(mp_isend_post_all_on_stream(3, requests, stream) == EINVAL);
    CHECK(mp_wait(&requests[0]) == EINVAL && mp_wait(&requests[1]) == EINVAL); /* not posted */
    OK(mp_isend_post_all_on_stream(2, requests, stream));
  }
  OK(mp_wait_all(2, requests));
  CHECK(all_are(&b, 0, 2, 20));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void one_request_twice_in_a_call_is_refused(void) {
  struct buffer b = take(PINNED, 2, 30 + rank);
  cudaStream_t stream = new_stream();
  mp_request_t requests[2], twice[2];
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &requests[0]));
  twice[0] = twice[1] = requests[0];
  CHECK(mp_wait_all_on_stream(2, twice, stream) == EINVAL);
  CHECK(mp_wait_all(2, twice) == EINVAL);
  OK(mp_isend(b.data + 1, 1, OTHER, &b.reg, &requests[1]));
  OK(mp_wait_all_on_stream(2, requests, stream));
  OK(mp_wait_all(2, requests));
  CHECK(all_are(&b, 0, 1, 30 + OTHER));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void a_queue_that_cannot_be_posted_stays_as_it_is(void) {
  struct buffer b = take(PINNED, 3, 40 + rank);
  cudaStream_t stream = new_stream();
  mp_desc_queue_t sends, waits;
  mp_request_t send, other, receives[2];
  OK(mp_desc_queue_alloc(&sends));
  OK(mp_desc_queue_alloc(&waits));
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &receives[0]));
  OK(mp_irecv(b.data + 1, 1, OTHER, &b.reg, &receives[1]));
  OK(mp_send_prepare(b.data + 2, 1, OTHER, &b.reg, &send));
  OK(mp_send_prepare(b.data + 2, 1, OTHER, &b.reg, &other));
  OK(mp_desc_queue_add_send(&sends, &send));
  OK(mp_desc_queue_add_send(&waits, &other));
  OK(mp_desc_queue_add_wait_send(&waits, &send)); /* which the other queue posts */
  OK(mp_desc_queue_add_wait_recv(&waits, &receives[0]));
  CHECK(mp_desc_queue_add_wait_recv(&waits, &receives[0]) == EINVAL);
  CHECK(mp_desc_queue_add_wait_recv(&sends, &receives[0]) == EINVAL);
  CHECK(mp_desc_queue_post_on_stream(stream, &waits, 0) == EINVAL);
  CHECK(mp_wait(&other) == EINVAL); /* not posted */
  OK(mp_desc_queue_post_on_stream(stream, &sends, 0));
  OK(mp_desc_queue_post_on_stream(stream, &waits, 0));
  OK(mp_wait(&send));
  OK(mp_wait(&other));
  OK(mp_wait_all(2, receives));
  CHECK(all_are(&b, 0, 2, 40 + OTHER));
  OK(mp_desc_queue_free(&sends));
  OK(mp_desc_queue_free(&waits));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void a_start_that_one_rank_refuses_fails_on_all_at_once(void) {
  int peers[2] = {0, 1};
  const double begin = MPI_Wtime();
  mp_finalize();
  if (rank == 1) peers[0] = 2; /* no such rank */
  CHECK(mp_init(MPI_COMM_WORLD, peers, 2, MP_INIT_DEFAULT, 0) == MP_FAILURE);
  CHECK(MPI_Wtime() - begin < 15); /* and not the deadline of joining, 60 s */
  peers[0] = 0;
  OK(mp_init(MPI_COMM_WORLD, peers, 2, MP_INIT_DEFAULT, 0));
}

static void a_receive_that_is_refused_is_in_nobodys_way(void) {
  enum { ROUNDS = 1100 }; /* more than can be posted ahead */
  struct buffer gone = take(PLAIN, 8 * PAGE, 0), b = take(PINNED, 2, 50 + rank);
  mp_request_t requests[2] = {NULL, NULL};
  int i;
  unmap(&gone);
  CHECK(mp_irecv(gone.data, 8 * PAGE, OTHER, &gone.reg, &requests[0]) == MP_FAILURE && requests[0] == NULL);
  for (i = 0; i < ROUNDS; ++i) {
    OK(mp_irecv(b.data, 1, OTHER, &b.reg, &requests[0]));
    OK(mp_isend(b.data + 1, 1, OTHER, &b.reg, &requests[1]));
    OK(mp_wait_all(2, requests));
  }
  CHECK(all_are(&b, 0, 1, 50 + OTHER));
  map_again(&gone, 0);
  drop(&gone);
  drop(&b);
}

static void a_capture_waits_only_for_what_it_posts(void) {
  struct buffer b = take(PINNED, 4, 60 + rank);
  cudaStream_t stream = new_stream();
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  mp_window_t window;
  mp_desc_queue_t queue;
  mp_request_t receives[2], sends[2], put;
  OK(mp_window_create(b.data, 4, &window));
  OK(mp_desc_queue_alloc(&queue));
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &receives[0]));
  OK(mp_irecv(b.data + 1, 1, OTHER, &b.reg, &receives[1]));
  OK(mp_iput(b.data + 2, 1, &b.reg, OTHER, 3, &window, &put, 0));
  OK(mp_desc_queue_add_wait_recv(&queue, &receives[0]));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(mp_wait_on_stream(&receives[0], stream) == EINVAL);
  CHECK(mp_wait_all_on_stream(2, receives, stream) == EINVAL);
  CHECK(mp_wait_on_stream(&put, stream) == EINVAL);
  CHECK(mp_desc_queue_post_on_stream(stream, &queue, 0) == EINVAL);
  OK(mp_isend_on_stream(b.data + 2, 1, OTHER, &b.reg, &sends[0], stream));
  OK(mp_wait_on_stream(&sends[0], stream));
  OK(mp_isend_on_stream(b.data + 2, 1, OTHER, &b.reg, &sends[1], stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CHECK(mp_wait_on_stream(&sends[1], stream) == EINVAL);
  CUDA_OK(cudaGraphInstantiate(&replay, graph, 0));
  CUDA_OK(cudaGraphLaunch(replay, stream));
  OK(mp_desc_queue_post_on_stream(stream, &queue, 0));
  OK(mp_wait_on_stream(&put, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  OK(mp_wait_all(2, receives));
  OK(mp_wait(&put));
  barrier();
  CHECK(all_are(&b, 0, 2, 60 + OTHER) && all_are(&b, 3, 1, 60 + OTHER));
  CUDA_OK(cudaGraphExecDestroy(replay));
  CUDA_OK(cudaGraphDestroy(graph));
  OK(mp_desc_queue_free(&queue));
  OK(mp_window_destroy(&window));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void a_window_that_one_rank_cannot_have_fails_on_all_at_once(void) {
  struct buffer b = take(PLAIN, 8 * PAGE, 70 + rank);
  const double begin = MPI_Wtime();
  mp_window_t window = NULL;
  mp_request_t put;
  if (rank == 1) unmap(&b);
  CHECK(mp_window_create(b.data, b.bytes, &window) == MP_FAILURE && window == NULL);
  if (rank == 1) map_again(&b, 70 + rank);
  CHECK(mp_window_create(b.data, b.bytes, rank == 1 ? NULL : &window) == MP_FAILURE && window == NULL);
  CHECK(MPI_Wtime() - begin < 15); /* and not the deadline, 30 s */
  OK(mp_window_create(b.data, b.bytes, &window));
  OK(mp_iput(b.data, PAGE, &b.reg, OTHER, PAGE, &window, &put, 0));
  OK(mp_wait(&put));
  barrier();
  CHECK(all_are(&b, PAGE, PAGE, 70 + OTHER));
  barrier();
  OK(mp_window_destroy(&window));
  drop(&b);
}

static void a_post_that_fails_leaves_its_ops_prepared(void) {
  struct buffer b = take(PINNED, 1, 80 + rank), pages = take(PLAIN, 32 * PAGE, 80 + rank);
  cudaStream_t stream = new_stream();
  mp_request_t requests[3];
  int i;
  if (rank == 1) {
    OK(mp_irecv(b.data, 1, 0, &b.reg, &requests[0]));
    for (i = 1; i < 3; ++i) {
      OK(mp_irecv(pages.data + (i - 1) * 16 * PAGE, 16 * PAGE, 0, &pages.reg, &requests[i]));
    }
  } else {
    OK(mp_send_prepare(b.data, 1, 1, &b.reg, &requests[0]));
    for (i = 1; i < 3; ++i) OK(mp_send_prepare(pages.data, 16 * PAGE, 1, &pages.reg, &requests[i]));
    unmap(&pages);
    CHECK(mp_isend_post_all_on_stream(3, requests, stream) == MP_FAILURE);
    CHECK(mp_send_post_all_on_stream(3, requests, stream) == MP_FAILURE);
    for (i = 0; i < 3; ++i) CHECK(mp_wait(&requests[i]) == EINVAL); /* not posted */
    OK(mp_isend_post_on_stream(&requests[0], stream));
    CHECK(mp_isend_post_on_stream(&requests[1], stream) == MP_FAILURE);
    map_again(&pages, 80);
    OK(mp_isend_post_all_on_stream(2, requests + 1, stream));
  }
  OK(mp_wait_all(3, requests));
  CHECK(all_are(&b, 0, 1, 80) && all_are(&pages, 0, 32 * PAGE, 80));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
  drop(&pages);
}

static void a_queue_that_fails_keeps_what_is_not_on_the_stream(void) {
  struct buffer b = take(PINNED, 1, 90 + rank), pages = take(PLAIN, 16 * PAGE, 90 + rank), words = take(PINNED, 8, 0);
  uint32_t* word = (uint32_t*)(void*)words.data;
  cudaStream_t stream = new_stream();
  mp_desc_queue_t queue;
  mp_request_t requests[2];
  OK(mp_desc_queue_alloc(&queue));
  if (rank == 1) {
    OK(mp_irecv(b.data, 1, 0, &b.reg, &requests[0]));
    OK(mp_irecv(pages.data, 16 * PAGE, 0, &pages.reg, &requests[1]));
    OK(mp_wait_all(2, requests));
  } else {
    OK(mp_send_prepare(b.data, 1, 1, &b.reg, &requests[0]));
    OK(mp_send_prepare(pages.data, 16 * PAGE, 1, &pages.reg, &requests[1]));
    OK(mp_desc_queue_add_send(&queue, &requests[0]));
    OK(mp_desc_queue_add_wait_send(&queue, &requests[0]));
    OK(mp_desc_queue_add_write_value32(&queue, &word[0], 1));
    OK(mp_desc_queue_add_send(&queue, &requests[1]));
    OK(mp_desc_queue_add_wait_send(&queue, &requests[1]));
    OK(mp_desc_queue_add_write_value32(&queue, &word[1], 1));
    unmap(&pages);
    CHECK(mp_desc_queue_post_on_stream(stream, &queue, 0) == MP_FAILURE);
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(word[0] == 1 && word[1] == 0);
    OK(mp_wait(&requests[0]));
    CHECK(mp_wait(&requests[1]) == EINVAL); /* not posted */
    map_again(&pages, 90);
    word[0] = 0;
    OK(mp_desc_queue_post_on_stream(stream, &queue, 0));
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(word[0] == 0 && word[1] == 1);
    OK(mp_wait(&requests[1]));
  }
  CHECK(all_are(&b, 0, 1, 90) && all_are(&pages, 0, 16 * PAGE, 90));
  OK(mp_desc_queue_free(&queue));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
  drop(&pages);
  drop(&words);
}

#define CASE(name) {#name, name}
static const struct test_case kCases[] = {
    CASE(prepared_sends_may_not_overtake_each_other),
    CASE(a_message_larger_than_its_receive_fails_on_both_sides),
    CASE(of_a_small_message_larger_than_its_receive_only_the_receive_fails),
    CASE(calls_after_finalize_fail_and_a_new_start_works),
    CASE(calls_of_a_forked_child_fail),
    CASE(after_a_deadline_all_fails_and_a_new_start_works),
    CASE(a_post_with_a_bad_request_posts_nothing),
    CASE(one_request_twice_in_a_call_is_refused),
    CASE(a_start_that_one_rank_refuses_fails_on_all_at_once),
    CASE(a_queue_that_cannot_be_posted_stays_as_it_is),
    CASE(a_receive_that_is_refused_is_in_nobodys_way),
    CASE(a_capture_waits_only_for_what_it_posts),
    CASE(a_window_that_one_rank_cannot_have_fails_on_all_at_once),
    CASE(a_post_that_fails_leaves_its_ops_prepared),
    CASE(a_queue_that_fails_keeps_what_is_not_on_the_stream),
};

int main(int argc, char** argv) { return run_case(argc, argv, kCases, (int)(sizeof kCases / sizeof kCases[0])); }
