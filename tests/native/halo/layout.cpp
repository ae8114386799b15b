// Layouts: canonical form, the order of the data, runs and pieces, against a plain enumeration of every byte.
#include "onstream/layout.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "onstream/layout/cursor.hpp"
#include "onstream/layout/move.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/layout/walk.hpp"
#include "support/check.hpp"

using namespace onstream;

namespace {

// The byte offsets of a box in the order of its data, by counting through all indices.
std::vector<std::int64_t> reference(std::size_t element, const std::vector<std::int64_t>& shape,
                                    const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> offsets{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (std::int64_t base : offsets) {
      for (std::int64_t i = 0; i < shape[d]; ++i) longer.push_back(base + i * strides[d]);
    }
    offsets = longer;
  }
  std::vector<std::int64_t> bytes;
  for (std::int64_t base : offsets) {
    for (std::size_t b = 0; b < element; ++b) bytes.push_back(base + static_cast<std::int64_t>(b));
  }
  return bytes;
}

struct Box {
  std::size_t element;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

// Boxes of up to four dimensions: dense, padded, transposed, reversed, with extents of one.
std::vector<Box> boxes() {
  std::vector<Box> all;
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    Box box;
    box.element = std::size_t{1} << random() % 5;
    const std::size_t dims = random() % 5;
    std::int64_t stride = static_cast<std::int64_t>(box.element);
    for (std::size_t d = 0; d < dims; ++d) {
      const std::int64_t extent = static_cast<std::int64_t>(1 + random() % 4);
      const std::int64_t padding = static_cast<std::int64_t>(random() % 2) * static_cast<std::int64_t>(box.element);
      box.shape.insert(box.shape.begin(), extent);
      box.strides.insert(box.strides.begin(), random() % 5 == 0 ? -stride : stride);
      stride = stride * extent + padding;
    }
    if (random() % 3 == 0 && dims > 1) {
      std::swap(box.shape[0], box.shape[dims - 1]);
      std::swap(box.strides[0], box.strides[dims - 1]);
    }
    all.push_back(box);
  }
  return all;
}

}  // namespace

CASE(a_dense_box_is_one_run) {
  const Layout layout = Layout::strided(8, {4, 1, 6}, {48, 999, 8});
  CHECK(layout.is_contiguous());
  CHECK(layout.bytes() == 192);
  CHECK(layout.describe() == "192 B");
}

CASE(a_column_keeps_one_stride) {
  const Layout layout = Layout::strided(8, {64, 1}, {512, 8});
  CHECK(layout.view().dims == 1);
  CHECK(layout.view().run_bytes == 8);
  CHECK(layout.describe() == "64 x 8 B, stride 512 B");
  CHECK(layout.highest() == 63 * 512 + 8);
}

CASE(an_extent_of_zero_is_an_empty_layout) {
  CHECK(Layout::strided(8, {4, 0, 3}, {1, 1, 1}).bytes() == 0);
  CHECK(Layout::strided(0, {4}, {1}).bytes() == 0);
}

CASE(every_byte_of_a_box_is_found_in_order) {
  for (const Box& box : boxes()) {
    const Layout layout = Layout::strided(box.element, box.shape, box.strides);
    const std::vector<std::int64_t> expected = reference(box.element, box.shape, box.strides);
    CHECK(layout.bytes() == expected.size());
    for (std::uint64_t i = 0; i < expected.size(); ++i) {
      CHECK(offset_of(layout.view(), i) == expected[i]);
      CHECK(Cursor(layout.view(), i).offset() == expected[i]);
    }
    CHECK(layout.lowest() == *std::min_element(expected.begin(), expected.end()));
    CHECK(layout.highest() == *std::max_element(expected.begin(), expected.end()) + 1);
    const std::set<std::int64_t> distinct(expected.begin(), expected.end());
    CHECK(layout.overlaps_itself() == (distinct.size() != expected.size()));
  }
}

CASE(interlaced_strides_overlap_only_if_a_byte_is_shared) {
  CHECK(!Layout::strided(1, {2, 2}, {3, 2}).overlaps_itself());
  CHECK(Layout::strided(2, {2, 2}, {3, 2}).overlaps_itself());
  CHECK(Layout::strided(8, {4}, {0}).overlaps_itself());
  CHECK(Layout::strided(8, {4}, {4}).overlaps_itself());
}

CASE(pieces_copy_between_different_shapes) {
  std::vector<std::byte> from(4096);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + 7);
  const std::vector<Box> all = boxes();
  int tried = 0;
  for (const Box& a : all) {
    for (const Box& b : all) {
      const Layout to = Layout::strided(a.element, a.shape, a.strides);
      const Layout source = Layout::strided(b.element, b.shape, b.strides);
      if (to.bytes() != source.bytes() || to.overlaps_itself() || to.bytes() > 2000) continue;
      const auto x = reference(a.element, a.shape, a.strides);
      const auto y = reference(b.element, b.shape, b.strides);
      const auto pieces = pieces_of(to.view(), source.view(), 100'000);
      CHECK(pieces.has_value());
      std::size_t i = 0;
      for (const LayoutPiece& piece : *pieces) {
        for (std::uint64_t k = 0; k < piece.bytes; ++k, ++i) {
          CHECK(piece.to + static_cast<std::int64_t>(k) == x[i]);
          CHECK(piece.from + static_cast<std::int64_t>(k) == y[i]);
        }
      }
      CHECK(i == x.size());
      ++tried;
    }
  }
  CHECK(tried > 500);
}

