// An array with one entry for each element type: calls `make` with each number of ElementType as a constant.
#pragma once

#include <array>
#include <utility>

#include "onstream/collective/element/rules.hpp"

namespace onstream::collective {

template <class Make, int... kTypes>
auto per_type(const Make& make, std::integer_sequence<int, kTypes...>) {
  return std::array{make(std::integral_constant<int, kTypes>{})...};
}

template <class Make>
auto per_type(const Make& make) {
  return per_type(make, std::make_integer_sequence<int, kElementTypes>{});
}

template <int kType>
using RuleNumber = typename RuleOf<static_cast<ElementType>(kType)>::Rule;

}  // namespace onstream::collective
