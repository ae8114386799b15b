// Heap: symmetric memory in pieces - malloc, calloc, realloc, aligned and free - on segments.
//
// Every call that says so is collective: all ranks make it with the same values, in the same order, and get the same
// place in every rank's part. Only a check is communicated for that, which names the ranks that differ (parameter
// heap_check; with `off` a wrong program corrupts memory, and a call is local unless the heap grows). With the check
// on, all ranks have the memory when the call returns, and calls that differ change nothing on any rank; with it off a
// barrier is the caller's. Not thread-safe; not to outlive its world.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onstream/one_sided/host/first_fit.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

class OneSided;

struct HeapOptions {
  std::size_t bytes = std::size_t{64} << 20;  // of its first segment
  // A further segment, of this size or that of the piece asked for if it is larger, when no segment has room. 0: never.
  std::size_t grow_bytes = 0;
  MemoryKind kind = MemoryKind::device;
  // How the program gets a larger heap, told when this one is full.
  std::string advice = "give the heap more bytes, or let it grow (grow_bytes)";
};

// Where in a heap an address lies.
struct HeapPlace {
  std::shared_ptr<Segment> segment;
  std::size_t offset = 0;  // in the segment's part of every rank
  std::size_t left = 0;    // bytes from there to the part's end
};

class Heap {
 public:
  static constexpr std::size_t kAlignment = 64;    // of every piece, unless more is asked for
  static constexpr std::size_t kPageBytes = 4096;  // segments have whole ones, and begin at one on every device

  Heap(OneSided& one_sided, const HeapOptions& options);  // collective
  ~Heap();  // lets its segments go; free() them first if peers may use them
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Collective. Throws system when the heap is full for it and may not grow (full_for() tells that before), or some
  // rank's parts begin at no multiple of `alignment`: they do for all powers of two within the bytes of a segment, up
  // to kMostAlignment, where there are addresses for that (device.hpp). The contents of the piece are undefined; those
  // of allocate_zeroed() are zero on every rank, for which ranks meet a second time.
  void* allocate(std::size_t bytes, std::size_t alignment = kAlignment);
  void* allocate_zeroed(std::size_t bytes, std::size_t alignment = kAlignment);
  // As realloc: keeps the bytes that fit, in place if it can. `address` null: allocate. Nothing happens if it throws.
  void* reallocate(void* address, std::size_t bytes);
  // Null is free already. Throws invalid_argument for an address that is no piece of this heap.
  void free(void* address);
  // Frees all segments on every rank at once; the heap is of no use after it.
  void close();

  // Not collective. The room that a piece needs is not there and cannot be made.
  bool full_for(std::size_t bytes, std::size_t alignment = kAlignment) const;
  // Where this rank's `address` lies; nothing if not in this heap.
  std::optional<HeapPlace> place(const void* address) const;
  // The same place in rank's part, as this rank addresses it. Throws as Segment::peer(), and for a foreign address.
  std::byte* peer(const void* address, int rank) const;
  // Bytes of the piece that begins there, as asked for.
  std::optional<std::size_t> bytes_at(const void* address) const;

  std::size_t bytes() const;
  std::size_t used() const;
  std::size_t pieces() const;
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  MemoryKind kind() const { return options_.kind; }

 private:
  struct Piece {
    std::size_t segment;
    std::size_t offset;
  };
  std::optional<Piece> find(std::size_t bytes, std::size_t alignment);
  std::optional<Piece> piece_of(const void* address) const;
  Piece claim(std::size_t bytes, std::size_t alignment);
  void add_segment(std::size_t bytes);
  std::size_t common_alignment(const Segment& segment) const;
  void drop_last_segment();
  std::size_t largest_alignment() const;
  // By a further segment for such a piece, of so many bytes; nothing: it may not, or no memory has as many.
  std::optional<std::size_t> growth_for(std::size_t bytes, std::size_t alignment) const;
  std::byte* address_of(const Piece& piece) const;
  void zero(std::byte* begin, std::size_t bytes);
  // Throws, naming the ranks, unless all make this very call; where the check is on, a barrier.
  void agree(const std::string& call) const;
  std::string where(const void* address) const;

  OneSided& one_sided_;
  HeapOptions options_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<FirstFit> rooms_;          // of each segment
  std::vector<std::size_t> alignments_;  // likewise: where it begins on every rank
  std::shared_ptr<Memory> zeroes_;
};

}  // namespace onstream
