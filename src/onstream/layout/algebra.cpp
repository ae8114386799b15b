// The constructors that MPI's datatypes have. All come down to two: one layout repeated by a stride, and several at
// offsets.
#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/layout/table.hpp"

namespace onstream {

namespace {

void check_count(const char* what, const char* argument, std::int64_t count) {
  require(count >= 0, "a layout ", what, ": ", argument, " is ", count, ", and cannot be negative");
}

// The bounds of the elements that have been added, as MPI counts them.
struct Bounds {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  bool is_empty = true;

  void add(std::int64_t begin, std::int64_t end) {
    lower = is_empty ? begin : std::min(lower, begin);
    upper = is_empty ? end : std::max(upper, end);
    is_empty = false;
  }
  void add(std::int64_t offset, const Layout& layout) {
    const std::int64_t begin = layout_sum(offset, layout.lower_bound());
    add(begin, layout_sum(begin, layout.extent()));
  }
};

Layout bounded(Layout layout, const Bounds& bounds) {
  LayoutMaker::set_bounds(layout, bounds.lower, bounds.upper);
  return layout;
}

}  // namespace

Layout Layout::repeated(std::int64_t count, std::int64_t stride_bytes, const Layout& of) {
  check_count("repeated", "the count", count);
  if (count == 0 || (of.bytes() == 0 && of.extent() == 0)) return {};
  const std::int64_t reach = layout_product(count - 1, stride_bytes);
  Bounds bounds;
  bounds.add(0, of);
  bounds.add(reach, of);
  if (of.bytes() == 0 || count == 1) return bounded(of, bounds);
  return bounded(LayoutMaker::repeated(count, stride_bytes, of), bounds);
}

Layout Layout::contiguous(std::int64_t count, const Layout& of) {
  check_count("contiguous", "the count", count);
  return repeated(count, of.extent(), of);
}

Layout Layout::hvector(std::int64_t count, std::int64_t blocklength, std::int64_t stride_bytes, const Layout& of) {
  check_count("hvector", "the count", count);
  check_count("hvector", "the block length", blocklength);
  return repeated(count, stride_bytes, contiguous(blocklength, of));
}

Layout Layout::vector(std::int64_t count, std::int64_t blocklength, std::int64_t stride, const Layout& of) {
  check_count("vector", "the count", count);
  check_count("vector", "the block length", blocklength);
  return repeated(count, layout_product(stride, of.extent()), contiguous(blocklength, of));
}

Layout Layout::subarray(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& subshape,
                        const std::vector<std::int64_t>& start, ArrayOrder order, const Layout& of) {
  const std::size_t dims = shape.size();
  require(subshape.size() == dims && start.size() == dims, "a layout subarray of ", dims, " dimensions got ",
          subshape.size(), " extents and ", start.size(), " starts; give one for each dimension");
  std::int64_t stride = of.extent();
  std::int64_t offset = 0;
  Layout layout = of;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::size_t d = order == ArrayOrder::c ? dims - 1 - i : i;
    require(shape[d] >= 0 && subshape[d] >= 0 && start[d] >= 0 && start[d] <= shape[d] - subshape[d],
            "a layout subarray: dimension ", d, " has ", shape[d], " elements, and ", subshape[d], " from ", start[d],
            " on are not among them");
    layout = repeated(subshape[d], stride, layout);
    offset = layout_sum(offset, layout_product(start[d], stride));
    stride = layout_product(stride, shape[d]);
  }
  return layout.moved(offset).resized(of.lower_bound(), stride);
}

Layout Layout::indexed(const std::vector<std::int64_t>& blocklengths, const std::vector<std::int64_t>& offsets,
                       const Layout& of) {
  require(blocklengths.size() == offsets.size(), "a layout indexed got ", blocklengths.size(), " block lengths and ",
          offsets.size(), " offsets; give one of each for each block");
  const bool is_plain = of.is_contiguous() && of.origin() == 0 && of.lower_bound() == 0 &&
                        of.extent() == static_cast<std::int64_t>(of.bytes());
  LayoutMaker maker;
  Bounds bounds;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    check_count("indexed", "a block length", blocklengths[i]);
    if (blocklengths[i] == 0) continue;
    const std::int64_t offset = layout_product(offsets[i], of.extent());
    if (is_plain) {
      const std::int64_t bytes = layout_product(blocklengths[i], of.extent());
      maker.add_run(offset, static_cast<std::uint64_t>(bytes));
      bounds.add(offset, offset + bytes);
    } else {
      const Layout block = contiguous(blocklengths[i], of);
      maker.add(offset, block);
      bounds.add(offset, block);
    }
  }
  return bounded(maker.finish(LayoutMaker::Find::nests), bounds);
}

Layout Layout::indexed_block(std::int64_t blocklength, const std::vector<std::int64_t>& offsets, const Layout& of) {
  return indexed(std::vector<std::int64_t>(offsets.size(), blocklength), offsets, of);
}

Layout Layout::structured(const std::vector<LayoutField>& fields) {
  LayoutMaker maker;
  Bounds bounds;
  for (const LayoutField& field : fields) {
    maker.add(field.offset, field.layout);
    if (field.layout.bytes() > 0 || field.layout.extent() != 0) bounds.add(field.offset, field.layout);
  }
  return bounded(maker.finish(LayoutMaker::Find::nests), bounds);
}

Layout Layout::resized(std::int64_t lower_bound, std::int64_t extent) const {
  Layout layout = *this;
  LayoutMaker::set_bounds(layout, lower_bound, layout_sum(layout_sum(lower_bound, 0), extent));
  return layout;
}

Layout Layout::moved(std::int64_t bytes) const {
  Layout layout = *this;
  if (layout.bytes() > 0) LayoutMaker::move(layout, bytes);
  LayoutMaker::set_bounds(layout, layout_sum(lower_, bytes), layout_sum(upper_, bytes));
  return layout;
}

}  // namespace onstream
