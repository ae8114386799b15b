#include "onstream/transport/net/identity.hpp"

#include <algorithm>
#include <optional>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"

namespace onstream::net {
namespace {

constexpr std::size_t kCheckBytes = 8;
constexpr std::size_t kMostText = 4096;  // network.hpp promises it

int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]);
    const int low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string check_of(std::string_view kind, std::string_view bytes) {
  return sha256(concat("onstream address ", kind, ":", bytes)).substr(0, kCheckBytes);
}

}  // namespace

std::string text_of(std::string_view kind, const NetworkAddress& address) {
  const std::string bytes = address.identity + address.contact;
  const std::string text = concat(kind, ":", to_hex(bytes), to_hex(check_of(kind, bytes)));
  if (text.size() > kMostText) {
    fail(ErrorCode::unsupported, "the address of this rank's network has ", text.size(), " characters, more than ",
         kMostText, ". Name fewer interfaces with the parameter network_interface.");
  }
  return text;
}

NetworkAddress read_address(std::string_view kind, std::string_view text) {
  const std::string prefix = concat(kind, ":");
  const std::string_view digits = text.substr(std::min(prefix.size(), text.size()));
  const auto bytes = text.starts_with(prefix) ? from_hex(digits) : std::nullopt;
  const bool long_enough = bytes && bytes->size() > kIdentityBytes + kCheckBytes;
  const std::size_t body = long_enough ? bytes->size() - kCheckBytes : 0;
  require(long_enough && check_of(kind, bytes->substr(0, body)) == bytes->substr(body), "'", text.substr(0, 40),
          "' is not the address of a network of kind ", kind, ": all ranks need the same parameter network");
  return {bytes->substr(0, kIdentityBytes), bytes->substr(kIdentityBytes, body - kIdentityBytes)};
}

PairKey pair_key(std::string_view secret, const KeyEnd& from, const KeyEnd& to) {
  const std::string digest =
      hmac_sha256(secret, concat("onstream message ", to.identity, from.identity, from.rank, " to ", to.rank));
  PairKey key;
  std::copy_n(digest.begin(), key.size(), key.begin());
  return key;
}

bool matches(const PairKey& key, std::span<const std::byte, kKeyBytes> shown) {
  return equal_in_constant_time({key.data(), key.size()}, {reinterpret_cast<const char*>(shown.data()), shown.size()});
}

}  // namespace onstream::net
