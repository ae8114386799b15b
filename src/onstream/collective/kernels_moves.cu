#include "onstream/collective/barrier.hpp"
#include "onstream/collective/bulk_move.hpp"
#include "onstream/collective/convert.hpp"
#include "onstream/collective/edges.hpp"
#include "onstream/collective/kernels.hpp"
#include "onstream/collective/lines.hpp"
#include "onstream/collective/pass_move.hpp"
#include "onstream/collective/wide.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::collective {

const void* cuda_barrier() { return reinterpret_cast<const void*>(&cuda_entry<Barrier>); }

const void* cuda_trade_lines() { return reinterpret_cast<const void*>(&cuda_entry<TradeLines>); }
const void* cuda_trade_wide() { return reinterpret_cast<const void*>(&cuda_entry<TradeWide>); }
const void* cuda_pass_move() { return reinterpret_cast<const void*>(&cuda_entry<PassMove>); }
const void* cuda_convert() { return reinterpret_cast<const void*>(&cuda_entry<Convert>); }
const void* cuda_move_edges(Reach reach) {
  return reach == Reach::near ? reinterpret_cast<const void*>(&cuda_entry<MoveEdges<kFewEdges>>)
                              : reinterpret_cast<const void*>(&cuda_entry<MoveEdges<kMostEdges>>);
}
const void* cuda_bulk_move(Reach reach) {
  return reach == Reach::near ? reinterpret_cast<const void*>(&cuda_entry<BulkMove<kNear>>)
                              : reinterpret_cast<const void*>(&cuda_entry<BulkMove<kMostRanks>>);
}

}  // namespace onstream::collective
