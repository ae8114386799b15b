/* NCCL's interface as programs use it: every collective, type and reduction against plain sums, messages in groups,
 * captured work, communicators made of others. Each case runs on ranks that are threads, and processes. */
#include "nccl_case.h"

/* --- reductions --- */

enum { OPS = 6, SCALED = 5 }; /* NCCL's own, and a pre-multiplied sum */
enum { ALL, TO_ONE, SCATTERED, KINDS };

static int scale_of(int rank) { return rank % 2 + 1; }

/* Small enough for the narrowest type, also added or multiplied by five ranks; the average is whole. */
static double input_of(int op, int rank, int size, size_t i) {
  if (op == ncclProd) return (double)(1 << ((rank + (int)i) % 2));
  if (op == ncclAvg) return 2 + (size > 1 && rank == 0 ? 1 : 0) - (size > 1 && rank == 1 ? 1 : 0);
  if (op == SCALED) return (double)((rank + (int)i) % 2);
  return (double)((rank + (int)i) % 2);
}

static double result_of(int op, int size, size_t i) {
  double result = op == SCALED ? input_of(op, 0, size, i) * scale_of(0) : input_of(op, 0, size, i);
  int rank;
  for (rank = 1; rank < size; ++rank) {
    const double next = input_of(op, rank, size, i);
    if (op == ncclProd) {
      result *= next;
    } else if (op == ncclMax) {
      result = next > result ? next : result;
    } else if (op == ncclMin) {
      result = next < result ? next : result;
    } else {
      result += op == SCALED ? next * scale_of(rank) : next;
    }
  }
  return op == ncclAvg ? result / size : result;
}

struct reduction {
  int kind;
  ncclDataType_t type;
  int op;
  size_t count;
  int in_place;
};

static void check_reduction(struct ranked* me, const struct reduction* one) {
  const size_t bytes = type_bytes[one->type];
  const size_t all = one->kind == SCATTERED ? one->count * (size_t)me->size : one->count;
  const size_t begin = one->kind == SCATTERED ? one->count * (size_t)me->rank : 0;
  const int root = me->size / 2;
  unsigned char* values = malloc(all * bytes + 1);
  unsigned char* input = take(all * bytes);
  unsigned char* output = one->in_place ? input + begin * bytes : take(one->count * bytes);
  ncclRedOp_t op = (ncclRedOp_t)one->op;
  size_t i;
  for (i = 0; i < all; ++i) put_number(one->type, input_of(one->op, me->rank, me->size, i), values + i * bytes);
  load(input, values, all * bytes);
  if (one->op == SCALED) {
    unsigned char scalar[8];
    put_number(one->type, scale_of(me->rank), scalar);
    OK(ncclRedOpCreatePreMulSum(&op, scalar, one->type, ncclScalarHostImmediate, me->comm));
  }
  if (one->kind == ALL) OK(ncclAllReduce(input, output, one->count, one->type, op, me->comm, me->stream));
  if (one->kind == TO_ONE) OK(ncclReduce(input, output, one->count, one->type, op, root, me->comm, me->stream));
  if (one->kind == SCATTERED) OK(ncclReduceScatter(input, output, one->count, one->type, op, me->comm, me->stream));
  if (one->op == SCALED) OK(ncclRedOpDestroy(op, me->comm));
  finish(me);
  if (one->kind != TO_ONE || me->rank == root) {
    for (i = 0; i < one->count; ++i) put_number(one->type, result_of(one->op, me->size, begin + i), values + i * bytes);
    if (!holds(output, values, one->count * bytes)) {
      fprintf(stderr, "rank %d: kind %d of type %d by op %d, %zu elements%s: the result is wrong\n", me->rank,
              one->kind, one->type, one->op, one->count, one->in_place ? " in place" : "");
      _exit(1);
    }
  }
  free(values);
  drop(input);
  if (!one->in_place) drop(output);
}

