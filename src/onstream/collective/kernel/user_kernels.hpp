// The kernels of one user's functor: those of user_op.hpp, as the library launches them.
//
// The library knows neither the functor's type nor its element's: it fills the body of a reduction of bytes, and `make`
// puts the functor beside its contents. The objects are static ones of the user's program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/kernel/ll.hpp"
#include "onstream/collective/kernel/simple_reduce.hpp"
#include "onstream/collective/kernel/two_shot.hpp"
#include "onstream/device.hpp"

namespace onstream::collective {

using BytesRule = IntegerRule<std::uint8_t>;

// A kernel, and how its body comes from that of bytes.
template <class Like>
struct UserKernel {
  Kernel kernel{};
  std::size_t bytes = 0;  // of the body; 0: there is none
  void (*make)(const Like& like, const void* functor, std::byte* body) = nullptr;
};

struct UserKernels {
  const char* mangled;  // the functor's type
  std::size_t element_bytes;
  std::size_t functor_bytes;  // 0: it has no state
  bool told_by_bytes;         // functors that do the same have the same bytes
  int line_pack;              // bytes of a pack as it goes in lines, and how many of them are elements
  int line_data;
  std::uint64_t deal;  // BulkReduce::kDeal
  UserKernel<ReduceLl<BytesRule>> lines;
  UserKernel<TwoShotLl<BytesRule>> two_shot;  // of elements that fill packs
  UserKernel<BulkReduce<BytesRule, kNear>> bulk;
  UserKernel<BulkReduce<BytesRule, kMostRanks>> bulk_far;  // on the host device

  std::string name() const;  // of the functor
};

// "4 float32", or "4 elements of 24 B by Multiply".
std::string elements_of(const CollectiveCall& call);

// Does the work of reduced_with (user_op.hpp).
CollectiveCall with_functor(CollectiveCall call, const UserKernels& kernels, const void* functor);

}  // namespace onstream::collective
