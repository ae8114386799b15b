// How elements are reduced: one rule a type, and the accumulator that applies it to a pack of them.
//
// Sixteen and eight bits of floating point accumulate in float and are rounded once, at the end. Everybody adds in the
// order of the ranks, so that the bits of a result depend on nothing else. Integers wrap. A minimum or maximum with a
// NaN is NaN. The reduction is looked at once a pack, outside of all loops: the host's compiler makes vector code.
//
// Which of two NaNs a sum keeps the bits of depends on the order of an instruction's operands, so on the compiler: on
// the host a result that is NaN is always the same one. On a GPU sums and products of floats are so by themselves;
// those of doubles keep the NaN of the GPU's instructions, as a check of each would cost time there.
#pragma once

#include <limits>
#include <type_traits>

#include "onstream/collective.hpp"
#include "onstream/collective/element/number.hpp"
#include "onstream/device/kernel/group.hpp"

namespace onstream::collective {

// So many bytes of elements, in registers or on the stack.
template <int kBytes>
struct alignas(kBytes < 16 ? 8 : 16) Pack {
  static_assert(kBytes % 8 == 0);
  std::uint64_t words[kBytes / 8];
};

// The number by which a rank multiplies its input (premulsum): the bits of a double for floating point and complex
// numbers, of a 64-bit integer else.
using Factor = std::uint64_t;

ONSTREAM_BOTH double double_of(std::uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// On the host -ffp-contract=off (CMakeLists.txt) keeps products apart from sums, except from those that g++ from 12 on
// makes two at a time (vfmaddsub); these heed this. nvcc does not get it, as it need not know it.
#if !defined(__CUDACC__) && defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ONSTREAM_APART(value) __builtin_assoc_barrier(value)
#endif
#endif
#ifndef ONSTREAM_APART
#define ONSTREAM_APART(value) (value)
#endif

// A product that the compiler does not merge with a sum behind it: whether it does may differ from kernel to kernel.
ONSTREAM_BOTH float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return ONSTREAM_APART(a * b);
#endif
}
ONSTREAM_BOTH double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return ONSTREAM_APART(a * b);
#endif
}
#undef ONSTREAM_APART

// The value as a result stores it: on the host every NaN becomes the same one.
template <class Real>
ONSTREAM_BOTH Real settled(Real value) {
#if defined(__CUDA_ARCH__)
  return value;
#else
  return value != value ? std::numeric_limits<Real>::quiet_NaN() : value;
#endif
}

// Integers: sums and products are made without sign, where overflow wraps.
template <class T>
struct IntegerRule {
  using Element = T;
  // Small ones would be made int by the language anyway, and could overflow as such.
  using Wide =
      std::conditional_t<(sizeof(T) < 4), std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>, T>;
  using Plain = std::make_unsigned_t<Wide>;

  ONSTREAM_BOTH static Wide widen(T value) { return value; }
  ONSTREAM_BOTH static T narrow(Wide value) { return static_cast<T>(value); }
  ONSTREAM_BOTH static Wide sum(Wide a, Wide b) {
    return static_cast<Wide>(static_cast<Plain>(a) + static_cast<Plain>(b));
  }
  ONSTREAM_BOTH static Wide prod(Wide a, Wide b) {
    return static_cast<Wide>(static_cast<Plain>(a) * static_cast<Plain>(b));
  }
  ONSTREAM_BOTH static Wide min(Wide a, Wide b) { return b < a ? b : a; }
  ONSTREAM_BOTH static Wide max(Wide a, Wide b) { return a < b ? b : a; }
  ONSTREAM_BOTH static Wide band(Wide a, Wide b) { return a & b; }
  ONSTREAM_BOTH static Wide bor(Wide a, Wide b) { return a | b; }
  ONSTREAM_BOTH static Wide bxor(Wide a, Wide b) { return a ^ b; }
  // Averages the sum as it wraps in the element's own bits, however its parts were passed on; so does NCCL.
  ONSTREAM_BOTH static Wide average(Wide value, std::uint32_t ranks) {
    return static_cast<Wide>(narrow(value)) / static_cast<Wide>(ranks);
  }
  ONSTREAM_BOTH static T scaled(T value, Factor factor) { return narrow(prod(value, static_cast<Wide>(factor))); }
};

template <class T, class W>
struct FloatingRule {
  using Element = T;
  using Wide = W;

