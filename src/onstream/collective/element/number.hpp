// Numbers that C++ has no type for: 16-bit and 8-bit floating point, complex numbers, and pairs of value and index.
//
// Only storage and conversion to and from float; sums are made in float. Rounding is to nearest, ties to even, on the
// host by integers and on a GPU by its own instructions: the same bits. Eight-bit numbers saturate: a value that is too
// large becomes the largest finite number, as NVIDIA's conversions do.
#pragma once

#include <bit>
#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream::collective {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

template <class Real>
struct Complex {
  Real real;
  Real imaginary;
};

template <class Value, class Index>
struct Located {
  Value value;
  Index index;
};

ONSTREAM_BOTH std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
ONSTREAM_BOTH float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A format narrower than float: sign, exponent bits, mantissa bits. Written by integers, without branches that depend
// on the data where it matters: compilers make vector code of it.
template <int kExponent, int kMantissa>
struct Narrow {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kDropped = 23 - kMantissa;
  static constexpr std::uint32_t kSign = 1u << (kExponent + kMantissa);
  static constexpr std::uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;

  ONSTREAM_BOTH static float widen(std::uint32_t bits) {
    const std::uint32_t sign = (bits & kSign) << (31 - kExponent - kMantissa);
    const std::uint32_t magnitude = (bits & (kSign - 1)) << kDropped;
    // Exact: a power of two moves the exponent's bias, and makes normal numbers of those below the format's normal
    // ones.
    const float moved = float_of(magnitude) * float_of(static_cast<std::uint32_t>(254 - kBias) << 23);
    const bool special = (bits & kInfinity) == kInfinity;
    const std::uint32_t out = special ? (0x7f800000u | magnitude) : bits_of(moved);
    return float_of(out | sign);
  }

  // Without the sign, for finite values that are not beyond the format; others give a value above its largest.
  ONSTREAM_BOTH static std::uint32_t round(std::uint32_t magnitude) {
    constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
    // Below the normal numbers an addition aligns the bits that stay with the end of the mantissa, and rounds.
    constexpr std::uint32_t kAligner = static_cast<std::uint32_t>(128 - kBias + kDropped) << 23;
    const std::uint32_t below = bits_of(float_of(magnitude) + float_of(kAligner)) - kAligner;
    const std::uint32_t odd = (magnitude >> kDropped) & 1;
    const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + odd;
    const std::uint32_t above = (rounded >> kDropped) - (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
    return magnitude < kSmallestNormal ? below : above;
  }
};

// --- host and GPU alike, by integers ---

ONSTREAM_BOTH std::uint16_t float16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t out = Narrow<5, 10>::round(magnitude < 0x47800000u ? magnitude : 0x47800000u);
  out = out < 0x7c00u ? out : 0x7c00u;
  out = magnitude > 0x7f800000u ? 0x7e00u : out;
  return static_cast<std::uint16_t>(out | (bits >> 16 & 0x8000u));
}

ONSTREAM_BOTH std::uint16_t bfloat16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

ONSTREAM_BOTH std::uint8_t float8_e4m3_bits(float value) {
  constexpr std::uint32_t kLargest = 0x7e;  // 448; 0x7f is not a number, and there is no infinity
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t out = Narrow<4, 3>::round(magnitude < 0x44000000u ? magnitude : 0x44000000u);
  out = out < kLargest ? out : kLargest;
  out = magnitude > 0x7f800000u ? 0x7fu : out;
  return static_cast<std::uint8_t>(out | (bits >> 24 & 0x80u));
}

ONSTREAM_BOTH std::uint8_t float8_e5m2_bits(float value) {
  constexpr std::uint32_t kLargest = 0x7b;  // 57344
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t out = Narrow<5, 2>::round(magnitude < 0x47800000u ? magnitude : 0x47800000u);
  out = out < kLargest ? out : kLargest;
  out = magnitude > 0x7f800000u ? 0x7fu : out;
  return static_cast<std::uint8_t>(out | (bits >> 24 & 0x80u));
}

ONSTREAM_BOTH float widen_e4m3(std::uint8_t bits) {
  // Its all-ones exponent holds numbers, except for one pattern.
  const std::uint32_t magnitude = bits & 0x7fu;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const float moved = float_of(magnitude << 20) * float_of(static_cast<std::uint32_t>(254 - 7) << 23);
  return float_of((magnitude == 0x7f ? 0x7fc00000u : bits_of(moved)) | sign);
}

// --- the GPU's own instructions where it has them ---

ONSTREAM_BOTH float widen(Float16 number) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(number.bits));
  return value;
#else
  return Narrow<5, 10>::widen(number.bits);
#endif
}
ONSTREAM_BOTH float widen(BFloat16 number) { return float_of(static_cast<std::uint32_t>(number.bits) << 16); }
ONSTREAM_BOTH float widen(Float8E4M3 number) { return widen_e4m3(number.bits); }
ONSTREAM_BOTH float widen(Float8E5M2 number) {
  return widen(Float16{static_cast<std::uint16_t>(number.bits << 8)});  // the upper half of a Float16
}

template <class Number>
ONSTREAM_BOTH Number narrow(float value);
template <>
ONSTREAM_BOTH Float16 narrow<Float16>(float value) {
#if defined(__CUDA_ARCH__)
  Float16 number;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(number.bits) : "f"(value));
  return number;
#else
  return {float16_bits(value)};
#endif
}
template <>
ONSTREAM_BOTH BFloat16 narrow<BFloat16>(float value) {
  return {bfloat16_bits(value)};
}
template <>
ONSTREAM_BOTH Float8E4M3 narrow<Float8E4M3>(float value) {
  return {float8_e4m3_bits(value)};
}
template <>
ONSTREAM_BOTH Float8E5M2 narrow<Float8E5M2>(float value) {
  return {float8_e5m2_bits(value)};
}

}  // namespace onstream::collective
