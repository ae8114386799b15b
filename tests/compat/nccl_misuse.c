/* Calls of NCCL's interface that cannot work: each returns its code, says why, and leaves the rest as it was; and ranks
 * that are late, gone, or of another mind. The cases run on two ranks. */
#include <stddef.h>

#include "nccl_case.h"

static unsigned char data[16]; /* of calls that do not get as far as looking at it */

static void check_still_works(struct ranked* me) {
  int value = 1, sum = me->size;
  unsigned char* at = take(sizeof value);
  load(at, &value, sizeof value);
  OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
  finish(me);
  CHECK(holds(at, &sum, sizeof sum));
  drop(at);
}

static void wrong_arguments_of_collectives_are_refused(struct ranked* me) {
  unsigned char* at = take(4096);
  REFUSED(ncclAllReduce(at, at, 1, ncclInt, ncclSum, NULL, me->stream), ncclInvalidArgument,
          "ncclAllReduce: the communicator is null");
  REFUSED(ncclAllReduce(at, at, 1, (ncclDataType_t)12, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "there is no element type 12; they are numbered 0 to 11");
  REFUSED(ncclAllReduce(at, at, 1, ncclInt, (ncclRedOp_t)5, me->comm, me->stream), ncclInvalidArgument,
          "there is no reduction 5");
  REFUSED(ncclAllReduce(NULL, at, 1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "the 1 elements to send are at a null pointer");
  REFUSED(ncclAllReduce(at, NULL, 1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "the place for 1 received elements is a null pointer");
  REFUSED(ncclAllReduce(at + 1, at + 1, 1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "is not aligned to the 4 B of its elements");
  REFUSED(ncclAllReduce(at, at + 8, 100, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument, "overlap");
  REFUSED(ncclAllReduce(at, at, (size_t)-1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "elements are more than any memory has");
  REFUSED(ncclBroadcast(at, at, 1, ncclInt, 2, me->comm, me->stream), ncclInvalidArgument,
          "root 2 does not exist; the communicator has ranks 0 to 1");
  REFUSED(ncclReduce(at, at, 1, ncclInt, ncclSum, -1, me->comm, me->stream), ncclInvalidArgument,
          "root -1 does not exist");
  REFUSED(ncclSend(at, 1, ncclInt, 7, me->comm, me->stream), ncclInvalidArgument, "rank 7 does not exist");
  REFUSED(ncclSend(at, 1, ncclInt, me->rank, me->comm, me->stream), ncclInvalidUsage,
          "B to itself, and there is no receive for them in the same group");
  REFUSED(ncclRecv(at, 1, ncclInt, me->rank, me->comm, me->stream), ncclInvalidUsage,
          "B from itself, and there is no send for them in the same group");
  check_still_works(me);
  drop(at);
}

static void wrong_arguments_of_communicators_are_refused(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ncclComm_t made = me->comm;
  ncclComm_t two[2];
  int twice[2] = {1 - me->rank, 1 - me->rank};
  memset(&id, 'x', sizeof id);
  REFUSED(ncclCommInitRank(&made, 2, id, 0), ncclInvalidArgument,
          "the unique id was not made by ncclGetUniqueId of this library");
  CHECK(made == NULL);
  REFUSED(ncclCommInitRank(&made, 2, me->id, 2), ncclInvalidArgument, "rank 2 is not one of 0 to 1");
  REFUSED(ncclCommInitRank(&made, 0, me->id, 0), ncclInvalidArgument, "a communicator of 0 ranks cannot be");
  REFUSED(ncclCommInitRank(NULL, 2, me->id, 0), ncclInvalidArgument, "there is no place for the communicator");
  REFUSED(ncclCommInitAll(&made, 0, NULL), ncclInvalidArgument, "0 devices are none to communicate between");
  REFUSED(ncclCommInitAll(&made, 1, (int[]){99}), ncclInvalidArgument, "device 99 does not exist");
  REFUSED(ncclCommInitAll(two, 2, (int[]){0, 0}), ncclInvalidUsage, "a device is named twice among 2");
  REFUSED(ncclGetUniqueId(NULL), ncclInvalidArgument, "there is no place for the id");
  config.magic = 1;
  REFUSED(ncclCommSplit(me->comm, 0, 0, &made, &config), ncclInvalidArgument,
          "the config was not made with NCCL_CONFIG_INITIALIZER");
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.netName = "IB";
  REFUSED(ncclCommInitRankConfig(&made, 2, me->id, 0, &config), ncclInvalidUsage, "the option netName is 'IB'");
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.blocking = 3;
  REFUSED(ncclCommInitRankConfig(&made, 2, me->id, 0, &config), ncclInvalidArgument,
          "the option blocking is 3, but may be 0 to 1");
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 8;
  config.maxCTAs = 2;
  REFUSED(ncclCommInitRankConfig(&made, 2, me->id, 0, &config), ncclInvalidArgument,
          "the option minCTAs is 8, which is more than maxCTAs, 2");
  REFUSED(ncclCommSplit(me->comm, -3, 0, &made, NULL), ncclInvalidArgument, "the color -3");
  REFUSED(ncclCommShrink(me->comm, &me->rank, 1, &made, NULL, 0), ncclInvalidArgument, "leaves itself out");
  REFUSED(ncclCommShrink(me->comm, twice, 2, &made, NULL, 0), ncclInvalidArgument, "is named twice");
  REFUSED(ncclCommShrink(me->comm, twice, 1, &made, NULL, 9), ncclInvalidArgument, "the flags 9");
  check_still_works(me);
}

/* Those without effect, set to what makes sense, and beyond it. */
static void hints_are_checked_and_accepted(struct ranked* me) {
  const struct {
    const char* name;
    size_t at;
    int good, bad;
  } hints[] = {{"cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize), 2, -1},
               {"minCTAs", offsetof(ncclConfig_t, minCTAs), 4, 0},
               {"splitShare", offsetof(ncclConfig_t, splitShare), 1, 2},
               {"trafficClass", offsetof(ncclConfig_t, trafficClass), 3, -1},
               {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), 1, 2},
               {"CTAPolicy", offsetof(ncclConfig_t, CTAPolicy), NCCL_CTA_POLICY_ZERO, 3},
               {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), 1, -1},
               {"nvlsCTAs", offsetof(ncclConfig_t, nvlsCTAs), 1, 0},
               {"nChannelsPerNetPeer", offsetof(ncclConfig_t, nChannelsPerNetPeer), 1, 0},
               {"nvlinkCentricSched", offsetof(ncclConfig_t, nvlinkCentricSched), 1, 2}};
  size_t i;
  for (i = 0; i < sizeof hints / sizeof hints[0]; ++i) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t made = NULL;
    char words[64];
    memcpy((char*)&config + hints[i].at, &hints[i].bad, sizeof(int));
    snprintf(words, sizeof words, "the option %s is %d, but may be", hints[i].name, hints[i].bad);
    REFUSED(ncclCommSplit(me->comm, 0, me->rank, &made, &config), ncclInvalidArgument, words);
    memcpy((char*)&config + hints[i].at, &hints[i].good, sizeof(int));
    OK(ncclCommSplit(me->comm, 0, me->rank, &made, &config));
    OK(ncclCommDestroy(made));
  }
  check_still_works(me);
}

/* An option that is newer than this library, set by a program that knows it. */
static void an_option_that_is_not_known_is_refused(struct ranked* me) {
  struct {
    ncclConfig_t known;
    int newer[4];
  } config = {NCCL_CONFIG_INITIALIZER, {NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, 2, NCCL_CONFIG_UNDEF_INT}};
  ncclComm_t made = NULL;
  config.known.size = sizeof config;
  config.known.version = 23007;
  REFUSED(ncclCommSplit(me->comm, 0, 0, &made, &config.known), ncclInvalidUsage, "the config sets an option at byte");
  config.newer[2] = NCCL_CONFIG_UNDEF_INT;
  OK(ncclCommSplit(me->comm, 0, 0, &made, &config.known));
  OK(ncclCommDestroy(made));
}

static void a_destroyed_communicator_is_refused(struct ranked* me) {
  ncclComm_t old = me->comm;
  int value;
  OK(ncclCommDestroy(old));
  me->comm = NULL;
  REFUSED(ncclAllReduce(data, data, 1, ncclInt, ncclSum, old, me->stream), ncclInvalidArgument, "was destroyed");
  REFUSED(ncclCommCount(old, &value), ncclInvalidArgument, "was destroyed");
  REFUSED(ncclCommDestroy(old), ncclInvalidArgument, "was destroyed");
  REFUSED(ncclCommAbort(old), ncclInvalidArgument, "was destroyed");
  OK(ncclCommDestroy(NULL));
}

static void a_finalized_communicator_is_refused(struct ranked* me) {
  check_still_works(me);
  OK(ncclCommFinalize(me->comm));
  REFUSED(ncclAllReduce(data, data, 1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidUsage, "was finalized");
}

static void a_revoked_communicator_is_refused_but_may_be_shrunk(struct ranked* me) {
  ncclComm_t made = NULL, aside = meet_aside(me);
  OK(ncclCommRevoke(me->comm, NCCL_REVOKE_DEFAULT));
  REFUSED(ncclAllReduce(data, data, 1, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidUsage, "was revoked");
  OK(ncclCommShrink(me->comm, NULL, 0, &made, NULL, NCCL_SHRINK_ABORT));
  OK(ncclCommDestroy(made));
  OK(ncclCommDestroy(aside));
}

static void a_reduction_is_of_its_communicator_and_type(struct ranked* me) {
  ncclRedOp_t op, other;
  ncclComm_t made = NULL;
  const float factor = 2;
  OK(ncclCommSplit(me->comm, 0, me->rank, &made, NULL));
  OK(ncclRedOpCreatePreMulSum(&op, (void*)&factor, ncclFloat, ncclScalarHostImmediate, me->comm));
  OK(ncclRedOpCreatePreMulSum(&other, (void*)&factor, ncclFloat, ncclScalarHostImmediate, made));
  CHECK(op != other && op >= ncclNumOps);
  REFUSED(ncclAllReduce(data, data, 1, ncclFloat, other, me->comm, me->stream), ncclInvalidArgument,
          "nor was it made for this communicator");
  REFUSED(ncclAllReduce(data, data, 1, ncclDouble, op, me->comm, me->stream), ncclInvalidArgument,
          "the reduction was made for float32, but this is a collective of float64");
  REFUSED(ncclRedOpDestroy(op, made), ncclInvalidArgument, "was not made for this communicator");
  REFUSED(ncclRedOpDestroy(ncclSum, me->comm), ncclInvalidArgument, "is one of NCCL's own");
  OK(ncclRedOpDestroy(op, me->comm));
  REFUSED(ncclAllReduce(data, data, 1, ncclFloat, op, me->comm, me->stream), ncclInvalidArgument,
          "or it was destroyed");
  REFUSED(ncclRedOpDestroy(op, me->comm), ncclInvalidArgument, "or was destroyed before");
  REFUSED(ncclRedOpCreatePreMulSum(&op, (void*)&factor, ncclFloat, ncclScalarDevice, me->comm), ncclInvalidUsage,
          "a scalar in device memory");
  OK(ncclCommDestroy(made));
}

static void memory_that_is_not_known_is_refused(struct ranked* me) {
  void *memory = NULL, *handle = NULL;
  ncclWindow_t window = NULL;
  REFUSED(ncclMemAlloc(NULL, 8), ncclInvalidArgument, "there is no place for the pointer");
  REFUSED(ncclMemFree(data), ncclInvalidArgument, "was not allocated by ncclMemAlloc");
  OK(ncclMemAlloc(&memory, 4096));
  REFUSED(ncclCommRegister(me->comm, NULL, 8, &handle), ncclInvalidArgument, "cannot be registered");
  OK(ncclCommRegister(me->comm, memory, 4096, &handle));
  OK(ncclCommDeregister(me->comm, handle));
  REFUSED(ncclCommDeregister(me->comm, handle), ncclInvalidArgument, "is none of this communicator's");
  REFUSED(ncclCommWindowRegister(me->comm, memory, 4096, &window, 64), ncclInvalidArgument, "the flags 64");
  REFUSED(ncclCommWindowDeregister(me->comm, window), ncclInvalidArgument, "is none of this communicator's");
  check_still_works(me);
  OK(ncclMemFree(memory));
  REFUSED(ncclMemFree(memory), ncclInvalidArgument, "or was freed before");
}

static void a_spoilt_group_starts_nothing(struct ranked* me) {
  int value = 5;
  unsigned char* at = take(sizeof value);
  load(at, &value, sizeof value);
  OK(ncclGroupStart());
  OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
  REFUSED(ncclSend(at, 1, ncclInt, 9, me->comm, me->stream), ncclInvalidArgument, "rank 9 does not exist");
  REFUSED(ncclGroupEnd(), ncclInvalidArgument,
          "nothing of the group was started, as one of its calls was refused: ncclSend: rank 9 does not exist");
  finish(me);
  CHECK(holds(at, &value, sizeof value));
  REFUSED(ncclGroupEnd(), ncclInvalidUsage, "no group is open in this thread");
  drop(at);
  check_still_works(me);
}

/* All of it is well but for what is found out at its end. */
static void a_group_is_checked_before_anything_of_it_starts(struct ranked* me) {
  enum { FAR = 1 << 24 };
  const int value = 5;
  int i;
  unsigned char* at = take(sizeof value);
  unsigned char* other = take(64);
  load(at, &value, sizeof value);
  for (i = 0; i < 5; ++i) {
    const char* words = "";
    ncclResult_t code = ncclInvalidUsage;
    OK(ncclGroupStart());
    OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
    switch (i) {
      case 0:
        words = "sends 4 B to itself, and there is no receive for them in the same group";
        OK(ncclSend(other, 1, ncclInt, me->rank, me->comm, me->stream));
        break;
      case 1:
        words = "receives 4 B from itself, and there is no send for them in the same group";
        OK(ncclRecv(other, 1, ncclInt, me->rank, me->comm, me->stream));
        break;
      case 2:
        words = "sends 8 B to itself, and its receive takes 4 B";
        OK(ncclSend(other, 2, ncclInt, me->rank, me->comm, me->stream));
        OK(ncclRecv(other + 32, 1, ncclInt, me->rank, me->comm, me->stream));
        break;
      case 3:
        words = "overlap";
        code = ncclInvalidArgument;
        OK(ncclAllReduce(other, other + 4, 4, ncclInt, ncclSum, me->comm, me->stream));
        break;
      default:
        words = "B after its allocation of";
        code = ncclInvalidArgument;
        OK(ncclRecv(other, FAR, ncclInt, 1 - me->rank, me->comm, me->stream));
        OK(ncclSend(at, 1, ncclInt, 1 - me->rank, me->comm, me->stream));
        break;
    }
    REFUSED(ncclGroupEnd(), code, words);
    finish(me);
    CHECK(holds(at, &value, sizeof value));
  }
  drop(at);
  drop(other);
  check_still_works(me);
}

/* The messages of a pair go in turns, of which the last one's cannot be. */
static void no_message_starts_of_a_group_with_one_that_cannot_be(struct ranked* me) {
  enum { MANY = 60, FAR = 1 << 24 };
  const int value = 5, before = 1;
  int i;
  unsigned char* at = take(sizeof value);
  unsigned char* other = take(64);
  load(other, &before, sizeof before);
  load(at, &value, sizeof value);
  OK(ncclGroupStart());
  OK(ncclSend(at, 1, ncclInt, me->rank, me->comm, me->stream));
  OK(ncclRecv(other, 1, ncclInt, me->rank, me->comm, me->stream));
  for (i = 0; i < MANY; ++i) {
    OK(ncclSend(at, 1, ncclInt, 1 - me->rank, me->comm, me->stream));
    OK(ncclRecv(other, i < MANY - 1 ? 1 : FAR, ncclInt, 1 - me->rank, me->comm, me->stream));
  }
  REFUSED(ncclGroupEnd(), ncclInvalidArgument, "B after its allocation of");
  finish(me);
  CHECK(holds(other, &before, sizeof before));
  load(at, (int[]){6}, sizeof value);
  OK(ncclGroupStart());
  OK(ncclSend(at, 1, ncclInt, 1 - me->rank, me->comm, me->stream));
  OK(ncclRecv(other, 1, ncclInt, 1 - me->rank, me->comm, me->stream));
  OK(ncclGroupEnd());
  finish(me);
  CHECK(holds(other, (int[]){6}, sizeof value));
  drop(at);
  drop(other);
}

static void a_group_does_not_mix_ops_with_ends_and_starts(struct ranked* me) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclComm_t made = NULL;
  unsigned char* at = take(8);
  OK(ncclGroupStart());
  OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
  REFUSED(ncclCommDestroy(me->comm), ncclInvalidUsage, "this thread's group has ops of the communicator");
  REFUSED(ncclCommSplit(me->comm, 0, 0, &made, NULL), ncclInvalidUsage, "this group has ops of communicators");
  CHECK(made == NULL);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  OK(ncclGroupStart());
  OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
  REFUSED(ncclCommInitAll(&made, 1, NULL), ncclInvalidUsage, "this group has ops of communicators");
  CHECK(made == NULL);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  OK(ncclGroupStart());
  OK(ncclCommSplit(me->comm, 0, 0, &made, NULL));
  REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "making communicators cannot be simulated");
  CHECK(made == NULL);
  OK(ncclGroupStart());
  info.magic = 0;
  REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER");
  REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "no group is open in this thread");
  drop(at);
}

/* What one rank alone was refused has not begun, so ranks go on meeting. */
static void what_was_refused_does_not_count(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  config.magic = 1;
  if (me->rank == 0) {
    REFUSED(ncclCommSplit(me->comm, 0, 0, &made, &config), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER");
    REFUSED(ncclCommShrink(me->comm, NULL, 0, &made, &config, 0), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER");
    OK(ncclGroupStart());
    OK(ncclCommSplit(me->comm, 0, 0, &made, NULL));
    REFUSED(ncclCommSplit(me->comm, -3, 0, &made, NULL), ncclInvalidArgument, "the color -3");
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
  }
  OK(ncclCommShrink(me->comm, NULL, 0, &made, NULL, NCCL_SHRINK_DEFAULT));
  OK(ncclCommDestroy(made));
  OK(ncclCommSplit(me->comm, 0, me->rank, &made, NULL));
  OK(ncclCommDestroy(made));
}

/* Rank 1 of the communicator never comes. */
static void an_abort_does_not_wait_for_a_start(struct ranked* me) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t made = NULL;
  ncclUniqueId id;
  struct timespec before, after;
  int value;
  config.blocking = 0;
  OK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRankConfig(&made, 2, id, 0, &config) == ncclInProgress);
  clock_gettime(CLOCK_MONOTONIC, &before);
  OK(ncclCommAbort(made));
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec - before.tv_sec < 5);
  REFUSED(ncclCommCount(made, &value), ncclInvalidArgument, "was destroyed");
  check_still_works(me);
}

struct team {
  int ranks, rank, stride;
};
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* made);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* made);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, struct team team, int barriers, void* handle, void* made);
ncclResult_t ncclLsaBarrierCreateRequirement(struct team team, int barriers, void* handle, void* made);
ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void* handle, void* made);
struct team ncclTeamWorld(ncclComm_t comm);
struct team ncclTeamLsa(ncclComm_t comm);
struct team ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, struct team team, int rank);

