#include "onstream/collective/kernel/kernels.hpp"

#include <type_traits>

#include "onstream/collective/element/per_type.hpp"
#include "onstream/collective/kernel/barrier.hpp"
#include "onstream/collective/kernel/edges.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/ll128.hpp"
#include "onstream/collective/kernel/simple_move.hpp"
#include "onstream/collective/kernel/simple_reduce.hpp"
#include "onstream/collective/kernel/two_shot.hpp"
#include "onstream/collective/protocol/convert.hpp"
#include "onstream/collective/sleeping/pass_move.hpp"
#include "onstream/collective/sleeping/pass_reduce.hpp"
#include "onstream/device/kernel/floats.hpp"

namespace onstream::collective {

namespace {

template <int kType>
constexpr ElementType element = static_cast<ElementType>(kType);

template <class Body>
void entry_of_floats(const void* body, int blocks) {
  const PlainFloats plain;
  host_entry<Body>(body, blocks);
}

// The entry of a body that reduces: its sums have the others' bits, however this rank's threads have set up floating
// point.
template <int kType, class Body>
constexpr auto host_entry_of =
    std::is_integral_v<typename RuleNumber<kType>::Element> ? host_entry<Body> : entry_of_floats<Body>;

}  // namespace

const Kernel& reduce_ll_kernel(ElementType type) {
  static const auto kernels = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_reduce_ll", host_entry_of<kType, ReduceLl<RuleNumber<kType>>>,
                  ONSTREAM_CUDA_ADDRESS(cuda_reduce_ll(element<kType>))};
  });
  return kernels.at(static_cast<std::size_t>(type));
}

const Kernel& two_shot_kernel(ElementType type) {
  static const auto kernels = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_two_shot", host_entry_of<kType, TwoShotLl<RuleNumber<kType>>>,
                  ONSTREAM_CUDA_ADDRESS(cuda_two_shot(element<kType>))};
  });
  return kernels.at(static_cast<std::size_t>(type));
}

const Kernel& reduce_ll128_kernel(ElementType type) {
  static const auto kernels = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_reduce_ll128", host_entry_of<kType, ReduceLl128<RuleNumber<kType>>>,
                  ONSTREAM_CUDA_ADDRESS(cuda_reduce_ll128(element<kType>))};
  });
  return kernels.at(static_cast<std::size_t>(type));
}

const Kernel& bulk_reduce_kernel(ElementType type, AddressTable table) {
  static const auto near = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_bulk_reduce", host_entry_of<kType, BulkReduce<RuleNumber<kType>, kNear>>,
                  ONSTREAM_CUDA_ADDRESS(cuda_bulk_reduce(element<kType>))};
  });
  static const auto far = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_bulk_reduce_far", host_entry_of<kType, BulkReduce<RuleNumber<kType>, kMostRanks>>,
                  nullptr};
  });
  return (table == AddressTable::near ? near : far).at(static_cast<std::size_t>(type));
}

const Kernel& pass_reduce_kernel(ElementType type) {
  static const auto kernels = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return Kernel{"collective_pass_reduce", host_entry_of<kType, PassReduce<RuleNumber<kType>>>,
                  ONSTREAM_CUDA_ADDRESS(cuda_pass_reduce(element<kType>))};
  });
  return kernels.at(static_cast<std::size_t>(type));
}

const Kernel& pass_move_kernel() {
  static const Kernel kernel{"collective_pass_move", host_entry<PassMove>, ONSTREAM_CUDA_ADDRESS(cuda_pass_move())};
  return kernel;
}

const Kernel& barrier_kernel() {
  static const Kernel kernel{"collective_barrier", host_entry<BarrierLl>, ONSTREAM_CUDA_ADDRESS(cuda_barrier())};
  return kernel;
}

const Kernel& exchange_ll_kernel() {
  static const Kernel kernel{"collective_exchange_ll", host_entry<ExchangeLl>,
                             ONSTREAM_CUDA_ADDRESS(cuda_exchange_ll())};
  return kernel;
}

const Kernel& exchange_ll128_kernel() {
  static const Kernel kernel{"collective_exchange_ll128", host_entry<ExchangeLl128>,
                             ONSTREAM_CUDA_ADDRESS(cuda_exchange_ll128())};
  return kernel;
}

const Kernel& bulk_move_kernel(AddressTable table) {
  static const Kernel near{"collective_bulk_move", host_entry<BulkMove<kNear>>,
                           ONSTREAM_CUDA_ADDRESS(cuda_bulk_move(AddressTable::near))};
  static const Kernel far{"collective_bulk_move_far", host_entry<BulkMove<kMostRanks>>,
                          ONSTREAM_CUDA_ADDRESS(cuda_bulk_move(AddressTable::far))};
  return table == AddressTable::near ? near : far;
}

const Kernel& convert_kernel() {
  static const Kernel kernel{"collective_convert", entry_of_floats<Convert>, ONSTREAM_CUDA_ADDRESS(cuda_convert())};
  return kernel;
}

const Kernel& move_edges_kernel(AddressTable table) {
  static const Kernel near{"collective_move_edges", host_entry<MoveEdges<kFewEdges>>,
                           ONSTREAM_CUDA_ADDRESS(cuda_move_edges(AddressTable::near))};
  static const Kernel far{"collective_move_edges_far", host_entry<MoveEdges<kMostEdges>>,
                          ONSTREAM_CUDA_ADDRESS(cuda_move_edges(AddressTable::far))};
  return table == AddressTable::near ? near : far;
}

std::vector<const Kernel*> all_kernels() {
  std::vector<const Kernel*> all = {&barrier_kernel(),
                                    &exchange_ll_kernel(),
                                    &exchange_ll128_kernel(),
                                    &pass_move_kernel(),
                                    &bulk_move_kernel(AddressTable::near),
                                    &bulk_move_kernel(AddressTable::far),
                                    &move_edges_kernel(AddressTable::near),
                                    &move_edges_kernel(AddressTable::far),
                                    &convert_kernel()};
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    all.insert(all.end(), {&reduce_ll_kernel(type), &two_shot_kernel(type), &reduce_ll128_kernel(type),
                           &bulk_reduce_kernel(type, AddressTable::near), &pass_reduce_kernel(type)});
  }
  return all;
}

}  // namespace onstream::collective
