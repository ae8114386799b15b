// Layout: how the elements of a message lie in a buffer, and the algebra that makes layouts of layouts.
//
// Most layouts are a nest: regular strides over one contiguous run, which kernels take as plain data (LayoutView). A
// layout that no nest describes, such as a list of scattered blocks, has a table of parts, each a run or a nest at an
// offset, and may repeat it by strides of its own. Two layouts of equal bytes() may be matched, of any shapes: data
// flows in the order of the layout, innermost fastest. Layouts are values; copies share the table. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// How an array of several dimensions lies in memory: c has its last index fastest, fortran its first.
enum class ArrayOrder { c, fortran };

struct LayoutField;
struct LayoutTable;

// Two blocks of one layout that share a byte: their numbers in the order of the data, and their byte offsets.
struct LayoutOverlap {
  std::uint64_t blocks[2];
  std::int64_t begins[2];
  std::int64_t ends[2];
};

class Layout {
 public:
  Layout() = default;  // of no bytes

  // One run of bytes.
  static Layout contiguous(std::size_t bytes);
  // An N-dimensional box of elements: shape and byte strides per dimension, outermost first. Any strides, also negative
  // or zero for sources. Throws invalid_argument for more dimensions than LayoutView::kMaxDims + 1 after merging.
  static Layout strided(std::size_t element_bytes, const std::vector<std::int64_t>& shape,
                        const std::vector<std::int64_t>& strides_bytes);

  // The constructors of MPI's datatypes, over elements of any layout. Elements that follow each other are an extent
  // apart, and offsets and strides count extents where no unit is named. Each throws invalid_argument for a negative
  // count, for sizes beyond 2^62 bytes, and for a table of more than kMostParts parts.
  static Layout contiguous(std::int64_t count, const Layout& of);
  static Layout vector(std::int64_t count, std::int64_t blocklength, std::int64_t stride, const Layout& of);
  static Layout hvector(std::int64_t count, std::int64_t blocklength, std::int64_t stride_bytes, const Layout& of);
  // The box of `subshape` that begins at index `start` of an array of `shape`; its extent is the whole array.
  static Layout subarray(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& subshape,
                         const std::vector<std::int64_t>& start, ArrayOrder order, const Layout& of);
  static Layout indexed(const std::vector<std::int64_t>& blocklengths, const std::vector<std::int64_t>& offsets,
                        const Layout& of);
  static Layout indexed_block(std::int64_t blocklength, const std::vector<std::int64_t>& offsets, const Layout& of);
  static Layout structured(const std::vector<LayoutField>& fields);
  // `of` so many times, the first where it is and each of the others by `stride_bytes` further.
  static Layout repeated(std::int64_t count, std::int64_t stride_bytes, const Layout& of);
  // The same data with other bounds, so that the next element begins elsewhere.
  Layout resized(std::int64_t lower_bound, std::int64_t extent) const;
  // The same data and bounds, so many bytes further.
  Layout moved(std::int64_t bytes) const;

  static constexpr std::uint64_t kMostParts = 1 << 24;

  std::size_t bytes() const;  // data, without gaps
  bool is_contiguous() const { return view_.dims == 0 && table_ == nullptr; }
  std::int64_t lower_bound() const { return lower_; }
  std::int64_t extent() const { return upper_ - lower_; }
  std::int64_t lowest() const;   // byte offsets, relative to the buffer's address, of the first byte touched
  std::int64_t highest() const;  // and of one past the last: their difference is MPI's true extent
  bool overlaps_itself() const { return overlap().has_value(); }  // two elements share a byte: no destination may
  // Two blocks that do. Where there are more blocks than can be listed and the strides do not tell that none do, the
  // first two.
  std::optional<LayoutOverlap> overlap() const;

  // Canonical form: runs as long as possible, parts and nests found from the runs alone, no bounds but the data's.
  // Layouts of the same bytes in the same order have equal ones, except that of more than 10^6 blocks, where no nest
  // describes them, the form depends on the way in which it was made.
  Layout canonical() const;
  bool operator==(const Layout& other) const;  // equal canonical forms: bounds do not count

  bool is_nest() const { return table_ == nullptr; }
  std::int64_t origin() const { return offset_; }  // of the nest, or of the table's offsets
  // Of a nest that begins at the buffer's address. Throws unsupported for any other layout.
  const LayoutView& view() const;
  // Of a nest; of a table, how it repeats, a run being one time through its parts.
  const LayoutView& nest() const { return view_; }
  const LayoutTable* table() const { return table_.get(); }
  std::string describe() const;  // "64 x 8 B, stride 512 B"

 private:
  friend class LayoutMaker;
  std::int64_t offset_ = 0;
  LayoutView view_;
  std::shared_ptr<const LayoutTable> table_;
  std::int64_t lower_ = 0;
  std::int64_t upper_ = 0;
};

// One field of a struct.
struct LayoutField {
  std::int64_t offset = 0;  // bytes
  Layout layout;
};

}  // namespace onstream
