#include "onstream/layout/move.hpp"

#include <algorithm>
#include <cstring>

namespace onstream {

namespace {

// Out of a layout, or into it: `flat` is memory without gaps, and moves on; `base` is the layout's buffer.
struct Reader {
  std::byte* flat;
  const std::byte* base;

  static void one(std::byte* flat, const std::byte* place, std::size_t bytes) { std::memcpy(flat, place, bytes); }
};
struct Writer {
  const std::byte* flat;
  std::byte* base;

  static void one(const std::byte* flat, std::byte* place, std::size_t bytes) { std::memcpy(place, flat, bytes); }
};

template <class Side>
void move_run_of(Side& side, std::int64_t offset, std::size_t bytes) {
  Side::one(side.flat, side.base + offset, bytes);
  side.flat += bytes;
}

// In local variables: a byte that is stored might be the side's own, for all that a compiler knows.
template <std::size_t kBytes, class Side>
void move_runs_of(Side& side, std::int64_t offset, std::int64_t step, std::uint64_t count) {
  auto* flat = side.flat;
  auto* place = side.base + offset;
  for (std::uint64_t i = 1; i < count; ++i, flat += kBytes, place += step) Side::one(flat, place, kBytes);
  Side::one(flat, place, kBytes);  // no address is computed beyond the last
  side.flat = flat + kBytes;
}

// Runs of one size, `step` apart: those of the usual elements without a call for each.
template <class Side>
void move_runs(Side& side, std::int64_t offset, std::int64_t step, std::uint64_t count, std::uint64_t bytes) {
  switch (bytes) {
    case 1: return move_runs_of<1>(side, offset, step, count);
    case 2: return move_runs_of<2>(side, offset, step, count);
    case 4: return move_runs_of<4>(side, offset, step, count);
    case 8: return move_runs_of<8>(side, offset, step, count);
    case 12: return move_runs_of<12>(side, offset, step, count);
    case 16: return move_runs_of<16>(side, offset, step, count);
    case 24: return move_runs_of<24>(side, offset, step, count);
    case 32: return move_runs_of<32>(side, offset, step, count);
    default:
      for (std::uint64_t i = 0; i < count; ++i, offset += step) move_run_of(side, offset, bytes);
  }
}

// One run of a table.
template <class Side>
void move_run(Side& side, std::int64_t offset, std::uint64_t bytes) {
  switch (bytes) {
    case 4: return move_run_of(side, offset, 4);
    case 8: return move_run_of(side, offset, 8);
    case 16: return move_run_of(side, offset, 16);
    default: return move_run_of(side, offset, bytes);
  }
}

template <class Side>
void move_nest(Side& side, std::int64_t base, Cursor& cursor, const LayoutView& view, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t runs = cursor.runs_left();
    if (runs > 0 && bytes >= view.run_bytes) {
      const std::uint64_t now = std::min(runs, bytes / view.run_bytes);
      move_runs(side, base + cursor.offset(), cursor.run_step(), now, view.run_bytes);
      cursor.advance_runs(now);
      bytes -= now * view.run_bytes;
    } else {
      const std::uint64_t now = std::min(bytes, cursor.run_left());
      move_run_of(side, base + cursor.offset(), now);
      cursor.advance(now);
      bytes -= now;
    }
  }
}

}  // namespace

void LayoutWalker::seek(std::uint64_t position) {
  position_ = position;
  if (layout_.is_nest()) {
    base_ = layout_.origin();
    part_left_ = layout_.bytes() - position;
    inner_ = Cursor(layout_.nest(), position);
    return;
  }
  const LayoutTable& table = *layout_.table();
  const std::uint64_t within = position % table.bytes();
  outer_ = Cursor(layout_.nest(), position - within);
  const auto behind = std::ranges::upper_bound(table.parts.begin(), table.parts.end() - 1, within, std::less<>(),
                                               &LayoutPart::position);
  part_ = static_cast<std::size_t>(behind - table.parts.begin()) - 1;
  enter_part();
  const std::uint64_t passed = within - table.parts[part_].position;
  part_left_ -= passed;
  inner_ = Cursor(nest_, passed);
}

void LayoutWalker::go_to_next_part() {
  if (next_part() == 0) outer_.advance(layout_.table()->bytes());
  part_ = next_part();
  enter_part();
}

void LayoutWalker::enter_part() {
  const LayoutTable& table = *layout_.table();
  const LayoutPart& part = table.parts[part_];
  base_ = layout_.origin() + outer_.offset() + part.offset;
  part_left_ = table.parts[part_ + 1].position - part.position;
  nest_ = table.nest_of(part_);
  inner_ = Cursor(nest_, 0);
}

// The runs behind this part that are whole, without the state of a part. Returns their bytes.
template <class Side>
std::uint64_t LayoutWalker::pass_runs(std::uint64_t bytes, Side& side) {
  const LayoutTable& table = *layout_.table();
  Side mine = side;  // see move_runs_of()
  std::uint64_t moved = 0;
  for (;;) {
    const std::size_t next = next_part();
    const LayoutPart& part = table.parts[next];
    const std::uint64_t size = table.parts[next + 1].position - part.position;
    if (part.nest != LayoutTable::kRun || moved + size > bytes) break;
    if (next == 0) outer_.advance(table.bytes());
    move_run(mine, layout_.origin() + outer_.offset() + part.offset, size);
    part_ = next;
    moved += size;
  }
  side = mine;
  return moved;
}

template <class Side>
void LayoutWalker::walk(std::uint64_t bytes, Side side) {
  position_ += bytes;
  if (layout_.is_nest()) {
    part_left_ -= bytes;
    return move_nest(side, base_, inner_, layout_.nest(), bytes);
  }
  while (bytes > 0) {
    if (part_left_ == 0) {
      bytes -= pass_runs(bytes, side);
      if (bytes == 0) return;
      go_to_next_part();
    }
    const std::uint64_t now = std::min(bytes, part_left_);
    move_nest(side, base_, inner_, nest_, now);
    part_left_ -= now;
    bytes -= now;
  }
}

void LayoutWalker::read(void* out, const std::byte* base, std::uint64_t bytes) {
  walk(bytes, Reader{static_cast<std::byte*>(out), base});
}

void LayoutWalker::write(const void* data, std::byte* base, std::uint64_t bytes) {
  walk(bytes, Writer{static_cast<const std::byte*>(data), base});
}

LayoutWalker::Stretch LayoutWalker::pass(std::uint64_t most) {
  if (part_left_ == 0) go_to_next_part();
  const std::uint64_t now = std::min({most, inner_.run_left(), part_left_});
  const Stretch stretch{base_ + inner_.offset(), now};
  inner_.advance(now);
  part_left_ -= now;
  position_ += now;
  return stretch;
}

std::uint64_t usual_run(const Layout& layout) {
  if (layout.is_nest()) return layout.nest().run_bytes;
  return layout.table()->nests.empty() ? layout.table()->bytes() / layout.table()->count() : 0;
}

}  // namespace onstream
