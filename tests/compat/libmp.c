/* libmp's calls, one by one, between two ranks (or as many as the case says): see libmp.h. */
#include "libmp.h"

/* 0 on one rank, 1 on the other; and each other's rank. */
#define OTHER (1 - rank)

static const int kSizes[] = {0, 1, 3, 8, 100, 4096, 10000, 65536, 300000};
enum { SIZES = sizeof kSizes / sizeof kSizes[0], LARGEST = 300000 };

static void messages_of_every_size_and_memory_arrive(void) {
  int from, to, i;
  for (from = 0; from < KINDS; ++from) {
    for (to = 0; to < KINDS; ++to) {
      struct buffer out = take(from, LARGEST, 10 + rank);
      struct buffer in = take(to, LARGEST, 0);
      for (i = 0; i < SIZES; ++i) {
        mp_request_t requests[2];
        fill(&in, 0);
        OK(mp_irecv(in.data, kSizes[i], OTHER, &in.reg, &requests[0]));
        OK(mp_isend(out.data, kSizes[i], OTHER, &out.reg, &requests[1]));
        OK(mp_wait_all(2, requests));
        CHECK(all_are(&in, 0, (size_t)kSizes[i], 10 + OTHER));
        CHECK(kSizes[i] == LARGEST || at(&in, (size_t)kSizes[i]) == 0);
      }
      drop(&out);
      drop(&in);
    }
  }
}

static void sends_may_come_before_their_receives(void) {
  enum { COUNT = 600, BYTES = 4000 };
  static mp_request_t requests[COUNT];
  struct buffer b = take(PINNED, COUNT * BYTES, 0);
  int i;
  if (rank == 0) {
    for (i = 0; i < COUNT; ++i) {
      unsigned char first = (unsigned char)i;
      write_bytes(&b, (size_t)i * BYTES, &first, 1);
      OK(mp_isend(b.data + (size_t)i * BYTES, BYTES, 1, &b.reg, &requests[i]));
    }
    barrier(); /* only now the receives are posted */
  } else {
    barrier();
    for (i = 0; i < COUNT; ++i) OK(mp_irecv(b.data + (size_t)i * BYTES, BYTES, 0, &b.reg, &requests[i]));
  }
  OK(mp_wait_all(COUNT, requests));
  for (i = 0; i < COUNT; ++i) CHECK(at(&b, (size_t)i * BYTES) == (unsigned char)i);
  drop(&b);
}

static void a_receive_completes_though_nobody_waits_for_it(void) {
  int kind;
  for (kind = 0; kind < KINDS; ++kind) {
    struct buffer b = take(kind, LARGEST, 20 + rank);
    mp_request_t request;
    if (rank == 0) {
      OK(mp_isend(b.data, LARGEST, 1, &b.reg, &request));
      barrier();
      OK(mp_wait(&request)); /* needs the receiver, which stands in the barrier below */
      barrier();
    } else {
      barrier();
      OK(mp_irecv(b.data, LARGEST, 0, &b.reg, &request));
      barrier();
      OK(mp_wait(&request));
      CHECK(all_are(&b, 0, LARGEST, 20));
    }
    drop(&b);
  }
}

static void more_receives_than_one_lane_holds_are_posted_as_room_comes(void) {
  enum { COUNT = 1500 };
  static mp_request_t requests[COUNT];
  struct buffer b = take(PINNED, COUNT, 0);
  int i;
  if (rank == 0) {
    for (i = 0; i < COUNT; ++i) {
      unsigned char value = (unsigned char)(i % 251);
      write_bytes(&b, (size_t)i, &value, 1);
      OK(mp_isend(b.data + i, 1, 1, &b.reg, &requests[i]));
    }
  } else {
    for (i = 0; i < COUNT; ++i) OK(mp_irecv(b.data + i, 1, 0, &b.reg, &requests[i]));
  }
  OK(mp_wait_all(COUNT, requests));
  for (i = 0; i < COUNT; ++i) CHECK(at(&b, (size_t)i) == i % 251);
  drop(&b);
}

