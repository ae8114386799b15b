// The calls that move data: each checks its arguments, and runs the op or leaves it to the group.
#include <limits>

#include "group.hpp"
#include "translate.hpp"

using namespace onstream;
using namespace onstream::nccl;

namespace {

// The common beginning of all of them.
Call op_of(OpKind kind, const void* input, void* output, std::size_t count, ncclDataType_t type, ncclComm_t handle,
           CUstream_st* stream) {
  Call op;
  op.comm = &ready(handle);
  op.kind = kind;
  op.input = input;
  op.output = output;
  op.count = count;
  op.type = type_of(type);
  op.stream = stream_of(*op.comm, stream);
  const std::size_t most = std::numeric_limits<std::size_t>::max() / 2 / 8 / static_cast<std::size_t>(op.comm->size);
  demand(count <= most, count, " elements are more than any memory has");
  return op;
}

void demand_rank(const Call& op, const char* what) {
  demand(op.other >= 0 && op.other < op.comm->size, what, " ", op.other,
         " does not exist; the communicator has ranks 0 to ", op.comm->size - 1);
}

// The buffers that this rank's part needs.
void demand_buffers(const Call& op) {
  if (op.count == 0) return;
  const bool is_root = op.comm->rank == op.other;
  const bool reads = (op.kind != OpKind::broadcast && op.kind != OpKind::scatter) || is_root;
  const bool writes = (op.kind != OpKind::reduce && op.kind != OpKind::gather) || is_root;
  demand(!reads || op.kind == OpKind::recv || op.input != nullptr, "the ", op.count,
         " elements to send are at a null pointer");
  demand(!writes || op.kind == OpKind::send || op.output != nullptr, "the place for ", op.count,
         " received elements is a null pointer");
}

ncclResult_t go(const Call& op) {
  demand_buffers(op);
  submit(op);
  return ncclSuccess;
}

ncclResult_t go_rooted(Call& op, int root) {
  op.other = root;
  demand_rank(op, "root");
  return go(op);
}

ncclResult_t go_message(Call& op, int peer) {
  op.other = peer;
  demand_rank(op, "rank");
  return go(op);
}

}  // namespace

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::all_reduce, input, output, count, type, comm, stream);
    set_reduction(op, reduction);
    return go(op);
  });
}

ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                        int root, ncclComm_t comm, CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::reduce, input, output, count, type, comm, stream);
    set_reduction(op, reduction);
    return go_rooted(op, root);
  });
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t output_count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::reduce_scatter, input, output, output_count, type, comm, stream);
    set_reduction(op, reduction);
    return go(op);
  });
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::broadcast, input, output, count, type, comm, stream);
    return go_rooted(op, root);
  });
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::broadcast, buffer, buffer, count, type, comm, stream);
    return go_rooted(op, root);
  });
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t input_count, ncclDataType_t type, ncclComm_t comm,
                           CUstream_st* stream) {
  return guarded(__func__, comm,
                 [&] { return go(op_of(OpKind::all_gather, input, output, input_count, type, comm, stream)); });
}

ncclResult_t ncclAlltoAll(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                          CUstream_st* stream) {
  return guarded(__func__, comm,
                 [&] { return go(op_of(OpKind::all_to_all, input, output, count, type, comm, stream)); });
}

ncclResult_t ncclGather(const void* input, void* output, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::gather, input, output, count, type, comm, stream);
    return go_rooted(op, root);
  });
}

ncclResult_t ncclScatter(const void* input, void* output, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::scatter, input, output, count, type, comm, stream);
    return go_rooted(op, root);
  });
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::send, buffer, nullptr, count, type, comm, stream);
    return go_message(op, peer);
  });
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream_st* stream) {
  return guarded(__func__, comm, [&] {
    Call op = op_of(OpKind::recv, nullptr, buffer, count, type, comm, stream);
    return go_message(op, peer);
  });
}

ONSTREAM_NCCL_TWIN(ncclAllReduce);
ONSTREAM_NCCL_TWIN(ncclReduce);
ONSTREAM_NCCL_TWIN(ncclReduceScatter);
ONSTREAM_NCCL_TWIN(ncclBroadcast);
ONSTREAM_NCCL_TWIN(ncclBcast);
ONSTREAM_NCCL_TWIN(ncclAllGather);
ONSTREAM_NCCL_TWIN(ncclAlltoAll);
ONSTREAM_NCCL_TWIN(ncclGather);
ONSTREAM_NCCL_TWIN(ncclScatter);
ONSTREAM_NCCL_TWIN(ncclSend);
ONSTREAM_NCCL_TWIN(ncclRecv);
