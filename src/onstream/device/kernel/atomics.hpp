// Atomics on words of 4 or 8 bytes of any rank's memory, as the host, streams and plans issue them. Each is done by one
// thread, system-wide; none waits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream {

// Does it to the word and gives the old value. `set` gives nothing of use.
template <Group G, class Word>
ONSTREAM_BODY Word apply(const G& group, AtomicOp op, Word* word, Word value, Word expected) {
  switch (op) {
    case AtomicOp::fetch: return group.load_relaxed(word);
    case AtomicOp::set:
      if constexpr (std::is_same_v<G, HostGroup>) {
        group.store_release(word, value);  // as the host's other atomics, before which nobody fences
      } else {
        group.store_relaxed(word, value);
      }
      return value;
    case AtomicOp::add: return group.fetch_add_system(word, value);
    case AtomicOp::bit_and: return group.fetch_and_system(word, value);
    case AtomicOp::bit_or: return group.fetch_or_system(word, value);
    case AtomicOp::bit_xor: return group.fetch_xor_system(word, value);
    case AtomicOp::swap: return group.swap_system(word, value);
    case AtomicOp::compare_swap: return group.compare_swap_system(word, expected, value);
  }
  return value;
}

// As above, for a word of 4 or 8 bytes at an address.
template <Group G>
ONSTREAM_BODY std::uint64_t apply(const G& group, AtomicOp op, std::uint64_t address, unsigned width,
                                  std::uint64_t value, std::uint64_t expected) {
  if (width == 8) return apply(group, op, reinterpret_cast<std::uint64_t*>(address), value, expected);
  return apply(group, op, reinterpret_cast<std::uint32_t*>(address), static_cast<std::uint32_t>(value),
               static_cast<std::uint32_t>(expected));
}

// Stores the old value of an atomic where its caller wants it: a word of the same width, or nowhere if that is 0.
template <Group G>
ONSTREAM_BODY void keep_old(const G& group, std::uint64_t address, unsigned width, std::uint64_t old) {
  if (address == 0) return;
  if (width == 8) {
    group.store_relaxed(reinterpret_cast<std::uint64_t*>(address), old);
  } else {
    group.store_relaxed(reinterpret_cast<std::uint32_t*>(address), static_cast<std::uint32_t>(old));
  }
}

}  // namespace onstream
