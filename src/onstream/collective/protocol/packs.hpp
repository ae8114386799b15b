// Packs of bytes from and to memory of any alignment, and as LL lines.
//
// `access_width` is a power of two up to 16 that divides every address: the widest access that is allowed. A length may
// be any.
#pragma once

#include <cstring>

#include "onstream/collective/element/rules.hpp"
#include "onstream/collective/protocol/view.hpp"

namespace onstream::collective {

// A grid's thread has every step_of()-th unit, from first_of() on.
template <Group G>
ONSTREAM_EITHER std::uint64_t first_of(const G& group) {
  return static_cast<std::uint64_t>(group.block()) * group.size() + group.rank();
}
template <Group G>
ONSTREAM_EITHER std::uint64_t step_of(const G& group) {
  return static_cast<std::uint64_t>(group.blocks()) * group.size();
}

ONSTREAM_BOTH std::uint32_t access_width_of(std::uint64_t addresses_and_lengths) {
  const std::uint64_t all = addresses_and_lengths | 16;
  return static_cast<std::uint32_t>(all & (0 - all));
}

template <class Word>
ONSTREAM_EITHER std::uint64_t gather_words(const std::byte* from, std::uint32_t bytes) {
  std::uint64_t data = 0;
  for (std::uint32_t b = 0; b < bytes; b += sizeof(Word)) {
    data |= static_cast<std::uint64_t>(*reinterpret_cast<const Word*>(from + b)) << (8 * b);
  }
  return data;
}
template <class Word>
ONSTREAM_EITHER void scatter_words(std::byte* to, std::uint64_t data, std::uint32_t bytes) {
  for (std::uint32_t b = 0; b < bytes; b += sizeof(Word)) {
    *reinterpret_cast<Word*>(to + b) = static_cast<Word>(data >> (8 * b));
  }
}

// Up to 8 bytes, in the widest pieces that both the access_width and the length allow.
ONSTREAM_EITHER_CALL std::uint64_t gather_pieces(const std::byte* from, std::uint32_t bytes,
                                                 std::uint32_t access_width) {
  access_width = access_width_of(access_width | bytes);
  if (access_width >= 4) return gather_words<std::uint32_t>(from, bytes);
  if (access_width == 2) return gather_words<std::uint16_t>(from, bytes);
  return gather_words<std::uint8_t>(from, bytes);
}
ONSTREAM_EITHER_CALL void scatter_pieces(std::byte* to, std::uint64_t data, std::uint32_t bytes,
                                         std::uint32_t access_width) {
  access_width = access_width_of(access_width | bytes);
  if (access_width >= 4) return scatter_words<std::uint32_t>(to, data, bytes);
  if (access_width == 2) return scatter_words<std::uint16_t>(to, data, bytes);
  scatter_words<std::uint8_t>(to, data, bytes);
}

// A whole pack of 16 bytes by accesses of a Word, at whose alignment it lies; on a GPU.
template <class Word>
ONSTREAM_EITHER Pack<16> load_words(const Pack<16>* from) {
  if constexpr (sizeof(Word) == 16) {
    return *from;
  } else {
    const auto* bytes = reinterpret_cast<const std::byte*>(from);
    Pack<16> pack;
    pack.words[0] = gather_words<Word>(bytes, 8);
    pack.words[1] = gather_words<Word>(bytes + 8, 8);
    return pack;
  }
}
template <class Word>
ONSTREAM_EITHER void store_words(Pack<16>* to, const Pack<16>& pack) {
  if constexpr (sizeof(Word) == 16) {
    *to = pack;
  } else {
    auto* bytes = reinterpret_cast<std::byte*>(to);
    scatter_words<Word>(bytes, pack.words[0], 8);
    scatter_words<Word>(bytes + 8, pack.words[1], 8);
  }
}

// Whether a pack is whole and may be accessed at once, on a GPU.
template <Group G, int kBytes>
ONSTREAM_EITHER bool is_plain(std::uint64_t left, std::uint32_t access_width) {
  return !kSerial<G> && kBytes <= 16 && access_width >= kBytes && left >= kBytes;
}

// Bytes beyond `left` are zero.
template <Group G, int kBytes>
ONSTREAM_EITHER Pack<kBytes> load_pack(const std::byte* from, std::uint64_t left, std::uint32_t access_width) {
  Pack<kBytes> pack;
  if constexpr (kSerial<G>) {
    if (left >= kBytes) {
      std::memcpy(&pack, from, kBytes);
    } else {
      pack = {};
      if (left > 0) std::memcpy(&pack, from, left);
    }
  } else {
    if (kBytes == 16 && access_width == 16 && left >= 16) {
      return *reinterpret_cast<const Pack<kBytes>*>(from);
    }
    ONSTREAM_UNROLL
    for (int i = 0; i < kBytes / 8; ++i) {
      const std::uint64_t place = 8 * static_cast<std::uint64_t>(i);
      const std::uint64_t rest = left > place ? left - place : 0;
      if (access_width >= 8 && rest >= 8) {
        pack.words[i] = *reinterpret_cast<const std::uint64_t*>(from + place);
      } else {
        pack.words[i] = gather_pieces(from + place, rest < 8 ? static_cast<std::uint32_t>(rest) : 8, access_width);
      }
    }
  }
  return pack;
}

template <Group G, int kBytes>
ONSTREAM_EITHER void store_pack(std::byte* to, const Pack<kBytes>& pack, std::uint64_t left,
                                std::uint32_t access_width) {
  if constexpr (kSerial<G>) {
    std::memcpy(to, &pack, left < kBytes ? left : kBytes);
  } else {
    if (kBytes == 16 && access_width == 16 && left >= 16) {
      *reinterpret_cast<Pack<kBytes>*>(to) = pack;
      return;
    }
    ONSTREAM_UNROLL
    for (int i = 0; i < kBytes / 8; ++i) {
      const std::uint64_t place = 8 * static_cast<std::uint64_t>(i);
      const std::uint64_t rest = left > place ? left - place : 0;
      if (access_width >= 8 && rest >= 8) {
        *reinterpret_cast<std::uint64_t*>(to + place) = pack.words[i];
      } else {
        scatter_pieces(to + place, pack.words[i], rest < 8 ? static_cast<std::uint32_t>(rest) : 8, access_width);
      }
    }
  }
}

// --- as lines: a pack of kBytes is kBytes / 8 lines in a row ---

template <Group G, int kBytes>
ONSTREAM_EITHER void send_pack(const G& group, Line* slot, std::uint64_t unit, const Pack<kBytes>& pack,
                               const Flag& flag) {
  constexpr int kLines = kBytes / 8;
  ONSTREAM_UNROLL
  for (int i = 0; i < kLines; ++i) group.store_line(slot + unit * kLines + i, flag_line(pack.words[i], flag));
}

// A pack on its way, as the lines that were last seen.
template <int kBytes>
struct Arriving {
  static constexpr int kLines = kBytes / 8;
  Line lines[kLines];

  template <Group G>
  ONSTREAM_EITHER void look(const G& group, const Line* slot, std::uint64_t unit) {
    ONSTREAM_UNROLL
    for (int i = 0; i < kLines; ++i) lines[i] = group.load_line(slot + unit * kLines + i);
  }
  ONSTREAM_EITHER bool is_here(const Flag& flag) const {
    bool here = true;
    ONSTREAM_UNROLL
    for (int i = 0; i < kLines; ++i) here = here && has_flag(lines[i], flag);
    return here;
  }
  ONSTREAM_EITHER Pack<kBytes> pack() const {
    Pack<kBytes> pack;
    ONSTREAM_UNROLL
    for (int i = 0; i < kLines; ++i) pack.words[i] = line_data(lines[i]);
    return pack;
  }
};

}  // namespace onstream::collective
