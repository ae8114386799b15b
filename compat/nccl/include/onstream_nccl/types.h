/* The types and constants of NCCL's interface, as its documentation and its ABI have them. */
#ifndef ONSTREAM_NCCL_TYPES_H
#define ONSTREAM_NCCL_TYPES_H

#include <limits.h>
#include <stddef.h>

/* The calls, and the layouts of what they take, are those of 2.28 (ncclGetVersion tells). But programs take a version
 * from 2.28 on as a promise of nccl_device.h, an interface for kernels, which is not here; so what they are compiled
 * with says the version before. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION(major, minor, patch) \
  ((major) <= 2 && (minor) <= 8 ? (major) * 1000 + (minor) * 100 + (patch) : (major) * 10000 + (minor) * 100 + (patch))
#define NCCL_VERSION_CODE 22707
#define ONSTREAM_NCCL_INTERFACE 22809

/* A communicator, and memory that was registered with one: made and destroyed by the calls, never looked into. */
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

/* Where the ranks of a communicator meet. Plain data: the program carries it from one rank to the others. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

/* Options of a communicator. The first three are NCCL_CONFIG_INITIALIZER's; `version` says which others there are. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define ONSTREAM_NCCL_CONFIG_MAGIC 0xcafebeef
#define NCCL_CONFIG_INITIALIZER                                                                       \
  {sizeof(ncclConfig_t),  ONSTREAM_NCCL_CONFIG_MAGIC, ONSTREAM_NCCL_INTERFACE, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      NCCL_CONFIG_UNDEF_INT,   NCCL_CONFIG_UNDEF_PTR, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      NCCL_CONFIG_UNDEF_PTR,   NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,      NCCL_CONFIG_UNDEF_INT,   NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT}

/* What ncclGroupSimulateEnd tells. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define ONSTREAM_NCCL_SIM_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER \
  {sizeof(ncclSimInfo_t), ONSTREAM_NCCL_SIM_MAGIC, ONSTREAM_NCCL_INTERFACE, NCCL_UNDEF_FLOAT}

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Those that ncclRedOpCreatePreMulSum makes are numbered from ncclNumOps on. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/* Where a scalar lies, and so when it is read: while the collective runs, or before the call returns. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#endif
