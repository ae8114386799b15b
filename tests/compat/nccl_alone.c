/* NCCL's interface in one thread that drives all ranks: what ranks do together is in one group. */
#include "nccl_case.h"

enum { MOST = 8 };

struct all {
  int size;
  ncclComm_t comms[MOST];
  cudaStream_t streams[MOST];
  int* data[MOST];
};

static void take_all(struct all* all, int size) {
  int r;
  memset(all, 0, sizeof *all);
  all->size = size;
  OK(ncclCommInitAll(all->comms, size, NULL));
  for (r = 0; r < size; ++r) {
    use_device(r);
    CUDA_OK(cudaStreamCreateWithFlags(&all->streams[r], cudaStreamNonBlocking));
    all->data[r] = (int*)(void*)take(64 * sizeof(int));
  }
}

static void drop_all(struct all* all) {
  int r;
  for (r = 0; r < all->size; ++r) {
    use_device(r);
    OK(ncclCommDestroy(all->comms[r]));
    CUDA_OK(cudaStreamDestroy(all->streams[r]));
    drop(all->data[r]);
  }
}

static void finish_all(const struct all* all) {
  int r;
  for (r = 0; r < all->size; ++r) CUDA_OK(cudaStreamSynchronize(all->streams[r]));
}

static void check_sums(const struct all* all, const ncclComm_t* comms, const int* ranks, int count) {
  const int expected = count * (count + 1) / 2;
  int i;
  for (i = 0; i < count; ++i) {
    const int mine = i + 1;
    load(all->data[ranks[i]], &mine, sizeof mine);
  }
  OK(ncclGroupStart());
  for (i = 0; i < count; ++i) {
    OK(ncclAllReduce(all->data[ranks[i]], all->data[ranks[i]], 1, ncclInt, ncclSum, comms[i], all->streams[ranks[i]]));
  }
  OK(ncclGroupEnd());
  finish_all(all);
  for (i = 0; i < count; ++i) CHECK(holds(all->data[ranks[i]], &expected, sizeof expected));
}