/* However they are posted: by the host, on two streams, prepared; large after small. */
static void messages_of_a_pair_match_in_posting_order(void) {
  enum { COUNT = 40 };
  mp_request_t requests[COUNT];
  cudaStream_t streams[2];
  struct buffer b = take(PINNED, (size_t)COUNT * 20000, 0);
  int i;
  streams[0] = new_stream();
  streams[1] = new_stream();
  for (i = 0; i < COUNT; ++i) {
    unsigned char* mine = b.data + (size_t)i * 20000;
    const int bytes = i % 3 == 0 ? 20000 : 64;
    if (rank == 1) {
      OK(mp_irecv(mine, 20000, 0, &b.reg, &requests[i]));
      continue;
    }
    memset(mine, i + 1, 20000);
    if (i % 4 == 0) OK(mp_isend(mine, bytes, 1, &b.reg, &requests[i]));
    if (i % 4 == 1) OK(mp_isend_on_stream(mine, bytes, 1, &b.reg, &requests[i], streams[0]));
    if (i % 4 == 2) OK(mp_isend_on_stream(mine, bytes, 1, &b.reg, &requests[i], streams[1]));
    if (i % 4 == 3) {
      OK(mp_send_prepare(mine, bytes, 1, &b.reg, &requests[i]));
      OK(mp_isend_post_on_stream(&requests[i], streams[0]));
    }
  }
  OK(mp_wait_all(COUNT, requests));
  for (i = 0; i < COUNT; ++i) {
    CHECK(at(&b, (size_t)i * 20000) == i + 1);
    if (rank == 1) CHECK(at(&b, (size_t)i * 20000 + 19999) == (i % 3 == 0 ? i + 1 : 0));
  }
  CUDA_OK(cudaStreamDestroy(streams[0]));
  CUDA_OK(cudaStreamDestroy(streams[1]));
  drop(&b);
}

static void a_stream_sends_and_waits_and_the_host_collects(void) {
  enum { STEPS = 30 };
  int kind, i;
  for (kind = 0; kind < KINDS; ++kind) {
    mp_request_t sends[STEPS], receives[STEPS];
    struct buffer out = take(kind, LARGEST, 0);
    struct buffer in = take(kind, LARGEST, 0);
    cudaStream_t stream = new_stream();
    for (i = 0; i < STEPS; ++i) {
      const int bytes = kSizes[i % SIZES];
      /* Both work in stream order: what was received last is sent back, one higher. */
      OK(mp_irecv(in.data, bytes, OTHER, &in.reg, &receives[i]));
      if (rank == 1) OK(mp_wait_on_stream(&receives[i], stream));
      fill_on_stream(&out, i + 1, (size_t)bytes, stream);
      if (i % 2 == 0) {
        OK(mp_isend_on_stream(out.data, bytes, OTHER, &out.reg, &sends[i], stream));
        OK(mp_wait_on_stream(&sends[i], stream));
      } else {
        OK(mp_send_on_stream(out.data, bytes, OTHER, &out.reg, &sends[i], stream));
      }
      if (rank == 0) OK(mp_wait_on_stream(&receives[i], stream));
    }
    OK(mp_wait_all(STEPS, receives));
    OK(mp_wait_all(STEPS, sends));
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(all_are(&in, 0, (size_t)kSizes[(STEPS - 1) % SIZES], STEPS));
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&out);
    drop(&in);
  }
}

static void the_default_stream_is_a_stream(void) {
  mp_request_t requests[2];
  struct buffer out = take(DEVICE, 5000, 30 + rank);
  struct buffer in = take(DEVICE, 5000, 0);
  OK(mp_irecv(in.data, 5000, OTHER, &in.reg, &requests[0]));
  OK(mp_isend_on_stream(out.data, 5000, OTHER, &out.reg, &requests[1], NULL));
  OK(mp_wait_all_on_stream(2, requests, NULL));
  CUDA_OK(cudaDeviceSynchronize());
  CHECK(all_are(&in, 0, 5000, 30 + OTHER));
  OK(mp_wait_all(2, requests));
  drop(&out);
  drop(&in);
}

static void progress_counts_what_is_complete_and_releases_nothing(void) {
  mp_request_t requests[3];
  struct buffer b = take(PINNED, 3, 0);
  int i;
  if (rank == 0) {
    for (i = 0; i < 3; ++i) OK(mp_irecv(b.data + i, 1, 1, &b.reg, &requests[i]));
    CHECK(mp_progress_all(3, requests) == 0);
    barrier(); /* the first two may come */
    while (mp_progress_all(3, requests) < 2) continue;
    CHECK(mp_progress_all(3, requests) == 2);
    barrier();
    OK(mp_wait_all(3, requests));
    CHECK(mp_progress_all(3, requests) == 0); /* released */
  } else {
    for (i = 0; i < 3; ++i) {
      if (i != 1) barrier();
      OK(mp_isend(b.data + i, 1, 0, &b.reg, &requests[i]));
    }
    OK(mp_wait_all(3, requests));
  }
  drop(&b);
}

