#include "onstream/bootstrap/wire.hpp"

namespace onstream::wire {
namespace {

constexpr std::string_view kMagic = "ONS\x01";  // the last byte is the version of the protocol

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

void check_header(std::string_view header, std::size_t max_body_bytes) {
  require(header.substr(0, kMagic.size()) == kMagic, "a frame does not start with the magic bytes of this protocol");
  require((header[5] & ~kCarriesFd) == 0 && header[6] == 0 && header[7] == 0, "a frame sets reserved header bits");
  const std::uint64_t length = little_endian(header.substr(8));
  require(length <= max_body_bytes, "a frame announces ", length, " B, the limit is ", max_body_bytes, " B");
}

}  // namespace

std::string encode(std::uint8_t kind, std::string_view body, std::uint8_t flags) {
  require(body.size() <= kMaxBodyBytes, "a control message of ", body.size(), " B is over the limit of ", kMaxBodyBytes,
          " B; send bulk data as messages of the world");
  std::string bytes;
  bytes.reserve(kHeaderBytes + body.size());
  bytes.append(kMagic);
  bytes.push_back(static_cast<char>(kind));
  bytes.push_back(static_cast<char>(flags));
  bytes.append(2, '\0');
  for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>((body.size() >> shift) & 0xff));
  return bytes.append(body);
}

std::optional<Frame> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const std::string_view header = rest.substr(0, kHeaderBytes);
  check_header(header, max_body_bytes_);
  const std::size_t length = little_endian(header.substr(8));
  if (rest.size() < kHeaderBytes + length) return std::nullopt;

  Frame frame;
  frame.kind = static_cast<std::uint8_t>(header[4]);
  frame.flags = static_cast<std::uint8_t>(header[5]);
  frame.body = rest.substr(kHeaderBytes, length);
  begin_ += kHeaderBytes + length;
  // Moving the tail down only when it is the smaller half keeps the cost linear in the bytes received.
  if (begin_ * 2 >= buffer_.size()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return frame;
}

Packer& Packer::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) body_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return *this;
}

Packer& Packer::text(std::string_view value) {
  require(value.size() <= kMaxBodyBytes, "a text of ", value.size(), " B is over the limit of ", kMaxBodyBytes, " B");
  u32(static_cast<std::uint32_t>(value.size()));
  body_.append(value);
  return *this;
}

std::string_view Unpacker::take(std::size_t bytes) {
  require(bytes <= rest_.size(), "a frame's body ends ", bytes - rest_.size(), " B too early");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t Unpacker::number(std::size_t bytes) { return little_endian(take(bytes)); }

std::string_view Unpacker::text() { return take(u32()); }

void Unpacker::end() const { require(rest_.empty(), "a frame's body is ", rest_.size(), " B too long"); }

void pack_error(Packer& packer, ErrorCode code, std::string_view text) {
  packer.u32(static_cast<std::uint32_t>(code)).text(text);
}

Error unpack_error(Unpacker& unpacker) {
  const std::uint32_t code = unpacker.u32();
  const std::string text(unpacker.text());
  unpacker.end();
  const bool known = code <= static_cast<std::uint32_t>(ErrorCode::unmapped);
  return Error(known ? static_cast<ErrorCode>(code) : ErrorCode::aborted, text);
}

}  // namespace onstream::wire
