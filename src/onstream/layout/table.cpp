#include "onstream/layout/table.hpp"

#include <algorithm>
#include <span>

#include "onstream/base/error.hpp"
#include "onstream/layout/cursor.hpp"
#include "onstream/layout/runs.hpp"

namespace onstream {

namespace {

// More than any memory has; sums of what the dimensions of a layout, and its offsets, reach do not overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 56;

bool is_within(std::int64_t bytes) { return -kLargest <= bytes && bytes <= kLargest; }

LayoutView view_of(std::uint64_t run_bytes, std::span<const LayoutMaker::Dimension> dims) {
  LayoutView view;
  view.run_bytes = run_bytes;
  view.dims = static_cast<std::int32_t>(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    view.counts[d] = dims[d].count;
    view.strides[d] = dims[d].stride;
  }
  return view;
}

// Puts a dimension around those that there are, innermost first, or makes the outermost longer.
void put_around(std::vector<LayoutMaker::Dimension>& dims, const LayoutMaker::Dimension& next) {
  if (next.count == 1) return;
  (void)layout_product(next.stride, next.count);
  if (!dims.empty() && next.stride == layout_product(dims.back().stride, dims.back().count)) {
    dims.back().count = layout_product(dims.back().count, next.count);
  } else {
    dims.push_back(next);
  }
}

std::vector<LayoutMaker::Dimension> dims_of(const LayoutView& view) {
  std::vector<LayoutMaker::Dimension> dims;
  for (int d = 0; d < view.dims; ++d) dims.push_back({view.counts[d], view.strides[d]});
  return dims;
}

}  // namespace

std::int64_t layout_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  const bool fits = !__builtin_mul_overflow(a, b, &product) && is_within(product);
  require(fits, "a layout of ", a, " x ", b, " bytes is larger than memory");
  return product;
}

std::int64_t layout_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  const bool fits = !__builtin_add_overflow(a, b, &sum) && is_within(sum);
  require(fits, "a layout reaches ", a, " + ", b, " bytes far, beyond all memory");
  return sum;
}

void LayoutMaker::move(Layout& layout, std::int64_t bytes) { layout.offset_ = layout_sum(layout.offset_, bytes); }

void LayoutMaker::add_block(const Block& block) {
  require(blocks_.size() < Layout::kMostParts, "a layout has more than ", Layout::kMostParts,
          " parts; make it of larger blocks, or send it in pieces");
  (void)layout_sum(block.offset, 0);
  blocks_.push_back(block);
}

void LayoutMaker::add_run(std::int64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (!blocks_.empty()) {
    Block& last = blocks_.back();
    if (last.nest == LayoutTable::kRun && last.offset + static_cast<std::int64_t>(last.bytes) == offset) {
      last.bytes += bytes;
      return;
    }
  }
  add_block({offset, bytes, LayoutTable::kRun});
}

void LayoutMaker::add_nest(std::int64_t offset, const LayoutView& view) {
  if (view.dims == 0) return add_run(offset, view.run_bytes);
  add_block({offset, view.run_bytes * run_count(view), static_cast<std::int32_t>(nests_.size())});
  nests_.push_back(view);
}

void LayoutMaker::add(std::int64_t offset, const Layout& layout) {
  if (layout.bytes() == 0) return;
  require(layout.bytes() <= static_cast<std::uint64_t>(kLargest), "a layout of ", layout.bytes(),
          " B is larger than memory");
  const std::int64_t base = layout_sum(offset, layout.origin());
  if (layout.is_nest()) return add_nest(base, layout.nest());
  const LayoutTable& table = *layout.table();
  Cursor outer(layout.nest(), 0);
  for (std::uint64_t left = run_count(layout.nest()); left > 0; --left) {
    for (std::size_t i = 0; i < table.count(); ++i) {
      add_nest(base + outer.offset() + table.parts[i].offset, table.nest_of(i));
    }
    outer.advance(layout.nest().run_bytes);
  }
}

// The longest nest that begins with this run, in runs.
std::size_t LayoutMaker::nest_at(std::size_t first, LayoutView& found) const {
  std::vector<Dimension> dims;  // innermost first
  std::size_t length = 1;
  while (dims.size() < LayoutView::kMaxDims && first + 2 * length <= blocks_.size()) {
    const std::int64_t stride = blocks_[first + length].offset - blocks_[first].offset;
    const auto is_like_before = [&](std::size_t i) {
      return blocks_[i].bytes == blocks_[i - length].bytes && blocks_[i].offset - blocks_[i - length].offset == stride;
    };
    std::size_t end = first + length;
    while (end < blocks_.size() && is_like_before(end)) ++end;
    const std::size_t count = (end - first) / length;
    if (count < 2) break;
    dims.push_back({static_cast<std::int64_t>(count), stride});
    length *= count;
  }
  std::reverse(dims.begin(), dims.end());
  found = view_of(blocks_[first].bytes, dims);
  return length;
}

// Runs that are a nest, as one. Fewer than four stay runs, unless there are no others: most lists of scattered blocks
// have two or three in a row by chance.
LayoutMaker LayoutMaker::with_nests() const {
  constexpr std::size_t kLeast = 4;
  LayoutMaker made;
  for (std::size_t i = 0; i < blocks_.size();) {
    LayoutView view;
    const std::size_t length = nest_at(i, view);
    if (length >= kLeast || length == blocks_.size()) {
      made.add_nest(blocks_[i].offset, view);
      i += length;
    } else {
      made.add_block(blocks_[i++]);
    }
  }
  return made;
}