static int is_team(struct team team, int ranks, int rank, int stride) {
  return team.ranks == ranks && team.rank == rank && team.stride == stride;
}

static void what_is_not_supported_is_refused(struct ranked* me) {
  const struct team all = ncclTeamWorld(me->comm);
  REFUSED(ncclDevCommCreate(me->comm, NULL, NULL), ncclInvalidUsage,
          "ncclDevCommCreate: NCCL's interface for kernels is not supported");
  REFUSED(ncclDevCommDestroy(me->comm, NULL), ncclInvalidUsage,
          "ncclDevCommDestroy: NCCL's interface for kernels is not supported");
  REFUSED(ncclGinBarrierCreateRequirement(me->comm, all, 1, NULL, NULL), ncclInvalidUsage,
          "ncclGinBarrierCreateRequirement: NCCL's interface for kernels is not supported");
  REFUSED(ncclLsaBarrierCreateRequirement(all, 1, NULL, NULL), ncclInvalidUsage,
          "ncclLsaBarrierCreateRequirement: NCCL's interface for kernels is not supported");
  REFUSED(ncclLLA2ACreateRequirement(1, 1, NULL, NULL), ncclInvalidUsage,
          "ncclLLA2ACreateRequirement: NCCL's interface for kernels is not supported");
  CHECK(is_team(all, me->size, me->rank, 1) && is_team(ncclTeamLsa(me->comm), me->size, me->rank, 1));
  CHECK(is_team(ncclTeamRail(me->comm), 1, 0, me->size) && is_team(ncclTeamWorld(NULL), 0, 0, 0));
  CHECK(ncclTeamRankToWorld(me->comm, all, 1) == 1 && ncclTeamRankToLsa(me->comm, all, 0) == 0);
  check_still_works(me);
}