static void every_type_is_reduced_by_every_op(struct ranked* me) {
  static const size_t counts[] = {1, 37};
  struct reduction one;
  size_t i;
  int type;
  for (type = 0; type < ncclNumTypes; ++type) {
    for (one.op = 0; one.op < OPS; ++one.op) {
      for (one.kind = 0; one.kind < KINDS; ++one.kind) {
        for (i = 0; i < 2; ++i) {
          one.type = (ncclDataType_t)type;
          one.count = counts[i];
          one.in_place = (type + one.op + (int)i) % 2;
          check_reduction(me, &one);
        }
      }
    }
  }
}

static void large_ones_are_reduced(struct ranked* me) {
  static const size_t counts[] = {5000, 100003};
  struct reduction one;
  size_t i;
  for (i = 0; i < 2; ++i) {
    for (one.kind = 0; one.kind < KINDS; ++one.kind) {
      for (one.in_place = 0; one.in_place < 2; ++one.in_place) {
        one.type = one.in_place ? ncclFloat32 : ncclBfloat16;
        one.op = one.in_place ? ncclSum : SCALED;
        one.count = counts[i];
        check_reduction(me, &one);
      }
    }
  }
}

/* --- what is moved --- */

/* The part that rank `from` has for rank `to`. */
static unsigned part(int from, int to, unsigned turn) { return turn * 100 + (unsigned)(from * 8 + to); }

static void check_rooted(struct ranked* me, size_t count, int root, int in_place) {
  const size_t n = (size_t)me->size;
  const int is_root = me->rank == root;
  unsigned char* whole = take(n * count);
  unsigned char* piece = take(count);
  size_t i;

  load_pattern(piece, count, part(me->rank, 0, 1));
  OK(in_place ? ncclBcast(piece, count, ncclUint8, root, me->comm, me->stream)
              : ncclBroadcast(is_root ? piece : NULL, whole, count, ncclUint8, root, me->comm, me->stream));
  finish(me);
  CHECK(holds_pattern(in_place ? piece : whole, count, part(root, 0, 1)));

  load_pattern(in_place && is_root ? whole + (size_t)root * count : piece, count, part(me->rank, 0, 2));
  OK(ncclGather(in_place && is_root ? whole + (size_t)root * count : piece, is_root ? whole : NULL, count, ncclUint8,
                root, me->comm, me->stream));
  finish(me);
  for (i = 0; is_root && i < n; ++i) CHECK(holds_pattern(whole + i * count, count, part((int)i, 0, 2)));

  for (i = 0; is_root && i < n; ++i) load_pattern(whole + i * count, count, part(root, (int)i, 3));
  OK(ncclScatter(is_root ? whole : NULL, in_place && is_root ? whole + (size_t)root * count : piece, count, ncclUint8,
                 root, me->comm, me->stream));
  finish(me);
  CHECK(holds_pattern(in_place && is_root ? whole + (size_t)root * count : piece, count, part(root, me->rank, 3)));
  drop(whole);
  drop(piece);
}

static void check_of_all(struct ranked* me, size_t count, int in_place) {
  const size_t n = (size_t)me->size;
  unsigned char* from = take(n * count);
  unsigned char* to = take(n * count);
  unsigned char* mine = in_place ? to + (size_t)me->rank * count : from;
  size_t i;
  load_pattern(mine, count, part(me->rank, 0, 4));
  OK(ncclAllGather(mine, to, count, ncclUint8, me->comm, me->stream));
  finish(me);
  for (i = 0; i < n; ++i) CHECK(holds_pattern(to + i * count, count, part((int)i, 0, 4)));

  for (i = 0; i < n; ++i) load_pattern((in_place ? to : from) + i * count, count, part(me->rank, (int)i, 5));
  OK(ncclAlltoAll(in_place ? to : from, to, count, ncclUint8, me->comm, me->stream));
  finish(me);
  for (i = 0; i < n; ++i) CHECK(holds_pattern(to + i * count, count, part((int)i, me->rank, 5)));
  drop(from);
  drop(to);
}