CASE(too_many_pieces_are_refused) {
  const Layout column = Layout::strided(8, {100}, {64});
  CHECK(!pieces_of(column.view(), Layout::contiguous(800).view(), 99).has_value());
  CHECK(pieces_of(column.view(), Layout::contiguous(800).view(), 100)->size() == 100);
}

CASE(shared_bytes_of_two_owners_are_found) {
  std::vector<Run> runs;
  append_runs(Layout::strided(8, {10}, {64}).view(), 1000, 3, runs);
  append_runs(Layout::strided(8, {10}, {64}).view(), 1008, 5, runs);
  CHECK(!find_overlap(runs).has_value());
  append_runs(Layout::contiguous(1).view(), 1000 + 9 * 64 + 15, 8, runs);
  CHECK((find_overlap(runs) == std::pair<int, int>(5, 8)));
}

CASE(bad_shapes_are_refused_with_their_values) {
  CHECK_THROWS((void)Layout::strided(8, {2, 2}, {8}), "2 dimensions got 1 strides");
  CHECK_THROWS((void)Layout::strided(8, {-2}, {8}), "extent -2");
  CHECK_THROWS((void)Layout::strided(1, {2, 2, 2, 2, 2, 2}, {1000000, 100000, 10000, 1000, 100, 10}), "at most 5");
  CHECK_THROWS((void)Layout::strided(8, {std::int64_t{1} << 40, std::int64_t{1} << 40}, {8, 16}), "larger than memory");
}

CASE(the_grain_divides_address_run_and_strides) {
  const LayoutView column = Layout::strided(8, {4}, {24}).view();
  CHECK(access_width_of(reinterpret_cast<void*>(32), column, 16) == 8);
  CHECK(access_width_of(reinterpret_cast<void*>(36), column, 16) == 4);
  CHECK(access_width_of(reinterpret_cast<void*>(32), Layout::contiguous(64).view(), 16) == 16);
  CHECK(access_width_of(reinterpret_cast<void*>(32), Layout::contiguous(63).view(), 16) == 1);
}

CASE(data_is_read_and_written_from_any_position) {
  const Layout element = Layout::structured({{0, Layout::contiguous(std::size_t{3})},
                                             {8, Layout::vector(3, 1, 2, Layout::contiguous(std::size_t{4}))},
                                             {40, Layout::contiguous(std::size_t{8})}});
  const std::vector<Layout> layouts = {Layout::strided(8, {5, 7, 3}, {700, 64, 16}), Layout::contiguous(9, element),
                                       Layout::hvector(4, 3, 200, element),
                                       Layout::indexed({3, 1, 2}, {9, 0, 4}, element)};
  std::vector<std::byte> memory(8192);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 37 + i / 256);
  std::mt19937 random(11);
  for (const Layout& layout : layouts) {
    std::vector<std::byte> whole(layout.bytes());
    gather(whole.data(), memory.data(), layout);
    LayoutWalker reader(layout);
    LayoutWalker writer(layout);
    std::vector<std::byte> copy(memory.size());
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t position = random() % layout.bytes();
      const std::uint64_t bytes = random() % (layout.bytes() - position) + 1;
      std::vector<std::byte> some(bytes);
      reader.seek(position);
      reader.read(some.data(), memory.data(), bytes);
      CHECK(std::equal(some.begin(), some.end(), whole.begin() + static_cast<std::ptrdiff_t>(position)));
      CHECK(reader.position() == position + bytes);
      writer.seek(position);
      writer.write(some.data(), copy.data(), bytes);
    }
    std::vector<std::byte> back(layout.bytes());
    writer.seek(0);
    writer.write(whole.data(), copy.data(), layout.bytes());
    gather(back.data(), copy.data(), layout);
    CHECK(back == whole);
  }
}

CASE(a_table_is_no_view_and_names_itself) {
  const Layout scattered = Layout::indexed_block(1, {0, 5, 7}, Layout::contiguous(std::size_t{8}));
  CHECK(!scattered.is_nest());
  CHECK_THROWS((void)scattered.view(), "3 parts of together 24 B");
  CHECK_THROWS((void)Layout::contiguous(std::size_t{8}).moved(4).view(), "begins beside its buffer's address");
  CHECK(Layout::indexed_block(1, {0, 5, 10}, Layout::contiguous(std::size_t{8})).view().dims == 1);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
