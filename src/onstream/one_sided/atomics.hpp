// Atomics on words of any rank, as the host and streams issue them.
#pragma once

#include <cstdint>

#include "onstream/device/group.hpp"

namespace onstream {

enum class AtomicOp : std::uint8_t { fetch, set, add, bit_and, bit_or, bit_xor, swap, compare_swap };

namespace one_sided {

// Does it to the word, by one thread, and gives the old value. `set` gives nothing of use.
template <class Group, class Word>
ONSTREAM_BODY Word apply(const Group& group, AtomicOp op, Word* word, Word value, Word expected) {
  switch (op) {
    case AtomicOp::fetch: return group.load_relaxed(word);
    case AtomicOp::set: group.store_relaxed(word, value); return value;
    case AtomicOp::add: return group.fetch_add_system(word, value);
    case AtomicOp::bit_and: return group.fetch_and_system(word, value);
    case AtomicOp::bit_or: return group.fetch_or_system(word, value);
    case AtomicOp::bit_xor: return group.fetch_xor_system(word, value);
    case AtomicOp::swap: return group.swap_system(word, value);
    case AtomicOp::compare_swap: return group.compare_swap_system(word, expected, value);
  }
  return value;
}

// The same for a word of 4 or 8 bytes.
template <class Group>
ONSTREAM_BODY std::uint64_t apply(const Group& group, AtomicOp op, std::uint64_t address, unsigned width,
                                  std::uint64_t value, std::uint64_t expected) {
  if (width == 8) return apply(group, op, reinterpret_cast<std::uint64_t*>(address), value, expected);
  return apply(group, op, reinterpret_cast<std::uint32_t*>(address), static_cast<std::uint32_t>(value),
               static_cast<std::uint32_t>(expected));
}

}  // namespace one_sided

}  // namespace onstream
