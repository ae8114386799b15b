// Reductions of a program's own: a sum of inputs that each rank multiplies by a factor of its own first.
//
// A number names one for as long as it lives: its communicator, modulo 128, and a count that comes again only after
// millions of them.
#include <algorithm>

#include "translate.hpp"

using namespace onstream::nccl;

namespace {

constexpr std::uint32_t kCountBits = 24;
constexpr std::uint32_t kCounts = (1u << kCountBits) - ncclNumOps;
constexpr std::uint64_t kComms = 128;

ncclRedOp_t next_number(ncclComm& comm) {
  const auto of_comm = static_cast<std::uint32_t>(comm.serial % kComms) << kCountBits;
  return static_cast<ncclRedOp_t>(of_comm + ncclNumOps + comm.scalings_made++ % kCounts);
}

}  // namespace

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand(op != nullptr && scalar != nullptr, "there is no scalar, or no place for the reduction");
    demand(residence == ncclScalarDevice || residence == ncclScalarHostImmediate, "there is no residence ",
           static_cast<long>(residence));
    if (residence == ncclScalarDevice) {
      refuse(ncclInvalidUsage,
             "a scalar in device memory, read while the collective runs, is not supported; pass it as "
             "ncclScalarHostImmediate");
    }
    Scaling made = scaling_of(scalar, type_of(type));
    const std::lock_guard lock(comm.mutex);
    made.number = next_number(comm);
    comm.scalings.push_back(made);
    *op = made.number;
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  return guarded(__func__, handle, [&] {
    ncclComm& comm = ready(handle);
    demand(op < 0 || op >= ncclNumOps, "the reduction ", static_cast<long>(op), " is one of NCCL's own");
    const std::lock_guard lock(comm.mutex);
    const auto found = std::ranges::find(comm.scalings, op, &Scaling::number);
    demand(found != comm.scalings.end(), "the reduction ", static_cast<long>(op),
           " was not made for this communicator, or was destroyed before");
    comm.scalings.erase(found);
    return ncclSuccess;
  });
}

ONSTREAM_NCCL_TWIN(ncclRedOpCreatePreMulSum);
ONSTREAM_NCCL_TWIN(ncclRedOpDestroy);
