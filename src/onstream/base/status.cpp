#include "onstream/error.hpp"

namespace onstream {

const char* name_of(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::pending: return "pending";
    case Status::truncated: return "truncated";
    case Status::unmapped: return "unmapped";
    case Status::timeout: return "timeout";
    case Status::aborted: return "aborted";
    case Status::misused: return "misused";
  }
  return "unknown";
}

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::none: return "none";
    case OpKind::send: return "send";
    case OpKind::recv: return "recv";
    case OpKind::probe: return "probe";
    case OpKind::put: return "put";
    case OpKind::get: return "get";
    case OpKind::reduce: return "reduce";
    case OpKind::signal: return "signal";
    case OpKind::atomic: return "atomic";
    case OpKind::wait: return "wait";
    case OpKind::plan: return "plan";
    case OpKind::all_reduce: return "all_reduce";
    case OpKind::broadcast: return "broadcast";
    case OpKind::all_gather: return "all_gather";
    case OpKind::reduce_scatter: return "reduce_scatter";
    case OpKind::gather: return "gather";
    case OpKind::scatter: return "scatter";
    case OpKind::all_to_all: return "all_to_all";
    case OpKind::all_gather_v: return "all_gather_v";
    case OpKind::all_to_all_v: return "all_to_all_v";
    case OpKind::scan: return "scan";
    case OpKind::exclusive_scan: return "exclusive_scan";
    case OpKind::neighbour_all_gather: return "neighbour_all_gather";
    case OpKind::neighbour_all_to_all: return "neighbour_all_to_all";
    case OpKind::neighbour_all_to_all_v: return "neighbour_all_to_all_v";
    case OpKind::barrier: return "barrier";
  }
  return "unknown";
}

}  // namespace onstream
