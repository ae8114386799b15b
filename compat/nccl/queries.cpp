// A program's queries about the library and about a communicator.
#include "comm.hpp"

using namespace onstream::nccl;

ncclResult_t ncclGetVersion(int* version) {
  return guarded(__func__, nullptr, [&] {
    demand(version != nullptr, "there is no place for the version");
    *version = ONSTREAM_NCCL_INTERFACE;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "a call to CUDA failed";
    case ncclSystemError: return "the system refused, or a deadline passed";
    case ncclInternalError: return "an error inside the library";
    case ncclInvalidArgument: return "an argument is wrong";
    case ncclInvalidUsage: return "the call cannot be made, or not here";
    case ncclRemoteError: return "another rank failed or ended";
    case ncclInProgress: return "still in progress";
    default: return "no result of this library";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  if (handle != nullptr && handle->magic == kMagic) {
    static thread_local std::string story;
    const std::lock_guard lock(handle->mutex);
    story = handle->story;
    if (!story.empty()) return story.c_str();
  }
  return last_error();
}

// Logging follows the parameter `log`, which is read when a communicator starts; there is nothing to reload.
void ncclResetDebugInit(void) {}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = known(handle);
    demand(result != nullptr, "there is no place for the result");
    *result = async_result(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return guarded(__func__, handle, [&] {
    const ncclComm& comm = ready(handle);
    demand(count != nullptr, "there is no place for the count");
    *count = comm.size;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return guarded(__func__, handle, [&] {
    const ncclComm& comm = ready(handle);
    demand(device != nullptr, "there is no place for the device");
    *device = comm.device;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return guarded(__func__, handle, [&] {
    const ncclComm& comm = ready(handle);
    demand(rank != nullptr, "there is no place for the rank");
    *rank = comm.rank;
    return ncclSuccess;
  });
}

extern "C" __attribute__((alias("ncclGetErrorString"))) decltype(ncclGetErrorString) pncclGetErrorString;
extern "C" __attribute__((alias("ncclGetLastError"))) decltype(ncclGetLastError) pncclGetLastError;
extern "C" __attribute__((alias("ncclResetDebugInit"))) decltype(ncclResetDebugInit) pncclResetDebugInit;
ONSTREAM_NCCL_TWIN(ncclGetVersion);
ONSTREAM_NCCL_TWIN(ncclCommGetAsyncError);
ONSTREAM_NCCL_TWIN(ncclCommCount);
ONSTREAM_NCCL_TWIN(ncclCommCuDevice);
ONSTREAM_NCCL_TWIN(ncclCommUserRank);
