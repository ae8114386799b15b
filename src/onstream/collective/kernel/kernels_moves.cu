#include "onstream/collective/kernel/barrier.hpp"
#include "onstream/collective/kernel/edges.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/ll128.hpp"
#include "onstream/collective/kernel/simple_move.hpp"
#include "onstream/collective/protocol/convert.hpp"
#include "onstream/collective/sleeping/pass_move.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::collective {

const void* cuda_barrier() { return reinterpret_cast<const void*>(&cuda_entry<BarrierLl>); }

const void* cuda_exchange_ll() { return reinterpret_cast<const void*>(&cuda_entry<ExchangeLl>); }
const void* cuda_exchange_ll128() { return reinterpret_cast<const void*>(&cuda_entry<ExchangeLl128>); }
const void* cuda_pass_move() { return reinterpret_cast<const void*>(&cuda_entry<PassMove>); }
const void* cuda_convert() { return reinterpret_cast<const void*>(&cuda_entry<Convert>); }
const void* cuda_move_edges(AddressTable table) {
  return table == AddressTable::near ? reinterpret_cast<const void*>(&cuda_entry<MoveEdges<kFewEdges>>)
                                     : reinterpret_cast<const void*>(&cuda_entry<MoveEdges<kMostEdges>>);
}
const void* cuda_bulk_move(AddressTable table) {
  return table == AddressTable::near ? reinterpret_cast<const void*>(&cuda_entry<BulkMove<kNear>>)
                                     : reinterpret_cast<const void*>(&cuda_entry<BulkMove<kMostRanks>>);
}

}  // namespace onstream::collective
