// Calls of NCCL's interface for kernels (nccl_device.h), which is not here: refused, and never another library's by
// accident.
#include "comm.hpp"

extern "C" {
struct ncclDevComm;
struct ncclDevCommRequirements;
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* requirements, ncclDevComm* made);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* requirements, ncclDevComm* made);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* made);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* made);
}

using namespace onstream::nccl;

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements*, ncclDevComm*) {
  return guarded(__func__, comm, [&]() -> ncclResult_t {
    known(comm);
    refuse(ncclInvalidUsage, "NCCL's interface for kernels is not supported; onstream has its own (docs/one_sided.md)");
  });
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm*) {
  return guarded(__func__, comm, [&]() -> ncclResult_t {
    known(comm);
    refuse(ncclInvalidUsage, "there are no communicators for kernels, so there is none to destroy");
  });
}

ONSTREAM_NCCL_TWIN(ncclDevCommCreate);
ONSTREAM_NCCL_TWIN(ncclDevCommDestroy);