/* Blocks of 1, 2, 3, ... bytes, with a gap of one byte behind each. */
static void lay_out(struct iovec* v, int count, unsigned char* base) {
  int i;
  for (i = 0; i < count; ++i) {
    v[i].iov_base = base;
    v[i].iov_len = (size_t)(i + 1);
    base += i + 2;
  }
}

static void check_blocks(const struct buffer* b, int count, int value) {
  size_t offset = 0;
  int i;
  for (i = 0; i < count; ++i) {
    CHECK(all_are(b, offset, (size_t)i + 1, value));
    offset += (size_t)i + 1;
    CHECK(at(b, offset) == 0);
    offset += 1;
  }
}

static void vectors_of_up_to_30_blocks_arrive(void) {
  enum { MOST = 30, ROOM = 600 };
  int kind, way, count;
  for (kind = 0; kind < KINDS; ++kind) {
    cudaStream_t stream = new_stream();
    struct buffer b = take(kind, ROOM, 0);
    struct iovec v[MOST + 1];
    mp_request_t request;
    for (way = 0; way < 4; ++way) {
      for (count = 1; count <= MOST; count += 29) {
        lay_out(v, count, b.data);
        fill(&b, rank == 0 ? 7 + way : 0);
        if (rank == 0) {
          if (way == 0) OK(mp_isendv(v, count, 1, &b.reg, &request));
          if (way == 1) OK(mp_isendv_on_stream(v, count, 1, &b.reg, &request, stream));
          if (way >= 2) {
            OK(mp_sendv_prepare(v, count, 1, &b.reg, &request));
            if (way == 2) OK(mp_isend_post_on_stream(&request, stream));
            if (way == 3) OK(mp_send_post_on_stream(&request, stream));
          }
          OK(mp_wait(&request));
        } else {
          OK(mp_irecvv(v, count, 0, &b.reg, &request));
          if (way % 2 == 1) OK(mp_wait_on_stream(&request, stream));
          OK(mp_wait(&request));
          check_blocks(&b, count, 7 + way);
        }
      }
    }
    lay_out(v, MOST + 1, b.data);
    CHECK(mp_isendv(v, MOST + 1, OTHER, &b.reg, &request) == MP_FAILURE);
    CHECK(mp_irecvv(v, MOST + 1, OTHER, &b.reg, &request) == MP_FAILURE);
    CHECK(mp_isendv_on_stream(v, MOST + 1, OTHER, &b.reg, &request, stream) == MP_FAILURE);
    CHECK(mp_sendv_prepare(v, MOST + 1, OTHER, &b.reg, &request) == MP_FAILURE);
    CHECK(mp_isendv(v, 0, OTHER, &b.reg, &request) == MP_FAILURE);
    v[1].iov_base = b.data + ROOM;
    CHECK(mp_isendv(v, 2, OTHER, &b.reg, &request) == MP_FAILURE);
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&b);
  }
}

static void a_short_message_leaves_the_rest_of_a_vector_alone(void) {
  int on_stream;
  for (on_stream = 0; on_stream < 2; ++on_stream) {
    struct buffer b = take(PINNED, 64, rank == 0 ? 9 : 5);
    struct iovec v[2];
    cudaStream_t stream = new_stream();
    mp_request_t request;
    v[0].iov_base = b.data;
    v[0].iov_len = 10;
    v[1].iov_base = b.data + 20;
    v[1].iov_len = 10;
    if (rank == 0) {
      OK(mp_isend(b.data, 13, 1, &b.reg, &request));
    } else {
      OK(mp_irecvv(v, 2, 0, &b.reg, &request));
      if (on_stream) OK(mp_wait_on_stream(&request, stream));
    }
    OK(mp_wait(&request));
    if (rank == 1) CHECK(all_are(&b, 0, 10, 9) && all_are(&b, 10, 10, 5) && all_are(&b, 20, 3, 9));
    if (rank == 1) CHECK(all_are(&b, 23, 41, 5));
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&b);
  }
}

