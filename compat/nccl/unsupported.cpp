// The hosts' side of NCCL's interface for kernels (nccl_device.h), which is not here: calls that would prepare a kernel
// are refused; calls that only tell the ranks' places work. Defined all the same, so that a program that also loads
// NVIDIA's library never hands it a communicator of this one.
//
// All ranks are on one host, so the ranks that may load and store each other's memory are all of them.
#include "comm.hpp"

extern "C" {
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclBarrierHandle;

// Some ranks of a communicator: as many, this one's number among them, and the distance of neighbours.
struct ncclTeam {
  int ranks, rank, stride;
};

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* requirements, ncclDevComm* made);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* made);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam team, int barriers, ncclBarrierHandle* handle,
                                             ncclDevResourceRequirements* made);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam team, int barriers, ncclBarrierHandle* handle,
                                             ncclDevResourceRequirements* made);
ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, ncclBarrierHandle* handle,
                                        ncclDevResourceRequirements* made);
ncclTeam ncclTeamWorld(ncclComm_t comm);
ncclTeam ncclTeamLsa(ncclComm_t comm);
ncclTeam ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank);
}

using namespace onstream::nccl;

namespace {

ncclResult_t refused(const char* call) {
  return guarded(call, nullptr, []() -> ncclResult_t {
    refuse(ncclInvalidUsage, "NCCL's interface for kernels is not supported; onstream has its own (docs/one_sided.md)");
  });
}

// No ranks for a communicator that is none.
ncclTeam all_of(const char* call, ncclComm_t handle) {
  ncclTeam team{0, 0, 0};
  guarded(call, handle, [&] {
    const ncclComm& comm = ready(handle);
    team = {comm.size, comm.rank, 1};
    return ncclSuccess;
  });
  return team;
}

}  // namespace

ncclResult_t ncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*) { return refused(__func__); }
ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm*) { return refused(__func__); }
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam, int, ncclBarrierHandle*,
                                             ncclDevResourceRequirements*) {
  return refused(__func__);
}
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam, int, ncclBarrierHandle*, ncclDevResourceRequirements*) {
  return refused(__func__);
}
ncclResult_t ncclLLA2ACreateRequirement(int, int, ncclBarrierHandle*, ncclDevResourceRequirements*) {
  return refused(__func__);
}

ncclTeam ncclTeamWorld(ncclComm_t comm) { return all_of(__func__, comm); }
ncclTeam ncclTeamLsa(ncclComm_t comm) { return all_of(__func__, comm); }
// Those with this rank's number on every host.
ncclTeam ncclTeamRail(ncclComm_t comm) {
  const ncclTeam world = all_of(__func__, comm);
  return {world.ranks > 0 ? 1 : 0, 0, world.ranks};
}
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
  return all_of(__func__, comm).rank + (rank - team.rank) * team.stride;
}
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) { return ncclTeamRankToWorld(comm, team, rank); }

ONSTREAM_NCCL_TWIN(ncclDevCommCreate);
ONSTREAM_NCCL_TWIN(ncclDevCommDestroy);
ONSTREAM_NCCL_TWIN(ncclGinBarrierCreateRequirement);
ONSTREAM_NCCL_TWIN(ncclLsaBarrierCreateRequirement);
ONSTREAM_NCCL_TWIN(ncclLLA2ACreateRequirement);
ONSTREAM_NCCL_TWIN(ncclTeamWorld);
ONSTREAM_NCCL_TWIN(ncclTeamLsa);
ONSTREAM_NCCL_TWIN(ncclTeamRail);
ONSTREAM_NCCL_TWIN(ncclTeamRankToWorld);
ONSTREAM_NCCL_TWIN(ncclTeamRankToLsa);