Layout LayoutMaker::finish(Find find) const {
  const auto is_run = [](const Block& block) { return block.nest == LayoutTable::kRun; };
  if (find == Find::nests && std::ranges::all_of(blocks_, is_run)) return with_nests().finish(Find::none);
  Layout layout;
  if (blocks_.empty()) return layout;
  if (blocks_.size() == 1) {
    const Block& only = blocks_.front();
    layout.offset_ = only.offset;
    layout.view_ = is_run(only) ? view_of(only.bytes, {}) : nests_[static_cast<std::size_t>(only.nest)];
  } else {
    auto table = std::make_shared<LayoutTable>();
    layout.offset_ = blocks_.front().offset;
    table->nests = nests_;
    table->parts.reserve(blocks_.size() + 1);
    std::uint64_t position = 0;
    for (const Block& block : blocks_) {
      table->parts.push_back({block.offset - layout.offset_, position, block.nest});
      position += block.bytes;
      require(position <= static_cast<std::uint64_t>(kLargest), "a layout of ", position, " B is larger than memory");
    }
    table->parts.push_back({0, position, LayoutTable::kRun});
    table->lowest = kLargest;
    table->highest = -kLargest;
    for (std::size_t i = 0; i < table->count(); ++i) {
      const Extent extent = extent_of(table->nest_of(i));
      table->lowest = std::min(table->lowest, table->parts[i].offset + extent.begin);
      table->highest = std::max(table->highest, table->parts[i].offset + extent.end);
    }
    layout.view_.run_bytes = position;
    layout.table_ = std::move(table);
  }
  set_bounds(layout, layout.lowest(), layout.highest());
  return layout;
}

Layout LayoutMaker::nest(std::int64_t offset, std::uint64_t run_bytes, const std::vector<Dimension>& dims) {
  auto run = static_cast<std::int64_t>(run_bytes);
  std::vector<Dimension> kept;  // innermost first
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (kept.empty() && dims[i].stride == run && dims[i].count > 1) {
      run = layout_product(run, dims[i].count);
    } else {
      put_around(kept, dims[i]);
    }
  }
  std::int64_t total = run;
  for (const Dimension& dimension : kept) total = layout_product(total, dimension.count);
  std::reverse(kept.begin(), kept.end());
  const std::span<const Dimension> all(kept);
  constexpr std::size_t kMost = LayoutView::kMaxDims;
  if (all.size() <= kMost) {
    LayoutMaker maker;
    maker.add_nest(offset, view_of(static_cast<std::uint64_t>(run), all));
    return maker.finish(Find::none);
  }
  // The innermost dimensions are a part, those around them repeat it.
  LayoutMaker maker;
  maker.add_nest(offset, view_of(static_cast<std::uint64_t>(run), all.last(kMost)));
  Layout layout = maker.finish(Find::none);
  for (std::size_t d = all.size() - kMost; d-- > 0;) layout = repeated(all[d].count, all[d].stride, layout);
  return layout;
}

// Of at least one byte, and at least once. Bounds are the caller's.
Layout LayoutMaker::repeated(std::int64_t count, std::int64_t stride, const Layout& of) {
  (void)layout_product(count, static_cast<std::int64_t>(of.bytes()));
  (void)layout_product(count, stride);
  std::vector<Dimension> dims = dims_of(of.view_);
  std::reverse(dims.begin(), dims.end());
  if (of.is_nest()) {
    auto run = static_cast<std::int64_t>(of.view_.run_bytes);
    if (dims.empty() && stride == run) {
      run = layout_product(run, count);
    } else {
      put_around(dims, {count, stride});
    }
    std::reverse(dims.begin(), dims.end());
    if (dims.size() <= LayoutView::kMaxDims) {
      Layout layout;
      layout.offset_ = of.offset_;
      layout.view_ = view_of(static_cast<std::uint64_t>(run), dims);
      return layout;
    }
    // A table of one part, which repeats.
    auto table = std::make_shared<LayoutTable>();
    table->parts = {{0, 0, 0}, {0, of.bytes(), LayoutTable::kRun}};
    table->nests = {of.view_};
    table->lowest = of.lowest() - of.offset_;
    table->highest = of.highest() - of.offset_;
    Layout layout;
    layout.offset_ = of.offset_;
    layout.view_ = view_of(of.bytes(), std::vector<Dimension>{{count, stride}});
    layout.table_ = std::move(table);
    return layout;
  }
  put_around(dims, {count, stride});
  if (dims.size() <= LayoutView::kMaxDims) {
    std::reverse(dims.begin(), dims.end());
    Layout layout;
    layout.offset_ = of.offset_;
    layout.view_ = view_of(of.view_.run_bytes, dims);
    layout.table_ = std::make_shared<LayoutTable>(*of.table_);  // whether blocks meet depends on how they repeat
    return layout;
  }
  LayoutMaker maker;  // written out
  for (std::int64_t i = 0; i < count; ++i) maker.add(i * stride, of);
  return maker.finish(Find::none);
}

}  // namespace onstream