static void every_collective_moves_its_data(struct ranked* me) {
  static const size_t counts[] = {1, 13, 4096, 200000};
  int i;
  for (i = 0; i < 4; ++i) {
    check_rooted(me, counts[i], i % me->size, 0);
    check_rooted(me, counts[i], me->size - 1 - i % me->size, 1);
    check_of_all(me, counts[i], 0);
    check_of_all(me, counts[i], 1);
  }
}

static void nothing_is_moved_where_the_count_is_zero(struct ranked* me) {
  OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, me->comm, me->stream));
  OK(ncclBroadcast(NULL, NULL, 0, ncclFloat, 0, me->comm, me->stream));
  OK(ncclAlltoAll(NULL, NULL, 0, ncclFloat, me->comm, me->stream));
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 0, ncclFloat, (me->rank + 1) % me->size, me->comm, me->stream));
  OK(ncclRecv(NULL, 0, ncclFloat, (me->rank + me->size - 1) % me->size, me->comm, me->stream));
  OK(ncclGroupEnd());
  finish(me);
}

/* --- messages --- */

static void a_ring_of_messages_goes_round(struct ranked* me) {
  static const size_t sizes[] = {8, 300, 40000, 1000000};
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  int i;
  for (i = 0; i < 4; ++i) {
    unsigned char* out = take(sizes[i]);
    unsigned char* in = take(sizes[i]);
    load_pattern(out, sizes[i], part(me->rank, next, 6));
    OK(ncclGroupStart());
    if (i % 2) OK(ncclRecv(in, sizes[i], ncclInt8, previous, me->comm, me->stream));
    OK(ncclSend(out, sizes[i], ncclInt8, next, me->comm, me->stream));
    if (i % 2 == 0) OK(ncclRecv(in, sizes[i], ncclInt8, previous, me->comm, me->stream));
    OK(ncclGroupEnd());
    finish(me);
    CHECK(holds_pattern(in, sizes[i], part(previous, me->rank, 6)));
    drop(out);
    drop(in);
  }
}

static void a_message_alone_arrives(struct ranked* me) {
  static const size_t sizes[] = {4, 60000};
  int i;
  for (i = 0; i < 2 && me->size > 1; ++i) {
    unsigned char* data = take(sizes[i]);
    if (me->rank == 0) {
      load_pattern(data, sizes[i], 77);
      OK(ncclSend(data, sizes[i] / 4, ncclFloat, me->size - 1, me->comm, me->stream));
    }
    if (me->rank == me->size - 1) OK(ncclRecv(data, sizes[i] / 4, ncclFloat, 0, me->comm, me->stream));
    finish(me);
    CHECK((me->rank != 0 && me->rank != me->size - 1) || holds_pattern(data, sizes[i], 77));
    drop(data);
  }
}

/* All to all, itself too: every rank asks in an order of its own. */
static void a_group_of_messages_may_come_in_any_order(struct ranked* me) {
  static const size_t sizes[] = {16, 5000, 150000};
  const size_t n = (size_t)me->size;
  int i, k;
  for (i = 0; i < 3; ++i) {
    unsigned char* out = take(n * sizes[i]);
    unsigned char* in = take(n * sizes[i]);
    for (k = 0; k < me->size; ++k) load_pattern(out + (size_t)k * sizes[i], sizes[i], part(me->rank, k, 7));
    OK(ncclGroupStart());
    for (k = 0; k < me->size; ++k) {
      const int peer = (me->rank % 2 ? k : me->size - 1 - k + me->rank) % me->size;
      if (me->rank % 2) OK(ncclRecv(in + (size_t)peer * sizes[i], sizes[i], ncclUint8, peer, me->comm, me->stream));
      OK(ncclSend(out + (size_t)peer * sizes[i], sizes[i], ncclUint8, peer, me->comm, me->stream));
      if (me->rank % 2 == 0)
        OK(ncclRecv(in + (size_t)peer * sizes[i], sizes[i], ncclUint8, peer, me->comm, me->stream));
    }
    OK(ncclGroupEnd());
    finish(me);
    for (k = 0; k < me->size; ++k) {
      CHECK(holds_pattern(in + (size_t)k * sizes[i], sizes[i], part(k, me->rank, 7)));
    }
    drop(out);
    drop(in);
  }
}

