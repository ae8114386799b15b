// How many thread blocks the work of one kernel is worth.
#pragma once

#include <algorithm>
#include <cstdint>

namespace onstream {

// One for each `block_bytes` of `bytes`, at least 1, at most `most`. Measured on H200: 8 blocks of 512 threads already
// reach 351 of 369 GB/s, but below a few MiB what counts is to have every byte in flight at once, which 16 KiB a block
// do: 512 threads x 16 B x 2.
inline int blocks_for(std::uint64_t bytes, std::uint64_t block_bytes, std::int64_t most) {
  const auto wanted = static_cast<std::int64_t>((bytes + block_bytes - 1) / block_bytes);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

}  // namespace onstream