  ONSTREAM_BOTH static Wide widen(T value) {
    if constexpr (std::is_same_v<T, W>) {
      return value;
    } else {
      return collective::widen(value);
    }
  }
  ONSTREAM_BOTH static T narrow(Wide value) {
    if constexpr (std::is_same_v<T, W>) {
      return settled(value);
    } else {
      return collective::narrow<T>(settled(value));
    }
  }
  ONSTREAM_BOTH static Wide sum(Wide a, Wide b) { return a + b; }
  ONSTREAM_BOTH static Wide prod(Wide a, Wide b) { return product(a, b); }
  ONSTREAM_BOTH static Wide min(Wide a, Wide b) { return b < a || b != b ? b : a; }
  ONSTREAM_BOTH static Wide max(Wide a, Wide b) { return a < b || b != b ? b : a; }
  ONSTREAM_BOTH static Wide average(Wide value, std::uint32_t ranks) { return value / static_cast<Wide>(ranks); }
  ONSTREAM_BOTH static T scaled(T value, Factor factor) {
    return narrow(product(widen(value), static_cast<Wide>(double_of(factor))));
  }
};

template <class Real>
struct ComplexRule {
  using Element = Complex<Real>;
  using Wide = Element;

  ONSTREAM_BOTH static Wide widen(Element value) { return value; }
  ONSTREAM_BOTH static Element narrow(Wide value) { return {settled(value.real), settled(value.imaginary)}; }
  ONSTREAM_BOTH static Wide sum(Wide a, Wide b) { return {a.real + b.real, a.imaginary + b.imaginary}; }
  ONSTREAM_BOTH static Wide prod(Wide a, Wide b) {
    return {product(a.real, b.real) - product(a.imaginary, b.imaginary),
            product(a.real, b.imaginary) + product(a.imaginary, b.real)};
  }
  ONSTREAM_BOTH static Wide average(Wide value, std::uint32_t ranks) {
    return {value.real / static_cast<Real>(ranks), value.imaginary / static_cast<Real>(ranks)};
  }
  ONSTREAM_BOTH static Element scaled(Element value, Factor factor) {
    const Real by = static_cast<Real>(double_of(factor));
    return {product(value.real, by), product(value.imaginary, by)};
  }
};

template <class Value, class Index>
struct LocatedRule {
  using Element = Located<Value, Index>;
  using Wide = Element;

  ONSTREAM_BOTH static Wide widen(Element pair) { return pair; }
  ONSTREAM_BOTH static Element narrow(Wide pair) { return pair; }
  ONSTREAM_BOTH static Wide minloc(Wide a, Wide b) {
    return b.value < a.value || (b.value == a.value && b.index < a.index) || (b.value != b.value && a.value == a.value)
               ? b
               : a;
  }
  ONSTREAM_BOTH static Wide maxloc(Wide a, Wide b) {
    return a.value < b.value || (b.value == a.value && b.index < a.index) || (b.value != b.value && a.value == a.value)
               ? b
               : a;
  }
};

// The rule of each element type, in the order of ElementType.
template <ElementType type>
struct RuleOf;
#define ONSTREAM_RULE(type, ...)     \
  template <>                        \
  struct RuleOf<ElementType::type> { \
    using Rule = __VA_ARGS__;        \
  };
ONSTREAM_RULE(int8, IntegerRule<std::int8_t>)
ONSTREAM_RULE(uint8, IntegerRule<std::uint8_t>)
ONSTREAM_RULE(int16, IntegerRule<std::int16_t>)
ONSTREAM_RULE(uint16, IntegerRule<std::uint16_t>)
ONSTREAM_RULE(int32, IntegerRule<std::int32_t>)
ONSTREAM_RULE(uint32, IntegerRule<std::uint32_t>)
ONSTREAM_RULE(int64, IntegerRule<std::int64_t>)
ONSTREAM_RULE(uint64, IntegerRule<std::uint64_t>)
ONSTREAM_RULE(float16, FloatingRule<Float16, float>)
ONSTREAM_RULE(bfloat16, FloatingRule<BFloat16, float>)
ONSTREAM_RULE(float32, FloatingRule<float, float>)
ONSTREAM_RULE(float64, FloatingRule<double, double>)
ONSTREAM_RULE(float8_e4m3, FloatingRule<Float8E4M3, float>)
ONSTREAM_RULE(float8_e5m2, FloatingRule<Float8E5M2, float>)
ONSTREAM_RULE(complex64, ComplexRule<float>)
ONSTREAM_RULE(complex128, ComplexRule<double>)
ONSTREAM_RULE(float32_int32, LocatedRule<float, std::int32_t>)
ONSTREAM_RULE(float64_int64, LocatedRule<double, std::int64_t>)
ONSTREAM_RULE(int32_int32, LocatedRule<std::int32_t, std::int32_t>)
ONSTREAM_RULE(int64_int64, LocatedRule<std::int64_t, std::int64_t>)
#undef ONSTREAM_RULE

