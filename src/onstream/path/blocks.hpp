// How many thread blocks the work of one kernel is worth.
#pragma once

#include <algorithm>
#include <cstdint>

#include "onstream/device.hpp"

namespace onstream {

// One for each `block_bytes` of `bytes`, at least 1, at most `most`. Measured on H200: 8 blocks of 512 threads already
// reach 351 of 369 GB/s, but a transfer below a few MiB needs every byte in flight at once, which 16 KiB a block do:
// 512 threads x 16 B x 2.
inline int blocks_for(std::uint64_t bytes, std::uint64_t block_bytes, std::int64_t most) {
  const auto wanted = static_cast<std::int64_t>((bytes + block_bytes - 1) / block_bytes);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

// The grid of a kernel that only stores to a peer. Up to a few MiB the bytes are under way at once when each block has
// one load and store of 16 bytes a thread in flight, or eight; small blocks then issue fewer instructions before the
// first byte leaves. Beyond that larger blocks keep the link busy.
inline Grid push_grid(std::uint64_t bytes, std::uint64_t block_bytes, std::int64_t most) {
  constexpr int kSmallBlock = 128;
  constexpr std::int64_t kAtLeast = 8;
  constexpr std::uint64_t kShort = std::uint64_t{2} << 20;
  if (bytes > kShort) return {blocks_for(bytes, block_bytes, most), kMaxThreads / 2};
  const int few = blocks_for(bytes, block_bytes / 2, std::min(kAtLeast, most));
  return {std::max(few, blocks_for(bytes, block_bytes, most)), kSmallBlock};
}

}  // namespace onstream
