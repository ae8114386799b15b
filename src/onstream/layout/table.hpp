// LayoutTable: the parts of a layout that no single nest describes, in the order of the data. Written once, when the
// layout is made; read by the walks of move.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "onstream/layout.hpp"

namespace onstream {

struct LayoutPart {
  std::int64_t offset;     // from the table's origin, of its first byte
  std::uint64_t position;  // of that byte in the data of the table
  std::int32_t nest;       // its number in the table; kRun: one run, up to the next part's position
};

struct LayoutTable {
  static constexpr std::int32_t kRun = -1;

  std::vector<LayoutPart> parts;  // and one behind the last, which has the position of the end
  std::vector<LayoutView> nests;
  std::int64_t lowest = 0;  // of the parts, as Layout's
  std::int64_t highest = 0;
  // Found out once: no two blocks of the layout share a byte. Layouts of one table repeat it alike.
  mutable std::atomic<bool> is_disjoint = false;

  LayoutTable() = default;
  LayoutTable(const LayoutTable& other)
      : parts(other.parts), nests(other.nests), lowest(other.lowest), highest(other.highest) {}

  std::uint64_t bytes() const { return parts.back().position; }
  std::size_t count() const { return parts.size() - 1; }
  // Of part `i`: its nest, also of a run.
  LayoutView nest_of(std::size_t i) const {
    const LayoutPart& part = parts[i];
    if (part.nest != kRun) return nests[static_cast<std::size_t>(part.nest)];
    LayoutView run;
    run.run_bytes = parts[i + 1].position - part.position;
    return run;
  }
};

// Collects blocks in the order of the data, and makes the layout of them: a nest if they are one.
class LayoutMaker {
 public:
  // One run. It joins the run before it where that ends.
  void add_run(std::int64_t offset, std::uint64_t bytes);
  void add_nest(std::int64_t offset, const LayoutView& view);
  // All of a layout. A table that repeats is written out.
  void add(std::int64_t offset, const Layout& layout);

  enum class Find { none, nests };  // whether runs that are a nest become one
  Layout finish(Find find) const;

  // A nest of dimensions without bound, outermost first.
  struct Dimension {
    std::int64_t count;
    std::int64_t stride;
  };
  static Layout nest(std::int64_t offset, std::uint64_t run_bytes, const std::vector<Dimension>& dims);
  static Layout repeated(std::int64_t count, std::int64_t stride, const Layout& of);
  static void set_bounds(Layout& layout, std::int64_t lower, std::int64_t upper) {
    layout.lower_ = lower;
    layout.upper_ = upper;
  }
  static void move(Layout& layout, std::int64_t bytes);

 private:
  struct Block {
    std::int64_t offset;
    std::uint64_t bytes;  // of a run
    std::int32_t nest;
  };
  void add_block(const Block& block);
  LayoutMaker with_nests() const;
  std::size_t nest_at(std::size_t first, LayoutView& found) const;

  std::vector<Block> blocks_;
  std::vector<LayoutView> nests_;
};

// A product, and a sum, that stay within what a buffer can have; they throw invalid_argument.
std::int64_t layout_product(std::int64_t a, std::int64_t b);
std::int64_t layout_sum(std::int64_t a, std::int64_t b);

}  // namespace onstream
