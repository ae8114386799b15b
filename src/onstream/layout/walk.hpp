// Walk: how the threads of a group find their share of a layout, and copy from layout to layout.
//
// A position is a byte of the data, counted in the order of the nest. Threads take positions one after the other, so
// that consecutive threads touch consecutive elements, or, in a column of 8-byte elements, consecutive runs. The
// accesses are `access_width` bytes wide: the largest power of two up to 16 that divides every address a copy touches
// (access_width_of).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "onstream/device/host/group.hpp"
#include "onstream/layout.hpp"
#include "onstream/layout/cursor.hpp"

namespace onstream {

// A group of one thread walks by Cursor and memcpy, without divisions.
template <Group G>
constexpr bool kSerial = std::is_same_v<G, HostGroup>;

// 32-bit division where the values allow it: several times cheaper on a GPU.
ONSTREAM_BOTH std::uint64_t divide(std::uint64_t value, std::uint64_t by, std::uint64_t& rest) {
  if (((value | by) >> 32) == 0) {
    const std::uint32_t quotient = static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(by);
    rest = static_cast<std::uint32_t>(value) - quotient * static_cast<std::uint32_t>(by);
    return quotient;
  }
  rest = value % by;
  return value / by;
}

// std::array's members are host functions to nvcc.
ONSTREAM_BOTH std::int64_t number(const std::array<std::int64_t, LayoutView::kMaxDims>& numbers, int d) {
  return reinterpret_cast<const std::int64_t*>(&numbers)[d];
}

// Byte offset of data byte `position` in a nest. Not inlined on a GPU: it is large, and used at many places.
#ifdef __CUDACC__
__host__ __device__ __noinline__ inline
#else
inline
#endif
    std::int64_t nested_offset(const LayoutView& view, std::uint64_t position) {
  std::uint64_t within;
  std::uint64_t run = divide(position, view.run_bytes, within);
  std::int64_t offset = static_cast<std::int64_t>(within);
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int d = view.dims - 1; d > 0; --d) {
    std::uint64_t digit;
    run = divide(run, static_cast<std::uint64_t>(number(view.counts, d)), digit);
    offset += static_cast<std::int64_t>(digit) * number(view.strides, d);
  }
  return offset + static_cast<std::int64_t>(run) * number(view.strides, 0);
}

// Byte offset of data byte `position`.
ONSTREAM_BOTH std::int64_t offset_of(const LayoutView& view, std::uint64_t position) {
  return view.dims == 0 ? static_cast<std::int64_t>(position) : nested_offset(view, position);
}

// The largest power of two, at most `most`, that divides the address, the run and every stride.
inline std::uint32_t access_width_of(const void* address, const LayoutView& view, std::uint32_t most) {
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) | view.run_bytes | most;
  for (int d = 0; d < view.dims; ++d) bits |= static_cast<std::uint64_t>(view.strides[d]);
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

// One side of a copy.
struct CopySide {
  std::byte* address;
  const LayoutView* layout;
};

// Copies data positions first, first + step, ... (counted in Words), four in flight a thread.
template <class Word>
ONSTREAM_BODY void copy_words(CopySide to, CopySide from, std::uint64_t count, std::uint64_t first,
                              std::uint64_t step) {
  constexpr int kFlight = 4;
  const bool plain = to.layout->dims == 0 && from.layout->dims == 0;
  std::uint64_t i = first;
  if (plain) {
    auto* out = reinterpret_cast<Word*>(to.address);
    const auto* in = reinterpret_cast<const Word*>(from.address);
    for (; i + (kFlight - 1) * step < count; i += kFlight * step) {
      const Word a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
      out[i] = a;
      out[i + step] = b;
      out[i + 2 * step] = c;
      out[i + 3 * step] = d;
    }
    for (; i < count; i += step) out[i] = in[i];
    return;
  }
  for (; i < count; i += kFlight * step) {
    // All offsets first: nothing may stand between the loads, or they are not in flight together.
    Word held[kFlight];
    std::int64_t source[kFlight];
    std::int64_t destination[kFlight];
    for (int k = 0; k < kFlight; ++k) {
      const std::uint64_t at = i + k * step < count ? i + k * step : i;
      source[k] = offset_of(*from.layout, at * sizeof(Word));
      destination[k] = offset_of(*to.layout, at * sizeof(Word));
    }
    for (int k = 0; k < kFlight; ++k) held[k] = *reinterpret_cast<const Word*>(from.address + source[k]);
    for (int k = 0; k < kFlight; ++k) {
      if (i + k * step < count) *reinterpret_cast<Word*>(to.address + destination[k]) = held[k];
    }
  }
}

// Part `part` of `parts` of a copy between layouts of equal bytes. All threads of the group take part; not a barrier.
template <Group G>
ONSTREAM_CALL void copy_part(const G& group, CopySide to, CopySide from, std::uint64_t bytes,
                             std::uint32_t access_width, std::uint32_t part, std::uint32_t parts) {
  if constexpr (kSerial<G>) {
    const std::uint64_t share = (bytes / parts + 63) / 64 * 64;
    std::uint64_t at = part * share < bytes ? part * share : bytes;
    const std::uint64_t end = part + 1 == parts || at + share > bytes ? bytes : at + share;
    Cursor writer(*to.layout, at);
    Cursor reader(*from.layout, at);
    while (at < end) {
      std::uint64_t now = end - at < writer.run_left() ? end - at : writer.run_left();
      if (reader.run_left() < now) now = reader.run_left();
      std::memcpy(to.address + writer.offset(), from.address + reader.offset(), now);
      writer.advance(now);
      reader.advance(now);
      at += now;
    }
  } else {
    const std::uint64_t first = static_cast<std::uint64_t>(part) * group.size() + group.rank();
    const std::uint64_t step = static_cast<std::uint64_t>(parts) * group.size();
    switch (access_width) {
      case 16: copy_words<Line>(to, from, bytes / 16, first, step); break;
      case 8: copy_words<std::uint64_t>(to, from, bytes / 8, first, step); break;
      case 4: copy_words<std::uint32_t>(to, from, bytes / 4, first, step); break;
      case 2: copy_words<std::uint16_t>(to, from, bytes / 2, first, step); break;
      default: copy_words<std::uint8_t>(to, from, bytes, first, step); break;
    }
    // Only a copy that is contiguous on both sides may have an access_width that does not divide it
    // (plan/build/lower.cpp).
    const std::uint64_t tail = bytes % access_width;
    if (first < tail) to.address[bytes - tail + first] = from.address[bytes - tail + first];
  }
}

}  // namespace onstream
