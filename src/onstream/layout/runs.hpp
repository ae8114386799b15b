// Runs: the contiguous pieces of a layout, listed on the host. For checks at build time; nothing here is on a data
// path.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "onstream/layout.hpp"

namespace onstream {

// Exact checks list at most this many runs (32 MiB of them for a moment).
constexpr std::uint64_t kMaxListedRuns = 1'000'000;

struct Run {
  std::int64_t begin;  // bytes; absolute or relative, as the caller likes
  std::int64_t end;    // one past the last
  int owner;           // whose run it is
};

// How a pair of layouts of equal bytes() splits into pieces that are contiguous on both sides.
struct LayoutPiece {
  std::int64_t to;  // byte offsets from the two addresses
  std::int64_t from;
  std::uint64_t bytes;
};

std::uint64_t run_count(const LayoutView& view);

// The byte offsets, relative to the buffer's address, of the first byte touched and of one past the last.
struct Extent {
  std::int64_t begin;
  std::int64_t end;
};
Extent extent_of(const LayoutView& view);

// Appends every run of `view`, moved by `base`.
void append_runs(const LayoutView& view, std::int64_t base, int owner, std::vector<Run>& runs);

// The owners of two runs that share a byte, or nothing. Sorts `runs`.
std::optional<std::pair<int, int>> find_overlap(std::vector<Run>& runs);

// Throws invalid_argument for a destination that overlaps itself: for `call`, with the two blocks.
void require_destination(const char* call, const Layout& layout);

// The pieces, in the order of the data, or nothing when there are more than `most`.
std::optional<std::vector<LayoutPiece>> pieces_of(const LayoutView& to, const LayoutView& from, std::uint64_t most);

}  // namespace onstream