static void a_message_larger_than_its_receive_is_told(struct ranked* me) {
  ncclResult_t result = ncclSuccess;
  unsigned char* at = take(1000);
  check_still_works(me);
  if (me->rank == 0) OK(ncclSend(at, 1000, ncclChar, 1, me->comm, me->stream));
  if (me->rank == 1) OK(ncclRecv(at, 10, ncclChar, 0, me->comm, me->stream));
  finish(me);
  OK(ncclCommGetAsyncError(me->comm, &result));
  me->failed = -1; /* the sender hears it at some time */
  if (me->rank == 1) CHECK(result == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "1000 B") != NULL);
  check_still_works(me);
  drop(at);
}

/* --- other ranks --- */

static void a_late_rank_is_named_at_the_deadline(struct ranked* me) {
  unsigned char* at = take(4);
  check_still_works(me);
  if (me->rank == 0) {
    OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
    finish(me);
  }
  CHECK(what_comes(me->comm) == ncclSystemError);
  CHECK(strstr(ncclGetLastError(me->comm), "all_reduce of 4 B") != NULL);
  CHECK(strstr(ncclGetLastError(me->comm), "deadline of 2 s") != NULL);
  CHECK(strstr(ncclGetLastError(NULL), "deadline of 2 s") != NULL); /* as of NCCL, the communicator need not be named */
  CHECK(strstr(ncclGetLastError(me->comm), "to go on: ncclCommAbort, on every rank") != NULL);
  CHECK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream) == ncclSystemError);
  OK(ncclGroupStart());
  OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
  CHECK(ncclGroupEnd() == ncclSystemError);
}

