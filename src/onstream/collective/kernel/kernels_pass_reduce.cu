#include "onstream/collective/element/per_type.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/sleeping/pass_reduce.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::collective {

const void* cuda_pass_reduce(ElementType type) {
  static const auto addresses = per_type([]<int kType>(std::integral_constant<int, kType>) {
    return reinterpret_cast<const void*>(&cuda_entry<PassReduce<RuleNumber<kType>>>);
  });
  return addresses.at(static_cast<std::size_t>(type));
}

}  // namespace onstream::collective
