// Frames: how the store and the mesh lay messages on a byte stream, and the checks on arriving bytes.
//
// A frame is a 12-byte header ("ONS", version, kind, flags, two zero bytes, body length, little-endian) and a body.
// Every byte from outside goes through FrameReader and Unpacker, which throw invalid_argument instead of reading past
// an end; no length is trusted before it was compared with the limit, and memory grows only with bytes that really
// came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "onstream/base/error.hpp"

namespace onstream::wire {

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kMaxBodyBytes = std::size_t{64} << 20;  // of a connection that proved the secret
constexpr std::size_t kMaxStrangerBodyBytes = 4096;           // before that
constexpr std::uint8_t kCarriesFd = 1;                        // flag: a file descriptor travels beside the first byte

struct Frame {
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::string body;
};

// Header and body. Throws invalid_argument for a body over the limit.
std::string encode(std::uint8_t kind, std::string_view body, std::uint8_t flags = 0);

// Cuts a byte stream into frames.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_body_bytes = kMaxStrangerBodyBytes) : max_body_bytes_(max_body_bytes) {}
  void allow(std::size_t max_body_bytes) { max_body_bytes_ = max_body_bytes; }
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole frame, or nothing yet. Throws invalid_argument naming the malformed part; the stream is then
  // useless.
  std::optional<Frame> next();

 private:
  std::string buffer_;
  std::size_t begin_ = 0;  // of the first byte not yet returned
  std::size_t max_body_bytes_;
};

// Builds a body: integers little-endian, texts with their length before them.
class Packer {
 public:
  Packer& u8(std::uint8_t value) { return number(value, 1); }
  Packer& u32(std::uint32_t value) { return number(value, 4); }
  Packer& u64(std::uint64_t value) { return number(value, 8); }
  Packer& text(std::string_view value);
  const std::string& body() const { return body_; }

 private:
  Packer& number(std::uint64_t value, int bytes);
  std::string body_;
};

// Reads a body that Packer wrote. `body` must outlive it. Throws invalid_argument when the body is too short.
class Unpacker {
 public:
  explicit Unpacker(std::string_view body) : rest_(body) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view text();
  // Throws unless all was read.
  void end() const;

 private:
  std::uint64_t number(std::size_t bytes);
  std::string_view take(std::size_t bytes);
  std::string_view rest_;
};

// An Error as a body's last two fields, and back; a code this build does not know reads as `aborted`.
void pack_error(Packer& packer, ErrorCode code, std::string_view text);
Error unpack_error(Unpacker& unpacker);

}  // namespace onstream::wire