static void one_thread_drives_all_ranks(struct ranked* me) {
  static const int ranks[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
  struct all all;
  int r, round;
  take_all(&all, me->size);
  for (r = 0; r < all.size; ++r) {
    int value = -1;
    OK(ncclCommUserRank(all.comms[r], &value));
    CHECK(value == r);
  }
  for (round = 0; round < 3; ++round) check_sums(&all, all.comms, ranks, all.size);
  drop_all(&all);
}

/* The first group is nested, the aggregated ops of all ranks are in it. */
static void one_group_has_many_ops_of_all_ranks(struct ranked* me) {
  struct all all;
  int r, i;
  take_all(&all, me->size);
  for (r = 0; r < all.size; ++r) {
    int values[64];
    for (i = 0; i < 64; ++i) values[i] = r + i;
    load(all.data[r], values, sizeof values);
  }
  OK(ncclGroupStart());
  for (i = 0; i < 4; ++i) {
    OK(ncclGroupStart());
    for (r = 0; r < all.size; ++r) {
      int* at = all.data[r] + 16 * i;
      OK(ncclAllReduce(at, at, 16, ncclInt, ncclMax, all.comms[r], all.streams[r]));
    }
    OK(ncclGroupEnd());
  }
  OK(ncclGroupEnd());
  finish_all(&all);
  for (r = 0; r < all.size; ++r) {
    int values[64];
    for (i = 0; i < 64; ++i) values[i] = all.size - 1 + i;
    CHECK(holds(all.data[r], values, sizeof values));
  }
  drop_all(&all);
}

static void one_thread_gathers_from_all_ranks(struct ranked* me) {
  struct all all;
  int r, i, round;
  take_all(&all, me->size);
  for (round = 0; round < 2; ++round) {
    int values[MOST];
    for (r = 0; r < all.size; ++r) {
      values[r] = 10 * round + r;
      load(all.data[r] + 32, &values[r], sizeof values[r]);
    }
    OK(ncclGroupStart());
    for (i = 0; i < 2; ++i) {
      for (r = 0; r < all.size; ++r) {
        OK(ncclAllGather(all.data[r] + 32, all.data[r] + 16 * i, 1, ncclInt, all.comms[r], all.streams[r]));
      }
    }
    OK(ncclGroupEnd());
    finish_all(&all);
    for (r = 0; r < all.size; ++r) {
      for (i = 0; i < 2; ++i) CHECK(holds(all.data[r] + 16 * i, values, (size_t)all.size * sizeof(int)));
    }
  }
  drop_all(&all);
}

/* The last rank's message has no receive. */
static void a_group_that_one_rank_spoils_starts_nothing_of_any(struct ranked* me) {
  static const int ranks[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int last = me->size - 1, value = 5;
  struct all all;
  int r;
  take_all(&all, me->size);
  for (r = 0; r < all.size; ++r) load(all.data[r], &value, sizeof value);
  OK(ncclGroupStart());
  for (r = 0; r < all.size; ++r) {
    OK(ncclAllReduce(all.data[r], all.data[r], 1, ncclInt, ncclProd, all.comms[r], all.streams[r]));
  }
  OK(ncclSend(all.data[last], 1, ncclInt, last, all.comms[last], all.streams[last]));
  REFUSED(ncclGroupEnd(), ncclInvalidUsage, "there is no receive for them in the same group");
  finish_all(&all);
  for (r = 0; r < all.size; ++r) CHECK(holds(all.data[r], &value, sizeof value));
  check_sums(&all, all.comms, ranks, all.size);
  drop_all(&all);
}

static void one_thread_passes_messages_round(struct ranked* me) {
  struct all all;
  int r;
  take_all(&all, me->size);
  for (r = 0; r < all.size; ++r) load(all.data[r], &r, sizeof r);
  OK(ncclGroupStart());
  for (r = 0; r < all.size; ++r) {
    OK(ncclSend(all.data[r], 1, ncclInt, (r + 1) % all.size, all.comms[r], all.streams[r]));
    OK(ncclRecv(all.data[r] + 1, 1, ncclInt, (r + all.size - 1) % all.size, all.comms[r], all.streams[r]));
  }
  OK(ncclGroupEnd());
  finish_all(&all);
  for (r = 0; r < all.size; ++r) {
    const int from = (r + all.size - 1) % all.size;
    CHECK(holds(all.data[r] + 1, &from, sizeof from));
  }
  drop_all(&all);
}

static void one_thread_makes_ranks_by_an_id(struct ranked* me) {
  ncclComm_t comms[MOST];
  ncclUniqueId id;
  int r, count = 0;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  for (r = 0; r < me->size; ++r) {
    use_device(r);
    OK(ncclCommInitRank(&comms[r], me->size, id, r));
  }
  OK(ncclGroupEnd());
  for (r = 0; r < me->size; ++r) {
    OK(ncclCommCount(comms[r], &count));
    CHECK(count == me->size);
    OK(ncclCommFinalize(comms[r]));
    OK(ncclCommDestroy(comms[r]));
  }
}

static void one_thread_splits_and_shrinks_all_ranks(struct ranked* me) {
  struct all all;
  ncclComm_t parts[MOST], rest[MOST];
  int low[MOST], high[MOST], r, lows = 0, highs = 0;
  int last = me->size - 1;
  take_all(&all, me->size);
  OK(ncclGroupStart());
  for (r = 0; r < all.size; ++r) {
    if (r < all.size / 2) low[lows++] = r;
    if (r >= all.size / 2) high[highs++] = r;
    OK(ncclCommSplit(all.comms[r], r < all.size / 2 ? 0 : 1, r, &parts[r], NULL));
  }
  OK(ncclGroupEnd());
  if (lows > 0) check_sums(&all, parts, low, lows);
  check_sums(&all, parts + lows, high, highs);
  OK(ncclGroupStart());
  for (r = 0; r < last; ++r) OK(ncclCommShrink(all.comms[r], &last, 1, &rest[r], NULL, NCCL_SHRINK_DEFAULT));
  OK(ncclGroupEnd());
  for (r = 0; r < last; ++r) low[r] = r;
  if (last > 0) check_sums(&all, rest, low, last);
  for (r = 0; r < last; ++r) OK(ncclCommDestroy(rest[r]));
  for (r = 0; r < all.size; ++r) OK(ncclCommDestroy(parts[r]));
  drop_all(&all);
}

/* All ranks, one after the other, without a group. */
static void start_in_the_background(const struct ranked* me, ncclComm_t* comms) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  int r;
  config.blocking = 0;
  OK(ncclGetUniqueId(&id));
  for (r = 0; r < me->size; ++r) {
    ncclResult_t result;
    use_device(r);
    result = ncclCommInitRankConfig(&comms[r], me->size, id, r, &config);
    CHECK(result == ncclInProgress || result == ncclSuccess);
  }
  for (r = 0; r < me->size; ++r) CHECK(settled(comms[r]) == ncclSuccess);
}

/* What a communicator that starts in the background needs no group for. */
static void one_thread_starts_ranks_in_the_background(struct ranked* me) {
  ncclComm_t comms[MOST];
  int r;
  start_in_the_background(me, comms);
  for (r = 0; r < me->size; ++r) OK(ncclCommDestroy(comms[r]));
}

/* A rank that gets none does not wait for the others either. */
static void one_thread_splits_ranks_in_the_background(struct ranked* me) {
  ncclComm_t comms[MOST], parts[MOST];
  int r;
  start_in_the_background(me, comms);
  for (r = 0; r < me->size; ++r) {
    const ncclResult_t result = ncclCommSplit(comms[r], r == 0 ? NCCL_SPLIT_NOCOLOR : 0, r, &parts[r], NULL);
    CHECK(result == ncclInProgress || result == ncclSuccess);
    CHECK((parts[r] == NULL) == (r == 0));
  }
  for (r = 1; r < me->size; ++r) CHECK(settled(parts[r]) == ncclSuccess);
  for (r = 1; r < me->size; ++r) OK(ncclCommDestroy(parts[r]));
  for (r = 0; r < me->size; ++r) OK(ncclCommDestroy(comms[r]));
}

int main(int argc, char** argv) {
  static const struct test_case cases[] = {
      CASE(one_thread_drives_all_ranks),
      CASE(one_group_has_many_ops_of_all_ranks),
      CASE(one_thread_gathers_from_all_ranks),
      CASE(a_group_that_one_rank_spoils_starts_nothing_of_any),
      CASE(one_thread_passes_messages_round),
      CASE(one_thread_makes_ranks_by_an_id),
      CASE(one_thread_splits_and_shrinks_all_ranks),
      CASE(one_thread_starts_ranks_in_the_background),
      CASE(one_thread_splits_ranks_in_the_background),
  };
  return run_cases(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