static void a_late_split_is_told_as_what_failed_its_parent(struct ranked* me) {
  ncclComm_t part = NULL;
  check_still_works(me);
  if (me->rank == 0) {
    CHECK(ncclCommSplit(me->comm, 0, 0, &part, NULL) == ncclSystemError && part == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "of 2 did not come to ncclCommSplit 0 within 2 s") != NULL);
    CHECK(strstr(ncclGetLastError(NULL), "to go on: ncclCommAbort, on every rank") != NULL);
  }
  CHECK(what_comes(me->comm) != ncclSuccess);
}

static void a_dead_rank_is_named(struct ranked* me) {
  unsigned char* at = take(4);
  check_still_works(me);
  meet_aside(me);
  if (me->rank == 1) _exit(0);
  CHECK(what_comes(me->comm) == ncclRemoteError);
  CHECK(strstr(ncclGetLastError(me->comm), "rank 1 (pid ") != NULL);
  CHECK(strstr(ncclGetLastError(me->comm), "to go on: ncclCommShrink with NCCL_SHRINK_ABORT") != NULL);
  CHECK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream) == ncclRemoteError);
  OK(ncclCommAbort(me->comm));
  printf("passed a_dead_rank_is_named\n");
  fflush(stdout);
  _exit(0);
}

