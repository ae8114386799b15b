// Cursor: a position in a layout that moves forward in the order of the data, without divisions. For one thread; the
// threads of a GPU find their positions by walk.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "onstream/layout.hpp"

namespace onstream {

class Cursor {
 public:
  // At data byte `position`.
  Cursor(const LayoutView& view, std::uint64_t position) : view_(&view) {
    if (view.dims == 0 || view.run_bytes == 0) {
      within_ = position;
      return;
    }
    within_ = position % view.run_bytes;
    std::uint64_t run = position / view.run_bytes;
    for (int d = view.dims - 1; d >= 0; --d) {
      const std::uint64_t count = static_cast<std::uint64_t>(view.counts[d]);
      digits_[d] = static_cast<std::int64_t>(run % count);
      run /= count;
      start_ += digits_[d] * view.strides[d];
    }
  }

  // Byte offset of the position from the buffer's address.
  std::int64_t offset() const { return start_ + static_cast<std::int64_t>(within_); }
  // Bytes that follow the position without a gap.
  std::uint64_t run_left() const { return view_->run_bytes - within_; }

  // Runs from here to the end of the innermost dimension, each `run_step()` bytes behind the one before it; 0 within a
  // run, and where there is no dimension.
  std::uint64_t runs_left() const {
    if (within_ != 0 || view_->dims == 0) return 0;
    const int innermost = view_->dims - 1;
    return static_cast<std::uint64_t>(view_->counts[innermost] - digits_[innermost]);
  }
  std::int64_t run_step() const { return view_->strides[view_->dims - 1]; }
  // Moves on by `runs` whole runs, at most runs_left() and at least one.
  void advance_runs(std::uint64_t runs) {
    const int innermost = view_->dims - 1;
    digits_[innermost] += static_cast<std::int64_t>(runs) - 1;
    start_ += view_->strides[innermost] * (static_cast<std::int64_t>(runs) - 1);
    advance(view_->run_bytes);
  }

  // Moves on by at most run_left().
  void advance(std::uint64_t bytes) {
    within_ += bytes;
    if (within_ < view_->run_bytes || view_->dims == 0) return;
    within_ = 0;
    for (int d = view_->dims - 1; d >= 0; --d) {
      if (++digits_[d] < view_->counts[d]) {
        start_ += view_->strides[d];
        return;
      }
      start_ -=
          view_->strides[d] * (view_->counts[d] - 1);  // never past the last run, which may end where addresses do
      digits_[d] = 0;
    }
  }

  // Copies the next `bytes` of data out of, or into, the buffer at `base`.
  void read(void* out, const std::byte* base, std::uint64_t bytes) {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
      const std::uint64_t now = std::min(bytes, run_left());
      std::memcpy(to, base + offset(), now);
      to += now;
      bytes -= now;
      advance(now);
    }
  }
  void write(const void* data, std::byte* base, std::uint64_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      const std::uint64_t now = std::min(bytes, run_left());
      std::memcpy(base + offset(), from, now);
      from += now;
      bytes -= now;
      advance(now);
    }
  }

 private:
  const LayoutView* view_;
  std::uint64_t within_ = 0;  // in the run
  std::int64_t start_ = 0;    // of the run
  std::array<std::int64_t, LayoutView::kMaxDims> digits_{};
};

}  // namespace onstream