static void prepared_sends_are_posted_one_by_one_or_together(void) {
  enum { COUNT = 16 };
  mp_request_t requests[COUNT];
  int way, i;
  cudaStream_t stream = new_stream();
  struct buffer b = take(DEVICE, COUNT * 1000, 0);
  for (way = 0; way < 4; ++way) {
    fill(&b, rank == 0 ? 40 + way : 0);
    for (i = 0; i < COUNT; ++i) {
      unsigned char* mine = b.data + i * 1000;
      if (rank == 0) OK(mp_send_prepare(mine, 1000, 1, &b.reg, &requests[i]));
      if (rank == 1) OK(mp_irecv(mine, 1000, 0, &b.reg, &requests[i]));
    }
    if (rank == 0) {
      CHECK(mp_wait(&requests[0]) == EINVAL); /* not posted */
      CHECK(mp_wait_on_stream(&requests[0], stream) == EINVAL);
      for (i = 0; i < COUNT && way < 2; ++i) {
        if (way == 0) OK(mp_send_post_on_stream(&requests[i], stream));
        if (way == 1) OK(mp_isend_post_on_stream(&requests[i], stream));
      }
      if (way == 2) OK(mp_send_post_all_on_stream(COUNT, requests, stream));
      if (way == 3) OK(mp_isend_post_all_on_stream(COUNT, requests, stream));
      CHECK(mp_isend_post_on_stream(&requests[0], stream) == MP_FAILURE); /* again */
    }
    OK(mp_wait_all(COUNT, requests));
    CHECK(all_are(&b, 0, b.bytes, 40 + way));
  }
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&b);
}

/* Every rank's window is as long as its rank says, rank 0's is empty; each puts to and gets from the next one. */
static void windows_of_any_memory_are_put_to_and_got_from(void) {
  int kind, way, i;
  for (kind = 0; kind < KINDS; ++kind) {
    const size_t mine = (size_t)rank * LARGEST;
    const int next = rank + 1 == size ? 1 : rank + 1;
    const int writer = rank == 1 ? size - 1 : rank - 1;
    struct buffer target = take(kind, mine + 1, 0);
    struct buffer local = take(kind, LARGEST, 0);
    cudaStream_t stream = new_stream();
    mp_window_t window;
    OK(mp_window_create(mine == 0 ? NULL : target.data, mine, &window));
    for (way = 0; way < 2; ++way) {
      for (i = 0; i < SIZES; ++i) {
        const int bytes = kSizes[i];
        mp_request_t request;
        fill(&local, 50 + rank + way);
        if (way == 0 && rank > 0) {
          OK(mp_iput(local.data, bytes, &local.reg, next, 0, &window, &request, 0));
        } else if (rank > 0) {
          OK(mp_iput_on_stream(local.data, bytes, &local.reg, next, 0, &window, &request, 0, stream));
        }
        if (rank > 0) OK(mp_wait(&request));
        barrier();
        if (rank > 0) {
          CHECK(all_are(&target, 0, (size_t)bytes, 50 + writer + way));
          fill(&local, 0);
          if (way == 0) OK(mp_iget(local.data, bytes, &local.reg, next, 0, &window, &request));
          if (way == 1) OK(mp_iget_on_stream(local.data, bytes, &local.reg, next, 0, &window, &request, stream));
          OK(mp_wait(&request));
          CHECK(all_are(&local, 0, (size_t)bytes, 50 + rank + way));
        }
        barrier();
      }
    }
    if (rank > 0) {
      mp_request_t request;
      CHECK(mp_iput(local.data, 1, &local.reg, 0, 0, &window, &request, 0) == MP_FAILURE);
      CHECK(mp_iput(local.data, 2, &local.reg, 1, LARGEST - 1, &window, &request, 0) == MP_FAILURE);
      CHECK(mp_iget(local.data, 1, &local.reg, 1, LARGEST, &window, &request) == MP_FAILURE);
      CHECK(mp_iput(local.data, 1, &local.reg, 1, (size_t)-1, &window, &request, 0) == MP_FAILURE);
    }
    barrier();
    OK(mp_window_destroy(&window));
    CHECK(window == NULL && mp_window_destroy(&window) == MP_FAILURE);
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&target);
    drop(&local);
  }
}

