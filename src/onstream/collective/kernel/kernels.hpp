// The kernels of collectives: the bodies of barrier.hpp, ll.hpp, two_shot.hpp, ll128.hpp, simple_*.hpp and pass_*.hpp,
// ready to launch on any device. Reductions have one kernel for each element type.
#pragma once

#include <vector>

#include "onstream/collective.hpp"
#include "onstream/device.hpp"

namespace onstream::collective {

// How many ranks' addresses the arguments hold: up to kNear, or up to kMostRanks.
enum class AddressTable { near, far };

const Kernel& reduce_ll_kernel(ElementType type);     // takes a ReduceLl
const Kernel& two_shot_kernel(ElementType type);      // a TwoShotLl
const Kernel& reduce_ll128_kernel(ElementType type);  // a ReduceLl128
// A BulkReduce. There is no far one for cuda: more ranks take the stage there.
const Kernel& bulk_reduce_kernel(ElementType type, AddressTable table);
const Kernel& pass_reduce_kernel(ElementType type);  // a PassReduce
const Kernel& pass_move_kernel();                    // a PassMove
const Kernel& barrier_kernel();                      // a BarrierLl
const Kernel& exchange_ll_kernel();                  // an ExchangeLl
const Kernel& exchange_ll128_kernel();               // an ExchangeLl128
const Kernel& bulk_move_kernel(AddressTable table);  // a BulkMove
const Kernel& convert_kernel();                      // a Convert

// A MoveEdges, of up to kFewEdges edges in each direction, or kMostEdges.
const Kernel& move_edges_kernel(AddressTable table);

// Every kernel, to be loaded.
std::vector<const Kernel*> all_kernels();

#ifdef ONSTREAM_WITH_CUDA
// Addresses of the __global__ functions; kernels_*.cu.
const void* cuda_reduce_ll(ElementType type);
const void* cuda_two_shot(ElementType type);
const void* cuda_reduce_ll128(ElementType type);
const void* cuda_bulk_reduce(ElementType type);
const void* cuda_pass_reduce(ElementType type);
const void* cuda_pass_move();
const void* cuda_barrier();
const void* cuda_exchange_ll();
const void* cuda_exchange_ll128();
const void* cuda_bulk_move(AddressTable table);
const void* cuda_convert();
const void* cuda_move_edges(AddressTable table);
#endif

}  // namespace onstream::collective
