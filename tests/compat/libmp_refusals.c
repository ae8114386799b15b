/* What each of libmp's calls refuses by itself: bad arguments, what has ended already, and all after the end. With
 * which code, and that nothing is changed by it. See libmp.h.
 */
#include <limits.h>

#include "libmp.h"

/* 0 on one rank, 1 on the other; and each other's rank. */
#define OTHER (1 - rank)

static void bad_arguments_fail_and_change_nothing(void) {
  struct buffer b = take(PINNED, 100, 0);
  mp_request_t request = NULL;
  mp_reg_t stale = b.reg, none = NULL;
  int dummy = 0, value = 0;
  FAILS(mp_irecv(b.data, 101, OTHER, &b.reg, &request));
  FAILS(mp_irecv(b.data + 100, 1, OTHER, &b.reg, &request));
  FAILS(mp_irecv(b.data, -1, OTHER, &b.reg, &request));
  FAILS(mp_irecv(NULL, 1, OTHER, &b.reg, &request));
  FAILS(mp_irecv(b.data, 1, OTHER, &none, &request));
  FAILS(mp_irecv(b.data, 1, OTHER, NULL, &request));
  FAILS(mp_irecv(b.data, 1, OTHER, &b.reg, NULL));
  FAILS(mp_register(NULL, 1, &none));
  FAILS(mp_register(b.data, 0, &none));
  FAILS(mp_register((void*)0x1000, 4096, &none)); /* nobody's */
  FAILS(mp_register((void*)-4096, 8192, &none));  /* past the last address */
  FAILS(mp_deregister(NULL));
  FAILS(mp_deregister(&none));
  CHECK(request == NULL);
  CHECK(mp_wait(NULL) == EINVAL && mp_wait(&request) == EINVAL && mp_wait_all(2, NULL) == EINVAL);
  FAILS(mp_window_create(NULL, 8, NULL));
  FAILS(mp_window_destroy(NULL));
  CHECK(mp_query_param(MP_PARAM_VERSION, NULL) == EINVAL && mp_query_param(MP_NUM_PARAMS, &value) == EINVAL);
  OK(mp_query_param(MP_PARAM_VERSION, &value));
  CHECK(value == MP_API_VERSION && MP_API_VERSION_COMPATIBLE(value) && !MP_API_VERSION_COMPATIBLE(1 << 16));
  FAILS(mp_init(MPI_COMM_WORLD, &dummy, 1, MP_INIT_DEFAULT, 0)); /* is initialised */
  drop(&b);
  FAILS(mp_deregister(&stale));
}

/* Two blocks of a byte each. */
static void two_blocks(const struct buffer* b, struct iovec* v) {
  v[0].iov_base = b->data;
  v[1].iov_base = b->data + 2;
  v[0].iov_len = v[1].iov_len = 1;
}