/* More than a lane takes at once, small and large mixed; the receives of one pair match its sends in order. */
static void many_messages_of_one_group_match_in_order(struct ranked* me) {
  enum { MANY = 130, LEAST = 8, STEP = 240 };
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  unsigned char* out = take(MANY * (size_t)STEP * MANY);
  unsigned char* in = take(MANY * (size_t)STEP * MANY);
  size_t i;
  for (i = 0; i < MANY; ++i) load_pattern(out + i * STEP * MANY, LEAST + i * STEP, part(me->rank, (int)i, 8));
  OK(ncclGroupStart());
  for (i = 0; i < MANY; ++i)
    OK(ncclSend(out + i * STEP * MANY, LEAST + i * STEP, ncclUint8, next, me->comm, me->stream));
  for (i = 0; i < MANY; ++i) {
    OK(ncclRecv(in + i * STEP * MANY, LEAST + i * STEP, ncclUint8, previous, me->comm, me->stream));
  }
  OK(ncclGroupEnd());
  finish(me);
  for (i = 0; i < MANY; ++i) CHECK(holds_pattern(in + i * STEP * MANY, LEAST + i * STEP, part(previous, (int)i, 8)));
  drop(out);
  drop(in);
}

static void messages_of_a_group_may_be_on_several_streams(struct ranked* me) {
  enum { BYTES = 70000 };
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  unsigned char* out = take(BYTES);
  unsigned char* in = take(BYTES);
  cudaStream_t other;
  int i;
  CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (i = 0; i < 4; ++i) {
    load_pattern(out, BYTES, part(me->rank, i, 9));
    OK(ncclGroupStart());
    OK(ncclSend(out, BYTES, ncclUint8, next, me->comm, i % 2 ? other : me->stream));
    OK(ncclRecv(in, BYTES, ncclUint8, previous, me->comm, i % 2 ? me->stream : other));
    OK(ncclGroupEnd());
    CUDA_OK(cudaStreamSynchronize(other));
    finish(me);
    CHECK(holds_pattern(in, BYTES, part(previous, i, 9)));
  }
  CUDA_OK(cudaStreamDestroy(other));
  drop(out);
  drop(in);
}

/* --- groups and streams --- */

/* A group is one operation on all of its streams: what waits for any of them waits for all of it, and it for what was
 * on each of them before. */
static void a_group_is_on_all_of_its_streams(struct ranked* me) {
  enum { LARGE = 300000, ROUNDS = 6 };
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  float* values = malloc(LARGE * sizeof *values);
  unsigned char* data = take(LARGE * sizeof *values);
  unsigned char* before = take(LARGE * sizeof *values);
  unsigned char* sum = take(LARGE * sizeof *values);
  unsigned char* small = take(sizeof *values);
  unsigned char* from = take(LARGE * sizeof *values);
  cudaStream_t other;
  int round, i;
  CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (round = 0; round < ROUNDS; ++round) {
    const int waited = round % 2, messages = round >= ROUNDS / 2;
    for (i = 0; i < LARGE; ++i) values[i] = (float)(me->rank + round + i % 100);
    load(before, values, LARGE * sizeof *values);
    load(small, values, sizeof *values);
    CUDA_OK(cudaMemcpyAsync(data, before, LARGE * sizeof *values, cudaMemcpyDeviceToDevice, other));
    OK(ncclGroupStart());
    OK(ncclAllReduce(small, small, 1, ncclFloat, ncclSum, me->comm, waited ? other : me->stream));
    OK(ncclAllReduce(data, sum, LARGE, ncclFloat, ncclSum, me->comm, waited ? me->stream : other));
    if (messages) OK(ncclSend(data, LARGE, ncclFloat, next, me->comm, me->stream));
    if (messages) OK(ncclRecv(from, LARGE, ncclFloat, previous, me->comm, other));
    OK(ncclGroupEnd());
    CUDA_OK(cudaStreamSynchronize(waited ? other : me->stream));
    for (i = 0; i < LARGE; ++i) values[i] = (float)(previous + round + i % 100);
    CHECK(!messages || holds(from, values, LARGE * sizeof *values));
    for (i = 0; i < LARGE; ++i) {
      values[i] = (float)(me->size * (round + i % 100) + me->size * (me->size - 1) / 2);
    }
    CHECK(holds(sum, values, LARGE * sizeof *values));
    CHECK(holds(small, values, sizeof *values));
    finish(me);
    CUDA_OK(cudaStreamSynchronize(other));
  }
  CUDA_OK(cudaStreamDestroy(other));
  free(values);
  drop(data);
  drop(before);
  drop(sum);
  drop(small);
  drop(from);
}

