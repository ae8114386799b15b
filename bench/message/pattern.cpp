#include "pattern.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "onstream/base/text.hpp"

namespace onstream::bench {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

// `words` is a buffer of at least (bytes + 7) / 8 words; `begin` is the chunk's place in the whole, a multiple of 8.
void make(std::vector<std::uint64_t>& words, std::size_t begin, std::size_t bytes, std::uint64_t seed) {
  const std::size_t count = (bytes + 7) / 8;
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = (begin / 8 + i + 1) * 0x9E3779B97F4A7C15u ^ seed * 0xD1B54A32D192ED03u;
  }
}

template <class Do>
void for_chunks(std::size_t bytes, Do&& act) {
  for (std::size_t begin = 0; begin < bytes; begin += kChunkBytes) act(begin, std::min(kChunkBytes, bytes - begin));
}

std::vector<std::uint64_t> room_for(std::size_t bytes) {
  return std::vector<std::uint64_t>((std::min(bytes, kChunkBytes) + 7) / 8);
}

}  // namespace

void write_pattern(Device& device, std::byte* buffer, std::size_t bytes, std::uint64_t seed, Stream stream) {
  std::vector<std::uint64_t> words = room_for(bytes);
  for_chunks(bytes, [&](std::size_t begin, std::size_t count) {
    make(words, begin, count, seed);
    device.copy(buffer + begin, words.data(), count, stream);
    device.synchronize(stream);
  });
}

void write_zeros(Device& device, std::byte* buffer, std::size_t bytes, Stream stream) {
  const std::vector<std::uint64_t> words = room_for(bytes);
  for_chunks(bytes, [&](std::size_t begin, std::size_t count) {
    device.copy(buffer + begin, words.data(), count, stream);
    device.synchronize(stream);
  });
}

std::string find_difference(Device& device, const std::byte* buffer, std::size_t bytes, std::uint64_t seed,
                            Stream stream) {
  std::vector<std::uint64_t> expected = room_for(bytes);
  std::vector<std::uint64_t> words = room_for(bytes);
  std::string difference;
  for_chunks(bytes, [&](std::size_t begin, std::size_t count) {
    if (!difference.empty()) return;
    make(expected, begin, count, seed);
    device.copy(words.data(), buffer + begin, count, stream);
    device.synchronize(stream);
    if (std::memcmp(words.data(), expected.data(), count) == 0) return;
    const auto* have = reinterpret_cast<const unsigned char*>(words.data());
    const auto* want = reinterpret_cast<const unsigned char*>(expected.data());
    const std::size_t i = static_cast<std::size_t>(std::mismatch(have, have + count, want).first - have);
    difference =
        concat("byte ", begin + i, " is ", static_cast<int>(have[i]), " instead of ", static_cast<int>(want[i]));
  });
  return difference;
}

}  // namespace onstream::bench
