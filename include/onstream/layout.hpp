// Layout: how the elements of a message lie in a buffer.
//
// Every layout of this library is a nest of regular strides over one contiguous run. A Layout is kept in canonical
// form: runs as long as possible, no dimension of extent one, outermost first. Two layouts of equal bytes() may be
// matched, of any shapes: data flows in the order of the nest, innermost fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onstream {

// The kernel's view: plain data. Byte offset of run k: the mixed-radix digits of k over counts, times strides.
struct LayoutView {
  static constexpr int kMaxDims = 5;
  std::uint64_t run_bytes = 0;
  std::int32_t dims = 0;                         // strided dimensions around the run
  std::array<std::int64_t, kMaxDims> counts{};   // outermost first
  std::array<std::int64_t, kMaxDims> strides{};  // bytes
};

class Layout {
 public:
  // One run of bytes.
  static Layout contiguous(std::size_t bytes);
  // An N-dimensional box of elements: shape and byte strides per dimension, outermost first. Any strides, also negative
  // or zero for sources. Throws invalid_argument for more dimensions than LayoutView::kMaxDims + 1 after merging.
  static Layout strided(std::size_t element_bytes, const std::vector<std::int64_t>& shape,
                        const std::vector<std::int64_t>& strides_bytes);

  std::size_t bytes() const;  // data, without gaps
  bool is_contiguous() const;
  std::int64_t lowest() const;   // byte offsets, relative to the buffer's address, of the first byte touched
  std::int64_t highest() const;  // and of one past the last
  bool overlaps_itself() const;  // two elements share a byte: no destination may
  const LayoutView& view() const { return view_; }
  std::string describe() const;  // "64 x 8 B, stride 512 B"

 private:
  LayoutView view_;
};

}  // namespace onstream