static void a_group_that_captures_on_one_of_its_streams_alone_is_refused(struct ranked* me) {
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  unsigned char* data = take(8);
  cudaStream_t other;
  cudaGraph_t graph;
  int kind;
  CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CUDA_OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
  for (kind = 0; kind < 2; ++kind) {
    OK(ncclGroupStart());
    if (kind == 0) OK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, me->comm, me->stream));
    if (kind == 1) OK(ncclSend(data, 4, ncclUint8, next, me->comm, me->stream));
    OK(ncclRecv(data + 4, 4, ncclUint8, previous, me->comm, other));
    REFUSED(ncclGroupEnd(), ncclInvalidUsage, "on a stream that captures and on one that does not");
  }
  CUDA_OK(cudaStreamEndCapture(other, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaStreamDestroy(other));
  check_sum(me, me->comm, 1, me->size); /* nothing of it was started */
  drop(data);
}

static void collectives_and_messages_share_a_group(struct ranked* me) {
  enum { COUNT = 100 };
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  float values[COUNT], sums[COUNT];
  unsigned char* sum = take(sizeof values);
  unsigned char* all = take((size_t)me->size * sizeof values);
  unsigned char* from = take(sizeof values);
  int i;
  for (i = 0; i < COUNT; ++i) {
    values[i] = (float)(me->rank + i);
    sums[i] = (float)(me->size * i + me->size * (me->size - 1) / 2);
  }
  load(sum, values, sizeof values);
  load(all + (size_t)me->rank * sizeof values, values, sizeof values);
  OK(ncclGroupStart());
  OK(ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, me->comm, me->stream));
  OK(ncclGroupStart());
  OK(ncclSend(all + (size_t)me->rank * sizeof values, COUNT, ncclFloat, next, me->comm, me->stream));
  OK(ncclRecv(from, COUNT, ncclFloat, previous, me->comm, me->stream));
  OK(ncclGroupEnd());
  OK(ncclAllGather(all + (size_t)me->rank * sizeof values, all, COUNT, ncclFloat, me->comm, me->stream));
  OK(ncclGroupEnd());
  finish(me);
  CHECK(holds(sum, sums, sizeof sums));
  for (i = 0; i < COUNT; ++i) values[i] = (float)(previous + i);
  CHECK(holds(from, values, sizeof values));
  CHECK(holds(all + (size_t)previous * sizeof values, values, sizeof values));
  drop(sum);
  drop(all);
  drop(from);
}

/* What rank 0 does in two calls the others have in one group, the message's call first. */
static void the_collectives_of_a_group_go_before_its_messages(struct ranked* me) {
  int value = 1, told = 77, sum = me->size, r;
  unsigned char* summed = take(sizeof value);
  unsigned char* message = take(sizeof told);
  load(summed, &value, sizeof value);
  if (me->rank == 0) {
    load(message, &told, sizeof told);
    OK(ncclAllReduce(summed, summed, 1, ncclInt, ncclSum, me->comm, me->stream));
    for (r = 1; r < me->size; ++r) OK(ncclSend(message, 1, ncclInt, r, me->comm, me->stream));
  } else {
    OK(ncclGroupStart());
    OK(ncclRecv(message, 1, ncclInt, 0, me->comm, me->stream));
    OK(ncclAllReduce(summed, summed, 1, ncclInt, ncclSum, me->comm, me->stream));
    OK(ncclGroupEnd());
  }
  finish(me);
  CHECK(holds(summed, &sum, sizeof sum));
  CHECK(holds(message, &told, sizeof told) || me->size == 1);
  drop(summed);
  drop(message);
}