static void an_abort_ends_what_waits(struct ranked* me) {
  unsigned char* at = take(4);
  ncclComm_t aside = meet_aside(me);
  if (me->rank == 0) { /* the abort may come before the call, too */
    const ncclResult_t begun = ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream);
    CHECK(begun == ncclSuccess || begun == ncclRemoteError);
  }
  if (me->rank == 0) CHECK(what_comes(me->comm) == ncclRemoteError);
  OK(ncclCommAbort(me->comm));
  me->comm = NULL;
  finish(me);
  OK(ncclCommDestroy(aside));
}

static void* watch(void* comm) {
  CHECK(what_comes((ncclComm_t)comm) == ncclRemoteError);
  OK(ncclCommAbort((ncclComm_t)comm));
  return NULL;
}

/* Rank 0's watchdog ends the communicator in the middle of its calls. */
static void a_watchdog_aborts_while_calls_are_made(struct ranked* me) {
  enum { ROUNDS = 20 };
  unsigned char* at = take(4);
  ncclResult_t result = ncclSuccess;
  pthread_t watchdog;
  int round;
  check_still_works(me);
  if (me->rank == 0) {
    CHECK(pthread_create(&watchdog, NULL, watch, me->comm) == 0);
    while (result != ncclInvalidArgument) { /* what a destroyed one is refused with */
      result = ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream);
      CHECK(result == ncclSuccess || result == ncclRemoteError || result == ncclInvalidArgument);
      finish(me);
    }
    CHECK(pthread_join(watchdog, NULL) == 0);
  } else {
    for (round = 0; round < ROUNDS; ++round) {
      OK(ncclAllReduce(at, at, 1, ncclInt, ncclSum, me->comm, me->stream));
      finish(me);
    }
    OK(ncclCommAbort(me->comm));
  }
  me->comm = NULL;
  drop(at);
}

