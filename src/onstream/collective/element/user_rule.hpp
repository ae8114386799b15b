// The rule of a user reduction: a functor on elements of any size, which the bodies of ll.hpp, two_shot.hpp and
// simple_reduce.hpp apply as they apply the library's own.
//
// The functor is called with two elements that some ranks gave or that it made itself, the first of lower ranks, and
// with nothing else: a last pack that elements do not fill has copies of its first one. Everybody combines from the
// first rank on, so that the bits of a result depend on nothing else. Its bytes lie in the kernel's arguments.
#pragma once

#include <type_traits>

#include "onstream/collective/element/rules.hpp"

namespace onstream::collective {

// A functor in a kernel's arguments, whether it can be made from nothing or not.
template <class F>
struct UserFunctor {
  alignas(F) std::byte bytes[sizeof(F)] = {};
  ONSTREAM_EITHER const F& get() const { return *reinterpret_cast<const F*>(bytes); }
};

template <class T, class F>
struct UserRule {
  using Element = T;
  using Functor = F;
};

template <class T, class F, int kBytes>
class Accumulator<UserRule<T, F>, kBytes> : public PackOf<T, kBytes> {
 public:
  using Op = UserFunctor<F>;
  using PackOf<T, kBytes>::kCount;
  using PackOf<T, kBytes>::kData;

  static constexpr bool kAddsInPlace = kData == kBytes && kBytes == 16;
  static constexpr bool kTakesAnything = false;
  ONSTREAM_EITHER static bool sums(const Op&) { return true; }
  ONSTREAM_EITHER static bool only_adds(const Op&) { return true; }
  ONSTREAM_EITHER static bool scales(const Op&) { return false; }
  ONSTREAM_EITHER static Pack<kBytes> scaled(const Pack<kBytes>& pack, Factor) { return pack; }

  // Fills the pack behind `left` bytes; with none left it stays, and nobody combines it.
  ONSTREAM_EITHER static Pack<kBytes> filled(Pack<kBytes> pack, std::uint64_t left) {
    if constexpr (kCount > 1) {
      if (left < kData && left > 0) {
        auto* const bytes = reinterpret_cast<std::byte*>(&pack);
        ONSTREAM_UNROLL
        for (int k = 1; k < kCount; ++k) {
          if (k * sizeof(T) >= left) __builtin_memcpy(bytes + k * sizeof(T), bytes, sizeof(T));
        }
      }
    }
    return pack;
  }

  ONSTREAM_EITHER void start(const Pack<kBytes>& pack) { start(reinterpret_cast<const std::byte*>(&pack)); }
  ONSTREAM_EITHER void start(const std::byte* in) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) values_[k].fill(in + k * sizeof(T));
  }
  ONSTREAM_EITHER void take(const Op& op, const Pack<kBytes>& pack) {
    take(op, reinterpret_cast<const std::byte*>(&pack));
  }
  ONSTREAM_EITHER void add(const Op& op, const Pack<kBytes>& pack) { take(op, pack); }
  ONSTREAM_EITHER void take(const Op& op, const std::byte* in) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) {
      RawElement higher;
      higher.fill(in + k * sizeof(T));
      const T both = op.get()(values_[k].value, higher.value);
      values_[k].fill(reinterpret_cast<const std::byte*>(&both));
    }
  }
  ONSTREAM_EITHER Pack<kBytes> finish(const Op&, std::uint32_t) const { return finish(); }
  ONSTREAM_EITHER Pack<kBytes> finish() const {
    Pack<kBytes> pack = {};
    auto* const out = reinterpret_cast<std::byte*>(&pack);
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) __builtin_memcpy(out + k * sizeof(T), values_[k].bytes, sizeof(T));
    return pack;
  }

 private:
  // An element that nobody has constructed. Filled before it is used, which the host's compiler does not see.
  union RawElement {
#ifdef __CUDA_ARCH__
    ONSTREAM_EITHER RawElement() {}
#else
    ONSTREAM_EITHER RawElement() : bytes{} {}
#endif
    ONSTREAM_EITHER void fill(const std::byte* from) { __builtin_memcpy(bytes, from, sizeof(T)); }
    std::byte bytes[sizeof(T)];
    T value;
  };

  RawElement values_[kCount];
};

}  // namespace onstream::collective
