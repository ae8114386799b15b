/* The calls of NCCL's interface. Each has a twin whose name begins with p, for tools that put themselves before it.
 *
 * A stream is a cudaStream_t; here its type has CUDA's name for what it points to, so that no CUDA header is needed. */
#ifndef ONSTREAM_NCCL_CALLS_H
#define ONSTREAM_NCCL_CALLS_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

#define ONSTREAM_NCCL_CALL(name, ...) \
  ncclResult_t name(__VA_ARGS__);     \
  ncclResult_t p##name(__VA_ARGS__);

/* --- the library --- */
ONSTREAM_NCCL_CALL(ncclGetVersion, int* version)
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);
/* Of the communicator, if it has failed; else the newest of this thread, or else of this process. */
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/* --- communicators --- */
ONSTREAM_NCCL_CALL(ncclGetUniqueId, ncclUniqueId* id)
ONSTREAM_NCCL_CALL(ncclCommInitRank, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank)
ONSTREAM_NCCL_CALL(ncclCommInitRankConfig, ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)
ONSTREAM_NCCL_CALL(ncclCommInitRankScalable, ncclComm_t* comm, int ranks, int rank, int id_count, ncclUniqueId* ids,
                   ncclConfig_t* config)
ONSTREAM_NCCL_CALL(ncclCommInitAll, ncclComm_t* comms, int count, const int* devices)
ONSTREAM_NCCL_CALL(ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config)
ONSTREAM_NCCL_CALL(ncclCommShrink, ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                   ncclConfig_t* config, int flags)
ONSTREAM_NCCL_CALL(ncclCommFinalize, ncclComm_t comm)
ONSTREAM_NCCL_CALL(ncclCommDestroy, ncclComm_t comm)
ONSTREAM_NCCL_CALL(ncclCommAbort, ncclComm_t comm)
ONSTREAM_NCCL_CALL(ncclCommRevoke, ncclComm_t comm, int flags)
ONSTREAM_NCCL_CALL(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* result)
ONSTREAM_NCCL_CALL(ncclCommCount, const ncclComm_t comm, int* count)
ONSTREAM_NCCL_CALL(ncclCommCuDevice, const ncclComm_t comm, int* device)
ONSTREAM_NCCL_CALL(ncclCommUserRank, const ncclComm_t comm, int* rank)

/* --- memory --- */
ONSTREAM_NCCL_CALL(ncclMemAlloc, void** memory, size_t bytes)
ONSTREAM_NCCL_CALL(ncclMemFree, void* memory)
ONSTREAM_NCCL_CALL(ncclCommRegister, const ncclComm_t comm, void* buffer, size_t bytes, void** handle)
ONSTREAM_NCCL_CALL(ncclCommDeregister, const ncclComm_t comm, void* handle)
ONSTREAM_NCCL_CALL(ncclCommWindowRegister, ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags)
ONSTREAM_NCCL_CALL(ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window)

/* --- reductions --- */
ONSTREAM_NCCL_CALL(ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                   ncclScalarResidence_t residence, ncclComm_t comm)
ONSTREAM_NCCL_CALL(ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm)

/* --- collectives --- */
ONSTREAM_NCCL_CALL(ncclAllReduce, const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                   ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclReduce, const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                   int root, ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclReduceScatter, const void* input, void* output, size_t output_count, ncclDataType_t type,
                   ncclRedOp_t op, ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclBroadcast, const void* input, void* output, size_t count, ncclDataType_t type, int root,
                   ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclBcast, void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclAllGather, const void* input, void* output, size_t input_count, ncclDataType_t type,
                   ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclAlltoAll, const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                   struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclGather, const void* input, void* output, size_t count, ncclDataType_t type, int root,
                   ncclComm_t comm, struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclScatter, const void* input, void* output, size_t count, ncclDataType_t type, int root,
                   ncclComm_t comm, struct CUstream_st* stream)

/* --- messages --- */
ONSTREAM_NCCL_CALL(ncclSend, const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                   struct CUstream_st* stream)
ONSTREAM_NCCL_CALL(ncclRecv, void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                   struct CUstream_st* stream)

/* --- groups --- */
ONSTREAM_NCCL_CALL(ncclGroupStart, void)
ONSTREAM_NCCL_CALL(ncclGroupEnd, void)
ONSTREAM_NCCL_CALL(ncclGroupSimulateEnd, ncclSimInfo_t* info)

#ifdef __cplusplus
}
#endif
#endif
