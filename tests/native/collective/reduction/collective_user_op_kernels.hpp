// The functors of collective_user_op.cpp: associative, most of them not commutative, on elements of many sizes.
//
// with<F>() and load<F>() make the library's calls: in the test itself, or, with CUDA, in
// collective_user_op_kernels.cu.
#pragma once

#include <atomic>
#include <cstdint>

#include "onstream/user_op.hpp"

namespace onstream::test {

// A product of matrices, modulo 2^32. 16 bytes.
struct Matrix {
  std::uint32_t a, b, c, d;
};
struct Multiply {
  ONSTREAM_BOTH Matrix operator()(const Matrix& x, const Matrix& y) const {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
};

// x -> a x + b modulo a number that the functor has, one after the other. 8 bytes. Cannot be made from nothing.
struct Affine {
  std::uint32_t a, b;
};
struct Compose {
  explicit Compose(std::uint32_t number) : modulus(number) {}
  std::uint32_t modulus;
  ONSTREAM_BOTH Affine operator()(const Affine& first, const Affine& second) const {
    const std::uint64_t a = std::uint64_t{first.a} * second.a % modulus;
    const std::uint64_t b = (std::uint64_t{second.a} * first.b + second.b) % modulus;
    return {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)};
  }
};

// The largest value and its index; for equal values the first index, and their number. 24 bytes.
struct Found {
  double value;
  std::int64_t index;
  std::uint64_t count;
};
struct Largest {
  ONSTREAM_BOTH Found operator()(const Found& x, const Found& y) const noexcept {
    if (x.value == y.value) return {x.value, x.index, x.count + y.count};
    return x.value > y.value ? x : y;
  }
};

// Neighbouring spans of numbers. 2 bytes, several in a pack. No rank gives a span that begins with 0: Join gets none.
struct Span {
  std::uint8_t first, last;
};
inline std::atomic<int> strange_spans = 0;  // on the host
struct Join {
  ONSTREAM_BOTH Span operator()(const Span& x, const Span& y) const {
#ifndef __CUDA_ARCH__
    if (x.first == 0 || y.first == 0) ++strange_spans;
#endif
    return x.last + 1 == y.first ? Span{x.first, y.last} : Span{255, 255};
  }
};

// Affine maps of pairs of bytes, modulo 251; an odd last byte is of the one that comes last. Any size.
template <int kBytes>
struct Bytes {
  std::uint8_t at[kBytes];
};
template <int kBytes>
struct Maps {
  template <class T>
  ONSTREAM_BOTH T operator()(const T& x, const T& y) const {
    T both{};
    for (int i = 0; i + 1 < kBytes; i += 2) {
      both.at[i] = static_cast<std::uint8_t>(x.at[i] * y.at[i] % 251);
      both.at[i + 1] = static_cast<std::uint8_t>((y.at[i] * x.at[i + 1] + y.at[i + 1]) % 251);
    }
    if (kBytes % 2 != 0) both.at[kBytes - 1] = y.at[kBytes - 1];
    return both;
  }
};

template <class F, class T>
CollectiveCall with(CollectiveCall call, const F& functor);
template <class F, class T>
void load(Collective& collective);

#ifndef ONSTREAM_WITH_CUDA
template <class F, class T>
CollectiveCall with(CollectiveCall call, const F& functor) {
  return collective::reduced_with<F, T>(std::move(call), functor);
}
template <class F, class T>
void load(Collective& collective) {
  collective::load<F, T>(collective);
}
#endif

}  // namespace onstream::test
