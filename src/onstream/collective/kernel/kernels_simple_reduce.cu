#include "onstream/collective/element/per_type.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/kernel/simple_reduce.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::collective {

const void* cuda_bulk_reduce(ElementType type) {
  static const auto addresses = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return reinterpret_cast<const void*>(&cuda_entry<BulkReduce<RuleNumber<kType>, kNear>>);
  });
  return addresses.at(static_cast<std::size_t>(type));
}

}  // namespace onstream::collective