struct start {
  ncclUniqueId id;
  ncclComm_t made;
};

static void* start_rank_0(void* argument) {
  struct start* one = (struct start*)argument;
  CHECK(ncclCommInitRank(&one->made, 2, one->id, 0) == ncclInvalidArgument);
  CHECK(one->made == NULL);
  return NULL;
}

/* Each rank has a communicator of two of its own: rank 0 is aborted while it waits for rank 1, which comes then. */
static void a_start_that_was_aborted_comes_to_nothing(struct ranked* me) {
  const struct timespec pause = {0, 1000000};
  struct start one;
  pthread_t starter;
  ncclComm_t begun = NULL, other = NULL;
  int rounds;
  OK(ncclGetUniqueId(&one.id));
  one.made = NULL;
  CHECK(pthread_create(&starter, NULL, start_rank_0, &one) == 0);
  for (rounds = 0; rounds < 30000 && begun == NULL; ++rounds) {
    __atomic_load(&one.made, &begun, __ATOMIC_ACQUIRE);
    nanosleep(&pause, NULL);
  }
  OK(ncclCommAbort(begun));
  if (ncclCommInitRank(&other, 2, one.id, 1) == ncclSuccess) OK(ncclCommDestroy(other));
  CHECK(pthread_join(starter, NULL) == 0);
  check_still_works(me);
}

