// The arithmetic of collectives between hosts: inputs of all ranks, added in the order of the ranks as everywhere
// (element/rules.hpp), so the bits of a sum are those of one host.
#pragma once

#include <cstddef>
#include <span>

#include "onstream/collective/call/call.hpp"

namespace onstream::collective {

// out = inputs[0] op inputs[1] op ..., of so many elements each; an average is over `ranks`. `out` may be an input.
void reduce_in_order(const CollectiveCall& call, std::byte* out, std::span<const std::byte* const> inputs,
                     std::size_t elements, int ranks);
// out = input times the call's own factor (premulsum).
void scale(const CollectiveCall& call, std::byte* out, const std::byte* input, std::size_t elements);

}  // namespace onstream::collective
