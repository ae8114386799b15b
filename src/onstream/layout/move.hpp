// LayoutWalker: a position in the data of any layout, which moves bytes between the layout and memory without gaps. On
// the host, for one thread. The walk of a nest, on all devices, is in walk.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/layout/cursor.hpp"
#include "onstream/layout/table.hpp"

namespace onstream {

class LayoutWalker {
 public:
  // At data byte `position`. The layout must outlive the walker.
  explicit LayoutWalker(const Layout& layout, std::uint64_t position = 0) : layout_(layout) { seek(position); }
  LayoutWalker(const LayoutWalker&) = delete;
  LayoutWalker& operator=(const LayoutWalker&) = delete;

  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position);

  // Copies the next `bytes` of data out of, or into, the buffer at `base`. No more than there are left.
  void read(void* out, const std::byte* base, std::uint64_t bytes);
  void write(const void* data, std::byte* base, std::uint64_t bytes);

  // The next bytes that lie together, at most `most`: their offset from the buffer and their number. Moves on by them.
  struct Stretch {
    std::int64_t offset;
    std::uint64_t bytes;
  };
  Stretch pass(std::uint64_t most);

 private:
  template <class Side>
  void walk(std::uint64_t bytes, Side side);
  template <class Side>
  std::uint64_t pass_runs(std::uint64_t bytes, Side& side);
  std::size_t next_part() const { return part_ + 1 == layout_.table()->count() ? 0 : part_ + 1; }
  void go_to_next_part();
  void enter_part();

  const Layout& layout_;
  std::uint64_t position_ = 0;
  Cursor outer_{layout_.nest(), 0};  // where the table's time through it begins
  std::size_t part_ = 0;
  std::int64_t base_ = 0;  // of the part
  std::uint64_t part_left_ = 0;
  LayoutView nest_;  // of the part
  Cursor inner_{nest_, 0};
};

// Bytes of the layout's runs, or 0 where they differ much.
std::uint64_t usual_run(const Layout& layout);

inline void gather(void* out, const void* base, const Layout& layout) {
  LayoutWalker(layout).read(out, static_cast<const std::byte*>(base), layout.bytes());
}
inline void scatter(void* base, const void* data, const Layout& layout) {
  LayoutWalker(layout).write(data, static_cast<std::byte*>(base), layout.bytes());
}

}  // namespace onstream
