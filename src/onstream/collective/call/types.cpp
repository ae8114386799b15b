#include "onstream/collective.hpp"

#include <array>
#include <string>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

struct TypeRow {
  const char* name;
  std::size_t bytes;
  enum { integer, floating, complex, pair } kind;
};

constexpr std::array<TypeRow, kElementTypes> kTypes{{
    {"int8", 1, TypeRow::integer},         {"uint8", 1, TypeRow::integer},        {"int16", 2, TypeRow::integer},
    {"uint16", 2, TypeRow::integer},       {"int32", 4, TypeRow::integer},        {"uint32", 4, TypeRow::integer},
    {"int64", 8, TypeRow::integer},        {"uint64", 8, TypeRow::integer},       {"float16", 2, TypeRow::floating},
    {"bfloat16", 2, TypeRow::floating},    {"float32", 4, TypeRow::floating},     {"float64", 8, TypeRow::floating},
    {"float8_e4m3", 1, TypeRow::floating}, {"float8_e5m2", 1, TypeRow::floating}, {"complex64", 8, TypeRow::complex},
    {"complex128", 16, TypeRow::complex},  {"float32_int32", 8, TypeRow::pair},   {"float64_int64", 16, TypeRow::pair},
    {"int32_int32", 8, TypeRow::pair},     {"int64_int64", 16, TypeRow::pair},
}};

constexpr std::array<const char*, kReduceOps> kOps{"sum", "prod", "min",    "max",    "avg",      "band",
                                                   "bor", "bxor", "minloc", "maxloc", "premulsum"};

const TypeRow& row_of(ElementType type) {
  const auto index = static_cast<std::size_t>(type);
  require(index < kTypes.size(), "element type number ", index, " does not exist");
  return kTypes[index];
}

}  // namespace

const char* name_of(ElementType type) { return row_of(type).name; }
std::size_t size_of(ElementType type) { return row_of(type).bytes; }

const char* name_of(ReduceOp op) {
  const auto index = static_cast<std::size_t>(op);
  require(index < kOps.size(), "reduction number ", index, " does not exist");
  return kOps[index];
}

ElementType element_type_of(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (name == kTypes[i].name) return static_cast<ElementType>(i);
  }
  std::string known;
  for (const TypeRow& row : kTypes) known += concat(known.empty() ? "" : ", ", row.name);
  fail(ErrorCode::invalid_argument, "collectives know no elements of type '", name, "'; they know ", known);
}

ReduceOp reduce_op_of(std::string_view name) {
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    if (name == kOps[i]) return static_cast<ReduceOp>(i);
  }
  std::string known;
  for (const char* const op : kOps) known += concat(known.empty() ? "" : ", ", op);
  fail(ErrorCode::invalid_argument, "there is no reduction '", name, "'; there are ", known);
}

bool supports(ElementType type, ReduceOp op) {
  const auto kind = row_of(type).kind;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return kind != TypeRow::pair;
    case ReduceOp::avg:
    case ReduceOp::premulsum: return kind != TypeRow::pair;
    case ReduceOp::min:
    case ReduceOp::max: return kind == TypeRow::integer || kind == TypeRow::floating;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return kind == TypeRow::integer;
    case ReduceOp::minloc:
    case ReduceOp::maxloc: return kind == TypeRow::pair;
  }
  return false;
}

ElementType type_of_sums(ElementType type, ReduceOp op) {
  const bool narrow = row_of(type).kind == TypeRow::floating && size_of(type) < sizeof(float);
  return narrow && op != ReduceOp::min && op != ReduceOp::max ? ElementType::float32 : type;
}

bool order_matters(ElementType type) {
  switch (row_of(type).kind) {
    case TypeRow::integer: return false;
    case TypeRow::pair: return type == ElementType::float32_int32 || type == ElementType::float64_int64;
    default: return true;
  }
}

}  // namespace onstream
