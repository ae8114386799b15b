// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): how connections prove the job's secret.
//
// Written from the standards because PyPI carries no cryptographic library with headers; checked against the published
// test vectors. Pure functions. Messages here are a few hundred bytes, so the code favours plainness over speed.
#pragma once

#include <string>
#include <string_view>

namespace onstream {

// 32 bytes.
std::string sha256(std::string_view message);
std::string hmac_sha256(std::string_view key, std::string_view message);

// Compares in a time that depends on the lengths only, so that a wrong proof cannot be improved byte by byte.
bool equal_in_constant_time(std::string_view left, std::string_view right);

// From the kernel's generator.
std::string random_bytes(std::size_t count);

// Lower-case, two digits a byte.
std::string to_hex(std::string_view bytes);

}  // namespace onstream
