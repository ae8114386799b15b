#include "onstream/layout.hpp"

#include <algorithm>
#include <cstdlib>

#include "onstream/base/error.hpp"
#include "onstream/layout/cursor.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/layout/table.hpp"

namespace onstream {

namespace {

struct Dimension {
  std::int64_t count;
  std::int64_t stride;
};

// Whether every dimension steps over all that the smaller strides reach, so that no two elements can meet. An element
// reaches over `reach` bytes.
bool is_nested(const LayoutView& view, std::int64_t reach) {
  std::vector<Dimension> by_stride;
  for (int d = 0; d < view.dims; ++d) by_stride.push_back({view.counts[d], std::abs(view.strides[d])});
  std::sort(by_stride.begin(), by_stride.end(), [](Dimension a, Dimension b) { return a.stride < b.stride; });
  for (const Dimension& dimension : by_stride) {
    if (dimension.stride < reach) return false;
    reach += dimension.stride * (dimension.count - 1);
  }
  return true;
}

bool is_nested(const LayoutView& view) { return is_nested(view, static_cast<std::int64_t>(view.run_bytes)); }

// Whether a run ends where the next one in the order of the data begins, across the end of some dimension.
bool has_joints(const LayoutView& view) {
  std::int64_t back = 0;
  for (int d = view.dims - 1; d >= 0; --d) {
    if (view.strides[d] - back == static_cast<std::int64_t>(view.run_bytes)) return true;
    back += view.strides[d] * (view.counts[d] - 1);
  }
  return false;
}

bool same(const LayoutView& a, const LayoutView& b) {
  return a.run_bytes == b.run_bytes && a.dims == b.dims &&
         std::equal(a.counts.begin(), a.counts.begin() + a.dims, b.counts.begin()) &&
         std::equal(a.strides.begin(), a.strides.begin() + a.dims, b.strides.begin());
}

bool same(const LayoutPart& a, const LayoutPart& b) {
  return a.offset == b.offset && a.position == b.position && a.nest == b.nest;
}

bool same(const LayoutTable* a, const LayoutTable* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return std::ranges::equal(a->parts, b->parts, [](const auto& one, const auto& other) { return same(one, other); }) &&
         std::ranges::equal(a->nests, b->nests, [](const auto& one, const auto& other) { return same(one, other); });
}

// Blocks of the data, or one more than the most that are listed.
std::uint64_t blocks_of(const Layout& layout) {
  constexpr std::uint64_t kMore = kMaxListedRuns + 1;
  if (layout.bytes() == 0) return 0;
  if (layout.is_nest()) return std::min(run_count(layout.nest()), kMore);
  const std::uint64_t times = run_count(layout.nest());
  if (times >= kMore) return kMore;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < layout.table()->count() && count < kMore; ++i) {
    count += times * std::min(run_count(layout.table()->nest_of(i)), kMore);
  }
  return std::min(count, kMore);
}

// Their runs, numbered in this order.
void list_nest(const LayoutView& view, std::int64_t base, std::vector<Run>& runs) {
  Cursor cursor(view, 0);
  for (std::uint64_t left = run_count(view); left > 0; --left) {
    const std::int64_t begin = base + cursor.offset();
    runs.push_back({begin, begin + static_cast<std::int64_t>(view.run_bytes), static_cast<int>(runs.size())});
    cursor.advance(view.run_bytes);
  }
}

std::vector<Run> list_blocks(const Layout& layout) {
  std::vector<Run> runs;
  if (layout.is_nest()) {
    list_nest(layout.nest(), layout.origin(), runs);
    return runs;
  }
  Cursor outer(layout.nest(), 0);
  for (std::uint64_t left = run_count(layout.nest()); left > 0; --left) {
    for (std::size_t i = 0; i < layout.table()->count(); ++i) {
      const std::int64_t base = layout.origin() + outer.offset() + layout.table()->parts[i].offset;
      list_nest(layout.table()->nest_of(i), base, runs);
    }
    outer.advance(layout.nest().run_bytes);
  }
  return runs;
}

// Whether the strides and the reach of each part tell that none meets another.
bool are_apart(const Layout& layout) {
  const LayoutTable& table = *layout.table();
  if (!is_nested(layout.nest(), table.highest - table.lowest)) return false;
  std::vector<Run> reaches;
  for (std::size_t i = 0; i < table.count(); ++i) {
    const LayoutView view = table.nest_of(i);
    if (!is_nested(view)) return false;
    const Extent extent = extent_of(view);
    reaches.push_back({table.parts[i].offset + extent.begin, table.parts[i].offset + extent.end, 0});
  }
  return !find_overlap(reaches).has_value();
}

LayoutOverlap overlap_of(const Run& one, const Run& other) {
  const auto& [first, second] = std::minmax(one, other, [](const Run& a, const Run& b) { return a.owner < b.owner; });
  return {{static_cast<std::uint64_t>(first.owner), static_cast<std::uint64_t>(second.owner)},
          {first.begin, second.begin},
          {first.end, second.end}};
}

std::optional<LayoutOverlap> first_overlap(std::vector<Run> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.begin != b.begin ? a.begin < b.begin : a.owner < b.owner; });
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].begin < runs[i - 1].end) return overlap_of(runs[i - 1], runs[i]);
  }
  return std::nullopt;
}

}  // namespace