static void bad_puts_gets_and_vectors_fail(void) {
  struct buffer b = take(PINNED, 100, 5);
  struct iovec v[2];
  cudaStream_t stream = new_stream();
  mp_window_t window, none = NULL;
  mp_request_t r = NULL;
  two_blocks(&b, v);
  OK(mp_window_create(b.data, 100, &window));
  FAILS(mp_put_prepare(b.data, 101, &b.reg, OTHER, 0, &window, &r, 0));
  FAILS(mp_iput(b.data, 50, &b.reg, OTHER, 51, &window, &r, 0));
  FAILS(mp_iget(b.data, 50, &b.reg, OTHER, (size_t)-1, &window, &r));
  FAILS(mp_iput(b.data, 65, &b.reg, OTHER, 0, &window, &r, MP_PUT_INLINE));
  FAILS(mp_iput(b.data, 1, &b.reg, OTHER, 0, &window, &r, 1 << 10));
  FAILS(mp_iput(NULL, 1, &b.reg, OTHER, 0, &window, &r, 0));
  FAILS(mp_iput_on_stream(b.data, -1, &b.reg, OTHER, 0, &window, &r, 0, stream));
  FAILS(mp_iput(b.data, 1, NULL, OTHER, 0, &window, &r, 0));
  FAILS(mp_iget(b.data, 1, &b.reg, OTHER, 0, NULL, &r));
  FAILS(mp_iget_on_stream(b.data, 1, &b.reg, OTHER, 0, &none, &r, stream));
  FAILS(mp_iput(b.data, 1, &b.reg, OTHER, 0, &window, NULL, 0));
  FAILS(mp_isendv(NULL, 2, OTHER, &b.reg, &r));
  FAILS(mp_irecvv(NULL, 2, OTHER, &b.reg, &r));
  FAILS(mp_sendv_prepare(v, -1, OTHER, &b.reg, &r));
  FAILS(mp_isendv_on_stream(v, 2, OTHER, &b.reg, NULL, stream));
  v[1].iov_base = NULL;
  FAILS(mp_isendv(v, 2, OTHER, &b.reg, &r));
  CHECK(r == NULL);
  barrier();
  CHECK(all_are(&b, 0, 100, 5));
  OK(mp_window_destroy(&window));
  FAILS(mp_window_destroy(&window));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void null_requests_words_and_queues_are_refused(void) {
  struct buffer b = take(PINNED, 8, 0);
  uint32_t *word = (uint32_t*)(void*)b.data, *crooked = (uint32_t*)(void*)(b.data + 1);
  cudaStream_t stream = new_stream();
  mp_request_t none = NULL;
  mp_desc_queue_t queue, no_queue = NULL;
  OK(mp_desc_queue_alloc(&queue));
  INVALID(mp_send_post_on_stream(NULL, stream));
  INVALID(mp_isend_post_on_stream(&none, stream));
  INVALID(mp_iput_post_on_stream(NULL, stream));
  INVALID(mp_send_post_all_on_stream(2, NULL, stream));
  INVALID(mp_isend_post_all_on_stream(1, &none, stream));
  INVALID(mp_iput_post_all_on_stream(2, NULL, stream));
  INVALID(mp_wait_on_stream(NULL, stream));
  INVALID(mp_wait_all_on_stream(1, NULL, stream));
  CHECK(mp_progress_all(2, NULL) == 0);
  OK(mp_wait_all(0, NULL));
  INVALID(mp_wait32(NULL, 0, MP_WAIT_EQ));
  INVALID(mp_wait32(crooked, 0, MP_WAIT_EQ));
  INVALID(mp_wait32(word, 0, 9));
  INVALID(mp_wait32_on_stream(NULL, 0, MP_WAIT_EQ, stream));
  INVALID(mp_wait32_on_stream(word, 0, 9, stream));
  FAILS(mp_desc_queue_alloc(NULL));
  FAILS(mp_desc_queue_free(NULL));
  FAILS(mp_desc_queue_add_send(NULL, &none));
  INVALID(mp_desc_queue_add_send(&queue, NULL));
  INVALID(mp_desc_queue_add_wait_send(&queue, &none));
  INVALID(mp_desc_queue_add_wait_recv(&queue, NULL));
  INVALID(mp_desc_queue_add_wait_value32(&queue, NULL, 1, MP_WAIT_EQ));
  INVALID(mp_desc_queue_add_wait_value32(&queue, word, 1, 9));
  FAILS(mp_desc_queue_add_wait_value32(&no_queue, word, 1, MP_WAIT_EQ));
  INVALID(mp_desc_queue_add_write_value32(&queue, NULL, 1));
  INVALID(mp_desc_queue_add_write_value32(&queue, crooked, 1));
  FAILS(mp_desc_queue_post_on_stream(stream, NULL, 0));
  OK(mp_desc_queue_post_on_stream(stream, &queue, 0)); /* it holds none of these */
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(all_are(&b, 0, 8, 0));
  OK(mp_desc_queue_free(&queue));
  FAILS(mp_desc_queue_free(&queue));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void waiting_twice_fails_and_does_not_crash(void) {
  struct buffer b = take(PINNED, 2, 0);
  mp_request_t request, copy;
  cudaStream_t stream = new_stream();
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &request));
  FAILS(mp_isend_post_on_stream(&request, stream)); /* a receive */
  copy = request;
  OK(mp_wait_on_stream(&request, stream));
  CHECK(mp_wait_on_stream(&request, stream) == EINVAL);
  OK(mp_isend(b.data + 1, 1, OTHER, &b.reg, &request));
  OK(mp_wait(&request));
  CHECK(mp_wait(&request) == EINVAL);
  OK(mp_wait(&copy));
  CHECK(mp_wait(&copy) == EINVAL && mp_wait_on_stream(&copy, stream) == EINVAL);
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void a_put_is_waited_for_once_and_a_nowait_put_never(void) {
  struct buffer b = take(PINNED, 8, 5);
  cudaStream_t stream = new_stream();
  mp_window_t window;
  mp_desc_queue_t queue;
  mp_request_t put;
  OK(mp_window_create(b.data, 8, &window));
  OK(mp_desc_queue_alloc(&queue));
  OK(mp_iput(b.data, 1, &b.reg, OTHER, 1, &window, &put, 0));
  OK(mp_wait(&put));
  INVALID(mp_wait(&put));
  OK(mp_iput_on_stream(b.data, 1, &b.reg, OTHER, 2, &window, &put, 0, stream));
  OK(mp_wait_on_stream(&put, stream));
  INVALID(mp_wait_on_stream(&put, stream));
  OK(mp_wait_all(1, &put));
  INVALID(mp_wait_all(1, &put));
  OK(mp_iput(b.data, 1, &b.reg, OTHER, 3, &window, &put, MP_PUT_NOWAIT));
  INVALID(mp_wait(&put));
  INVALID(mp_wait_all(1, &put));
  INVALID(mp_wait_on_stream(&put, stream));
  INVALID(mp_desc_queue_add_wait_send(&queue, &put));
  CHECK(mp_progress_all(1, &put) == 0);
  send_one(&b); /* behind it */
  barrier();
  OK(mp_desc_queue_free(&queue));
  OK(mp_window_destroy(&window));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

static void no_call_works_after_finalize(void) {
  struct buffer b = take(PINNED, 8, 0);
  uint32_t* word = (uint32_t*)(void*)b.data;
  struct iovec v[2];
  cudaStream_t s = new_stream();
  mp_window_t window, new_window;
  mp_desc_queue_t queue, new_queue;
  mp_request_t r = NULL, posted, prepared;
  mp_reg_t reg;
  int value = 0;
  two_blocks(&b, v);
  OK(mp_window_create(b.data, 8, &window));
  OK(mp_desc_queue_alloc(&queue));
  OK(mp_irecv(b.data, 1, OTHER, &b.reg, &posted));
  OK(mp_send_prepare(b.data, 1, OTHER, &b.reg, &prepared));
  mp_finalize();
  FAILS(mp_register(b.data, 8, &reg));
  FAILS(mp_deregister(&b.reg));
  FAILS(mp_irecv(b.data, 1, OTHER, &b.reg, &r));
  FAILS(mp_isend(b.data, 1, OTHER, &b.reg, &r));
  FAILS(mp_irecvv(v, 2, OTHER, &b.reg, &r));
  FAILS(mp_isendv(v, 2, OTHER, &b.reg, &r));
  FAILS(mp_isend_on_stream(b.data, 1, OTHER, &b.reg, &r, s));
  FAILS(mp_isendv_on_stream(v, 2, OTHER, &b.reg, &r, s));
  FAILS(mp_send_on_stream(b.data, 1, OTHER, &b.reg, &r, s));
  FAILS(mp_wait(&posted));
  FAILS(mp_wait_all(1, &posted));
  CHECK(mp_progress_all(1, &posted) == 0);
  FAILS(mp_wait_on_stream(&posted, s));
  FAILS(mp_wait_all_on_stream(1, &posted, s));
  FAILS(mp_send_prepare(b.data, 1, OTHER, &b.reg, &r));
  FAILS(mp_sendv_prepare(v, 2, OTHER, &b.reg, &r));
  FAILS(mp_send_post_on_stream(&prepared, s));
  FAILS(mp_isend_post_on_stream(&prepared, s));
  FAILS(mp_send_post_all_on_stream(1, &prepared, s));
  FAILS(mp_isend_post_all_on_stream(1, &prepared, s));
  FAILS(mp_window_create(b.data, 8, &new_window));
  FAILS(mp_window_destroy(&window));
  FAILS(mp_iput(b.data, 1, &b.reg, OTHER, 0, &window, &r, 0));
  FAILS(mp_iget(b.data, 1, &b.reg, OTHER, 0, &window, &r));
  FAILS(mp_iput_on_stream(b.data, 1, &b.reg, OTHER, 0, &window, &r, 0, s));
  FAILS(mp_iget_on_stream(b.data, 1, &b.reg, OTHER, 0, &window, &r, s));
  FAILS(mp_put_prepare(b.data, 1, &b.reg, OTHER, 0, &window, &r, 0));
  FAILS(mp_iput_post_on_stream(&prepared, s));
  FAILS(mp_iput_post_all_on_stream(1, &prepared, s));
  FAILS(mp_wait32(word, 0, MP_WAIT_EQ));
  FAILS(mp_wait32_on_stream(word, 0, MP_WAIT_EQ, s));
  FAILS(mp_wait_dword_geq_on_stream(word, 0, s));
  FAILS(mp_wait_dword_eq_on_stream(word, 0, s));
  FAILS(mp_desc_queue_alloc(&new_queue));
  FAILS(mp_desc_queue_add_send(&queue, &prepared));
  FAILS(mp_desc_queue_add_wait_send(&queue, &prepared));
  FAILS(mp_desc_queue_add_wait_recv(&queue, &posted));
  FAILS(mp_desc_queue_add_wait_value32(&queue, word, 0, MP_WAIT_EQ));
  FAILS(mp_desc_queue_add_write_value32(&queue, word, 1));
  FAILS(mp_desc_queue_post_on_stream(s, &queue, 0));
  FAILS(mp_desc_queue_free(&queue));
  OK(mp_query_param(MP_PARAM_VERSION, &value)); /* needs no start */
  CHECK(r == NULL && value == MP_API_VERSION);
  start();
  INVALID(mp_isend_post_on_stream(&prepared, s)); /* of the time before */
  FAILS(mp_window_destroy(&window));
  FAILS(mp_desc_queue_free(&queue));
  OK(mp_register(b.data, 8, &b.reg));
  send_one(&b);
  CUDA_OK(cudaStreamDestroy(s));
  drop(&b);
}

/* Of all calls that name a peer. */
static void none_takes_peer(int peer, const struct buffer* b, mp_window_t* window, cudaStream_t stream) {
  struct iovec v[2];
  mp_reg_t reg = b->reg;
  mp_request_t r = NULL;
  two_blocks(b, v);
  FAILS(mp_irecv(b->data, 1, peer, &reg, &r));
  FAILS(mp_isend(b->data, 1, peer, &reg, &r));
  FAILS(mp_irecvv(v, 2, peer, &reg, &r));
  FAILS(mp_isendv(v, 2, peer, &reg, &r));
  FAILS(mp_isend_on_stream(b->data, 1, peer, &reg, &r, stream));
  FAILS(mp_isendv_on_stream(v, 2, peer, &reg, &r, stream));
  FAILS(mp_send_on_stream(b->data, 1, peer, &reg, &r, stream));
  FAILS(mp_send_prepare(b->data, 1, peer, &reg, &r));
  FAILS(mp_sendv_prepare(v, 2, peer, &reg, &r));
  FAILS(mp_iput(b->data, 1, &reg, peer, 0, window, &r, 0));
  FAILS(mp_iget(b->data, 1, &reg, peer, 0, window, &r));
  FAILS(mp_iput_on_stream(b->data, 1, &reg, peer, 0, window, &r, 0, stream));
  FAILS(mp_iget_on_stream(b->data, 1, &reg, peer, 0, window, &r, stream));
  FAILS(mp_put_prepare(b->data, 1, &reg, peer, 0, window, &r, 0));
  CHECK(r == NULL);
}

static void only_the_peers_of_init_can_be_reached(void) {
  struct buffer b = take(PINNED, 8, 0);
  cudaStream_t stream = new_stream();
  mp_window_t window;
  int peer = OTHER;
  mp_finalize();
  FAILS(mp_init(MPI_COMM_WORLD, &size, 1, MP_INIT_DEFAULT, 0)); /* no such rank */
  OK(mp_init(MPI_COMM_WORLD, &peer, 1, MP_INIT_DEFAULT, 0));
  OK(mp_register(b.data, 8, &b.reg));
  OK(mp_window_create(b.data, 8, &window));
  none_takes_peer(rank, &b, &window, stream);
  none_takes_peer(size, &b, &window, stream);
  none_takes_peer(-1, &b, &window, stream);
  none_takes_peer(INT_MAX, &b, &window, stream);
  send_one(&b);
  OK(mp_window_destroy(&window));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

#define CASE(name) {#name, name}
static const struct test_case kCases[] = {
    CASE(bad_arguments_fail_and_change_nothing),           CASE(bad_puts_gets_and_vectors_fail),
    CASE(null_requests_words_and_queues_are_refused),      CASE(waiting_twice_fails_and_does_not_crash),
    CASE(a_put_is_waited_for_once_and_a_nowait_put_never), CASE(no_call_works_after_finalize),
    CASE(only_the_peers_of_init_can_be_reached),
};

int main(int argc, char** argv) { return run_case(argc, argv, kCases, (int)(sizeof kCases / sizeof kCases[0])); }
