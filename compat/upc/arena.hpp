// Arena: hands out pieces of a range of one thread's part, to any thread alone. It touches no memory of the range.
//
// Its tables lie in memory that every thread loads and stores, under a lock there; so the owner need not take part.
// Blocks, free or live, lie side by side in grains. The tag of a block's first grain says which and how long, that of a
// free block's last grain says how long too; all other tags are 0, so that an address of no piece is known as such.
// Live grains have a byte each, for the check whether a place may be used. A search begins where the last one ended.
// Waits for the lock end at the deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "onstream/world.hpp"

namespace onstream::upc {

struct alignas(64) ArenaHead {
  std::uint64_t holder = 0;  // of the lock: its thread + 1
  std::uint64_t rover = 0;   // a block's first grain
  std::uint64_t used = 0;    // grains
  std::uint64_t pieces = 0;
};

class Arena {
 public:
  // Bytes of the tables for so many grains; they must begin as zeroes.
  static std::size_t table_bytes(std::size_t grains);

  Arena() = default;
  Arena(std::byte* tables, std::size_t grains);

  // By the owner, before anyone else: all is free.
  void clear() const;
  // The first grain of a new piece; nothing where no free block is large enough.
  std::optional<std::size_t> allocate(World& world, int thread, std::size_t grains) const;
  // False if no piece begins there.
  bool free(World& world, int thread, std::size_t first) const;
  // Whether that grain is within a piece. No lock: the holder of a piece knows that it stays.
  bool is_live(std::size_t grain) const;

  std::size_t grains() const { return grains_; }
  std::size_t used() const;
  std::size_t pieces() const;

 private:
  class Lock;
  std::optional<std::size_t> search(std::size_t from, std::size_t to, std::size_t grains) const;
  void take(std::size_t first, std::size_t grains) const;
  void put_free(std::size_t first, std::size_t grains) const;
  void mark(std::size_t first, std::size_t grains, std::uint8_t live) const;

  ArenaHead* head_ = nullptr;
  std::uint32_t* tags_ = nullptr;
  std::uint8_t* live_ = nullptr;
  std::size_t grains_ = 0;
};

}  // namespace onstream::upc
