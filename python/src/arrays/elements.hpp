// Elements: where the elements of an array lie, in numbers, as onstream/_arrays.py has read them. Owns nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "onstream/layout.hpp"

namespace onstream::python {

struct Elements {
  Elements(std::uintptr_t at, std::size_t item, std::vector<std::int64_t> extents, std::vector<std::int64_t> steps,
           std::string type)
      : address(at), item_bytes(item), shape(std::move(extents)), strides(std::move(steps)), dtype(std::move(type)) {}

  std::uintptr_t address = 0;
  std::size_t item_bytes = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // bytes
  std::string dtype;                  // of the elements; "" if the array does not tell

  void* pointer() const { return reinterpret_cast<void*>(address); }
  std::size_t count() const {
    std::size_t all = 1;
    for (const std::int64_t extent : shape) all *= static_cast<std::size_t>(extent);
    return all;
  }
  std::size_t bytes() const { return count() * item_bytes; }
  Layout layout() const { return Layout::strided(item_bytes, shape, strides); }
};

}  // namespace onstream::python
