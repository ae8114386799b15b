// The rule of a user's own reduction: a functor on elements of any size, which the bodies of lines.hpp, two_shot.hpp and
// bulk_reduce.hpp apply as they apply the library's own.
//
// The functor is called with two elements that some ranks gave or that it made itself, the first of lower ranks, and
// with nothing else: a last pack that elements do not fill has copies of its first one. Everybody combines from the
// first rank on, so that the bits of a result depend on nothing else. Its bytes lie in the kernel's arguments.
#pragma once

#include <type_traits>

#include "onstream/collective/rules.hpp"

namespace onstream::collective {

// A functor in a kernel's arguments, whether it can be made from nothing or not.
template <class F>
struct OwnFunctor {
  alignas(F) std::byte bytes[sizeof(F)] = {};
  ONSTREAM_BODY const F& get() const { return *reinterpret_cast<const F*>(bytes); }
};

template <class T, class F>
struct OwnRule {
  using Element = T;
  using Functor = F;
};

template <class T, class F, int kBytes>
class Accumulator<OwnRule<T, F>, kBytes> : public PackOf<T, kBytes> {
 public:
  using Op = OwnFunctor<F>;
  using PackOf<T, kBytes>::kCount;
  using PackOf<T, kBytes>::kData;

  static constexpr bool kAddsInPlace = kData == kBytes && kBytes == 16;
  static constexpr bool kTakesAnything = false;
  ONSTREAM_BODY static bool sums(const Op&) { return true; }
  ONSTREAM_BODY static bool scales(const Op&) { return false; }
  ONSTREAM_BODY static Pack<kBytes> scaled(const Pack<kBytes>& pack, Factor) { return pack; }

  // Of `left` bytes; none: the pack stays, and nobody combines it.
  ONSTREAM_BODY static Pack<kBytes> filled(Pack<kBytes> pack, std::uint64_t left) {
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

  ONSTREAM_BODY void start(const Pack<kBytes>& pack) { result_ = pack; }
  ONSTREAM_BODY void start(const std::byte* in) { __builtin_memcpy(&result_, in, kData); }
  ONSTREAM_BODY void take(const Op& op, const Pack<kBytes>& pack) {
    take(op, reinterpret_cast<const std::byte*>(&pack));
  }
  ONSTREAM_BODY void add(const Op& op, const Pack<kBytes>& pack) { take(op, pack); }
  ONSTREAM_BODY void take(const Op& op, const std::byte* in) {
    auto* const out = reinterpret_cast<std::byte*>(&result_);
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Slot lower;
      Slot higher;
      __builtin_memcpy(static_cast<void*>(&lower.value), out + k * sizeof(T), sizeof(T));
      __builtin_memcpy(static_cast<void*>(&higher.value), in + k * sizeof(T), sizeof(T));
      const T both = op.get()(lower.value, higher.value);
      __builtin_memcpy(out + k * sizeof(T), static_cast<const void*>(&both), sizeof(T));
    }
  }
  ONSTREAM_BODY Pack<kBytes> finish(const Op&, std::uint32_t) const { return result_; }

 private:
  // An element that nobody has constructed.
  union Slot {
    ONSTREAM_BODY Slot() {}
    T value;
  };

  Pack<kBytes> result_ = {};
};

}  // namespace onstream::collective
