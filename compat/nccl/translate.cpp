#include "translate.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "onstream/collective/element/rules.hpp"

namespace onstream::nccl {

namespace {

constexpr std::array<ElementType, ncclNumTypes> kTypes{
    ElementType::int8,    ElementType::uint8,    ElementType::int32,       ElementType::uint32,
    ElementType::int64,   ElementType::uint64,   ElementType::float16,     ElementType::float32,
    ElementType::float64, ElementType::bfloat16, ElementType::float8_e4m3, ElementType::float8_e5m2};
constexpr std::array<ReduceOp, ncclNumOps> kOps{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                                ReduceOp::avg};

template <class Element>
Element read(const void* scalar) {
  Element value;
  std::memcpy(&value, scalar, sizeof value);
  return value;
}

template <ElementType type>
void read_factor(const void* scalar, Scaling& out) {
  using Rule = typename collective::RuleOf<type>::Rule;
  const auto value = read<typename Rule::Element>(scalar);
  if constexpr (std::is_integral_v<typename Rule::Element>) {
    out.int_factor = static_cast<std::int64_t>(value);
  } else {
    out.factor = static_cast<double>(Rule::widen(value));
  }
}

}  // namespace

ElementType type_of(ncclDataType_t type) {
  const auto index = static_cast<std::size_t>(type);
  demand(index < kTypes.size(), "there is no element type ", static_cast<long>(type), "; they are numbered 0 to ",
         kTypes.size() - 1);
  return kTypes[index];
}

void set_reduction(Call& op, ncclRedOp_t number) {
  const auto index = static_cast<std::size_t>(number);
  if (index < kOps.size()) [[likely]] {
    op.op = kOps[index];
    return;
  }
  ncclComm& comm = *op.comm;
  const std::lock_guard lock(comm.mutex);
  const auto found = std::ranges::find(comm.scalings, number, &Scaling::number);
  demand(found != comm.scalings.end(), "there is no reduction ", static_cast<long>(number), ": it is not one of 0 to ",
         kOps.size() - 1, ", nor was it made for this communicator, or it was destroyed");
  demand(found->type == op.type, "the reduction was made for ", name_of(found->type), ", but this is a collective of ",
         name_of(op.type));
  op.op = ReduceOp::premulsum;
  op.factor = found->factor;
  op.int_factor = found->int_factor;
}

Scaling scaling_of(const void* scalar, ElementType type) {
  Scaling made{};
  made.type = type;
  switch (type) {
    case ElementType::int8: read_factor<ElementType::int8>(scalar, made); break;
    case ElementType::uint8: read_factor<ElementType::uint8>(scalar, made); break;
    case ElementType::int32: read_factor<ElementType::int32>(scalar, made); break;
    case ElementType::uint32: read_factor<ElementType::uint32>(scalar, made); break;
    case ElementType::int64: read_factor<ElementType::int64>(scalar, made); break;
    case ElementType::uint64: read_factor<ElementType::uint64>(scalar, made); break;
    case ElementType::float16: read_factor<ElementType::float16>(scalar, made); break;
    case ElementType::bfloat16: read_factor<ElementType::bfloat16>(scalar, made); break;
    case ElementType::float32: read_factor<ElementType::float32>(scalar, made); break;
    case ElementType::float64: read_factor<ElementType::float64>(scalar, made); break;
    case ElementType::float8_e4m3: read_factor<ElementType::float8_e4m3>(scalar, made); break;
    case ElementType::float8_e5m2: read_factor<ElementType::float8_e5m2>(scalar, made); break;
    default: refuse(ncclInvalidArgument, "there is no scalar of ", name_of(type));
  }
  return made;
}

}  // namespace onstream::nccl