static void nowait_puts_are_ordered_before_later_sends(void) {
  enum { COUNT = 20, ROUNDS = 5 };
  int kind, round, i;
  for (kind = 0; kind < KINDS; ++kind) {
    cudaStream_t stream = new_stream();
    struct buffer b = take(kind, COUNT * 3000, 0);
    struct buffer word = take(PLAIN, 4, 0);
    mp_window_t window;
    OK(mp_window_create(b.data, b.bytes, &window));
    for (round = 0; round < ROUNDS; ++round) {
      mp_request_t puts[COUNT], told;
      if (rank == 0) {
        fill(&b, 60 + round);
        for (i = 0; i < COUNT; ++i) {
          const size_t offset = (size_t)i * 3000;
          unsigned char* from = b.data + offset;
          if (round % 3 == 0) OK(mp_iput(from, 3000, &b.reg, 1, offset, &window, &puts[i], MP_PUT_NOWAIT));
          if (round % 3 == 1) {
            OK(mp_iput_on_stream(from, 3000, &b.reg, 1, offset, &window, &puts[i], MP_PUT_NOWAIT, stream));
          }
          if (round % 3 == 2) OK(mp_put_prepare(from, 3000, &b.reg, 1, offset, &window, &puts[i], MP_PUT_NOWAIT));
        }
        if (round % 3 == 2) OK(mp_iput_post_all_on_stream(COUNT, puts, stream));
        CHECK(mp_wait(&puts[0]) == EINVAL && mp_wait_on_stream(&puts[1], stream) == EINVAL);
        if (round % 2 == 0) OK(mp_isend(word.data, 4, 1, &word.reg, &told));
        if (round % 2 == 1) OK(mp_isend_on_stream(word.data, 4, 1, &word.reg, &told, stream));
        OK(mp_wait(&told));
      } else {
        OK(mp_irecv(word.data, 4, 0, &word.reg, &told));
        OK(mp_wait(&told));
        CHECK(all_are(&b, 0, b.bytes, 60 + round));
      }
      barrier();
    }
    OK(mp_window_destroy(&window));
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&b);
    drop(&word);
  }
}

static void inline_puts_take_their_bytes_during_the_call(void) {
  int kind, way;
  for (kind = 0; kind < KINDS; ++kind) {
    struct buffer target = take(kind, 256, 0);
    struct buffer source = take(PLAIN, 65, 0);
    cudaStream_t stream = new_stream();
    mp_window_t window;
    OK(mp_window_create(target.data, target.bytes, &window));
    for (way = 0; way < 3; ++way) {
      if (rank == 0) {
        mp_request_t request;
        memset(source.data, 70 + way, 64);
        if (way == 0) OK(mp_iput(source.data, 64, &source.reg, 1, 5, &window, &request, MP_PUT_INLINE));
        if (way == 1) {
          OK(mp_iput_on_stream(source.data, 64, &source.reg, 1, 5, &window, &request, MP_PUT_INLINE, stream));
        }
        if (way == 2) OK(mp_put_prepare(source.data, 64, &source.reg, 1, 5, &window, &request, MP_PUT_INLINE));
        memset(source.data, 0, 65);
        if (way == 2) OK(mp_iput_post_on_stream(&request, stream));
        OK(mp_wait(&request));
        CHECK(mp_iput(source.data, 65, &source.reg, 1, 0, &window, &request, MP_PUT_INLINE) == MP_FAILURE);
        CHECK(mp_iput(source.data, 1, &source.reg, 1, 0, &window, &request, 4) == MP_FAILURE);
      }
      barrier();
      if (rank == 1) CHECK(all_are(&target, 5, 64, 70 + way) && at(&target, 4) == 0 && at(&target, 69) == 0);
      barrier();
    }
    OK(mp_window_destroy(&window));
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&target);
    drop(&source);
  }
}

static void words_are_waited_for_on_host_and_stream(void) {
  cudaStream_t stream = new_stream();
  uint32_t* words;
  CUDA_OK(cudaMallocHost((void**)&words, 64));
  words[0] = 5;
  OK(mp_wait32(&words[0], 5, MP_WAIT_GEQ));
  OK(mp_wait32(&words[0], 0xfffffff0u, MP_WAIT_GEQ)); /* 5 comes after it */
  OK(mp_wait32(&words[0], 5, MP_WAIT_EQ));
  OK(mp_wait32(&words[0], 4, MP_WAIT_AND));
  CHECK(mp_wait32(&words[0], 5, 3) == EINVAL);
  CHECK(mp_wait32((uint32_t*)((char*)words + 2), 0, MP_WAIT_EQ) == EINVAL);
  CHECK(mp_wait32_on_stream(NULL, 0, MP_WAIT_EQ, stream) == EINVAL);
  CHECK(mp_wait32_on_stream(&words[0], 5, -1, stream) == EINVAL);

  CUDA_OK(cudaFreeHost(words));
  CUDA_OK(cudaStreamDestroy(stream));
}