static void the_default_stream_is_a_stream(struct ranked* me) {
  int value = me->rank + 1, sum = me->size * (me->size + 1) / 2;
  unsigned char* data = take(sizeof value);
  load(data, &value, sizeof value);
  OK(ncclAllReduce(data, data, 1, ncclInt, ncclSum, me->comm, NULL));
  CUDA_OK(cudaStreamSynchronize(NULL));
  CHECK(holds(data, &sum, sizeof sum));
  drop(data);
}

static void captured_work_is_replayed(struct ranked* me) {
  enum { COUNT = 3000, REPLAYS = 5 };
  const int next = (me->rank + 1) % me->size;
  const int previous = (me->rank + me->size - 1) % me->size;
  double* values = malloc(COUNT * sizeof(double));
  unsigned char* data = take(COUNT * sizeof(double));
  unsigned char* sum = take(COUNT * sizeof(double));
  unsigned char* in = take(2 * COUNT * sizeof(double));
  unsigned char* cleared = take(COUNT * sizeof(double));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t passed;
  int i, replay;
  CUDA_OK(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming));
  CUDA_OK(cudaStreamBeginCapture(me->stream, cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaMemsetAsync(cleared, 0, COUNT * sizeof(double), me->stream));
  CUDA_OK(cudaEventRecord(passed, me->stream));
  OK(ncclAllReduce(data, sum, COUNT, ncclDouble, ncclSum, me->comm, me->stream));
  OK(ncclGroupStart());
  OK(ncclSend(data, COUNT, ncclDouble, next, me->comm, me->stream));
  OK(ncclRecv(in, COUNT, ncclDouble, previous, me->comm, me->stream));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclSend(data, 3, ncclDouble, next, me->comm, me->stream));
  OK(ncclSend(data + 24, COUNT - 3, ncclDouble, next, me->comm, me->stream));
  OK(ncclRecv(in + COUNT * sizeof(double), 3, ncclDouble, previous, me->comm, me->stream));
  OK(ncclRecv(in + COUNT * sizeof(double) + 24, COUNT - 3, ncclDouble, previous, me->comm, me->stream));
  OK(ncclGroupEnd());
  CUDA_OK(cudaStreamEndCapture(me->stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&ready, graph, 0));
  for (replay = 0; replay < REPLAYS; ++replay) {
    for (i = 0; i < COUNT; ++i) values[i] = me->rank * 1000 + replay * 10 + i;
    load(data, values, COUNT * sizeof(double));
    load(cleared, values, COUNT * sizeof(double));
    CUDA_OK(cudaGraphLaunch(ready, me->stream));
    finish(me);
    for (i = 0; i < COUNT; ++i) values[i] = previous * 1000 + replay * 10 + i;
    CHECK(holds(in, values, COUNT * sizeof(double)));
    CHECK(holds(in + COUNT * sizeof(double), values, COUNT * sizeof(double)));
    for (i = 0; i < COUNT; ++i) values[i] = me->size * (replay * 10 + i) + 500.0 * me->size * (me->size - 1);
    CHECK(holds(sum, values, COUNT * sizeof(double)));
    memset(values, 0, COUNT * sizeof(double));
    CHECK(holds(cleared, values, COUNT * sizeof(double)));
  }
  CUDA_OK(cudaEventDestroy(passed));
  CUDA_OK(cudaGraphExecDestroy(ready));
  CUDA_OK(cudaGraphDestroy(graph));
  free(values);
  drop(data);
  drop(sum);
  drop(in);
  drop(cleared);
}

/* --- communicators --- */

