// Globals: the global and static variables of the program as symmetric memory.
//
// The writable pages of the executable are replaced by a second view of a segment with the same contents: addresses and
// values stay, and peers reach the segment. Every rank must run the same program, by its build ID or its contents;
// where that is not so, or where the system refuses, the variables stay private, why() says so, and ops on them are
// refused. Shared libraries' variables stay private. No other thread of the program may write them while this is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "onstream/world/world.hpp"

namespace onstream::shmem {

class Globals {
 public:
  // Collective.
  void make(World& world);
  // Collective. The variables keep their values.
  void close(World& world);

  bool holds(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) - begin_ < bytes_; }
  template <class T>
  T* place(T* address) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - begin_;
    return offset < bytes_ ? reinterpret_cast<T*>(base_ + offset) : address;
  }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const std::string& why() const { return why_; }

 private:
  std::uintptr_t begin_ = 0;
  std::size_t bytes_ = 0;
  std::uintptr_t base_ = 0;  // of this rank's part
  std::shared_ptr<Segment> segment_;
  std::string why_ = "they are not made yet";
};

}  // namespace onstream::shmem
