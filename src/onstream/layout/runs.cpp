#include "onstream/layout/runs.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/layout/cursor.hpp"

namespace onstream {

namespace {

std::uint64_t bytes_of(const LayoutView& view) { return view.run_bytes * run_count(view); }

}  // namespace

std::uint64_t run_count(const LayoutView& view) {
  std::uint64_t count = 1;
  for (int d = 0; d < view.dims; ++d) count *= static_cast<std::uint64_t>(view.counts[d]);
  return count;
}

Extent extent_of(const LayoutView& view) {
  Extent extent{0, static_cast<std::int64_t>(view.run_bytes)};
  for (int d = 0; d < view.dims; ++d) {
    const std::int64_t reach = view.strides[d] * (view.counts[d] - 1);
    (reach < 0 ? extent.begin : extent.end) += reach;
  }
  return extent;
}

void append_runs(const LayoutView& view, std::int64_t base, int owner, std::vector<Run>& runs) {
  if (view.run_bytes == 0) return;
  const std::uint64_t count = run_count(view);
  runs.reserve(runs.size() + count);
  Cursor cursor(view, 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t begin = base + cursor.offset();
    runs.push_back({begin, begin + static_cast<std::int64_t>(view.run_bytes), owner});
    cursor.advance(view.run_bytes);
  }
}

std::optional<std::pair<int, int>> find_overlap(std::vector<Run>& runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < runs.size(); ++i) {
    // Sorted by begin and disjoint so far, so only the neighbour can reach into this run.
    if (runs[i].begin < runs[i - 1].end) return std::minmax(runs[i - 1].owner, runs[i].owner);
  }
  return std::nullopt;
}

void require_destination(const char* call, const Layout& layout) {
  const auto overlap = layout.overlap();
  if (!overlap) return;
  const auto& [blocks, begins, ends] = *overlap;
  fail(ErrorCode::invalid_argument, call, ": blocks ", blocks[0], " and ", blocks[1], " of the destination (",
       layout.describe(), ") overlap: bytes ", begins[0], " to ", ends[0], " and ", begins[1], " to ", ends[1],
       "; it takes each byte once");
}

std::optional<std::vector<LayoutPiece>> pieces_of(const LayoutView& to, const LayoutView& from, std::uint64_t most) {
  std::vector<LayoutPiece> pieces;
  std::uint64_t left = bytes_of(to);
  Cursor writer(to, 0);
  Cursor reader(from, 0);
  while (left > 0) {
    if (pieces.size() == most) return std::nullopt;
    const std::uint64_t bytes = std::min({left, writer.run_left(), reader.run_left()});
    pieces.push_back({writer.offset(), reader.offset(), bytes});
    writer.advance(bytes);
    reader.advance(bytes);
    left -= bytes;
  }
  return pieces;
}

}  // namespace onstream