/* Buffers of the heap share pages. What is registered, and travels, must not change what CUDA lets be done with the
 * rest. */
static void the_neighbours_of_plain_messages_may_be_copied(void) {
  enum { COUNT = 8, BYTES = 3000, SHARE = 3 };
  unsigned char* part[SHARE * COUNT];
  mp_reg_t in[COUNT], out[COUNT];
  mp_request_t requests[2 * COUNT];
  unsigned char* on_gpu;
  int i, j;
  CUDA_OK(cudaMalloc((void**)&on_gpu, BYTES));
  for (i = 0; i < SHARE * COUNT; ++i) {
    part[i] = (unsigned char*)malloc(BYTES);
    memset(part[i], 10 * rank + i, BYTES);
  }
  for (i = 0; i < COUNT; ++i) {
    OK(mp_register(part[SHARE * i], BYTES, &in[i]));
    OK(mp_register(part[SHARE * i + 1], BYTES, &out[i]));
    OK(mp_irecv(part[SHARE * i], BYTES, OTHER, &in[i], &requests[i]));
    OK(mp_isend(part[SHARE * i + 1], BYTES, OTHER, &out[i], &requests[COUNT + i]));
  }
  OK(mp_wait_all(2 * COUNT, requests));
  for (i = 0; i < SHARE * COUNT; ++i) {
    const int from = i % SHARE == 0 ? 10 * OTHER + i + 1 : 10 * rank + i;
    CUDA_OK(cudaMemcpy(on_gpu, part[i], BYTES, cudaMemcpyDefault));
    memset(part[i], 0, BYTES);
    CUDA_OK(cudaMemcpy(part[i], on_gpu, BYTES, cudaMemcpyDefault));
    for (j = 0; j < BYTES; ++j) CHECK(part[i][j] == from);
  }
  for (i = 0; i < COUNT; ++i) {
    OK(mp_deregister(&in[i]));
    OK(mp_deregister(&out[i]));
  }
  for (i = 0; i < SHARE * COUNT; ++i) free(part[i]);
  CUDA_OK(cudaFree(on_gpu));
}

/* From one word of the host to another, in the order of the stream: by way of the GPU, as the call that copies from
 * host memory to host memory waits itself. */
static void note(uint32_t* to, const uint32_t* from, uint32_t* on_gpu, cudaStream_t stream) {
  CUDA_OK(cudaMemcpyAsync(on_gpu, from, 4, cudaMemcpyDefault, stream));
  CUDA_OK(cudaMemcpyAsync(to, on_gpu, 4, cudaMemcpyDefault, stream));
}

/* The word starts as 9, which a wait for >= 4 or >= 8 takes: a stream that has come to its wait for the bit 4, or for
 * == 8, does not, however often a stream beside it gets past the like. */
