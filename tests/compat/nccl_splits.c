/* Splits of NCCL's interface that go on in the background while their parent ends. */
#include "nccl_case.h"

enum { ROUNDS = 8 };

static ncclComm_t split_in_the_background(ncclComm_t parent, int color, int key) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  ncclResult_t result;
  config.blocking = 0;
  result = ncclCommSplit(parent, color, key, &made, &config);
  CHECK(result == (color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : ncclInProgress));
  return made;
}

static void a_parent_may_be_destroyed_as_soon_as_its_split_returns(struct ranked* me) {
  int round;
  for (round = 0; round < ROUNDS; ++round) {
    ncclComm_t parent = NULL, part;
    OK(ncclCommSplit(me->comm, 0, me->rank, &parent, NULL));
    part = split_in_the_background(parent, 0, me->rank);
    if (round % 2 == 1) OK(ncclCommFinalize(parent));
    OK(ncclCommDestroy(parent));
    CHECK(settled(part) == ncclSuccess);
    check_sum(me, part, 1, me->size);
    OK(ncclCommDestroy(part));
  }
}

static void a_rank_that_gets_none_may_destroy_the_parent_too(struct ranked* me) {
  int round;
  for (round = 0; round < ROUNDS; ++round) {
    ncclComm_t parent = NULL, part;
    OK(ncclCommSplit(me->comm, 0, me->rank, &parent, NULL));
    part = split_in_the_background(parent, me->rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, me->rank);
    OK(ncclCommDestroy(parent));
    if (me->rank > 0) {
      CHECK(settled(part) == ncclSuccess);
      check_sum(me, part, 1, me->size - 1);
      OK(ncclCommDestroy(part));
    }
  }
}

/* Whatever order each rank calls them in, they may not come in another one on its stream. */
static void a_group_over_communicators_of_one_stream_ends(struct ranked* me) {
  enum { PARTS = 3, NUMBERS = 100 };
  ncclComm_t parts[PARTS];
  unsigned char* data[PARTS];
  float ones[NUMBERS], sums[NUMBERS];
  int part, round, i;
  for (i = 0; i < NUMBERS; ++i) {
    ones[i] = 1;
    sums[i] = (float)me->size;
  }
  for (part = 0; part < PARTS; ++part) {
    OK(ncclCommSplit(me->comm, 0, me->rank, &parts[part], NULL));
    data[part] = take(sizeof ones);
  }
  for (round = 0; round < 3 * ROUNDS; ++round) {
    for (part = 0; part < PARTS; ++part) load(data[part], ones, sizeof ones);
    OK(ncclGroupStart());
    for (i = 0; i < PARTS; ++i) {
      part = me->rank % 2 == 0 ? i : PARTS - 1 - i;
      OK(ncclAllReduce(data[part], data[part], NUMBERS, ncclFloat, ncclSum, parts[part], me->stream));
    }
    OK(ncclGroupEnd());
    finish(me);
    for (part = 0; part < PARTS; ++part) CHECK(holds(data[part], sums, sizeof sums));
  }
  for (part = 0; part < PARTS; ++part) {
    OK(ncclCommDestroy(parts[part]));
    drop(data[part]);
  }
}

static double seconds_since(const struct timespec* before) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - before->tv_sec) + 1e-9 * (double)(now.tv_nsec - before->tv_nsec);
}

/* The last rank does not split. */
static void a_parent_may_be_aborted_while_others_are_awaited(struct ranked* me) {
  ncclComm_t aside = meet_aside(me);
  me->failed = -1; /* the last one may end before it hears */
  if (me->rank < me->size - 1) {
    struct timespec before;
    ncclComm_t part = split_in_the_background(me->comm, 0, me->rank);
    clock_gettime(CLOCK_MONOTONIC, &before);
    OK(ncclCommAbort(me->comm));
    CHECK(seconds_since(&before) < 5);
    me->comm = NULL;
    CHECK(settled(part) == ncclRemoteError);
    OK(ncclCommDestroy(part));
  }
  check_sum(me, aside, 1, me->size); /* the last one stays until then */
  OK(ncclCommDestroy(aside));
}

/* The last rank does not split, for which the others wait to their deadline of 2 s. */
static void a_destroy_waits_for_a_split_to_its_deadline(struct ranked* me) {
  ncclComm_t aside = meet_aside(me);
  me->failed = -1;
  if (me->rank < me->size - 1) {
    struct timespec before;
    ncclComm_t part = split_in_the_background(me->comm, 0, me->rank);
    clock_gettime(CLOCK_MONOTONIC, &before);
    OK(ncclCommDestroy(me->comm));
    CHECK(seconds_since(&before) > 1 && seconds_since(&before) < 10);
    me->comm = NULL;
    CHECK(settled(part) == ncclSystemError);
    CHECK(strstr(ncclGetLastError(part), "did not come to ncclCommSplit 1 within 2 s") != NULL);
    OK(ncclCommDestroy(part));
  } else {
    CHECK(what_comes(me->comm) != ncclSuccess);
  }
  OK(ncclCommDestroy(aside));
}

static void a_group_does_not_split_what_it_ends(struct ranked* me) {
  ncclComm_t part = NULL;
  OK(ncclGroupStart());
  OK(ncclCommSplit(me->comm, 0, me->rank, &part, NULL));
  REFUSED(ncclCommDestroy(me->comm), ncclInvalidUsage, "this thread's group splits the communicator");
  REFUSED(ncclGroupEnd(), ncclInvalidUsage, "this thread's group splits the communicator");
  CHECK(part == NULL);
  check_sum(me, me->comm, 1, me->size);
}

int main(int argc, char** argv) {
  static const struct test_case cases[] = {
      CASE(a_parent_may_be_destroyed_as_soon_as_its_split_returns),
      CASE(a_rank_that_gets_none_may_destroy_the_parent_too),
      CASE(a_parent_may_be_aborted_while_others_are_awaited),
      CASE(a_destroy_waits_for_a_split_to_its_deadline),
      CASE(a_group_does_not_split_what_it_ends),
      CASE(a_group_over_communicators_of_one_stream_ends),
  };
  return run_cases(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