static void ranks_that_differ_are_named_in_the_checking_mode(struct ranked* me) {
  unsigned char* at = take(64);
  check_still_works(me);
  REFUSED(ncclAllReduce(at, at, me->rank == 0 ? 2 : 3, ncclInt, ncclSum, me->comm, me->stream), ncclInvalidArgument,
          "rank 1");
  REFUSED(me->rank == 0 ? ncclAllReduce(at, at, 2, ncclInt, ncclSum, me->comm, me->stream)
                        : ncclAllReduce(at, at, 2, ncclInt, ncclMax, me->comm, me->stream),
          ncclInvalidArgument, "rank 1");
  REFUSED(ncclBroadcast(at, at, 2, ncclInt, me->rank, me->comm, me->stream), ncclInvalidArgument, "rank 1");
  check_still_works(me);
}

/* Every call and every wait of the program has returned success. */
static void the_end_tells_that_the_last_collective_failed(struct ranked* me) {
  unsigned char* at = take(4);
  check_still_works(me);
  OK(ncclAllReduce(at, at, 1, ncclInt, me->rank == 1 ? ncclMax : ncclSum, me->comm, me->stream));
  finish(me);
  if (me->rank == 0) {
    CHECK(ncclCommFinalize(me->comm) == ncclRemoteError);
    CHECK(strstr(ncclGetLastError(NULL), "all_reduce of 4 B") != NULL);
  }
  CHECK(ncclCommDestroy(me->comm) == (me->rank == 0 ? ncclSuccess : ncclRemoteError)); /* told once */
  CHECK(strstr(ncclGetLastError(NULL), "all_reduce of 4 B") != NULL);
  me->comm = NULL;
}

