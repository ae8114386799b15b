#include "onstream/collective/call/portions.hpp"

namespace onstream::collective {

Portion portion_of(const CollectiveCall& call, int rank, int peer) {
  const auto p = static_cast<std::size_t>(peer);
  const std::size_t element = size_of(call.type);
  const std::size_t one = call.count * element;
  const bool is_root = rank == call.root;
  const std::size_t of_root = is_root ? one : 0;
  const std::size_t with_root = peer == call.root ? one : 0;
  switch (call.kind) {
    case OpKind::all_gather: return {0, one, one * p, one};
    case OpKind::all_to_all: return {one * p, one, one * p, one};
    case OpKind::gather: return {0, with_root, one * p, of_root};
    case OpKind::scatter: return {one * p, of_root, 0, with_root};
    case OpKind::broadcast: return {0, of_root, 0, with_root};
    case OpKind::all_gather_v: return {0, one, call.receive_offsets[p] * element, call.receive_counts[p] * element};
    default:
      return {call.send_offsets[p] * element, call.send_counts[p] * element, call.receive_offsets[p] * element,
              call.receive_counts[p] * element};
  }
}

bool overwrites_itself(const CollectiveCall& call) {
  return call.input == call.output && (call.kind == OpKind::all_to_all || call.kind == OpKind::all_to_all_v);
}

}  // namespace onstream::collective
