// Reductions by a functor of your own, on the host device and on cuda. Header only: include it where the functor is.
//
//   struct Multiply {
//     ONSTREAM_BOTH Matrix operator()(const Matrix& lower, const Matrix& higher) const { return lower * higher; }
//   };
//   const auto call = collective::reduced_with<Multiply>(collective::all_reduce({input, output, count}));
//   world->collective().run(call, stream);
//
// all_reduce, reduce, reduce_scatter, scan and exclusive_scan, of `count` elements; type and op of the call do not
// matter. Elements are of any trivially copyable type of up to 256 bytes, at any address. The functor is associative;
// it need not commute: `lower` is of lower ranks. Everybody combines from the first rank on, so that all ranks get the
// same bits, by each algorithm that can do it (lines, two_shot, direct); provided that the functor itself gives the
// same bits wherever it is compiled into a kernel: one that multiplies and adds floating point wants -fmad=false, or
// -ffp-contract=off, or roundings that it spells out. It may have members, which are copied with the call and the same
// on all ranks: reduced_with(call, Modulo{97}).
//
// For cuda the file is one that nvcc compiles; elsewhere the kernels are those of the host device alone, and a run on
// cuda says so. The first call of a functor loads its kernels, before anything is enqueued. CUDA may load only once the
// kernels of that GPU have ended: where other kernels may wait by then, load<Multiply>(...) does it earlier. The
// program, or the library, that has the functor stays loaded as long as the world, its plans and its graphs.
#pragma once

#include <cstring>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "onstream/device/host/group.hpp"

ONSTREAM_EITHER_BEGIN
#include "onstream/collective.hpp"
#include "onstream/collective/element/user_rule.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/device/entry.hpp"
ONSTREAM_EITHER_END

namespace onstream::collective {

namespace own {

template <class T>
constexpr bool kNever = false;

// The argument and result types of a functor.
template <class Operator>
struct Signature {
  static_assert(kNever<Operator>,
                "a reduction of your own is `T operator()(const T& lower, const T& higher) const`, of one T");
};
template <class F, class T, class Lower, class Higher>
struct Signature<T (F::*)(Lower, Higher) const> {
  using Element = std::remove_cvref_t<Lower>;
  static_assert(std::is_same_v<Element, std::remove_cvref_t<Higher>> && std::is_convertible_v<T, Element>,
                "a reduction of your own takes two elements of one type and gives such an element");
};
template <class F, class T, class Lower, class Higher>
struct Signature<T (F::*)(Lower, Higher) const noexcept> : Signature<T (F::*)(Lower, Higher) const> {};

template <class F>
struct ElementOf {
  static_assert(
      requires { &F::operator(); },
      "a reduction of your own has one operator(); name the element if it is a template or has several: "
      "reduced_with<F, double>(call)");
  using Type = typename Signature<decltype(&F::operator())>::Element;
};

template <class Body, class Like>
void make(const Like& like, const void* functor, std::byte* out) {
  Body body;
  if constexpr (std::is_base_of_v<LineWork, Body>) {
    static_cast<LineWork&>(body) = like;
    if constexpr (requires { body.adds; }) body.adds = like.adds;
  } else {
    static_cast<BulkReduceWork&>(body) = like;
    std::memcpy(body.at, like.at, sizeof body.at);
  }
  if (functor != nullptr) std::memcpy(body.op.bytes, functor, sizeof body.op.bytes);
  std::memcpy(out, &body, sizeof body);
}

inline namespace ONSTREAM_COMPILED {

template <class Body, class Like>
UserKernel<Like> kernel(const char* name) {
  return {{name, host_entry<Body>, cuda_address_of<Body>()}, sizeof(Body), make<Body, Like>};
}

template <class T, class F>
const UserKernels& kernels() {
  static const UserKernels all = [] {
    using Rule = UserRule<T, F>;
    using Lines = ReduceLl<Rule>;
    UserKernels one{};
    one.mangled = typeid(F).name();
    one.element_bytes = sizeof(T);
    one.functor_bytes = std::is_empty_v<F> ? 0 : sizeof(F);
    one.told_by_bytes = std::has_unique_object_representations_v<F>;
    one.line_pack = Lines::kUnit;
    one.line_data = Lines::kData;
    one.deal = BulkReduce<Rule, kNear>::kDeal;
    one.lines = kernel<Lines, ReduceLl<BytesRule>>("collective_user_ll");
    if constexpr (Lines::kUnit == Lines::kData && Lines::kUnit <= 16) {
      one.two_shot = kernel<TwoShotLl<Rule>, TwoShotLl<BytesRule>>("collective_user_two_shot");
    }
    one.bulk = kernel<BulkReduce<Rule, kNear>, BulkReduce<BytesRule, kNear>>("collective_user_bulk");
    using Far = BulkReduce<Rule, kMostRanks>;
    one.bulk_far = {{"collective_user_bulk_far", host_entry<Far>, nullptr},
                    sizeof(Far),
                    make<Far, BulkReduce<BytesRule, kMostRanks>>};
    return one;
  }();
  return all;
}

}  // namespace ONSTREAM_COMPILED
}  // namespace own

inline namespace ONSTREAM_COMPILED {

// The call, to be reduced with the functor. Throws invalid_argument for a call that reduces nothing, or does it by a
// function already.
template <class F, class T = typename own::ElementOf<F>::Type>
CollectiveCall reduced_with(CollectiveCall call, const F& functor = F{}) {
  static_assert(std::is_trivially_copyable_v<T>, "elements travel as bytes: their type is trivially copyable");
  static_assert(sizeof(T) <= 256 && alignof(T) <= 16, "elements of up to 256 bytes, aligned to up to 16");
  static_assert(std::is_trivially_copyable_v<F>, "the functor travels as bytes: its type is trivially copyable");
  static_assert(sizeof(F) <= 256 && alignof(F) <= 16, "a functor of up to 256 bytes, aligned to up to 16");
  return with_functor(std::move(call), own::kernels<T, F>(), &functor);
}

// Loads the functor's kernels, see above; runs nothing.
template <class F, class T = typename own::ElementOf<F>::Type>
void load(Collective& collective) {
  collective.load(own::kernels<T, F>());
}

}  // namespace ONSTREAM_COMPILED

}  // namespace onstream::collective
