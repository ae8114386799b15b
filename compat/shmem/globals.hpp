// Globals: the global and static variables of the program as symmetric memory.
//
// The writable pages of the executable, which may lie in several places with anything between, are replaced by second
// views of one segment with the same contents: addresses and values stay, and peers reach the segment. Every rank must
// run the same program, by its build ID or its contents; where that is not so, or where the system refuses, the
// variables stay private, why() says so, and ops on them are refused. Shared libraries' variables stay private. No
// other thread of the program may write them while this is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onstream/world.hpp"

namespace onstream::shmem {

class Globals {
 public:
  // Collective.
  void make(World& world);
  // Collective. The variables keep their values.
  void close(World& world);

  bool holds(const void* address) const { return view_of(address) != nullptr; }
  template <class T>
  T* place(T* address) const {
    const View* const view = view_of(address);
    if (view == nullptr) return address;
    return reinterpret_cast<T*>(base_ + view->offset + (reinterpret_cast<std::uintptr_t>(address) - view->begin));
  }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const std::string& why() const { return why_; }

 private:
  // Pages of the executable, and where they are in this rank's part.
  struct View {
    std::uintptr_t begin;
    std::size_t bytes;
    std::size_t offset;
    int protection;  // as the program's own had it
  };

  const View* view_of(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at - begin_ >= bytes_) return nullptr;
    for (const View& view : views_) {
      if (at - view.begin < view.bytes) return &view;
    }
    return nullptr;
  }
  bool lay_over(const View& view) const;

  std::uintptr_t begin_ = 0;  // of the first view
  std::size_t bytes_ = 0;     // from there to the end of the last one
  std::vector<View> views_;
  std::uintptr_t base_ = 0;  // of this rank's part
  std::shared_ptr<Segment> segment_;
  std::string why_ = "they are not made yet";
};

}  // namespace onstream::shmem