static void streams_wait_for_equality_and_for_a_bit(void) {
  enum { BESIDE = 500 };
  cudaStream_t bit = new_stream(), equal = new_stream(), beside = new_stream();
  uint32_t *words, *seen, *on_gpu; /* seen: the word as it was when its wait let the stream pass */
  int i;
  CUDA_OK(cudaMallocHost((void**)&words, 64));
  CUDA_OK(cudaMallocHost((void**)&seen, 64));
  CUDA_OK(cudaMalloc((void**)&on_gpu, 64));
  words[0] = words[1] = words[2] = 9;
  seen[0] = seen[1] = seen[2] = 0;
  note(&seen[0], &words[0], &on_gpu[0], bit);
  note(&seen[1], &words[1], &on_gpu[1], equal);
  OK(mp_wait32_on_stream(&words[0], 4, MP_WAIT_AND, bit));
  note(&seen[0], &words[0], &on_gpu[0], bit);
  OK(mp_wait_dword_eq_on_stream(&words[1], 8, equal));
  note(&seen[1], &words[1], &on_gpu[1], equal);
  OK(mp_wait32(&seen[0], 9, MP_WAIT_EQ)); /* the streams have come to their waits */
  OK(mp_wait32(&seen[1], 9, MP_WAIT_EQ));
  for (i = 0; i < BESIDE; ++i) {
    OK(mp_wait_dword_geq_on_stream(&words[2], i % 2 == 0 ? 4 : 8, beside));
    note(&seen[2], &words[2], &on_gpu[2], beside);
    CUDA_OK(cudaStreamSynchronize(beside));
    CHECK(seen[2] == 9);
  }
  CHECK(cudaStreamQuery(bit) == cudaErrorNotReady && cudaStreamQuery(equal) == cudaErrorNotReady);
  __atomic_store_n(&words[0], 12, __ATOMIC_RELEASE);
  __atomic_store_n(&words[1], 8, __ATOMIC_RELEASE);
  CUDA_OK(cudaStreamSynchronize(bit));
  CUDA_OK(cudaStreamSynchronize(equal));
  CHECK(seen[0] == 12 && seen[1] == 8);
  CUDA_OK(cudaFreeHost(words));
  CUDA_OK(cudaFreeHost(seen));
  CUDA_OK(cudaFree(on_gpu));
  CUDA_OK(cudaStreamDestroy(bit));
  CUDA_OK(cudaStreamDestroy(equal));
  CUDA_OK(cudaStreamDestroy(beside));
}

static void a_descriptor_queue_runs_in_its_order(void) {
  enum { COUNT = 12, ROUNDS = 4 };
  int kind, round, i;
  for (kind = 0; kind < KINDS; ++kind) {
    cudaStream_t stream = new_stream();
    struct buffer b = take(kind, COUNT * 2000, 0);
    struct buffer word = take(PINNED, 64, 0);
    uint32_t* go = (uint32_t*)(void*)word.data;
    mp_desc_queue_t queue;
    mp_window_t window;
    OK(mp_window_create(b.data, b.bytes, &window));
    OK(mp_desc_queue_alloc(&queue));
    for (round = 1; round <= ROUNDS; ++round) {
      mp_request_t puts[COUNT], told, heard;
      barrier();
      OK(mp_irecv(word.data + 32, 4, OTHER, &word.reg, &heard));
      if (rank == 0) {
        fill(&b, 80 + round);
        OK(mp_desc_queue_add_wait_value32(&queue, &go[0], (uint32_t)round, MP_WAIT_EQ));
        for (i = 0; i < COUNT; ++i) {
          const size_t offset = (size_t)i * 2000;
          OK(mp_put_prepare(b.data + offset, 2000, &b.reg, 1, offset, &window, &puts[i], i % 2 ? MP_PUT_NOWAIT : 0));
          OK(mp_desc_queue_add_send(&queue, &puts[i]));
        }
        OK(mp_desc_queue_add_wait_send(&queue, &puts[COUNT - 2]));
        CHECK(mp_desc_queue_add_wait_send(&queue, &puts[COUNT - 1]) == EINVAL); /* NOWAIT */
        CHECK(mp_desc_queue_add_wait_send(&queue, &heard) == EINVAL);           /* a receive */
        CHECK(mp_desc_queue_add_send(&queue, &puts[0]) == MP_FAILURE);          /* twice */
      } else {
        OK(mp_desc_queue_add_wait_recv(&queue, &heard));
      }
      OK(mp_send_prepare(word.data, 4, OTHER, &word.reg, &told));
      OK(mp_desc_queue_add_send(&queue, &told));
      OK(mp_desc_queue_add_wait_send(&queue, &told));
      if (rank == 0) OK(mp_desc_queue_add_wait_recv(&queue, &heard));
      OK(mp_desc_queue_add_write_value32(&queue, &go[4], (uint32_t)round));
      OK(mp_desc_queue_post_on_stream(stream, &queue, 0));
      if (rank == 0) {
        CHECK(go[4] == (uint32_t)(round - 1));
        __atomic_store_n(&go[0], (uint32_t)round, __ATOMIC_RELEASE);
      }
      OK(mp_wait32(&go[4], (uint32_t)round, MP_WAIT_EQ));
      if (rank == 1) CHECK(all_are(&b, 0, b.bytes, 80 + round));
      OK(mp_wait(&told));
      OK(mp_wait(&heard));
      for (i = 0; i < COUNT && rank == 0; i += 2) OK(mp_wait(&puts[i]));
    }
    OK(mp_desc_queue_free(&queue));
    CHECK(queue == NULL && mp_desc_queue_free(&queue) == MP_FAILURE);
    CHECK(mp_desc_queue_post_on_stream(stream, &queue, 0) == MP_FAILURE);
    OK(mp_window_destroy(&window));
    CUDA_OK(cudaStreamDestroy(stream));
    drop(&b);
    drop(&word);
  }
}