static void a_communicator_says_who_it_is(struct ranked* me) {
  int value = -1, device = -1;
  ncclResult_t result = ncclInternalError;
  OK(ncclCommCount(me->comm, &value));
  CHECK(value == me->size);
  OK(ncclCommUserRank(me->comm, &value));
  CHECK(value == me->rank);
  CUDA_OK(cudaGetDevice(&device));
  OK(ncclCommCuDevice(me->comm, &value));
  CHECK(value == device);
  OK(ncclCommGetAsyncError(me->comm, &result));
  CHECK(result == ncclSuccess);
  OK(ncclGetVersion(&value));
  CHECK(value == 22809);
  OK(pncclGetVersion(&value));
  CHECK(strlen(ncclGetErrorString(ncclRemoteError)) > 0 && strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
}

static void a_communicator_is_split(struct ranked* me) {
  const int color = me->rank % 2;
  ncclComm_t half = NULL, turned = NULL, none = NULL;
  int value, i, of_color = 0, sum = 0;
  for (i = color; i < me->size; i += 2) {
    ++of_color;
    sum += i;
  }
  OK(ncclCommSplit(me->comm, color, me->rank, &half, NULL));
  OK(ncclCommCount(half, &value));
  CHECK(value == of_color);
  OK(ncclCommUserRank(half, &value));
  CHECK(value == me->rank / 2);
  check_sum(me, half, me->rank, sum);
  OK(ncclCommSplit(me->comm, 0, -me->rank, &turned, NULL));
  OK(ncclCommUserRank(turned, &value));
  CHECK(value == me->size - 1 - me->rank);
  check_sum(me, turned, 1, me->size);
  OK(ncclCommSplit(me->comm, me->rank == 0 ? 5 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  CHECK((none != NULL) == (me->rank == 0));
  check_sum(me, half, me->rank, sum);
  check_sum(me, me->comm, 1, me->size);
  OK(ncclCommDestroy(turned));
  OK(ncclCommDestroy(half));
  OK(ncclCommDestroy(none));
}

static void a_communicator_is_shrunk(struct ranked* me) {
  int last = me->size - 1, value;
  ncclComm_t rest = NULL;
  if (me->size == 1) return;
  if (me->rank != last) {
    OK(ncclCommShrink(me->comm, &last, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
    OK(ncclCommCount(rest, &value));
    CHECK(value == me->size - 1);
    check_sum(me, rest, 1, me->size - 1);
    OK(ncclCommDestroy(rest));
  }
  check_sum(me, me->comm, 1, me->size);
}

static void the_rest_goes_on_without_an_aborted_rank(struct ranked* me) {
  int last = me->size - 1;
  ncclComm_t rest = NULL, aside = meet_aside(me);
  if (me->rank != last) {
    OK(ncclCommShrink(me->comm, &last, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    check_sum(me, rest, 1, me->size - 1);
    OK(ncclCommDestroy(rest));
  }
  OK(ncclCommAbort(me->comm));
  me->comm = NULL;
  OK(ncclCommDestroy(aside));
}

static void a_communicator_starts_in_the_background(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  ncclResult_t result;
  config.blocking = 0;
  config.commName = "aside";
  config.maxCTAs = 4;
  result = ncclCommSplit(me->comm, 0, me->rank, &made, &config);
  CHECK(result == ncclInProgress || result == ncclSuccess);
  CHECK(made != NULL && settled(made) == ncclSuccess);
  check_sum(me, made, 1, me->size);
  OK(ncclCommFinalize(made));
  CHECK(settled(made) == ncclSuccess);
  OK(ncclCommDestroy(made));
}

static void several_ids_make_one_communicator(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId ids[2];
  ncclComm_t made = NULL;
  unsigned char* data = take(sizeof ids);
  if (me->rank == 0) {
    OK(ncclGetUniqueId(&ids[0]));
    OK(ncclGetUniqueId(&ids[1]));
    load(data, ids, sizeof ids);
  }
  OK(ncclBcast(data, sizeof ids, ncclChar, 0, me->comm, me->stream));
  finish(me);
  CUDA_OK(cudaMemcpy(ids, data, sizeof ids, cudaMemcpyDeviceToHost));
  OK(ncclCommInitRankScalable(&made, me->size, me->rank, me->size > 1 ? 2 : 1, ids, &config));
  check_sum(me, made, me->rank, me->size * (me->size - 1) / 2);
  OK(ncclCommDestroy(made));
  drop(data);
}

/* A config of an older version is shorter, and what follows it in memory is not looked at. */
static void an_older_config_is_understood(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  config.size = 24;
  config.version = 21400;
  config.cgaClusterSize = -7;
  config.netName = "none of these is in version 2.14";
  OK(ncclCommSplit(me->comm, 0, me->rank, &made, &config));
  check_sum(me, made, 1, me->size);
  OK(ncclCommDestroy(made));
}

/* --- memory --- */

static void memory_is_registered(struct ranked* me) {
  enum { COUNT = 5000 };
  int* values = malloc(COUNT * sizeof(int));
  void *memory = NULL, *handle = NULL;
  ncclWindow_t window = NULL;
  int i;
  OK(ncclMemAlloc(&memory, COUNT * sizeof(int)));
  OK(ncclCommRegister(me->comm, memory, COUNT * sizeof(int), &handle));
  OK(ncclCommWindowRegister(me->comm, memory, COUNT * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(handle != NULL && window != NULL);
  for (i = 0; i < COUNT; ++i) values[i] = i;
  load(memory, values, COUNT * sizeof(int));
  OK(ncclAllReduce(memory, memory, COUNT, ncclInt, ncclSum, me->comm, me->stream));
  finish(me);
  for (i = 0; i < COUNT; ++i) values[i] = i * me->size;
  CHECK(holds(memory, values, COUNT * sizeof(int)));
  OK(ncclCommWindowDeregister(me->comm, window));
  OK(ncclCommDeregister(me->comm, handle));
  check_sum(me, me->comm, 1, me->size); /* the others are through with it too */
  OK(ncclMemFree(memory));
  OK(ncclMemFree(NULL));
  free(values);
}

static void the_time_of_a_group_is_predicted(struct ranked* me) {
  ncclSimInfo_t small = NCCL_SIM_INFO_INITIALIZER, large = NCCL_SIM_INFO_INITIALIZER;
  unsigned char* data = take(4000000);
  OK(ncclGroupStart());
  OK(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, me->comm, me->stream));
  OK(ncclGroupSimulateEnd(&small));
  OK(ncclGroupStart());
  OK(ncclAllReduce(data, data, 1000000, ncclFloat, ncclSum, me->comm, me->stream));
  OK(ncclGroupSimulateEnd(&large));
  CHECK(small.estimatedTime > 0 && small.estimatedTime < 100);
  CHECK(me->size == 1 || large.estimatedTime > small.estimatedTime);
  check_sum(me, me->comm, 1, me->size); /* nothing of it was started */
  drop(data);
}

int main(int argc, char** argv) {
  static const struct test_case cases[] = {
      CASE(every_type_is_reduced_by_every_op),
      CASE(large_ones_are_reduced),
      CASE(every_collective_moves_its_data),
      CASE(nothing_is_moved_where_the_count_is_zero),
      CASE(a_ring_of_messages_goes_round),
      CASE(a_message_alone_arrives),
      CASE(a_group_of_messages_may_come_in_any_order),
      CASE(many_messages_of_one_group_match_in_order),
      CASE(messages_of_a_group_may_be_on_several_streams),
      CASE(a_group_is_on_all_of_its_streams),
      CASE(a_group_that_captures_on_one_of_its_streams_alone_is_refused),
      CASE(collectives_and_messages_share_a_group),
      CASE(the_collectives_of_a_group_go_before_its_messages),
      CASE(the_default_stream_is_a_stream),
      CASE(captured_work_is_replayed),
      CASE(a_communicator_says_who_it_is),
      CASE(a_communicator_is_split),
      CASE(a_communicator_is_shrunk),
      CASE(the_rest_goes_on_without_an_aborted_rank),
      CASE(a_communicator_starts_in_the_background),
      CASE(several_ids_make_one_communicator),
      CASE(an_older_config_is_understood),
      CASE(memory_is_registered),
      CASE(the_time_of_a_group_is_predicted),
  };
  return run_cases(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
