// How a network knows its peers: the text of its address, and the key that each message of a pair carries.
//
// An address holds 32 random bytes of its network, so the keys of two networks of one job differ too, and a message
// that was recorded in another world proves nothing here. Addresses come through the job's store, which has asked for
// the secret already; the check in their text is against damage alone.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace onstream::net {

constexpr std::size_t kIdentityBytes = 32;
constexpr std::size_t kKeyBytes = 16;

using PairKey = std::array<char, kKeyBytes>;

struct NetworkAddress {
  std::string identity;  // kIdentityBytes random bytes
  std::string contact;   // of the implementation
};

// "ucx:" and hexadecimal digits, the last of which are a check of the others.
std::string text_of(std::string_view kind, const NetworkAddress& address);
// Throws invalid_argument for a text that text_of() of the same kind did not make.
NetworkAddress read_address(std::string_view kind, std::string_view text);

// The two ends of a direction: the ranks, and the random bytes of their addresses.
struct KeyEnd {
  int rank;
  std::string_view identity;
};

// The same at both ends: 16 bytes of HMAC-SHA-256 by the job's secret.
PairKey pair_key(std::string_view secret, const KeyEnd& from, const KeyEnd& to);

// In a time that does not depend on the bytes.
bool matches(const PairKey& key, std::span<const std::byte, kKeyBytes> shown);

}  // namespace onstream::net