// Whole elements in packs of kBytes, which they need not fill.
template <class T, int kBytes>
struct PackOf {
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  static_assert(kCount > 0, "a pack holds whole elements");
  static constexpr int kData = kCount * static_cast<int>(sizeof(T));  // bytes of a pack that are elements

  // The bytes that belong to a pack, of those that are left from its place on.
  ONSTREAM_EITHER static std::uint64_t within(std::uint64_t left) {
    if constexpr (kData == kBytes) {
      return left;
    } else {
      return left < kData ? left : kData;
    }
  }
};

// The pack that goes as lines for elements of so many bytes, and the one that is summed at once otherwise.
constexpr int line_pack_for(std::size_t bytes) { return bytes <= 8 ? 8 : static_cast<int>((bytes + 7) / 8 * 8); }
constexpr int bulk_pack_for(std::size_t bytes) { return bytes <= 16 ? 16 : line_pack_for(bytes); }
// The least common multiple with 16.
constexpr std::uint64_t deal_for(std::uint64_t bytes) {
  const std::uint64_t all = bytes | 16;
  return bytes / (all & (0 - all)) * 16;
}

// Reduces packs of kBytes, one after the other, in the order in which they are given. There is another one for a user
// reduction (user_rule.hpp); the bodies use only the members that both have.
template <class Rule, int kBytes>
class Accumulator : public PackOf<typename Rule::Element, kBytes> {
 public:
  using Op = ReduceOp;
  using Element = typename Rule::Element;
  using Wide = typename Rule::Wide;
  using PackOf<Element, kBytes>::kCount;

