// Element types and reductions of collectives, as the host names them.
//
// The arithmetic itself is in number.hpp and rules.hpp; which type takes which reduction, in one place, supports().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onstream {

// A pair (value and index of the same width, the value first) is for minloc and maxloc alone.
enum class ElementType : std::uint32_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,
  float8_e5m2,
  complex64,
  complex128,
  float32_int32,
  float64_int64,
  int32_int32,
  int64_int64,
};
constexpr int kElementTypes = 20;

// avg divides the sum by the number of ranks (integers: the sum as it wraps in their bits, towards zero, as NCCL does).
// premulsum multiplies every rank's input by that rank's own factor first. minloc and maxloc keep the lower index of
// equal values.
enum class ReduceOp : std::uint32_t { sum, prod, min, max, avg, band, bor, bxor, minloc, maxloc, premulsum };
constexpr int kReduceOps = 11;

const char* name_of(ElementType type);
const char* name_of(ReduceOp op);
std::size_t size_of(ElementType type);
// The type or op of that name, as above. Throws invalid_argument with those that exist.
ElementType element_type_of(std::string_view name);
ReduceOp reduce_op_of(std::string_view name);
// Whether `op` has a meaning for `type`: bits are for integers, order is not for complex numbers.
bool supports(ElementType type, ReduceOp op);
// Whether the bits of a result depend on the order in which inputs are added, or on where partial sums are rounded: of
// all that is floating point (sums are rounded; minima and maxima meet zeros of both signs and several NaNs).
bool order_matters(ElementType type);
// The type in which sums of `type` are made until they are rounded once: float32 for floating point of 16 and 8 bits,
// else, and where nothing is rounded, the type itself.
ElementType type_of_sums(ElementType type, ReduceOp op);

}  // namespace onstream
