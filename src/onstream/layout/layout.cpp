#include "onstream/layout.hpp"

#include <algorithm>
#include <cstdlib>

#include "onstream/base/error.hpp"
#include "onstream/layout/runs.hpp"

namespace onstream {

namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 62;

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  require(b == 0 || std::abs(a) <= kLargest / std::abs(b), "a layout of ", a, " x ", b, " bytes is larger than memory");
  return a * b;
}

struct Dimension {
  std::int64_t count;
  std::int64_t stride;
};

// Whether every dimension steps over all that the smaller strides reach, so that no two elements can meet.
bool is_nested(const LayoutView& view) {
  std::vector<Dimension> by_stride;
  for (int d = 0; d < view.dims; ++d) by_stride.push_back({view.counts[d], std::abs(view.strides[d])});
  std::sort(by_stride.begin(), by_stride.end(), [](Dimension a, Dimension b) { return a.stride < b.stride; });
  std::int64_t reach = static_cast<std::int64_t>(view.run_bytes);
  for (const Dimension& dimension : by_stride) {
    if (dimension.stride < reach) return false;
    reach += dimension.stride * (dimension.count - 1);
  }
  return true;
}

}  // namespace

Layout Layout::contiguous(std::size_t bytes) {
  Layout layout;
  layout.view_.run_bytes = bytes;
  return layout;
}

Layout Layout::strided(std::size_t element_bytes, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides_bytes) {
  require(shape.size() == strides_bytes.size(), "a layout of ", shape.size(), " dimensions got ", strides_bytes.size(),
          " strides; give one stride in bytes for each dimension");
  std::int64_t run = static_cast<std::int64_t>(element_bytes);
  std::vector<Dimension> dims;  // innermost first
  for (std::size_t i = shape.size(); i-- > 0;) {
    require(shape[i] >= 0, "extent ", shape[i], " of dimension ", i, " of a layout is negative");
    if (shape[i] == 0) return contiguous(0);
    if (shape[i] == 1) continue;
    const Dimension next{shape[i], strides_bytes[i]};
    if (dims.empty() && next.stride == run) {
      run = checked_product(run, next.count);
    } else if (!dims.empty() && next.stride == checked_product(dims.back().stride, dims.back().count)) {
      dims.back().count = checked_product(dims.back().count, next.count);
    } else {
      dims.push_back(next);
    }
  }
  if (run == 0) return contiguous(0);
  require(dims.size() <= LayoutView::kMaxDims, "a layout keeps ", dims.size(), " strided dimensions, at most ",
          LayoutView::kMaxDims, " fit; send it in pieces");
  Layout layout;
  layout.view_.run_bytes = static_cast<std::uint64_t>(run);
  layout.view_.dims = static_cast<std::int32_t>(dims.size());
  std::int64_t total = run;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Dimension& dimension = dims[dims.size() - 1 - d];
    layout.view_.counts[d] = dimension.count;
    layout.view_.strides[d] = dimension.stride;
    total = checked_product(total, dimension.count);
    checked_product(dimension.stride, dimension.count);
  }
  return layout;
}

std::size_t Layout::bytes() const {
  std::uint64_t total = view_.run_bytes;
  for (int d = 0; d < view_.dims; ++d) total *= static_cast<std::uint64_t>(view_.counts[d]);
  return total;
}

bool Layout::is_contiguous() const { return view_.dims == 0; }

std::int64_t Layout::lowest() const { return extent_of(view_).begin; }

std::int64_t Layout::highest() const { return extent_of(view_).end; }

bool Layout::overlaps_itself() const {
  if (is_nested(view_)) return false;
  // Interlaced strides may still be disjoint; more runs than can be listed are taken to overlap.
  if (run_count(view_) > kMaxListedRuns) return true;
  std::vector<Run> runs;
  append_runs(view_, 0, 0, runs);
  return find_overlap(runs).has_value();
}

std::string Layout::describe() const {
  if (is_contiguous()) return human_bytes(bytes());
  std::string text;
  for (int d = 0; d < view_.dims; ++d) text += concat(view_.counts[d], " x ");
  text += human_bytes(view_.run_bytes);
  text += view_.dims == 1 ? ", stride" : ", strides";
  for (int d = 0; d < view_.dims; ++d) text += concat(d == 0 ? " " : ", ", view_.strides[d]);
  return text + " B";
}

}  // namespace onstream