/* All work of this rank has ended well. */
static void the_end_is_well_though_another_rank_aborts(struct ranked* me) {
  check_still_works(me);
  OK(me->rank == 1 ? ncclCommAbort(me->comm) : ncclCommDestroy(me->comm));
  me->comm = NULL;
}

static void the_end_tells_that_the_last_message_was_cut(struct ranked* me) {
  unsigned char* at = take(1000);
  check_still_works(me);
  if (me->rank == 0) OK(ncclSend(at, 1000, ncclChar, 1, me->comm, me->stream));
  if (me->rank == 1) OK(ncclRecv(at, 10, ncclChar, 0, me->comm, me->stream));
  finish(me);
  me->failed = -1; /* the sender may end before it hears */
  if (me->rank == 0) return drop(at);
  CHECK(ncclCommDestroy(me->comm) == ncclInvalidUsage);
  CHECK(strstr(ncclGetLastError(NULL), "1000 B") != NULL);
  me->comm = NULL;
  drop(at);
}

int main(int argc, char** argv) {
  static const struct test_case cases[] = {
      CASE(wrong_arguments_of_collectives_are_refused),
      CASE(wrong_arguments_of_communicators_are_refused),
      CASE(hints_are_checked_and_accepted),
      CASE(an_option_that_is_not_known_is_refused),
      CASE(a_destroyed_communicator_is_refused),
      CASE(a_finalized_communicator_is_refused),
      CASE(a_revoked_communicator_is_refused_but_may_be_shrunk),
      CASE(a_reduction_is_of_its_communicator_and_type),
      CASE(memory_that_is_not_known_is_refused),
      CASE(a_spoilt_group_starts_nothing),
      CASE(a_group_is_checked_before_anything_of_it_starts),
      CASE(no_message_starts_of_a_group_with_one_that_cannot_be),
      CASE(a_group_does_not_mix_ops_with_ends_and_starts),
      CASE(what_was_refused_does_not_count),
      CASE(an_abort_does_not_wait_for_a_start),
      CASE(what_is_not_supported_is_refused),
      CASE(a_message_larger_than_its_receive_is_told),
      CASE(a_late_rank_is_named_at_the_deadline),
      CASE(the_end_tells_that_the_last_collective_failed),
      CASE(the_end_is_well_though_another_rank_aborts),
      CASE(the_end_tells_that_the_last_message_was_cut),
      CASE(a_late_split_is_told_as_what_failed_its_parent),
      CASE(a_dead_rank_is_named),
      CASE(an_abort_ends_what_waits),
      CASE(a_watchdog_aborts_while_calls_are_made),
      CASE(a_start_that_was_aborted_comes_to_nothing),
      CASE(ranks_that_differ_are_named_in_the_checking_mode),
  };
  return run_cases(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
