// FirstFit: hands out pieces of a range of bytes, by offset; it touches no memory.
//
// First fit with coalescing: the lowest free piece that is large enough, and pieces that are free side by side are one.
// The same calls give the same offsets on every rank, so a symmetric heap needs no communication. Sizes are rounded up
// to kGrain. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace onstream {

class FirstFit {
 public:
  static constexpr std::size_t kGrain = 16;

  explicit FirstFit(std::size_t bytes);

  // Offset of a piece whose offset is a multiple of `alignment` (a power of two); nothing if none is large enough.
  // Pieces of 0 B get one access_width: every piece has an offset of its own.
  std::optional<std::size_t> allocate(std::size_t bytes, std::size_t alignment = kGrain);
  // False if no piece begins there.
  bool free(std::size_t offset);
  // Makes the piece at `offset` larger or smaller where it is. False, and nothing changes, if that cannot be.
  bool resize(std::size_t offset, std::size_t bytes);

  // Of the piece that begins there: as asked for.
  std::optional<std::size_t> bytes_at(std::size_t offset) const;

  std::size_t bytes() const { return bytes_; }
  std::size_t used() const { return used_; }  // grains and all
  std::size_t pieces() const { return pieces_.size(); }
  std::size_t largest_free() const;

 private:
  struct AllocatedRange {
    std::size_t asked;
    std::size_t taken;
  };
  void give(std::size_t offset, std::size_t bytes);
  void take(std::map<std::size_t, std::size_t>::iterator free, std::size_t offset, std::size_t bytes);

  std::size_t bytes_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_;       // offset to bytes; never two side by side
  std::map<std::size_t, AllocatedRange> pieces_;  // by offset
};

}  // namespace onstream
