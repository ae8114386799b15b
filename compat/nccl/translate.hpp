// NCCL's types and reductions as onstream's. Throws Refusal for numbers that are none.
#pragma once

#include "call.hpp"
#include "comm.hpp"

namespace onstream::nccl {

ElementType type_of(ncclDataType_t type);
// Sets the op's reduction, and for one of ncclRedOpCreatePreMulSum this rank's factor.
void set_reduction(Call& op, ncclRedOp_t number);
// The factor of a scalar of that type.
Scaling scaling_of(const void* scalar, ElementType type);

}  // namespace onstream::nccl
