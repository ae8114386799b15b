// The GPU's launcher of a body that a header instantiates in its user's file, which may be compiled by nvcc or not.
//
// Code that depends on the compiler lies in a namespace of its own: a program may have the same body in files of both
// kinds, and the linker must not take one for the other.
#pragma once

#include "onstream/device.hpp"

#ifdef __CUDACC__
#include "onstream/device/cuda/entry.cuh"
#define ONSTREAM_COMPILED compiled_by_nvcc
#else
#define ONSTREAM_COMPILED compiled_for_the_host
#endif

namespace onstream {
inline namespace ONSTREAM_COMPILED {

// The address of cuda_entry<Body>; null where this is not compiled by nvcc.
template <class Body>
const void* cuda_address_of() {
#ifdef __CUDACC__
  return reinterpret_cast<const void*>(&cuda_entry<Body>);
#else
  return nullptr;
#endif
}

}  // namespace ONSTREAM_COMPILED
}  // namespace onstream