static void a_rank_talks_to_itself(void) {
  int kind;
  for (kind = 0; kind < KINDS; ++kind) {
    mp_request_t requests[2];
    struct buffer b = take(kind, 60000, 0);
    mp_window_t window;
    fill(&b, 3);
    fill_first(&b, 4, 30000);
    OK(mp_irecv(b.data + 30000, 30000, rank, &b.reg, &requests[0]));
    OK(mp_isend(b.data, 30000, rank, &b.reg, &requests[1]));
    OK(mp_wait_all(2, requests));
    CHECK(all_are(&b, 0, 60000, 4));
    OK(mp_window_create(b.data, b.bytes, &window));
    fill(&b, 6);
    fill_first(&b, 7, 1000);
    OK(mp_iput(b.data, 1000, &b.reg, rank, 2000, &window, &requests[0], 0));
    OK(mp_wait(&requests[0]));
    CHECK(all_are(&b, 2000, 1000, 7) && at(&b, 3000) == 6);
    OK(mp_window_destroy(&window));
    drop(&b);
  }
}

/* Every rank to every other at once, over a communicator that numbers them the other way round. */
static void many_ranks_exchange_over_another_communicator(void) {
  enum { BYTES = 50000 };
  MPI_Comm turned;
  int peers[64], i, me;
  mp_request_t requests[128];
  struct buffer out, in;
  mp_finalize();
  CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &turned) == MPI_SUCCESS);
  MPI_Comm_rank(turned, &me);
  for (i = 0; i < size; ++i) peers[i] = i;
  OK(mp_init(turned, peers, size, MP_INIT_DEFAULT, 0));
  out = take(PLAIN, BYTES, 100 + me);
  in = take(PLAIN, (size_t)BYTES * (size_t)size, 0);
  for (i = 0; i < size; ++i) {
    OK(mp_irecv(in.data + (size_t)i * BYTES, BYTES, i, &in.reg, &requests[2 * i]));
    OK(mp_isend(out.data, BYTES, i, &out.reg, &requests[2 * i + 1]));
  }
  OK(mp_wait_all((uint32_t)(2 * size), requests));
  for (i = 0; i < size; ++i) CHECK(all_are(&in, (size_t)i * BYTES, BYTES, 100 + i));
  drop(&out);
  drop(&in);
  MPI_Comm_free(&turned);
}

#define CASE(name) {#name, name}
static const struct test_case kCases[] = {
    CASE(messages_of_every_size_and_memory_arrive),
    CASE(the_neighbours_of_plain_messages_may_be_copied),
    CASE(sends_may_come_before_their_receives),
    CASE(a_receive_completes_though_nobody_waits_for_it),
    CASE(more_receives_than_one_lane_holds_are_posted_as_room_comes),
    CASE(messages_of_a_pair_match_in_posting_order),
    CASE(a_stream_sends_and_waits_and_the_host_collects),
    CASE(the_default_stream_is_a_stream),
    CASE(progress_counts_what_is_complete_and_releases_nothing),
    CASE(vectors_of_up_to_30_blocks_arrive),
    CASE(a_short_message_leaves_the_rest_of_a_vector_alone),
    CASE(prepared_sends_are_posted_one_by_one_or_together),
    CASE(windows_of_any_memory_are_put_to_and_got_from),
    CASE(nowait_puts_are_ordered_before_later_sends),
    CASE(inline_puts_take_their_bytes_during_the_call),
    CASE(words_are_waited_for_on_host_and_stream),
    CASE(streams_wait_for_equality_and_for_a_bit),
    CASE(a_descriptor_queue_runs_in_its_order),
    CASE(a_rank_talks_to_itself),
    CASE(many_ranks_exchange_over_another_communicator),
};

int main(int argc, char** argv) { return run_case(argc, argv, kCases, (int)(sizeof kCases / sizeof kCases[0])); }