Layout Layout::contiguous(std::size_t bytes) {
  Layout layout;
  layout.view_.run_bytes = bytes;
  layout.upper_ = static_cast<std::int64_t>(bytes);
  return layout;
}

Layout Layout::strided(std::size_t element_bytes, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides_bytes) {
  require(shape.size() == strides_bytes.size(), "a layout of ", shape.size(), " dimensions got ", strides_bytes.size(),
          " strides; give one stride in bytes for each dimension");
  std::vector<LayoutMaker::Dimension> dims;
  bool is_empty = element_bytes == 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    require(shape[i] >= 0, "extent ", shape[i], " of dimension ", i, " of a layout is negative");
    is_empty = is_empty || shape[i] == 0;
    dims.push_back({shape[i], strides_bytes[i]});
  }
  if (is_empty) return {};
  Layout layout = LayoutMaker::nest(0, element_bytes, dims);
  const int kept = layout.is_nest() ? 0 : layout.view_.dims + layout.table_->nests.front().dims;
  require(kept == 0, "a layout keeps ", kept, " strided dimensions, at most ", LayoutView::kMaxDims,
          " fit; send it in pieces");
  return layout;
}

std::size_t Layout::bytes() const {
  std::uint64_t total = view_.run_bytes;
  for (int d = 0; d < view_.dims; ++d) total *= static_cast<std::uint64_t>(view_.counts[d]);
  return total;
}

std::int64_t Layout::lowest() const {
  return offset_ + extent_of(view_).begin + (table_ == nullptr ? 0 : table_->lowest);
}

std::int64_t Layout::highest() const {
  const Extent extent = extent_of(view_);
  if (table_ == nullptr) return offset_ + extent.end;
  return offset_ + extent.end - static_cast<std::int64_t>(view_.run_bytes) + table_->highest;
}

const LayoutView& Layout::view() const {
  if (table_ == nullptr && offset_ == 0) [[likely]]
    return view_;
  fail(ErrorCode::unsupported, "a layout of ", describe(), table_ != nullptr ? " is no nest of strides" : "",
       table_ != nullptr ? "; messages alone take such a layout"
                         : " begins beside its buffer's address; add its origin");
}

std::optional<LayoutOverlap> Layout::overlap() const {
  if (bytes() == 0) return std::nullopt;
  if (table_ == nullptr && is_nested(view_)) return std::nullopt;
  if (table_ != nullptr && table_->is_disjoint.load(std::memory_order_relaxed)) return std::nullopt;  // orders nothing
  std::optional<LayoutOverlap> found;
  if (table_ == nullptr || !are_apart(*this)) {
    // Interlaced strides may still be disjoint; more runs than can be listed are taken to overlap.
    if (blocks_of(*this) > kMaxListedRuns) return LayoutOverlap{{0, 1}, {lowest(), lowest()}, {highest(), highest()}};
    found = first_overlap(list_blocks(*this));
  }
  if (!found && table_ != nullptr) table_->is_disjoint.store(true, std::memory_order_relaxed);
  return found;
}

Layout Layout::canonical() const {
  Layout plain = *this;
  plain.lower_ = lowest();
  plain.upper_ = highest();
  if (bytes() == 0) return {};
  if (table_ == nullptr && !has_joints(view_)) return plain;
  if (blocks_of(*this) > kMaxListedRuns) return plain;
  LayoutMaker maker;
  for (const Run& run : list_blocks(*this)) maker.add_run(run.begin, static_cast<std::uint64_t>(run.end - run.begin));
  return maker.finish(LayoutMaker::Find::nests);
}

bool Layout::operator==(const Layout& other) const {
  if (bytes() != other.bytes()) return false;
  const Layout mine = canonical();
  const Layout its = other.canonical();
  return mine.offset_ == its.offset_ && same(mine.view_, its.view_) && same(mine.table_.get(), its.table_.get());
}

std::string Layout::describe() const {
  std::string inner = human_bytes(view_.run_bytes);
  if (table_ != nullptr) inner = concat("(", table_->count(), " parts of together ", inner, ")");
  std::string text;
  for (int d = 0; d < view_.dims; ++d) text += concat(view_.counts[d], " x ");
  text += inner;
  if (view_.dims > 0) text += view_.dims == 1 ? ", stride" : ", strides";
  for (int d = 0; d < view_.dims; ++d) text += concat(d == 0 ? " " : ", ", view_.strides[d]);
  if (view_.dims > 0) text += " B";
  return offset_ == 0 ? text : concat(text, ", from byte ", offset_);
}

}  // namespace onstream
