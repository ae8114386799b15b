// Layouts as Python gives them: ons.Layout, or the strides of an array.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "onstream/layout.hpp"

namespace onstream::python {

// Of an array's elements, relative to its first one. Any number of dimensions.
Layout layout_of(std::int64_t item_bytes, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides);

// Throws invalid_argument, naming `call`, for a layout that leaves a buffer of so many bytes.
void check_inside(const char* call, const Layout& layout, std::size_t buffer_bytes);

}  // namespace onstream::python
