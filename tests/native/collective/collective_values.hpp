// Values for the tests of collectives whose reductions are exact in every type, and their plain reference.
//
// Everything is a small whole number, so the order of additions does not matter, and a result that differs in one bit
// is wrong. Complex numbers have two of them, pairs a value and an index.
#pragma once

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "onstream/collective.hpp"
#include "onstream/collective/element/number.hpp"

namespace onstream::test {

using Number = std::complex<double>;  // real alone, or real and imaginary, or value and index

inline bool is_narrow(ElementType type) { return type == ElementType::float8_e4m3 || type == ElementType::float8_e5m2; }
inline bool is_signed(ElementType type) {
  return type != ElementType::uint8 && type != ElementType::uint16 && type != ElementType::uint32 &&
         type != ElementType::uint64;
}
inline bool is_complex(ElementType type) { return type == ElementType::complex64 || type == ElementType::complex128; }

template <class T>
void append(std::vector<unsigned char>& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

inline void encode(std::vector<unsigned char>& out, ElementType type, Number number) {
  const double real = number.real();
  const double second = number.imag();
  const auto whole = static_cast<std::int64_t>(real);
  const auto single = static_cast<float>(real);
  switch (type) {
    case ElementType::int8: return append(out, static_cast<std::int8_t>(whole));
    case ElementType::uint8: return append(out, static_cast<std::uint8_t>(whole));
    case ElementType::int16: return append(out, static_cast<std::int16_t>(whole));
    case ElementType::uint16: return append(out, static_cast<std::uint16_t>(whole));
    case ElementType::int32: return append(out, static_cast<std::int32_t>(whole));
    case ElementType::uint32: return append(out, static_cast<std::uint32_t>(whole));
    case ElementType::int64:
    case ElementType::uint64: return append(out, whole);
    case ElementType::float16: return append(out, collective::float16_bits(single));
    case ElementType::bfloat16: return append(out, collective::bfloat16_bits(single));
    case ElementType::float32: return append(out, single);
    case ElementType::float64: return append(out, real);
    case ElementType::float8_e4m3: return append(out, collective::float8_e4m3_bits(single));
    case ElementType::float8_e5m2: return append(out, collective::float8_e5m2_bits(single));
    case ElementType::complex64: append(out, single); return append(out, static_cast<float>(second));
    case ElementType::complex128: append(out, real); return append(out, second);
    case ElementType::float32_int32: append(out, single); return append(out, static_cast<std::int32_t>(second));
    case ElementType::float64_int64: append(out, real); return append(out, static_cast<std::int64_t>(second));
    case ElementType::int32_int32:
      append(out, static_cast<std::int32_t>(whole));
      return append(out, static_cast<std::int32_t>(second));
    case ElementType::int64_int64: append(out, whole); return append(out, static_cast<std::int64_t>(second));
  }
}

// The factor of each rank's input in a premulsum.
inline int factor_of(int rank) { return rank < 3 ? 2 : 1; }

// The input of a rank repeats after so many elements, and so does the result.
constexpr std::size_t kPeriod = 1000;

// Element i of a rank's input.
inline Number value_of(ElementType type, ReduceOp op, int rank, std::size_t i) {
  const int n = static_cast<int>(i % kPeriod);
  switch (op) {
    case ReduceOp::sum:
      if (is_narrow(type)) return rank < 4 ? (n + rank) % 2 : 0;
      return {static_cast<double>((n * 7 + rank * 3) % 5), static_cast<double>((n + rank) % 3)};
    case ReduceOp::premulsum: return {rank < 4 ? static_cast<double>((n + rank) % 2) : 0.0, rank < 2 ? 1.0 : 0.0};
    case ReduceOp::prod: return {rank < 4 ? 1.0 + (n + rank) % 2 : 1.0, rank < 2 ? 1.0 : 0.0};
    case ReduceOp::min:
    case ReduceOp::max: return (n * 7 + rank * 5) % 7 - (is_signed(type) ? 3 : 0);
    case ReduceOp::avg: return {1.0 + n % 3, 1.0 + n % 2};
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return (n * 37 + rank * 11) % 128;
    case ReduceOp::minloc:
    case ReduceOp::maxloc: return {static_cast<double>((n * 7 + rank * 5) % 4), static_cast<double>(10 * rank + 1)};
  }
  return 0;
}

inline Number combine(ElementType type, ReduceOp op, Number a, Number b) {
  const auto bits = [](Number number) { return static_cast<int>(number.real()); };
  switch (op) {
    case ReduceOp::prod: return is_complex(type) ? a * b : Number(a.real() * b.real());
    case ReduceOp::min: return std::min(a.real(), b.real());
    case ReduceOp::max: return std::max(a.real(), b.real());
    case ReduceOp::band: return bits(a) & bits(b);
    case ReduceOp::bor: return bits(a) | bits(b);
    case ReduceOp::bxor: return bits(a) ^ bits(b);
    case ReduceOp::minloc: return b.real() < a.real() ? b : a;
    case ReduceOp::maxloc: return b.real() > a.real() ? b : a;
    default: return a + b;
  }
}

// Element i of the reduction of ranks [first, last).
inline Number reduced(ElementType type, ReduceOp op, int first, int last, std::size_t i) {
  const auto of = [&](int rank) {
    const double by = op == ReduceOp::premulsum ? factor_of(rank) : 1;
    return value_of(type, op, rank, i) * by;
  };
  Number result = of(first);
  for (int rank = first + 1; rank < last; ++rank) result = combine(type, op, result, of(rank));
  return op == ReduceOp::avg ? result / static_cast<double>(last - first) : result;
}

// `count` elements of which element(i) is the i-th, computed for the first period alone.
template <class Element>
std::vector<unsigned char> periodic(ElementType type, std::size_t count, const Element& element) {
  const std::size_t bytes = count * size_of(type);
  std::vector<unsigned char> out;
  out.reserve(bytes);
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i) encode(out, type, element(i));
  const std::size_t period = out.size();
  while (out.size() < bytes) {
    const std::size_t at = out.size();
    const std::size_t more = std::min(period, bytes - at);
    out.resize(at + more);
    std::memcpy(out.data() + at, out.data(), more);
  }
  return out;
}

// Elements [begin, begin + count) of a rank's input, and of a result.
inline std::vector<unsigned char> input_of(ElementType type, ReduceOp op, int rank, std::size_t count) {
  return periodic(type, count, [&](std::size_t i) { return value_of(type, op, rank, i); });
}
inline std::vector<unsigned char> result_of(ElementType type, ReduceOp op, int first, int last, std::size_t begin,
                                            std::size_t count) {
  return periodic(type, count, [&](std::size_t i) { return reduced(type, op, first, last, begin + i); });
}

}  // namespace onstream::test