  // Packs in registers, or where they lie: of any alignment on the host.
  ONSTREAM_EITHER void start(const Pack<kBytes>& pack) { start(reinterpret_cast<const std::byte*>(&pack)); }
  ONSTREAM_EITHER void start(const std::byte* in) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) values_[k] = Rule::widen(element(in, k));
  }

  // A GPU's kernel has these in many places, so that anything other than a plain sum of few elements is a function
  // there: the code of one type would be half a megabyte else, and the first trip through code comes from far away.
  static constexpr bool kAddsInPlace = sizeof(Element) > 1 && requires(Wide a) { Rule::sum(a, a); };
  ONSTREAM_EITHER static bool sums(ReduceOp op) {
    return op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premulsum;
  }
  // Whether nothing is done but add().
  ONSTREAM_EITHER static bool only_adds(ReduceOp op) { return op == ReduceOp::sum; }
  ONSTREAM_EITHER void take(ReduceOp op, const Pack<kBytes>& pack) {
#if defined(__CUDA_ARCH__)
    if constexpr (kAddsInPlace) {
      if (sums(op)) return add(op, pack);
    }
    *this = taken(op, *this, pack);
#else
    take(op, reinterpret_cast<const std::byte*>(&pack));
#endif
  }
  ONSTREAM_EITHER static bool scales(ReduceOp op) { return op == ReduceOp::premulsum; }
  // The bytes behind the last element may be anything.
  ONSTREAM_EITHER static Pack<kBytes> filled(const Pack<kBytes>& pack, std::uint64_t) { return pack; }
  static constexpr bool kTakesAnything = true;  // also bytes that no rank gave

  // Sums that are not rounded yet, to be passed on; only of floating point.
  using Unrounded = Pack<(kCount * static_cast<int>(sizeof(Wide)) + 7) / 8 * 8>;
  ONSTREAM_EITHER void start_unrounded(const Unrounded& sums) { __builtin_memcpy(values_, &sums, sizeof values_); }
  ONSTREAM_EITHER Unrounded unrounded() const {
    Unrounded sums;
    __builtin_memcpy(&sums, values_, sizeof values_);
    return sums;
  }
  ONSTREAM_EITHER void merge(ReduceOp op, const Accumulator& other) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) {
      values_[k] =
          op == ReduceOp::prod ? Rule::prod(values_[k], other.values_[k]) : Rule::sum(values_[k], other.values_[k]);
    }
  }

  // A plain sum; only where kAddsInPlace.
  ONSTREAM_EITHER void add(ReduceOp, const Pack<kBytes>& pack) {
    if constexpr (kAddsInPlace) {
      each(reinterpret_cast<const std::byte*>(&pack), [](Wide a, Wide b) { return Rule::sum(a, b); });
    }
  }
  ONSTREAM_EITHER void take(ReduceOp op, const std::byte* in) {
    if constexpr (requires(Wide a) { Rule::minloc(a, a); }) {
      if (op == ReduceOp::minloc) {
        each(in, [](Wide a, Wide b) { return Rule::minloc(a, b); });
      } else {
        each(in, [](Wide a, Wide b) { return Rule::maxloc(a, b); });
      }
    } else {
      // avg and premulsum are sums too.
      if (op == ReduceOp::sum) return each(in, [](Wide a, Wide b) { return Rule::sum(a, b); });
      if (op == ReduceOp::prod) return each(in, [](Wide a, Wide b) { return Rule::prod(a, b); });
      if constexpr (requires(Wide a) { Rule::min(a, a); }) {
        if (op == ReduceOp::min) return each(in, [](Wide a, Wide b) { return Rule::min(a, b); });
        if (op == ReduceOp::max) return each(in, [](Wide a, Wide b) { return Rule::max(a, b); });
      }
      if constexpr (requires(Wide a) { Rule::bor(a, a); }) {
        if (op == ReduceOp::band) return each(in, [](Wide a, Wide b) { return Rule::band(a, b); });
        if (op == ReduceOp::bor) return each(in, [](Wide a, Wide b) { return Rule::bor(a, b); });
        if (op == ReduceOp::bxor) return each(in, [](Wide a, Wide b) { return Rule::bxor(a, b); });
      }
      each(in, [](Wide a, Wide b) { return Rule::sum(a, b); });
    }
  }

  // The result for so many ranks.
  ONSTREAM_EITHER Pack<kBytes> finish(ReduceOp op, std::uint32_t ranks) const {
    if (op == ReduceOp::avg || sizeof(Element) == 1) return finished(op, *this, ranks);
    return narrowed();
  }

  // The result where only_adds() and kAddsInPlace.
  ONSTREAM_EITHER Pack<kBytes> finish() const { return narrowed(); }

  // A rank's own input times its factor, before any rank adds it (premulsum).
  ONSTREAM_EITHER_CALL static Pack<kBytes> scaled(Pack<kBytes> pack, Factor factor) {
    if constexpr (requires(Element e) { Rule::scaled(e, factor); }) {
      Pack<kBytes> out;
      ONSTREAM_UNROLL
      for (int k = 0; k < kCount; ++k) {
        const Element in = element(reinterpret_cast<const std::byte*>(&pack), k);
        put(reinterpret_cast<std::byte*>(&out), k, Rule::scaled(in, factor));
      }
      return out;
    } else {
      return pack;
    }
  }

 private:
  ONSTREAM_EITHER static Element element(const std::byte* bytes, int k) {
    Element value;
    __builtin_memcpy(&value, bytes + k * static_cast<int>(sizeof(Element)), sizeof(Element));
    return value;
  }
  ONSTREAM_EITHER static void put(std::byte* bytes, int k, const Element& value) {
    __builtin_memcpy(bytes + k * static_cast<int>(sizeof(Element)), &value, sizeof(Element));
  }
  ONSTREAM_EITHER_CALL static Accumulator taken(ReduceOp op, Accumulator sum, Pack<kBytes> pack) {
    sum.take(op, reinterpret_cast<const std::byte*>(&pack));
    return sum;
  }
  ONSTREAM_EITHER_CALL static Pack<kBytes> finished(ReduceOp op, Accumulator sum, std::uint32_t ranks) {
    if constexpr (requires(Wide a) { Rule::average(a, 1u); }) {
      if (op == ReduceOp::avg) {
        ONSTREAM_UNROLL
        for (int k = 0; k < kCount; ++k) sum.values_[k] = Rule::average(sum.values_[k], ranks);
      }
    }
    return sum.narrowed();
  }
  ONSTREAM_EITHER Pack<kBytes> narrowed() const {
    Pack<kBytes> pack;
    auto* const out = reinterpret_cast<std::byte*>(&pack);
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) put(out, k, Rule::narrow(values_[k]));
    return pack;
  }
  template <class Combine>
  ONSTREAM_EITHER void each(const std::byte* in, const Combine& combine) {
    ONSTREAM_UNROLL
    for (int k = 0; k < kCount; ++k) values_[k] = combine(values_[k], Rule::widen(element(in, k)));
  }

  Wide values_[kCount] = {};
};

}  // namespace onstream::collective
